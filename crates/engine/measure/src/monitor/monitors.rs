//! The monitors of a run: which of them see a head, and where what they found goes.

use std::collections::HashMap;

use lineside_account::{Budget, Lease};
use lineside_filter::{Filter, FilterError, Program};
use lineside_time::Nanoseconds;
use lineside_wire::dissect;

use super::bins::Room;
use super::summary::{Summaries, Summary};
use super::{
    Bin, FlowCounts, FlowFacts, Head, Label, Monitor, Packet, Place, Report, Rows, Window, Words,
};

/// Why monitors cannot measure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// An expression asks for what frames there do not have.
    #[error("monitor '{monitor}': its expression cannot match at {port}: {error}")]
    Filter {
        /// The monitor.
        monitor: String,
        /// The port.
        port: String,
        /// Why.
        error: FilterError,
    },
    /// More places than a run may have.
    #[error(
        "frames come from more than 65,535 interfaces: name those to be measured with \
        -i or -f, or leave files out"
    )]
    Places,
    /// The memory for bins is not there.
    #[error(
        "monitor '{monitor}': its bins do not fit into the memory budget: raise --memory, or \
        measure at fewer points or in fewer files"
    )]
    Memory {
        /// The monitor.
        monitor: String,
    },
}

/// Places of a run, one for each file that may be read at once: the budget bounds them before.
const PLACES_MAX: usize = u16::MAX as usize;

/// Makes a monitor for a point.
type Make = Box<dyn Fn() -> Box<dyn Monitor> + Send>;

/// What is to be measured where.
struct Asked {
    name: String,
    /// `None` of one that was added, which measures at every point.
    words: Option<Words>,
    make: Make,
    /// From when on it measures, or not, in order.
    switches: Vec<(Nanoseconds, bool)>,
}

impl Asked {
    /// Whether it measures what has this stamp; what has none is measured as the latest.
    #[inline]
    fn measures(&self, time_ns: Option<Nanoseconds>) -> bool {
        let Some((latest_ns, is_on)) = self.switches.last() else {
            return true;
        };
        match time_ns {
            Some(time_ns) if time_ns < *latest_ns => {
                let later = self
                    .switches
                    .partition_point(|(at_ns, _)| *at_ns <= time_ns);
                // Before all of them it is the other way than the first one makes it.
                later
                    .checked_sub(1)
                    .map_or(!self.switches[0].1, |at| self.switches[at].1)
            }
            _ => *is_on,
        }
    }
}

/// Monitors at one place.
struct Seat {
    /// Which of those that were asked for.
    asked: usize,
    /// The expression for each link type that was met.
    programs: Vec<(u16, Option<Program>)>,
    monitor: Box<dyn Monitor>,
    _memory: Lease,
}

/// All monitors of a run.
pub struct Monitors {
    asked: Vec<Asked>,
    /// By their numbers.
    places: Vec<(Place, Vec<Seat>)>,
    numbers: HashMap<Place, u16>,
    budget: Budget,
    room: Room,
    /// The earliest and the latest stamp.
    span: Option<(Nanoseconds, Nanoseconds)>,
    heads: u64,
}

impl Monitors {
    /// Monitors that draw on `budget`; none yet.
    pub fn new(budget: &Budget) -> Self {
        Self {
            asked: Vec::new(),
            places: Vec::new(),
            numbers: HashMap::new(),
            budget: budget.clone(),
            room: Room::new(budget),
            span: None,
            heads: 0,
        }
    }

    /// Measures what these words ask for, at all places that are named from now on.
    pub fn ask(&mut self, words: &Words) {
        let (own, budget, room) = (words.clone(), self.budget.clone(), self.room.clone());
        self.asked.push(Asked {
            name: words.to_string(),
            words: Some(words.clone()),
            make: Box::new(move || Box::new(Several(own.monitors(&budget, &room)))),
            switches: Vec::new(),
        });
    }

    /// The monitor that was asked for as number `asked`, from 0, measures frames from `at_ns` on,
    /// or not. Switches of one monitor come in the order of their instants.
    pub fn switch(&mut self, asked: usize, at_ns: Nanoseconds, is_on: bool) {
        if let Some(asked) = self.asked.get_mut(asked) {
            let is_same = asked.switches.last().is_some_and(|last| last.1 == is_on);
            if !is_same {
                asked.switches.push((at_ns, is_on));
            }
        }
    }

