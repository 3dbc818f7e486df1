//! The core of a path with frames on their way from the chains before it to those after it.

use lineside_frame::Frame;
use lineside_link::Departure;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::CoreReport;

use crate::SideId;
use crate::star::{Core, CoreDrop};

/// The core of a path.
#[derive(Debug)]
pub(crate) struct Middle {
    core: Box<dyn Core>,
    /// Of the ports.
    names: Vec<String>,
    /// For each chain the port by which its frames leave; `None`: they go to the core.
    exits: Vec<Option<SideId>>,
    /// The latest instant that the path was given.
    now_ns: Nanoseconds,
    /// Frames of all ports while they are brought into the order of their instants.
    crossing: Vec<Crossing>,
    /// Frames that go on, by the port by which they are to leave.
    to: Vec<Vec<Departure<Frame>>>,
}

/// A frame at the core.
#[derive(Debug)]
struct Crossing {
    port: usize,
    /// Its number among those that cross at once.
    number: usize,
    departure: Departure<Frame>,
}

impl Middle {
    /// A core between ports of these names.
    pub(crate) fn new(core: Box<dyn Core>, names: Vec<String>) -> Self {
        let ports = 0..names.len();
        let mut exits: Vec<_> = ports
            .clone()
            .map(|port| core.always(port).map(SideId::new))
            .collect();
        if exits.iter().any(Option::is_none) {
            exits.extend(ports.map(|port| Some(SideId::new(port))));
        }
        Self {
            core,
            exits,
            now_ns: Nanoseconds::MIN,
            crossing: Vec::new(),
            to: names.iter().map(|_| Vec::new()).collect(),
            names,
        }
    }

    /// How many ports it is between.
    #[inline]
    pub(crate) fn ports(&self) -> usize {
        self.names.len()
    }

    /// How many chains the path has: one for each port, and with a core that chooses another one
    /// for what leaves there.
    pub(crate) fn chains(&self) -> usize {
        self.exits.len()
    }

    /// Whether frames go straight from the chain of their port to another port.
    #[inline]
    pub(crate) fn is_straight(&self) -> bool {
        self.chains() == self.ports()
    }

    /// The port by which the frames of a chain leave; `None` if they go to the core.
    #[inline]
    pub(crate) fn exit(&self, chain: SideId) -> Option<SideId> {
        self.exits[chain.index()]
    }

    /// The name of a chain in words and certificates, where ports have names.
    pub(crate) fn chain_name(&self, chain: usize) -> String {
        if let (true, Some(exit)) = (self.is_straight(), self.exit(SideId::new(chain))) {
            return format!("{} to {}", self.names[chain], self.names[exit.index()]);
        }
        match chain.checked_sub(self.ports()) {
            None => format!("{} in", self.names[chain]),
            Some(port) => format!("{} out", self.names[port]),
        }
    }

    /// The latest instant, once it is `now` at least.
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanoseconds) -> Nanoseconds {
        self.now_ns = self.now_ns.max(now);
        self.now_ns
    }

    /// A frame has left the chain of the port by which it came.
    #[inline]
    pub(crate) fn take(&mut self, port: usize, departure: Departure<Frame>) {
        self.crossing.push(Crossing {
            port,
            number: self.crossing.len(),
            departure,
        });
    }

    /// Asks the core where the frames go on that were taken: in the order of their instants, and of
    /// their numbers where these are equal, however the ports were asked. Those that go nowhere go
    /// to `drops`, if they are wanted.
    pub(crate) fn cross(&mut self, mut drops: Option<&mut Vec<CoreDrop>>) {
        // A stable sort would allocate.
        self.crossing.sort_unstable_by_key(Crossing::key);
        for Crossing {
            port, departure, ..
        } in self.crossing.drain(..)
        {
            let now = departure.at_ns;
            let mut to = self.core.on_frame(now, port, &departure.item);
            debug_assert!(!to.holds(port), "no frame goes back to its own port");
            let mut frame = departure.item;
            let Some(first) = to.next() else {
                if let Some(drops) = &mut drops {
                    drops.push(CoreDrop {
                        at_ns: now,
                        port,
                        item: frame,
                    });
                }
                continue;
            };
            let enter = |item| Departure {
                at_ns: now,
                entered_ns: now,
                delay_ns: 0,
                due_ns: now,
                class: 0,
                changes: 0,
                item,
            };
            for other in to {
                self.to[other].push(enter(frame.another()));
            }
            self.to[first].push(enter(frame));
        }
    }

    /// The frames that go on to a port.
    #[inline]
    pub(crate) fn to(&mut self, port: usize) -> &mut Vec<Departure<Frame>> {
        &mut self.to[port]
    }

    pub(crate) fn on_port_gone(&mut self, port: usize) {
        self.core.on_port_gone(port);
    }

    /// What the core counted, with the names of the ports.
    pub(crate) fn report(&self) -> Option<CoreReport> {
        let mut report = self.core.report()?;
        for (port, name) in report.ports.iter_mut().zip(&self.names) {
            port.name.clone_from(name);
        }
        Some(report)
    }
}

impl Crossing {
    fn key(&self) -> (i64, u64, usize) {
        let ordinal = self.departure.item.descriptor().ordinal;
        (self.departure.at_ns, ordinal, self.number)
    }
}
