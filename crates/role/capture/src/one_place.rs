//! Rows of one place, of a capture file that has frames at several places of one path.
//!
//! A file of `emulate --write-pcap` has each frame as it came and as it left. Read as they are,
//! both count, and the link's delay looks like the server's time. So each pair of hosts is read at
//! one port, where its frames are in the order and at the times at which a tap there sees them:
//!
//! ```text
//!  client ──► eth1.came ─ link ─► eth2.left ──► server     --at server: eth2.left, eth2.came
//!  client ◄── eth1.left ◄─ link ─ eth2.came ◄── server     --at client: eth1.came, eth1.left
//! ```
//!
//! Where a file lacks interfaces, each frame still counts once: at the pair's other port, if the
//! file has both directions there, or else where it came. Which hosts are behind which port is
//! learned from the first frames, which wait for that; what was decided for a pair stays.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use lineside_account::{Counter, Counters};
use lineside_frame::{Burst, Descriptor, Frame, FrameRef};
use lineside_measure::monitor::Point;
use lineside_port::{Port, PortError, Receive, Received, Wrapper};
use lineside_wire::{Dissected, TcpFlags, addresses, dissect};
use lineside_words::grouped;

use crate::filtered::count_unread;

/// Frames that wait until it is known which places have any: a second of a slow link, or the
/// delay of a fast one.
const LOOK_FRAMES: usize = 4096;

/// Pairs of hosts whose place is stored: some 8 MB, as `emulate` has.
const PAIRS_MAX: usize = 65_536;

/// Ports of NFS and of rpcbind: their clients may have lower ones.
const SERVICES: [u16; 2] = [2049, 111];

/// The place at which a pair of hosts is read, if a file has several.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum At {
    /// The port of the host that is asked.
    #[default]
    Server,
    /// The port of the host that asks.
    Client,
    /// The port of this name, as a tap there: `eth1` of `eth1.came` and `eth1.left`.
    Port(String),
}

impl At {
    /// The place that a word names.
    pub fn of(word: &str) -> Self {
        match word {
            "server" => Self::Server,
            "client" => Self::Client,
            name => Self::Port(name.to_owned()),
        }
    }
}

/// A port of which each frame comes out once, however many places of its path the input has.
pub struct OnePlace<P> {
    port: P,
    /// `None`: all frames come out.
    at: Option<At>,
    places: Places,
    /// By input and interface; the outer `None`: not looked at yet.
    interfaces: Vec<Vec<Option<Option<Place>>>>,
    /// Interfaces of a single input whose names were looked at.
    looked: usize,
    /// Frames may be at a place: an interface has such a name, or there are several inputs.
    has_names: bool,
    stage: Stage,
    /// Frames that wait, and are let out afterwards.
    held: VecDeque<Frame>,
    failure: Option<PortError>,
    counters: Counters,
}

/// Whether it is known which places there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No interface has such a name so far.
    Plain,
    /// Frames wait.
    Looking,
    /// Frames are let out.
    Known,
}

/// A port of a path, and what happens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    path_port: usize,
    point: Point,
}

/// A port of a path.
#[derive(Debug)]
struct PathPort {
    name: String,
    has_came: bool,
    has_left: bool,
    /// Pairs of hosts that are read here.
    pairs: u64,
}

/// What is known of the places.
#[derive(Debug, Default)]
struct Places {
    ports: Vec<PathPort>,
    /// The port behind which a host is: where its first frame came.
    homes: HashMap<IpAddr, usize>,
    /// Where a pair is read, by the lesser and the greater address; `None`: where frames came.
    pairs: HashMap<(IpAddr, IpAddr), Option<usize>>,
    /// Frames of other places, which do not count.
    elsewhere: u64,
}

