//! The ports of a polling loop by side and queue, and the frames that wait at each to be sent. What
//! is done with a frame between two sides is not decided here.

use std::collections::VecDeque;

use lineside_frame::{Burst, Frame};
use lineside_port::{LivePort, PortError};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::run::LoopFacts;

use crate::lead::{LEAD_MAX_NS, Lead};

/// What a loop drives: it is given bursts and the time, and says which frames leave, by which side
/// and when.
pub trait Engine {
    /// What it must know of a frame that leaves once it has left.
    type Account: Account;

    /// How many frames it takes at once, as long as none of its own is held up by that.
    fn burst_max(&mut self, _now: Nanoseconds) -> usize {
        BURST_MAX
    }

    /// Whether it takes frames that are longer than any other side sends; otherwise the loop drops
    /// and counts them.
    fn takes_long_frames(&self) -> bool {
        false
    }

    /// Takes all frames of `burst`, which arrived by `side`: each when its stamp says, or `now`.
    fn on_burst(&mut self, now: Nanoseconds, side: usize, burst: &mut Burst);

    /// Gives `out` the frames that are due by `until`, which is later than `now` by the lead.
    /// Called once a turn, after the bursts.
    fn on_timer(&mut self, now: Nanoseconds, until: Nanoseconds, out: &mut Sides<Self::Account>);

    /// When the next frame is due.
    fn next_deadline(&self) -> Option<Nanoseconds>;

    /// Frames that it holds.
    fn held(&self) -> usize;

    /// Copies frames that it holds, and that came by `side`, out of the memory of their port, which
    /// is short of it: as many as deadlines allow. It is called again if that is not enough.
    fn spill(&mut self, side: usize);

    /// A frame left at `sent_ns`. Those of a queue are reported in the order in which they left.
    fn on_sent(&mut self, account: Self::Account, sent_ns: Nanoseconds);

    /// A frame was due at a port that is down or gone, or that takes none this long: it never
    /// leaves.
    fn on_unsent(&mut self, account: Self::Account, frame: &Frame);

    /// A side is gone for good, and the loop goes on without it.
    fn on_gone(&mut self, _side: usize) {}
}

/// The account of a frame that leaves.
pub trait Account {
    /// When it arrived.
    fn entered_ns(&self) -> Nanoseconds;

    /// When it is due.
    fn at_ns(&self) -> Nanoseconds;
}

/// Frames that are received at once: few, so that a deadline never waits for many.
pub(crate) const BURST_MAX: usize = 32;

/// The ports of a loop, by side and queue, with the frames that wait to be sent.
pub struct Sides<A> {
    sides: Vec<Side<A>>,
    /// Frames that are too long for the side by which they should leave, with their accounts.
    too_long: Vec<(A, Frame)>,
}

pub(crate) struct Side<A> {
    pub(crate) queues: Vec<Queue<A>>,
    /// Bytes of the longest frame that another side takes.
    pub(crate) len_max: usize,
    /// Bytes of the longest frame that this one takes.
    takes_max: usize,
    /// A port of it has failed for good, and the loop goes on without it.
    pub(crate) is_gone: bool,
}

/// A queue of an interface.
pub(crate) struct Queue<A> {
    pub(crate) port: Box<dyn LivePort>,
    /// Frames that are due and that the port has not taken, with their accounts.
    sending: Burst,
    accounts: VecDeque<A>,
    /// When the call began that sent a frame whose stamp the kernel still owes.
    owed_ns: Option<Nanoseconds>,
}

impl<A> Sides<A> {
    pub(crate) fn new(sides: Vec<Vec<Box<dyn LivePort>>>) -> Self {
        let lens: Vec<usize> = sides.iter().map(|ports| len_max(ports)).collect();
        let others = |side: usize| {
            let others = lens.iter().enumerate().filter(move |(at, _)| *at != side);
            others.map(|(_, len)| *len).max()
        };
        let queue = |port| Queue {
            port,
            sending: Burst::new(),
            accounts: VecDeque::new(),
            owed_ns: None,
        };
        let sides = sides.into_iter().enumerate().map(|(side, ports)| Side {
            queues: ports.into_iter().map(queue).collect(),
            len_max: others(side).unwrap_or(usize::MAX),
            takes_max: lens[side],
            is_gone: false,
        });
        Self {
            sides: sides.collect(),
            too_long: Vec::new(),
        }
    }

    /// Sends a frame by a side, at the end of this turn: by the queue with the number of the one by
    /// which it arrived, so that frames of a flow keep their order.
    #[inline]
    pub fn send(&mut self, side: usize, frame: Frame, account: A) {
        let Side {
            queues, takes_max, ..
        } = &mut self.sides[side];
        // Between two sides it would not have come in.
        if frame.whole_len() > *takes_max {
            self.too_long.push((account, frame));
            return;
        }
        let queue = match queues.len() {
            0 => return,
            1 => 0,
            count => usize::from(frame.descriptor().input) % count,
        };
        let queue = &mut queues[queue];
        queue.accounts.push_back(account);
        queue.sending.push(frame);
    }

    pub(crate) fn iter_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = &mut Side<A>> + ExactSizeIterator {
        self.sides.iter_mut()
    }

    pub(crate) fn side_mut(&mut self, side: usize) -> &mut Side<A> {
        &mut self.sides[side]
    }

    pub(crate) fn count(&self) -> usize {
        self.sides.len()
    }