    /// Adds monitors of your own: `make` makes one for each place that is named from now on.
    pub fn add(&mut self, name: &str, make: impl Fn() -> Box<dyn Monitor> + Send + 'static) {
        self.asked.push(Asked {
            name: name.to_owned(),
            words: None,
            make: Box::new(make),
            switches: Vec::new(),
        });
    }

    /// Whether all expressions can match frames of this link type, which are those of `port`.
    pub fn check(&self, port: &str, link_type: u16) -> Result<(), MonitorError> {
        for asked in &self.asked {
            let filter = asked.words.as_ref().and_then(Words::expression);
            if let Some(Err(error)) = filter.map(|filter| program(filter, link_type)) {
                return Err(MonitorError::Filter {
                    monitor: asked.name.clone(),
                    port: port.to_owned(),
                    error,
                });
            }
        }
        Ok(())
    }

    /// The number of a place, whose monitors are made if it is new.
    pub fn place(&mut self, place: &Place) -> Result<u16, MonitorError> {
        if let Some(&known) = self.numbers.get(place) {
            return Ok(known);
        }
        if self.places.len() >= PLACES_MAX {
            return Err(MonitorError::Places);
        }
        let number = self.places.len() as u16;
        let mut seats = Vec::new();
        for (number, asked) in self.asked.iter().enumerate() {
            let words = asked.words.as_ref();
            if words.is_none_or(|words| words.is_at(&place.port, place.point)) {
                let own = if words.is_some() { 0 } else { ADDED_BYTES };
                // The name is in the place, and by it the number is found.
                let memory = self.budget.lease(SEAT_BYTES + own + 2 * place.port.len());
                seats.push(Seat {
                    asked: number,
                    programs: Vec::new(),
                    monitor: (asked.make)(),
                    _memory: memory.ok_or_else(|| MonitorError::Memory {
                        monitor: asked.name.clone(),
                    })?,
                });
            }
        }
        self.places.push((place.clone(), seats));
        self.numbers.insert(place.clone(), number);
        Ok(number)
    }

    /// The places so far.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().map(|(place, _)| place)
    }

    /// Those that measure nowhere, since no place that they name was there.
    pub fn without_place(&self) -> Vec<&str> {
        let seats = self.places.iter().flat_map(|(_, seats)| seats);
        let seated: Vec<_> = seats.map(|seat| seat.asked).collect();
        let asked = self.asked.iter().enumerate();
        let without = asked.filter(|(number, _)| !seated.contains(number));
        without.map(|(_, asked)| asked.name.as_str()).collect()
    }

    /// A frame was seen. What is over by now goes to `report`.
    #[inline]
    pub fn on_head(
        &mut self,
        head: &Head<'_>,
        report: &mut dyn Report,
    ) -> Result<(), MonitorError> {
        self.heads += 1;
        if let Some(time_ns) = head.time_ns {
            let (first, last) = self.span.unwrap_or((time_ns, time_ns));
            self.span = Some((first.min(time_ns), last.max(time_ns)));
        }
        let Some((place, seats)) = self.places.get_mut(usize::from(head.place)) else {
            return Ok(());
        };
        if seats.is_empty() {
            return Ok(());
        }
        let headers = dissect(head.link_type, head.bytes, head.wire_len as usize);
        let packet = Packet {
            head: *head,
            headers: &headers,
        };
        for seat in seats {
            let asked = &self.asked[seat.asked];
            if asked.measures(head.time_ns) && seat.matches(head, asked, place)? {
                let label = Label {
                    monitor: &asked.name,
                    place,
                };
                let mut out = Labelled { label, report };
                seat.monitor.on_packet(&packet, &mut out);
                if self.room.is_short() {
                    let monitor = asked.name.clone();
                    return Err(MonitorError::Memory { monitor });
                }
            }
        }
        Ok(())
    }

    /// Gives all that has not been given yet, as it stands.
    pub fn report(&self, report: &mut dyn Report) {
        for (place, seats) in &self.places {
            for seat in seats {
                let label = Label {
                    monitor: &self.asked[seat.asked].name,
                    place,
                };
                let mut out = Labelled { label, report };
                seat.monitor.report(&mut out);
            }
        }
    }

    /// What all have found so far, in few numbers, by place.
    pub fn summaries(&self) -> Vec<Summary> {
        let mut out = Summaries::default();
        for (place, seats) in &self.places {
            for seat in seats {
                let label = Label {
                    monitor: &self.asked[seat.asked].name,
                    place,
                };
                out.begin(label, seat.monitor.flows());
                let report = &mut out;
                seat.monitor.summarize(&mut Labelled { label, report });
            }
        }
        out.end();
        out.all
    }

    /// The earliest and the latest stamp of all heads.
    pub fn span(&self) -> Option<(Nanoseconds, Nanoseconds)> {
        self.span
    }

    /// Heads that were taken.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Bytes of memory that monitors take.
    pub fn memory_bytes(&self) -> usize {
        let seats = self.places.iter().flat_map(|(_, seats)| seats);
        seats.map(|seat| seat.monitor.memory_bytes()).sum()
    }
}