impl<P: Port> OnePlace<P> {
    /// Reads each pair of hosts of `port` at this place; `None`: all frames come out.
    pub fn new(port: P, at: Option<At>) -> Self {
        Self {
            port,
            at,
            places: Places::default(),
            interfaces: Vec::new(),
            looked: 0,
            has_names: false,
            stage: Stage::Plain,
            held: VecDeque::new(),
            failure: None,
            counters: Counters::new(),
        }
    }

    /// The count of frames that did not come out.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where the frames of a path were read, in a sentence; `None` if the input has no path.
    pub fn note(&self) -> Option<String> {
        let at = self.at.as_ref().filter(|_| self.stage != Stage::Plain)?;
        self.places.note(at)
    }

    /// The place of a frame: its interface is named as `emulate --write-pcap` names them.
    #[inline]
    fn place(&mut self, frame: &FrameRef) -> Option<Place> {
        let descriptor = frame.descriptor();
        if descriptor.interface == Descriptor::NO_INTERFACE {
            return None;
        }
        let (input, interface) = (descriptor.input.into(), descriptor.interface.into());
        let known =
            { self.interfaces.get(input) }.and_then(|of: &Vec<_>| of.get(interface).copied());
        match known.flatten() {
            Some(place) => place,
            None => self.look_at_interface(input, interface),
        }
    }

    /// Whether one of these frames was seen at a place. An input alone is asked for names that are
    /// new, at each burst, so that its frames cost nothing.
    fn meets_place(&mut self, frames: &[Frame]) -> bool {
        if !self.has_names {
            let facts = self.port.facts_of(0).map(|facts| &facts.interfaces);
            let all = facts.map_or(0, Vec::len);
            let new = { facts.into_iter().flatten() }.skip(self.looked);
            let mut names = new.filter_map(|interface| interface.name.as_deref());
            let is_named = names.any(is_place_of_path);
            self.has_names = is_named || self.port.facts_of(1).is_some();
            self.looked = all;
        }
        self.has_names && frames.iter().any(|frame| self.place(frame).is_some())
    }

    #[cold]
    fn look_at_interface(&mut self, input: usize, interface: usize) -> Option<Place> {
        let facts = self.port.facts_of(input);
        let described = facts.and_then(|facts| facts.interfaces.get(interface));
        let name = described.and_then(|interface| interface.name.as_deref());
        let place = name.and_then(|name| self.places.named(name));
        if self.interfaces.len() <= input {
            self.interfaces.resize(input + 1, Vec::new());
        }
        let of = &mut self.interfaces[input];
        if of.len() <= interface {
            of.resize(interface + 1, None);
        }
        of[interface] = Some(place);
        place
    }

    /// Whether a frame counts.
    fn takes(&mut self, frame: &FrameRef) -> bool {
        let Some(place) = self.place(frame) else {
            return true;
        };
        let Some(at) = &self.at else {
            return true;
        };
        self.places.takes(at, place, frame)
    }

    /// Takes the frames from `start` on that count elsewhere out of `burst`.
    fn sieve(&mut self, burst: &mut Burst, start: usize) {
        let mut kept = start;
        for at in start..burst.len() {
            if self.takes(&burst[at]) {
                burst.swap(kept, at);
                kept += 1;
            } else {
                self.places.elsewhere += 1;
                self.counters.count(Counter::FramesElsewhere);
                count_unread(&mut self.counters, &burst[at]);
            }
        }
        burst.truncate(kept);
    }

    /// Holds the frames from `start` on, until enough are there to know the places.
    fn look(
        &mut self,
        burst: &mut Burst,
        start: usize,
        received: Result<Received, PortError>,
    ) -> Result<Received, PortError> {
        for frame in burst.drain(start..) {
            if let Some(place) = self.place(&frame) {
                self.places.learn(place, &frame);
            }
            self.held.push_back(frame);
        }
        match received {
            Ok(Received::Frames(_)) if self.held.len() < LOOK_FRAMES => Ok(Received::Frames(0)),
            Ok(Received::Interrupted) => Ok(Received::Interrupted),
            // An end, a quiet while or a lack of blocks comes again at the next call.
            received => {
                self.stage = Stage::Known;
                self.failure = received.err();
                self.places.check(self.at.as_ref())?;
                Ok(Received::Frames(0))
            }
        }
    }
}

