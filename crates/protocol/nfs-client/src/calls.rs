//! The calls of a client: which leaves when, and which a reply answers.

use std::collections::{HashMap, VecDeque};

use lineside_frame::{Cursor, Piece};
use lineside_nfs::v4::{self, Status};
use lineside_time::Nanoseconds;

use crate::channel::Channel;
use crate::config::{
    CallError, ClientError, Config, Event, LostBy, Phase, Service, Step, Transport,
};
use crate::header::{Broken, Credential, reply_header};
use crate::owners::{Given, Owners};
use crate::records::Limits;
use crate::request::{Places, Request};
use crate::results::{Answer, Reply, Results};
use crate::slots::Slots;

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Caller(u64),
    Client(Step),
    /// It timed out: its reply is still awaited, for its slot and its owners.
    Nobody,
}

/// A call that waits, or is under way.
#[derive(Debug)]
struct Pending {
    by: By,
    connection: usize,
    message: Vec<u8>,
    places: Places,
    is_compound: bool,
    is_sent: bool,
    sent_at: Nanoseconds,
    slot: Option<u32>,
    /// Of NFSv4.0, once it was sent first.
    given: Option<Vec<Given>>,
}

/// What a client knows: its calls, its connections, and what the server gave it.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    pub(crate) root: Vec<u8>,
    pub(crate) client_id: u64,
    pub(crate) lease_ns: Nanoseconds,
    /// When the last call left that renewed the lease.
    pub(crate) renewed_at: Nanoseconds,
    pub(crate) is_renewing: bool,
    pub(crate) slots: Option<Slots>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) channels: Vec<Option<Channel>>,
    owners: Owners,
    pending: HashMap<u32, Pending>,
    /// When calls under way time out, in order; some are answered already.
    timeouts: VecDeque<(Nanoseconds, u32)>,
    next_xid: u32,
    kept_bytes: usize,
    under_way: usize,
    /// The connection whose turn it is when slots are short.
    turn: usize,
}

