//! The client: which call leaves when, and which call a reply answers.

use std::collections::{HashMap, VecDeque};

use lineside_frame::{Cursor, Piece};
use lineside_nfs::v4::{self, Status};
use lineside_time::Nanoseconds;

use crate::channel::Channel;
use crate::config::{CallError, ClientError, Config, Event, LostBy, Service, Step};
use crate::header::{Broken, Credential, reply_header};
use crate::owners::{Given, Owners};
use crate::records::Limits;
use crate::request::{Places, Request};
use crate::results::{Answer, Results};
use crate::setup::Phase;
use crate::slots::Slots;

/// A connection of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection(pub(crate) usize);

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Records in a stream of bytes.
    Stream,
    /// A message in each datagram.
    Datagrams,
}

/// A reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// That of its call; `None` if no call waits for it: the call timed out, or this datagram is a
    /// second answer.
    pub tag: Option<u64>,
    /// That of its call.
    pub xid: u32,
    /// How the call was answered. Of a compound the results of SEQUENCE are part.
    pub answer: Answer<'a>,
}

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

/// One client of one server. See the [crate](crate).
#[derive(Debug)]
pub struct Client {
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

impl Client {
    /// A client that has done nothing yet.
    pub fn new(config: Config) -> Self {
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

    /// What is asked or reported next.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The handle of the export's root, once it is mounted.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// The client's own call that is under way.
    pub fn step(&self) -> Option<Step> {
        match self.phase {
            Phase::Asking(step) => Some(step),
            _ => None,
        }
    }

    /// Whether calls leave: what was to be mounted is, and the server knows this client.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// What the server calls this client, of NFSv4.
    pub fn client_id(&self) -> u64 {
        self.client_id
    }

    /// Calls that wait or are under way.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// A connection was opened, because an event asked for it or as one more.
    pub fn opened(
        &mut self,
        now: Nanoseconds,
        service: Service,
        port: u16,
        transport: Transport,
    ) -> Connection {
        let channel = Channel::new(service, port, transport, self.config.reply_bytes_max);
        let free = self.channels.iter().position(Option::is_none);
        let at = free.unwrap_or(self.channels.len());
        match free {
            Some(at) => self.channels[at] = Some(channel),
            None => self.channels.push(Some(channel)),
        }
        if self.phase == Phase::Connecting(service) {
            self.on_service(now, service, at);
        }
        self.pump(now);
        Connection(at)
    }

    /// A connection that an event asked for could not be opened.
    pub fn refused(&mut self, now: Nanoseconds, service: Service) {
        if self.phase == Phase::Connecting(service) {
            match service {
                // Without a port mapper MOUNT may still be served where NFS is.
                Service::Portmap => self.want(now, Service::Mount, self.config.port),
                _ => self.fail(ClientError::NoConnection(service)),
            }
        }
        self.pump(now);
    }

    /// A connection ended. Its calls wait until it is [opened again](Self::reopened).
    pub fn closed(&mut self, now: Nanoseconds, connection: Connection) {
        let at = connection.0;
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
        if self.step() == Some(Step::GetPort) {
            self.drop_calls(|call| call.by == By::Client(Step::GetPort));
            self.want(now, Service::Mount, self.config.port);
            self.pump(now);
        }
    }

    /// A connection was opened anew: its calls are sent again, as they were.
    pub fn reopened(&mut self, now: Nanoseconds, connection: Connection) {
        if let Some(Some(channel)) = self.channels.get_mut(connection.0) {
            channel.is_up = true;
            self.pump(now);
        }
    }

    /// A connection is not used any more: its calls are lost, and their slots.
    pub fn abandon(&mut self, now: Nanoseconds, connection: Connection) {
        self.closed(now, connection);
        self.drop_calls(|call| call.connection == connection.0);
        if let Some(place) = self.channels.get_mut(connection.0) {
            *place = None;
        }
        self.pump(now);
    }

    /// Takes a call, which leaves by this connection when it may; its xid.
    pub fn call(
        &mut self,
        now: Nanoseconds,
        connection: Connection,
        tag: u64,
        credential: &Credential,
        request: Request<'_>,
    ) -> Result<u32, CallError> {
        if matches!(self.phase, Phase::Closing(_) | Phase::Over) {
            return Err(CallError::Over);
        }
        let xid = self.add(connection.0, By::Caller(tag), credential, request)?;
        self.pump(now);
        Ok(xid)
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

    /// Appends what is to be sent by a connection: of a stream all there is, of datagrams the next.
    /// False: nothing.
    pub fn transmit(&mut self, connection: Connection, out: &mut Vec<u8>) -> bool {
        let channel = self.channels.get_mut(connection.0).and_then(Option::as_mut);
        channel.is_some_and(|channel| channel.transmit(out))
    }

    /// Takes bytes of a connection, or a datagram; `each` gets the replies that end in them. After
    /// an error the connection is worth nothing: it is to be closed.
    pub fn on_bytes(
        &mut self,
        now: Nanoseconds,
        connection: Connection,
        bytes: &[u8],
        mut each: impl FnMut(Reply<'_>),
    ) -> Result<(), Broken> {
        let at = connection.0;
        let Some(channel) = self.channels.get_mut(at).and_then(Option::as_mut) else {
            return Err(Broken);
        };
        let heard = match channel.transport {
            Transport::Datagrams => self.on_message(now, at, bytes, &mut each),
            Transport::Stream => {
                let limits = Limits {
                    head: self.config.reply_bytes_max as usize,
                    record: self.config.reply_bytes_max.into(),
                };
                let mut records = std::mem::take(&mut channel.records);
                let mut heads = std::mem::take(&mut channel.heads);
                let heard = records.push(bytes, &mut heads, limits, |message, _| {
                    self.on_message(now, at, message, &mut each)
                });
                if let Some(Some(channel)) = self.channels.get_mut(at) {
                    (channel.records, channel.heads) = (records, heads);
                }
                heard
            }
        };
        self.pump(now);
        heard
    }

    fn on_message(
        &mut self,
        now: Nanoseconds,
        at: usize,
        message: &[u8],
        each: &mut dyn FnMut(Reply<'_>),
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
                    each(Reply {
                        tag: None,
                        xid,
                        answer,
                    });
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
        match call.by {
            By::Caller(tag) => each(Reply {
                tag: Some(tag),
                xid,
                answer,
            }),
            By::Nobody => each(Reply {
                tag: None,
                xid,
                answer,
            }),
            By::Client(step) => self.on_own(now, at, step, answer),
        }
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

    /// Gives up calls, whose slots and numbers are not used again.
    pub(crate) fn drop_where(&mut self, is_own: bool) {
        self.drop_calls(|call| matches!(call.by, By::Client(_)) == is_own);
    }

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

    /// When [`on_time`](Self::on_time) is to be called next; calling it earlier is harmless.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let timeout = self.timeouts.front().map(|&(at, _)| at);
        [timeout, self.renewal()].into_iter().flatten().min()
    }

    /// Renews the lease, and reports calls that were not answered in time.
    pub fn on_time(&mut self, now: Nanoseconds) {
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
        if self.renewal().is_some_and(|at| at <= now) {
            self.renew();
        }
        self.pump(now);
    }

    pub(crate) fn fail(&mut self, error: ClientError) {
        if self.phase != Phase::Over {
            self.phase = Phase::Over;
            self.events.push_back(Event::Failed(error));
        }
    }
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