    pub(crate) fn into_ports(self) -> impl Iterator<Item = Box<dyn LivePort>> {
        let queues = { self.sides.into_iter() }.flat_map(|side| side.queues);
        queues.map(|queue| queue.port)
    }

    pub(crate) fn queues_mut(&mut self) -> impl Iterator<Item = &mut Queue<A>> {
        { self.sides.iter_mut() }.flat_map(|side| &mut side.queues)
    }

    /// The ports of a side, one for each of its queues.
    pub(crate) fn ports_of(&self, side: usize) -> impl Iterator<Item = &dyn LivePort> {
        self.sides[side].queues.iter().map(|queue| &*queue.port)
    }

    /// All ports, those of side 0 first.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &dyn LivePort> {
        (0..self.sides.len()).flat_map(|side| self.ports_of(side))
    }

    /// The ports of sides that are not gone.
    pub(crate) fn present(&self) -> impl Iterator<Item = &dyn LivePort> {
        let present = self.sides.iter().filter(|side| !side.is_gone);
        present.flat_map(|side| side.queues.iter().map(|queue| &*queue.port))
    }

    /// Frames that were too long for their side, which never leave.
    pub(crate) fn take_too_long(&mut self) -> impl Iterator<Item = (A, Frame)> {
        self.too_long.drain(..)
    }

    /// Frames that wait for their port.
    pub(crate) fn waiting(&self) -> usize {
        let queues = self.sides.iter().flat_map(|side| &side.queues);
        queues.map(|queue| queue.sending.len()).sum()
    }
}

impl<A: Account> Queue<A> {
    /// Sends what waits, reports to `engine` when each frame left, and returns whether any did.
    pub(crate) fn send<E: Engine<Account = A>>(
        &mut self,
        engine: &mut E,
        lead: &mut Lead,
        facts: &mut LoopFacts,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> Result<bool, PortError> {
        if self.sending.is_empty() {
            return Ok(false);
        }
        let is_stamped = self.port.stamp_next();
        let began_ns = clock();
        let sent = match self.port.transmit(&mut self.sending) {
            Ok(sent) => sent,
            // Like a cable that was pulled out: what is due is lost, and what is due when the
            // interface is up again passes.
            Err(PortError::InterfaceDown { .. }) => {
                self.discard(engine, facts);
                // A frame may lie in the port's ring, and its stamp comes with it.
                self.owed_ns = is_stamped.then_some(began_ns);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.port.reclaim();
        let sent_ns = clock();
        facts.refusals += u64::from(sent == 0);
        if is_stamped && sent > 0 {
            self.owed_ns = Some(began_ns);
        }
        let first_ns = self.first_left(began_ns, sent_ns, sent, lead);
        if let (1.., Some(account)) = (sent, self.accounts.front())
            && account.at_ns() - account.entered_ns() >= LEAD_MAX_NS
        {
            lead.on_late(first_ns - account.at_ns());
        }
        // The last one as the call ended.
        let each_ns = (sent_ns - first_ns) / (sent as i64 - 1).max(1);
        for (at, account) in self.accounts.drain(..sent).enumerate() {
            engine.on_sent(account, first_ns + at as i64 * each_ns);
        }
        Ok(sent > 0)
    }

    /// What waits never leaves.
    pub(crate) fn discard<E: Engine<Account = A>>(
        &mut self,
        engine: &mut E,
        facts: &mut LoopFacts,
    ) {
        facts.dropped_down += self.accounts.len() as u64;
        for (account, frame) in self.accounts.drain(..).zip(self.sending.drain(..)) {
            engine.on_unsent(account, &frame);
        }
    }

    /// When the first frame of a call that sent left: by the kernel's stamp, or else after the time
    /// that a call usually takes, or its share of this one.
    fn first_left(
        &mut self,
        began_ns: Nanoseconds,
        sent_ns: Nanoseconds,
        sent: usize,
        lead: &mut Lead,
    ) -> Nanoseconds {
        let share_ns = (sent_ns - began_ns) / sent.max(1) as i64;
        let usual_ns = lead.usual_ns(share_ns);
        let usual = (began_ns + usual_ns).min(sent_ns);
        let Some(stamp_ns) = self.owed_ns.and_then(|_| self.port.handed_over()) else {
            return usual;
        };
        let asked_ns = self.owed_ns.take().unwrap_or(began_ns);
        lead.on_stamp(asked_ns, stamp_ns, Some(usual_ns));
        match stamp_ns.filter(|_| asked_ns == began_ns) {
            Some(stamp_ns) => stamp_ns.clamp(began_ns, sent_ns),
            None => usual,
        }
    }
}

impl<A> Queue<A> {
    /// Takes a stamp that comes later than the call that sent, as from an adapter: left with the
    /// port, it would keep waking the loop.
    pub(crate) fn collect_stamp(&mut self, lead: &mut Lead) {
        let Some(asked_ns) = self.owed_ns else { return };
        self.port.reclaim();
        if let Some(stamp_ns) = self.port.handed_over() {
            self.owed_ns = None;
            lead.on_stamp(asked_ns, stamp_ns, None);
        }
    }
}

/// Bytes of the longest frame, with an Ethernet header and a tag, that a side takes: what is no
/// interface takes all.
fn len_max(ports: &[Box<dyn LivePort>]) -> usize {
    const HEADERS_LEN: usize = 18;
    let facts = ports.first().map(|port| port.facts()).unwrap_or_default();
    let live = facts.first().and_then(|facts| facts.live.as_ref());
    live.map_or(usize::MAX, |live| live.mtu as usize + HEADERS_LEN)
}