impl<P: Receive> Wrapper for OnePlace<P> {
    type Port = P;

    fn port(&self) -> &P {
        &self.port
    }

    fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let start = burst.len();
        if self.stage == Stage::Known {
            if !self.held.is_empty() {
                let count = self.held.len().min(max);
                burst.extend(self.held.drain(..count));
                self.sieve(burst, start);
                return Ok(Received::Frames(burst.len() - start));
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
        let received = self.port.receive(burst, max);
        if self.stage == Stage::Plain {
            let is_met = self.at.is_some() && self.meets_place(&burst[start..]);
            if !is_met {
                return received;
            }
            self.stage = Stage::Looking;
        }
        if self.stage == Stage::Looking {
            return self.look(burst, start, received);
        }
        self.sieve(burst, start);
        match received {
            Ok(Received::Frames(_)) => Ok(Received::Frames(burst.len() - start)),
            other => other,
        }
    }
}

/// The port and the point of an interface that `emulate --write-pcap` named.
fn place_named(name: &str) -> Option<(&str, Point)> {
    let (name, point) = name.rsplit_once('.')?;
    Some((name, Point::named(point)?))
}

/// Whether frames of an interface of this name were seen at a place of an emulated path.
pub(crate) fn is_place_of_path(name: &str) -> bool {
    place_named(name).is_some()
}

impl Places {
    /// The place that an interface of this name is.
    fn named(&mut self, name: &str) -> Option<Place> {
        let (name, point) = place_named(name)?;
        let position = self.ports.iter().position(|port| port.name == name);
        let path_port = position.unwrap_or_else(|| {
            self.ports.push(PathPort {
                name: name.to_owned(),
                has_came: false,
                has_left: false,
                pairs: 0,
            });
            self.ports.len() - 1
        });
        Some(Place { path_port, point })
    }

    /// Fails if rows of a port are asked for that the input does not have.
    fn check(&self, at: Option<&At>) -> Result<(), PortError> {
        let Some(At::Port(name)) = at else {
            return Ok(());
        };
        if self.ports.iter().any(|port| port.name == *name) {
            return Ok(());
        }
        let ports = self.ports.iter().map(|port| port.name.as_str());
        Err(PortError::NoSuchPlace {
            name: name.clone(),
            ports: ports.collect::<Vec<_>>().join(", "),
        })
    }

    /// Notes which places have frames, and behind which port a host is.
    fn learn(&mut self, place: Place, frame: &FrameRef) {
        let port = &mut self.ports[place.path_port];
        match place.point {
            Point::Came => {
                port.has_came = true;
                if let Some((source, _)) = ends(frame)
                    && self.homes.len() < PAIRS_MAX
                {
                    self.homes.entry(source).or_insert(place.path_port);
                }
            }
            Point::Left => port.has_left = true,
            _ => {}
        }
    }

    /// Whether a frame counts at this place.
    fn takes(&mut self, at: &At, place: Place, frame: &FrameRef) -> bool {
        if place.point.is_drop() {
            return false;
        }
        if let At::Port(name) = at {
            return self.ports[place.path_port].name == *name;
        }
        self.learn(place, frame);
        let Some((source, destination)) = ends(frame) else {
            let has_came = self.ports.iter().any(|port| port.has_came);
            return place.point == Point::Came || !has_came;
        };
        let pair = (source.min(destination), source.max(destination));
        let chosen = match self.pairs.get(&pair) {
            Some(&chosen) => chosen,
            None => self.choose(at, pair, (source, destination), frame),
        };
        match chosen {
            Some(path_port) => path_port == place.path_port,
            None => place.point == Point::Came || !self.homes.contains_key(&source),
        }
    }

