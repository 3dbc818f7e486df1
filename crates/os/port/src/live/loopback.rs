//! A loopback interface whose traffic passes a link: what programs send to 127.0.0.0/8 and ::1
//! comes out of two ports, and what is sent by these arrives at the programs as ever.
//!
//! ```text
//!  program ── route ──> device `loopback` ──> port: first way of a flow ──┐
//!                                        └──> port: its answers ─────────┐│  link
//!  program <── lo <── packet socket with a mark <────────────────────────┴┘
//! ```
//!
//! Rules choose another table of routes for what goes to these addresses, unless it has the mark:
//! it goes out by a device of ours, whole and no longer than the MTU. What comes back is sent at
//! `lo`, where the kernel takes these addresses for its own. Addresses and ports stay as they are,
//! no module of the kernel is needed, and programs know nothing of it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use lineside_frame::{Burst, Frame};
use lineside_host::{Netlink, Rule};
use lineside_wire::{Dissected, dissect_outermost};

use super::link_end::{LOOPBACK, open_device};
use super::packet_socket::PacketSocket;
use super::socket_options::set_option;
use super::{EndOptions, Interface};
use crate::{Facts, Live, LivePort, Port, PortError, Receive, Received, Transmit, Wrapper};

/// The name of the device.
const NAME: &str = "loopback";

/// Its address and that of `lo`: a frame for another one would not arrive.
const ETHERNET: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// The mark of what has passed the link.
const MARK: u32 = 0x4c_49_4e_45;

/// The table of routes to the device.
const TABLE: u8 = 100;

// Settings of linux/ip.h, with which `lo` takes packets from and to this host's own addresses that
// came by a packet socket, routes marked ones as marked, and the device sends them.
const ACCEPT_LOCAL: u16 = 23;
const SRC_VMARK: u16 = 24;
const ROUTE_LOCALNET: u16 = 26;

/// Flows whose direction is known: twice as many at most, some 10 MB.
const FLOWS_MAX: usize = 65_536;

/// Makes the traffic of the loopback interface of this network namespace pass two ports: one for
/// what goes the way of a flow's first packet, and one for what answers it.
pub fn open_loopback(options: &EndOptions<'_>) -> Result<[Box<dyn LivePort>; 2], PortError> {
    let device = open_device(NAME, options)?;
    set_up(options.mtu).map_err(|cause| PortError::Interface {
        name: NAME.to_owned(),
        action: "set up",
        cause,
    })?;
    let answers = Arc::new(Mutex::new(Answers::default()));
    let first = FirstWay {
        device,
        flows: Flows::default(),
        incoming: Burst::new(),
        answers: Arc::clone(&answers),
        loopback: open_to_inject(options)?,
    };
    let second = AnswerWay {
        answers,
        loopback: open_to_inject(options)?,
    };
    Ok([Box::new(first), Box::new(second)])
}

/// Routes what goes to the loopback addresses out by the device.
fn set_up(mtu: u32) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = netlink.link_named(NAME)?.index;
    for index in [index, LOOPBACK] {
        netlink.set_ethernet(index, ETHERNET, mtu)?;
    }
    netlink.ask_for_no_neighbours(index)?;
    let has_v6 = netlink.make_no_v6_address(index).is_ok();
    netlink.enable_v4(index, &[ROUTE_LOCALNET])?;
    netlink.enable_v4(LOOPBACK, &[ACCEPT_LOCAL, SRC_VMARK, ROUTE_LOCALNET])?;
    netlink.switch_on(LOOPBACK)?;
    netlink.switch_on(index)?;
    let own_v4 = (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8);
    netlink.add_route(own_v4.0, own_v4.1, index, TABLE)?;
    let to_device = Rule {
        priority: 3,
        to: Some(own_v4),
        table: Some(TABLE),
        ..Rule::default()
    };
    add_rules(&netlink, &[to_device])?;
    if has_v6 {
        let own_v6 = (IpAddr::V6(Ipv6Addr::LOCALHOST), 128);
        netlink.add_route(own_v6.0, own_v6.1, index, TABLE)?;
        let rule = Rule {
            is_v6: true,
            ..to_device
        };
        let own = Some(own_v6);
        let rules = [
            // What the kernel itself answers with is bound to `lo`: it goes back at once.
            Rule {
                priority: 2,
                to: None,
                out: Some("lo"),
                table: Some(libc::RT_TABLE_LOCAL),
                ..rule
            },
            // Without a source there is no route yet: the kernel then chooses ::1, and looks for a
            // route from there.
            Rule {
                from: own,
                to: own,
                ..rule
            },
            Rule {
                priority: 4,
                to: own,
                table: None,
                ..rule
            },
        ];
        add_rules(&netlink, &rules)?;
    }
    Ok(())
}