/// The monitors of a place, beside their bins and flows, which draw as they grow: `all` takes 2,000
/// bytes.
const SEAT_BYTES: usize = 2 << 10;

/// Bins of monitors that were added, which may have any: lengths, and some that are log-linear.
const ADDED_BYTES: usize = 512 << 10;

impl Seat {
    /// Whether its expression matches.
    #[inline]
    fn matches(
        &mut self,
        head: &Head<'_>,
        asked: &Asked,
        place: &Place,
    ) -> Result<bool, MonitorError> {
        let Some(filter) = asked.words.as_ref().and_then(Words::expression) else {
            return Ok(true);
        };
        let known = { self.programs.iter() }.position(|(each, _)| *each == head.link_type);
        let at = match known {
            Some(at) => at,
            None => {
                let program = program(filter, head.link_type);
                let program = program.map_err(|error| MonitorError::Filter {
                    monitor: asked.name.clone(),
                    port: place.port.clone(),
                    error,
                })?;
                self.programs.push((head.link_type, program));
                self.programs.len() - 1
            }
        };
        let program = self.programs[at].1.as_ref();
        Ok(program.is_some_and(|program| program.matches(head.bytes, head.wire_len)))
    }
}

/// The program for a link type; `None` of one that no filter knows, of which no frame matches.
fn program(filter: &Filter, link_type: u16) -> Result<Option<Program>, FilterError> {
    let is_known = Filter::knows(link_type);
    is_known.then(|| filter.compile(link_type)).transpose()
}

/// Several monitors as one.
#[derive(Debug)]
struct Several(Vec<Box<dyn Monitor>>);

impl Monitor for Several {
    #[inline]
    fn on_packet(&mut self, packet: &Packet<'_>, out: &mut dyn Rows) {
        for monitor in &mut self.0 {
            monitor.on_packet(packet, out);
        }
    }

    fn report(&self, out: &mut dyn Rows) {
        self.0.iter().for_each(|monitor| monitor.report(out));
    }

    fn summarize(&self, out: &mut dyn Rows) {
        self.0.iter().for_each(|monitor| monitor.summarize(out));
    }

    fn flows(&self) -> Option<FlowCounts> {
        self.0.iter().find_map(|monitor| monitor.flows())
    }

    fn memory_bytes(&self) -> usize {
        self.0.iter().map(|monitor| monitor.memory_bytes()).sum()
    }
}

/// Rows of one label.
struct Labelled<'a> {
    label: Label<'a>,
    report: &'a mut dyn Report,
}

impl Rows for Labelled<'_> {
    fn bin(&mut self, bin: Bin) {
        self.report.bin(self.label, bin);
    }

    fn window(&mut self, window: Window) {
        self.report.window(self.label, window);
    }

    fn flow(&mut self, flow: &FlowFacts) {
        self.report.flow(self.label, flow);
    }
}

impl std::fmt::Debug for Monitors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.asked.iter().map(|asked| &asked.name).collect();
        f.debug_struct("Monitors")
            .field("asked", &names)
            .finish_non_exhaustive()
    }
}