    /// Chooses where a pair is read: at the port of the end that is asked for, or else of the
    /// other one, if the input has both directions there.
    fn choose(
        &mut self,
        at: &At,
        pair: (IpAddr, IpAddr),
        (source, destination): (IpAddr, IpAddr),
        frame: &FrameRef,
    ) -> Option<usize> {
        let is_asked = is_to_server(frame);
        let (near, far) = match is_asked.unwrap_or(source < destination) == (*at == At::Server) {
            true => (destination, source),
            false => (source, destination),
        };
        let is_whole = |&port: &usize| self.ports[port].has_came && self.ports[port].has_left;
        let far_home = self.homes.get(&far).copied();
        // Of two ports the other one, also if its host never answered.
        let opposite = far_home.filter(|_| self.ports.len() == 2);
        let opposite = opposite.map(|port| 1 - port);
        let near_home = self.homes.get(&near).copied().or(opposite);
        let chosen = { near_home.filter(is_whole) }.or_else(|| far_home.filter(is_whole));
        if is_asked.is_some() && self.pairs.len() < PAIRS_MAX {
            self.pairs.insert(pair, chosen);
            if let Some(port) = chosen {
                self.ports[port].pairs += 1;
            }
        }
        chosen
    }

    fn note(&self, at: &At) -> Option<String> {
        let names: Vec<_> = self.ports.iter().map(|port| port.name.as_str()).collect();
        let where_read = match at {
            At::Port(name) => format!("what passed {name}"),
            At::Server | At::Client => {
                let side = if *at == At::Server {
                    "server"
                } else {
                    "client"
                };
                let read = self.ports.iter().filter(|port| port.pairs > 0);
                let pairs = |count: u64| if count == 1 { "pair" } else { "pairs" };
                let read = read
                    .map(|port| format!("{} ({} {})", port.name, port.pairs, pairs(port.pairs)));
                let read: Vec<_> = read.collect();
                match read.is_empty() {
                    true => "each frame where it came".to_owned(),
                    false => {
                        let by_came = self
                            .pairs
                            .values()
                            .filter(|chosen| chosen.is_none())
                            .count();
                        let rest = match by_came {
                            0 => String::new(),
                            pairs => format!(", and {pairs} pairs where their frames came"),
                        };
                        let read = read.join(", ");
                        format!("each pair of hosts on its {side}'s side: {read}{rest}")
                    }
                }
            }
        };
        Some(format!(
            "the input has frames at several places of one path (ports {}); read: {where_read}; \
            {} frames of other places do not count again (--at server, client or a port chooses)",
            names.join(", "),
            grouped(self.elsewhere),
        ))
    }
}

/// Sender and receiver of a frame; `None` if it is not IP, or for many.
fn ends(frame: &FrameRef) -> Option<(IpAddr, IpAddr)> {
    let (source, destination) = addresses(frame.descriptor().link_type.0, frame.bytes())?;
    (!destination.is_multicast() && source != destination).then_some((source, destination))
}

/// Whether a frame goes to the host that is asked; `None` if it does not show.
fn is_to_server(frame: &FrameRef) -> Option<bool> {
    let (bytes, descriptor) = (frame.bytes(), frame.descriptor());
    let (source, destination) =
        match dissect(descriptor.link_type.0, bytes, descriptor.wire_len as usize) {
            Dissected::Tcp(_, header) if header.flags.opens() => {
                return Some(!header.flags.contains(TcpFlags::ACK));
            }
            Dissected::Tcp(_, header) => (header.source_port, header.destination_port),
            Dissected::Udp(_, header) => (header.source_port, header.destination_port),
            _ => return None,
        };
    let is_service = |port| SERVICES.contains(&port);
    Some(match (is_service(source), is_service(destination)) {
        (true, false) => false,
        (false, true) => true,
        _ => destination <= source,
    })
}