impl Calls {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            next_xid: config.first_xid,
            config,
            phase: Phase::Idle,
            root: Vec::new(),
            client_id: 0,
            lease_ns: 0,
            renewed_at: 0,
            is_renewing: false,
            slots: None,
            events: VecDeque::new(),
            channels: Vec::new(),
            owners: Owners::default(),
            pending: HashMap::new(),
            timeouts: VecDeque::new(),
            kept_bytes: 0,
            under_way: 0,
            turn: 0,
        }
    }

    /// A connection was opened; its place.
    pub(crate) fn add_channel(&mut self, channel: Channel) -> usize {
        let free = self.channels.iter().position(Option::is_none);
        let at = free.unwrap_or(self.channels.len());
        match free {
            Some(at) => self.channels[at] = Some(channel),
            None => self.channels.push(Some(channel)),
        }
        at
    }

    /// A connection ended. Its calls wait until it is opened again.
    pub(crate) fn close(&mut self, at: usize) {
        let Some(Some(channel)) = self.channels.get_mut(at) else {
            return;
        };
        channel.reset();
        let is_mine = |(_, call): &(&u32, &mut Pending)| call.is_sent && call.connection == at;
        let mut again = Vec::new();
        for (&xid, call) in self.pending.iter_mut().filter(is_mine) {
            call.is_sent = false;
            again.push((call.sent_at, xid));
        }
        self.under_way -= again.len();
        again.sort_unstable();
        for (_, xid) in again.into_iter().rev() {
            channel.waiting.push_front(xid);
        }
    }

    /// Whether there is a connection to a service.
    pub(crate) fn is_up(&self, service: Service) -> bool {
        let mut channels = self.channels.iter().flatten();
        channels.any(|channel| channel.is_up && channel.service == service)
    }

    /// A connection is not used any more: its calls are lost, and their slots.
    pub(crate) fn remove_channel(&mut self, at: usize) {
        self.close(at);
        self.drop_calls(|call| call.connection == at);
        if let Some(place) = self.channels.get_mut(at) {
            *place = None;
        }
    }

    /// The call of a step is not made any more.
    pub(crate) fn drop_step(&mut self, step: Step) {
        self.drop_calls(|call| call.by == By::Client(step));
    }

    /// Takes a call, which leaves by this connection when it may; its xid.
    pub(crate) fn call(
        &mut self,
        at: usize,
        tag: u64,
        credential: &Credential,
        request: Request<'_>,
    ) -> Result<u32, CallError> {
        if matches!(self.phase, Phase::Closing(_) | Phase::Over) {
            return Err(CallError::Over);
        }
        self.add(at, By::Caller(tag), credential, request)
    }

    /// A call of the client's own, which goes before others.
    pub(crate) fn ask(&mut self, at: usize, step: Step, calls: &[v4::Call<'_>]) {
        let (tag, data) = (&b""[..], &b""[..]);
        self.ask_for(at, step, Request::Compound { tag, calls, data });
    }

    pub(crate) fn ask_for(&mut self, at: usize, step: Step, request: Request<'_>) {
        let credential = self.config.credential.clone();
        if self
            .add(at, By::Client(step), &credential, request)
            .is_err()
        {
            self.fail(ClientError::NoReply(step));
        }
    }

    fn add(
        &mut self,
        at: usize,
        by: By,
        credential: &Credential,
        request: Request<'_>,
    ) -> Result<u32, CallError> {
        let Some(Some(_)) = self.channels.get(at) else {
            return Err(CallError::Connection);
        };
        while self.pending.contains_key(&self.next_xid) {
            self.next_xid = self.next_xid.wrapping_add(1);
        }
        let xid = self.next_xid;
        let (message, places) = request.encode(xid, credential, self.config.version)?;
        if let By::Caller(_) = by {
            if self.kept_bytes + message.len() > self.config.bytes_max {
                return Err(CallError::Full);
            }
            self.owners.admit(&places.numbered)?;
        }
        self.next_xid = xid.wrapping_add(1);
        self.kept_bytes += message.len();
        let call = Pending {
            by,
            connection: at,
            message,
            places,
            is_compound: matches!(request, Request::Compound { .. }),
            is_sent: false,
            sent_at: 0,
            slot: None,
            given: None,
        };
        self.pending.insert(xid, call);
        if let Some(Some(channel)) = self.channels.get_mut(at) {
            match by {
                By::Caller(_) => channel.waiting.push_back(xid),
                _ => channel.waiting.push_front(xid),
            }
        }
        Ok(xid)
    }

    /// Sends what may leave.
    pub(crate) fn pump(&mut self, now: Nanoseconds) {
        let count = self.channels.len();
        for turn in 0..count {
            let at = (self.turn + turn) % count;
            while self.send_next(now, at) {}
        }
        self.turn = (self.turn + 1) % count.max(1);
    }

    /// Sends the first call that waits for a connection; false: none may leave.
    fn send_next(&mut self, now: Nanoseconds, at: usize) -> bool {
        let Some(channel) = self.channels[at].as_mut().filter(|channel| channel.is_up) else {
            return false;
        };
        let Some(&xid) = channel.waiting.front() else {
            return false;
        };
        let Some(call) = self.pending.get_mut(&xid) else {
            channel.waiting.pop_front();
            return true;
        };
        if let By::Caller(_) = call.by
            && (call.is_compound && self.phase != Phase::Ready
                || self.under_way >= self.config.calls_max)
        {
            return false;
        }
        let needs_slot = call.places.sequence.is_some() && call.slot.is_none();
        if needs_slot && !self.slots.as_ref().is_some_and(Slots::has_free) {
            return false;
        }
        channel.waiting.pop_front();
        if call.given.is_none() {
            match self
                .owners
                .give(xid, &call.places.numbered, &mut call.message)
            {
                Ok(given) => call.given = Some(given),
                Err(others) => {
                    self.wait_again(others);
                    return true;
                }
            }
        }
        for &place in &call.places.client_ids {
            call.message[place..][..8].copy_from_slice(&self.client_id.to_be_bytes());
        }
        if let (Some(place), Some(slots), true) =
            (call.places.sequence, &mut self.slots, needs_slot)
            && let Some((slot, sequence)) = slots.take()
        {
            call.slot = Some(slot);
            let words = [sequence, slot, slots.highest()].map(u32::to_be_bytes);
            call.message[place..][..16].copy_from_slice(&slots.session);
            call.message[place + 16..][..12].copy_from_slice(words.as_flattened());
        }
        (call.is_sent, call.sent_at) = (true, now);
        channel.send(&self.config.fragments, &call.message);
        self.under_way += 1;
        if let Some(timeout) = self.config.timeout_ns {
            self.timeouts.push_back((now.saturating_add(timeout), xid));
        }
        true
    }

    /// Calls wait for their connections again, before others.
    fn wait_again(&mut self, xids: Vec<u32>) {
        for xid in xids.into_iter().rev() {
            let Some(call) = self.pending.get(&xid) else {
                continue;
            };
            if let Some(Some(channel)) = self.channels.get_mut(call.connection) {
                channel.waiting.push_front(xid);
            }
        }
    }

    /// Takes bytes of a connection, or a datagram; `heard` gets the replies that end in them.
    pub(crate) fn on_bytes(
        &mut self,
        at: usize,
        bytes: &[u8],
        heard: &mut dyn FnMut(&mut Self, Heard<'_>),
    ) -> Result<(), Broken> {
        let Some(channel) = self.channels.get_mut(at).and_then(Option::as_mut) else {
            return Err(Broken);
        };
        if channel.transport == Transport::Datagrams {
            return self.on_message(at, bytes, heard);
        }
        let limits = Limits {
            head: self.config.reply_bytes_max as usize,
            record: self.config.reply_bytes_max.into(),
        };
        let mut records = std::mem::take(&mut channel.records);
        let mut heads = std::mem::take(&mut channel.heads);
        let outcome = records.push(bytes, &mut heads, limits, |message, _| {
            self.on_message(at, message, heard)
        });
        if let Some(Some(channel)) = self.channels.get_mut(at) {
            (channel.records, channel.heads) = (records, heads);
        }
        outcome
    }

    fn on_message(
        &mut self,
        at: usize,
        message: &[u8],
        heard: &mut dyn FnMut(&mut Self, Heard<'_>),
    ) -> Result<(), Broken> {
        let pieces = [Piece::bytes(message)];
        let mut cursor = Cursor::new(&pieces);
        let (xid, refused) = reply_header(&mut cursor)?;
        let answer = match refused {
            Some(refusal) => Answer::Refused(refusal),
            None => Answer::Results(Results::new(message, cursor)),
        };
        let asked = self.pending.get(&xid);
        let Some(call) = asked.filter(|call| call.is_sent && call.connection == at) else {
            let channel = self.channels[at].as_ref();
            return match channel.map(|channel| channel.transport) {
                Some(Transport::Datagrams) => {
                    let tag = None;
                    heard(self, Heard::Reply(Reply { tag, xid, answer }));
                    Ok(())
                }
                _ => Err(Broken),
            };
        };
        // Nothing is believed of a reply that cannot be read to its end where it must be.
        let sequence = match answer {
            Answer::Results(results) if call.is_compound => self.examine(call, results)?,
            _ => None,
        };
        let Some(call) = self.remove(xid) else {
            return Err(Broken);
        };
        self.settle(&call, answer, sequence);
        let tag = match call.by {
            By::Caller(tag) => Some(tag),
            By::Nobody => None,
            By::Client(step) => {
                heard(self, Heard::Own(at, step, answer));
                return Ok(());
            }
        };
        heard(self, Heard::Reply(Reply { tag, xid, answer }));
        Ok(())
    }

    /// Reads the results of a compound as far as the client needs them: those of SEQUENCE.
    fn examine<'a>(
        &self,
        call: &Pending,
        results: Results<'a>,
    ) -> Result<Option<Sequenced>, Broken> {
        let mut compound = results.compound()?;
        let status = compound.status.0;
        if call.given.as_ref().is_some_and(|given| !given.is_empty()) {
            compound.try_for_each(|each| each.map(drop))?;
        }
        let (Some(slot), Some(slots)) = (call.slot, &self.slots) else {
            return Ok(None);
        };
        let failed = |status| Ok(Some(Sequenced::Failed(status)));
        let first = results.compound()?.next();
        let Some((reply, _)) = first.transpose()? else {
            // A compound that is refused as a whole has no results.
            return if status == 0 {
                Err(Broken)
            } else {
                failed(status)
            };
        };
        let v4::Reply::Sequence(outcome) = reply else {
            return Err(Broken);
        };
        let Some(ok) = outcome.ok() else {
            return failed(reply.status().ok_or(Broken)?);
        };
        let is_mine = ok.session == Some(slots.session)
            && ok.slot == Some(slot)
            && ok.sequence == Some(slots.sequence(slot));
        let target = ok.target_highest_slot.filter(|_| is_mine).ok_or(Broken)?;
        Ok(Some(Sequenced::Done { target }))
    }

    fn remove(&mut self, xid: u32) -> Option<Pending> {
        let call = self.pending.remove(&xid)?;
        self.kept_bytes -= call.message.len();
        self.under_way -= usize::from(call.is_sent);
        if self.timeouts.len() > 2 * self.pending.len() + 64 {
            let pending = &self.pending;
            self.timeouts.retain(|(_, xid)| pending.contains_key(xid));
        }
        Some(call)
    }

    /// What an answer means for the call's slot and owners, and for the lease.
    fn settle(&mut self, call: &Pending, answer: Answer<'_>, sequence: Option<Sequenced>) {
        if let By::Client(_) = call.by {
            self.renewed_at = self.renewed_at.max(call.sent_at);
        }
        if let (Some(slot), Some(slots)) = (call.slot, &mut self.slots) {
            slots.give_back(slot, matches!(sequence, Some(Sequenced::Done { .. })));
            match sequence {
                Some(Sequenced::Done { target }) => {
                    slots.set_target(target);
                    self.renewed_at = self.renewed_at.max(call.sent_at);
                }
                Some(Sequenced::Failed(status)) if is_final(status) => {
                    self.fail(ClientError::Forgotten(status));
                }
                _ => {}
            }
        }
        let given = call.given.as_deref().unwrap_or_default();
        if given.is_empty() {
            return;
        }
        if let Answer::Results(results) = answer
            && let Ok(compound) = results.compound()
        {
            for (operation, (reply, _)) in compound.flatten().enumerate() {
                let numbered = &call.places.numbered;
                let operation = operation as u32;
                self.owners.on_result(given, numbered, operation, &reply);
            }
        }
        let next = self.owners.give_back(given);
        self.wait_again(next);
    }

    /// Callers' calls are lost. The replies to those that were sent still come.
    pub(crate) fn lose_calls(&mut self) {
        self.drop_calls(|call| matches!(call.by, By::Caller(_)) && !call.is_sent);
        let mut lost = Vec::new();
        for (&xid, call) in &mut self.pending {
            if let By::Caller(tag) = call.by {
                call.by = By::Nobody;
                lost.push((xid, tag));
            }
        }
        lost.sort_unstable();
        let lost = lost.into_iter();
        self.events
            .extend(lost.map(|(_, tag)| Event::Lost(tag, LostBy::Closed)));
    }

    /// Drops calls: slots and numbers that they had are not used again.
    fn drop_calls(&mut self, which: impl Fn(&Pending) -> bool) {
        let mut xids: Vec<u32> = Vec::new();
        xids.extend(
            self.pending
                .iter()
                .filter(|(_, call)| which(call))
                .map(|(&xid, _)| xid),
        );
        xids.sort_unstable();
        for xid in xids {
            let Some(call) = self.remove(xid) else {
                continue;
            };
            match call.by {
                By::Caller(tag) => self.events.push_back(Event::Lost(tag, LostBy::Closed)),
                By::Client(Step::Renew) => self.is_renewing = false,
                By::Client(step) if step != Step::GetPort => self.fail(ClientError::NoReply(step)),
                _ => {}
            }
            if let (Some(_), Some(slots)) = (call.slot, &mut self.slots)
                && slots.lose()
            {
                self.fail(ClientError::NoSlots);
            }
            if let Some(given) = &call.given {
                self.owners.lose(given);
                let next = self.owners.give_back(given);
                self.wait_again(next);
            }
        }
        // One that was to be next may be among the calls that are dropped.
        let waiting = self.owners.waiting();
        self.wait_again(waiting);
    }

    /// When the next call times out; some may be answered already.
    pub(crate) fn next_timeout(&self) -> Option<Nanoseconds> {
        self.timeouts.front().map(|&(at, _)| at)
    }

    /// Reports calls that were not answered in time.
    pub(crate) fn time_out(&mut self, now: Nanoseconds) {
        while let Some(&(at, xid)) = self.timeouts.front()
            && at <= now
        {
            self.timeouts.pop_front();
            let timeout = self.config.timeout_ns.unwrap_or(Nanoseconds::MAX);
            let late = self.pending.get_mut(&xid);
            // An xid that was used again, or a call that was sent again, has a later deadline.
            if let Some(call) = late.filter(|call| call.sent_at.saturating_add(timeout) <= now) {
                match std::mem::replace(&mut call.by, By::Nobody) {
                    By::Caller(tag) => self.events.push_back(Event::Lost(tag, LostBy::Timeout)),
                    By::Client(Step::Renew) => self.is_renewing = false,
                    By::Client(step) => self.fail(ClientError::NoReply(step)),
                    By::Nobody => {}
                }
            }
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn fail(&mut self, error: ClientError) {
        if self.phase != Phase::Over {
            self.phase = Phase::Over;
            self.events.push_back(Event::Failed(error));
        }
    }
}

/// What a reply is.
pub(crate) enum Heard<'a> {
    /// To a call of a caller's.
    Reply(Reply<'a>),
    /// To a step, by this connection.
    Own(usize, Step, Answer<'a>),
}

/// What SEQUENCE's results are.
#[derive(Debug, Clone, Copy)]
enum Sequenced {
    Done { target: u32 },
    Failed(u32),
}

/// Whether the session, or the client, is not known any more, or the client and the server do not
/// agree about a slot (RFC 8881 section 15.1.11).
fn is_final(status: u32) -> bool {
    matches!(
        Status(status),
        Status::BADSESSION
            | Status::DEADSESSION
            | Status::STALE_CLIENTID
            | Status::SEQ_MISORDERED
            | Status::SEQ_FALSE_RETRY
            | Status::BADSLOT
            | Status::CONN_NOT_BOUND_TO_SESSION
    )
}