/// Adds these rules between one for what has passed the link and the kernel's own first one.
fn add_rules(netlink: &Netlink, rules: &[Rule<'_>]) -> io::Result<()> {
    let local = Rule {
        is_v6: rules.iter().any(|rule| rule.is_v6),
        table: Some(libc::RT_TABLE_LOCAL),
        ..Rule::default()
    };
    let passed = Rule {
        priority: 1,
        mark: Some(MARK),
        ..local
    };
    let last = Rule {
        priority: 9,
        ..local
    };
    for rule in rules.iter().chain([&passed, &last]) {
        netlink.add_rule(rule)?;
    }
    netlink.remove_rule(&local)
}

/// A socket whose frames arrive at `lo` as having passed the link.
fn open_to_inject(options: &EndOptions<'_>) -> Result<PacketSocket, PortError> {
    let interface = Interface::named("lo")?;
    let socket = PacketSocket::new(&interface, options.clock, "frames are sent")?;
    set_option(
        socket.socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_MARK,
        &MARK,
    )
    .map_err(|cause| PacketSocket::failure(&interface, "mark what is sent to", cause))?;
    socket.bind(0)?;
    Ok(socket)
}

/// Frames that answer others, on their way from one port to the other.
#[derive(Default)]
struct Answers {
    frames: Burst,
    /// The device's memory is full.
    is_short: bool,
}

/// The port of what goes the way of a flow's first packet. It reads the device for both.
struct FirstWay {
    device: Box<dyn LivePort>,
    flows: Flows,
    incoming: Burst,
    answers: Arc<Mutex<Answers>>,
    loopback: PacketSocket,
}

/// The port of what answers it.
struct AnswerWay {
    answers: Arc<Mutex<Answers>>,
    loopback: PacketSocket,
}

impl Wrapper for FirstWay {
    type Port = dyn LivePort;

    fn port(&self) -> &Self::Port {
        &*self.device
    }

    fn port_mut(&mut self) -> &mut Self::Port {
        &mut *self.device
    }

    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let received = self.device.receive(&mut self.incoming, max)?;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.is_short = received == Received::PoolEmpty;
        let before = burst.len();
        for frame in self.incoming.drain(..) {
            match self.flows.is_answer(&frame) {
                false => burst.push(frame),
                true => answers.frames.push(frame),
            }
        }
        Ok(match received {
            Received::Frames(_) => Received::Frames(burst.len() - before),
            other => other,
        })
    }
}

impl Port for AnswerWay {
    /// None: the other port has the device's.
    fn facts(&self) -> Vec<&Facts> {
        Vec::new()
    }
}

impl Receive for AnswerWay {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = max.min(answers.frames.len());
        burst.extend(answers.frames.drain(..count));
        Ok(match answers.is_short {
            true => Received::PoolEmpty,
            false => Received::Frames(count),
        })
    }

    fn leave(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }
}

impl Live for AnswerWay {
    fn wake_on<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

    fn backlog(&self) -> f32 {
        0.0
    }

    fn account(&mut self) {}

    fn shut(&mut self) {}
}

/// Both send at `lo`.
macro_rules! sends_at_loopback {
    ($way:ty) => {
        impl Transmit for $way {
            fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
                self.loopback.transmit(burst)
            }

            fn reclaim(&mut self) -> usize {
                0
            }

            fn stamp_next(&mut self) -> bool {
                false
            }

            fn handed_over(&mut self) -> Option<Option<i64>> {
                None
            }
        }
    };
}

sends_at_loopback!(FirstWay);
sends_at_loopback!(AnswerWay);

/// The two ends of a flow and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Flow {
    protocol: u8,
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
}

/// Who began each flow. The older half of them is forgotten when there are too many.
#[derive(Default)]
struct Flows {
    /// Whether the flow, its lesser end first, was begun by that end.
    recent: HashMap<Flow, bool>,
    older: HashMap<Flow, bool>,
}

impl Flows {
    /// Whether a frame goes against its flow's first one. What has no ports answers if its kind of
    /// ICMP does.
    fn is_answer(&mut self, frame: &Frame) -> bool {
        const SYN: u8 = 2;
        const ACK: u8 = 16;
        let descriptor = frame.descriptor();
        let (link_type, wire_len) = (descriptor.link_type.0, descriptor.wire_len as usize);
        let (ip, ports, begins) = match dissect_outermost(link_type, frame.bytes(), wire_len) {
            Dissected::Tcp(ip, tcp) => {
                let begins = match tcp.flags.0 & (SYN | ACK) {
                    SYN => Some(true),
                    flags if flags == SYN | ACK => Some(false),
                    _ => None,
                };
                (ip, (tcp.source_port, tcp.destination_port), begins)
            }
            Dissected::Udp(ip, udp) => (ip, (udp.source_port, udp.destination_port), None),
            _ => return is_icmp_answer(frame.bytes()),
        };
        let source = (ip.source, ports.0);
        let destination = (ip.destination, ports.1);
        let is_rising = source <= destination;
        let flow = Flow {
            protocol: ip.protocol,
            source: source.min(destination),
            destination: source.max(destination),
        };
        let known = { self.recent.get(&flow) }.or_else(|| self.older.get(&flow));
        let was_rising = match (begins, known) {
            (Some(begins), _) => begins == is_rising,
            (None, Some(&known)) => known,
            (None, None) => is_rising,
        };
        if self.recent.len() >= FLOWS_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(flow, was_rising);
        was_rising != is_rising
    }
}

/// Whether it is ICMP that answers something: an echo reply, or an error.
fn is_icmp_answer(bytes: &[u8]) -> bool {
    const ETHERNET_LEN: usize = 14;
    const V4: (u8, u8) = (4, 1);
    const V6: (u8, u8) = (6, 58);
    let Some(packet) = bytes.get(ETHERNET_LEN..) else {
        return false;
    };
    let at = |place: usize| packet.get(place).copied().unwrap_or_default();
    let version = at(0) >> 4;
    if (version, at(9)) == V4 {
        return matches!(at(usize::from(at(0) & 0xf) * 4), 0 | 3 | 11 | 12 | 14);
    }
    (version, at(6)) == V6 && matches!(at(40), 1..=4 | 129)
}
