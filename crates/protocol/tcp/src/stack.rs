//! The stack: what it holds, and what its owner calls.

use std::net::IpAddr;

use lineside_account::{Budget, Lease};
use lineside_frame::{Burst, Cutter, SharedBurst};
use lineside_time::{Nanoseconds, Wheel};
use lineside_wire::SeqNumber;

use crate::config::Config;
use crate::counters::Counters;
use crate::effects::{Closed, ConnectionId, Departure, Effects, Why};
use crate::fragments::Fragments;
use crate::ip::is_unicast;
use crate::neighbours::Neighbours;
use crate::ports::{Ports, Refused};
use crate::record::{RESTS, Record, State, flag};
use crate::siphash::siphash;
use crate::slab::NONE;
use crate::tables::{Found, Tables};

/// Blocks from which frames are cut.
const BLOCK_BYTES: usize = 256 << 10;
/// Frames under way at once: 16 MiB of them.
const BLOCKS_MAX: usize = 64;
/// Where ports are chosen from: RFC 6335, 6.
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// A TCP endpoint: see the crate.
#[derive(Debug)]
pub struct Stack {
    pub(crate) config: Config,
    pub(crate) secret: [u64; 2],
    pub(crate) tables: Tables,
    pub(crate) wheel: Wheel,
    pub(crate) neighbours: Neighbours<[u8; 6], Departure>,
    pub(crate) cutter: Cutter,
    pub(crate) counters: Counters,
    /// Who takes connections, and who takes datagrams.
    pub(crate) listeners: Ports,
    pub(crate) sockets: Ports,
    pub(crate) fragments: Fragments,
    /// Connections that the burst touched and that may have something to send.
    pub(crate) touched: Vec<u32>,
    /// The latest time that was given; never goes back.
    pub(crate) now: Nanoseconds,
    /// The first one.
    pub(crate) began: Option<Nanoseconds>,
    /// Bytes held out of order count as these.
    pub(crate) held_bytes: usize,
    /// What the segment that is being read brought twice: RFC 2883.
    pub(crate) duplicate: Option<(SeqNumber, SeqNumber)>,
    /// The second of the challenges that are counted, and how many more it may have.
    pub(crate) challenges: (i64, u32),
    /// Connections of listeners in SYN-RECEIVED.
    pub(crate) half_open: u32,
    /// The second of the ICMP errors that are counted, and how many it had.
    pub(crate) errors_sent: (i64, u32),
    /// When a cookie was sent last: without one, no acknowledgement can carry any.
    pub(crate) cookie_at: Option<Nanoseconds>,
    /// Chosen for the next connection without a port.
    next_port: u16,
    /// What grows with the connections and belongs to no table.
    lease: Lease,
}

impl Stack {
    /// A stack without connections, whose tables are drawn on `budget`. `secret` is what strangers
    /// must not know: it keeps them from guessing sequence numbers and ports. `None` if not even
    /// the smallest tables fit.
    pub fn new(config: Config, secret: [u64; 2], budget: &Budget) -> Option<Self> {
        Some(Self {
            tables: Tables::new(&config, secret, budget)?,
            wheel: Wheel::new(),
            neighbours: Neighbours::new(config.neighbours_max, secret, budget)?,
            cutter: Cutter::new(BLOCK_BYTES, BLOCKS_MAX, budget)?,
            counters: Counters::default(),
            listeners: Ports::default(),
            sockets: Ports::default(),
            fragments: Fragments::default(),
            touched: Vec::new(),
            now: Nanoseconds::MIN,
            began: None,
            held_bytes: 0,
            duplicate: None,
            challenges: (0, 0),
            half_open: 0,
            errors_sent: (0, 0),
            cookie_at: None,
            next_port: siphash(secret, b"port") as u16,
            config,
            secret,
            lease: budget.lease(0)?,
        })
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Connections, those in TIME_WAIT apart.
    pub fn connections(&self) -> usize {
        self.tables.records.len()
    }

    /// Connections of which bytes are in flight or missing.
    pub fn active(&self) -> usize {
        self.tables.actives.len()
    }

    /// Connections in TIME_WAIT.
    pub fn time_waits(&self) -> usize {
        self.tables.time_waits.len()
    }

    /// Time passes: it never goes back.
    pub(crate) fn pass_time(&mut self, now: Nanoseconds) {
        self.now = self.now.max(now);
        self.began.get_or_insert(now);
    }

    /// Milliseconds since the stack began.
    pub(crate) fn age_ms(&self) -> i64 {
        self.now.saturating_sub(self.began.unwrap_or(self.now)) / 1_000_000
    }

    /// Frames arrived, each when its stamp says, or now. Their memory is free again when the
    /// reference to the last one that is held out of order is let go.
    pub fn on_burst(&mut self, now: Nanoseconds, burst: &mut Burst, effects: &mut impl Effects) {
        self.pass_time(now);
        let frames = SharedBurst::new(burst);
        self.on_frames(frames.iter(), effects);
        drop(frames);
        self.flush(effects);
    }

    /// What is due by `now` happens.
    pub fn on_timer(&mut self, now: Nanoseconds, effects: &mut impl Effects) {
        self.pass_time(now);
        while let Some((_, number)) = self.wheel.pop(now) {
            self.tables.records[number].timer = NONE;
            self.prepare_timers();
            self.on_connection_timer(number, effects);
        }
        self.end_waits();
        self.ask_again(effects);
        self.counters.reassembly_failed += self.fragments.expire(self.now);
        self.flush(effects);
    }

    /// Enters the Ethernet address of a neighbour, or of a router, for good: it is neither asked
    /// for nor doubted. For a stack whose host keeps ARP and neighbour discovery to itself; to be
    /// called before anything is sent there, as frames that wait for the address are dropped.
    /// `false` where there is no room for another neighbour.
    pub fn keep_neighbour(&mut self, address: IpAddr, link_address: [u8; 6]) -> bool {
        let dropped = self.neighbours.keep(address, link_address);
        self.counters.frames_unresolved += dropped.unwrap_or(0) as u64;
        dropped.is_some()
    }

    /// Asks for what timers need that fire soon: among many connections it is in no cache.
    #[inline]
    fn prepare_timers(&self) {
        /// Timers from now until one needs its record, and until it needs the larger one.
        const AHEAD: [usize; 2] = [8, 4];
        let [first, second] = AHEAD.map(|after| self.wheel.upcoming(after));
        if let Some(number) = first {
            self.tables.records.prefetch(number);
        }
        let record = second.and_then(|number| self.tables.records.get(number));
        if let Some(place) = record.and_then(Record::active) {
            self.tables.actives[place].prefetch();
        }
    }

    /// When [`on_timer`](Self::on_timer) is to be called at the latest; `None`: nothing is pending.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let [one, two, three, four] = [
            self.wheel.next_deadline(),
            self.next_wait_end(),
            self.neighbours.next_deadline(),
            self.fragments.next_deadline(),
        ]
        .map(|deadline| deadline.unwrap_or(Nanoseconds::MAX));
        let first = one.min(two).min(three).min(four);
        (first < Nanoseconds::MAX).then_some(first)
    }

    /// Takes connections at a port of one of the addresses, or of all. `owner` is the owner's word
    /// of each.
    pub fn listen(
        &mut self,
        address: Option<IpAddr>,
        port: u16,
        owner: u32,
    ) -> Result<(), Refused> {
        self.check_address(address)?;
        self.listeners.add(address, port, owner)
    }

    /// Takes no more connections there: RFC 9293, 3.10.4. Those whose handshake is not over are
    /// forgotten, and their peers hear so when they go on; those that are open stay.
    pub fn unlisten(&mut self, address: Option<IpAddr>, port: u16, effects: &mut impl Effects) {
        if !self.listeners.remove(address, port) {
            return;
        }
        // All records are looked at: a listener is closed once.
        let mut number = 0;
        while let Some(&record) = self.tables.records.get(number) {
            let is_half_open = record.state == State::SynReceived && record.has(flag::PASSIVE);
            if is_half_open && record.local_port == port {
                let [local, _] = self.ends_of(record.path);
                if self.listeners.owner(local, port).is_none() {
                    self.end(number, Closed::Aborted, effects);
                }
            }
            number += 1;
        }
    }

    /// An address of the stack, or all of them.
    pub(crate) fn check_address(&self, address: Option<IpAddr>) -> Result<(), Refused> {
        match address.filter(|&address| !self.config.is_ours(address)) {
            Some(address) => Err(Refused::NotOurs(address)),
            None => Ok(()),
        }
    }

    /// Whether packets may go from one address to the other.
    pub(crate) fn check_ends(&self, local: IpAddr, remote: IpAddr) -> Result<(), Refused> {
        self.check_address(Some(local))?;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(Refused::Families(local, remote));
        }
        if !is_unicast(remote) {
            return Err(Refused::NotUnicast(remote));
        }
        match self.config.next_hop(remote) {
            Some(_) => Ok(()),
            None => Err(Refused::NoRoute(remote)),
        }
    }

    /// Opens a connection from an address and port of the stack to another end: its first address
    /// if that is unspecified, any port if that is 0. `owner` is the owner's word.
    pub fn connect(
        &mut self,
        now: Nanoseconds,
        (local, local_port): (IpAddr, u16),
        (remote, remote_port): (IpAddr, u16),
        owner: u32,
        effects: &mut impl Effects,
    ) -> Result<ConnectionId, Refused> {
        self.pass_time(now);
        let local = match local.is_unspecified() {
            true => self
                .config
                .address_of_family(local.is_ipv4())
                .unwrap_or(local),
            false => local,
        };
        self.check_ends(local, remote)?;
        let path = self.tables.hold_path(local, remote).ok_or(Refused::Full)?;
        let port = self.free_port(path, local_port, remote_port);
        let number = port.and_then(|port| {
            let number = self.open(path, [port, remote_port], owner, State::SynSent);
            number.ok_or(Refused::Full)
        });
        let number = match number {
            Ok(number) => number,
            Err(refused) => {
                self.tables.release_path(path);
                return Err(refused);
            }
        };
        self.counters.active_opens += 1;
        self.send_syn(number, effects);
        Ok(ConnectionId(number))
    }

    /// The port, if it is free, or any that is.
    fn free_port(&mut self, path: u32, port: u16, remote_port: u16) -> Result<u16, Refused> {
        if port != 0 {
            let found = self.tables.find(path, port, remote_port);
            return found.map_or(Ok(port), |_| Err(Refused::InUse(port)));
        }
        // RFC 6056, 3.3.1, with one counter for all.
        let (first, last) = (*DYNAMIC_PORTS.start(), *DYNAMIC_PORTS.end());
        let count = last - first + 1;
        for _ in 0..count {
            self.next_port = self.next_port.wrapping_add(1);
            let port = first + self.next_port % count;
            if self.tables.find(path, port, remote_port).is_none() {
                return Ok(port);
            }
        }
        Err(Refused::NoPort)
    }

    /// A record for a connection whose path is held, with its [`Active`] record.
    pub(crate) fn open(
        &mut self,
        path: u32,
        [local_port, remote_port]: [u16; 2],
        owner: u32,
        state: State,
    ) -> Option<u32> {
        self.tables.reserve()?;
        let [local, remote] = self.ends_of(path);
        let iss = self.initial_sequence([(local, local_port), (remote, remote_port)]);
        let is_ipv4 = local.is_ipv4();
        let mss = self.config.mss(is_ipv4);
        let record = Record {
            path,
            local_port,
            remote_port,
            snd_una: iss,
            rcv_nxt: SeqNumber(0),
            rcv_adv: SeqNumber(0),
            iss,
            srtt: 0,
            rttvar: 0,
            ts_recent: 0,
            timer: NONE,
            place: RESTS,
            owner,
            high: 0,
            snd_wnd: 0,
            cwnd: 0,
            ssthresh: u16::MAX,
            mss,
            ts_recent_at: 0,
            flags: 0,
            scales: 0,
            state,
        };
        let number = self.tables.records.take(|| record)?;
        self.tables.records[number] = record;
        if self.activate(number).is_none() {
            self.tables.records.free(number);
            return None;
        }
        self.tables.enter(Found::Connection(number));
        Some(number)
    }

    /// `len` more bytes of the stream are ready to be sent.
    pub fn send(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        len: u64,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.send_due(now, connection, len, None, effects)
    }

    /// The same, with the instant at which they were to leave: [`Departure::due`] has it if they do
    /// so at once.
    ///
    /// [`Departure::due`]: crate::Departure::due
    pub fn send_at(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        len: u64,
        due: Nanoseconds,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.send_due(now, connection, len, Some(due), effects)
    }

    fn send_due(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        len: u64,
        due: Option<Nanoseconds>,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.pass_time(now);
        let number = self.sending(connection)?;
        self.activate(number).ok_or(Refused::Full)?;
        self.restart(number);
        self.begin_waiting(number);
        let active = self.both(number).1;
        // What waits already was held back.
        let waited = active.ready > 0;
        active.ready += len;
        let why = if waited { Why::HeldBack } else { Why::Data };
        self.output(number, why, due.filter(|_| !waited), effects);
        Ok(())
    }

    /// The owner has no more data: a FIN follows what is ready.
    pub fn shutdown(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.pass_time(now);
        let number = self.sending(connection)?;
        self.activate(number).ok_or(Refused::Full)?;
        self.begin_waiting(number);
        self.tables.records[number].set(flag::SHUT);
        if self.tables.records[number].state == State::SynSent {
            // RFC 9293, 3.10.4: nothing was sent that anybody waits for.
            self.end(number, Closed::Finished, effects);
            return Ok(());
        }
        self.output(number, Why::HeldBack, None, effects);
        Ok(())
    }

    /// What is to be sent waits from now on, unless something waits already.
    fn begin_waiting(&mut self, number: u32) {
        let now = self.now;
        let (record, active) = self.both(number);
        if !active.waits(record) {
            active.waits_since = now;
        }
    }

    /// The number of a connection that may send.
    fn sending(&self, connection: ConnectionId) -> Result<u32, Refused> {
        let number = self.known(connection).ok_or(Refused::Over)?;
        let is_over = self.tables.records[number].has(flag::SHUT);
        if is_over {
            Err(Refused::Over)
        } else {
            Ok(number)
        }
    }

    fn known(&self, ConnectionId(number): ConnectionId) -> Option<u32> {
        let record = self.tables.records.get(number)?;
        (record.state != State::Closed).then_some(number)
    }

    /// The owner wants nothing more: a FIN follows what is ready, and data that come from now on
    /// end the connection by a RST, since nobody takes them (RFC 9293, 3.6.1).
    pub fn close(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.pass_time(now);
        let number = self.known(connection).ok_or(Refused::Over)?;
        self.activate(number).ok_or(Refused::Full)?;
        self.tables.records[number].set(flag::CLOSED);
        if !self.tables.records[number].has(flag::SHUT) {
            return self.shutdown(now, connection, effects);
        }
        self.limit_fin_wait(number);
        self.settle(number);
        Ok(())
    }

    /// The connection ends at once: the peer gets a RST, and nothing is left.
    pub fn abort(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.pass_time(now);
        let number = self.known(connection).ok_or(Refused::Over)?;
        self.send_reset_of(number, effects);
        self.end(number, Closed::Aborted, effects);
        Ok(())
    }

    /// The owner takes this many more bytes from here on, and no others until the next call,
    /// instead of [`Config::receive_window_bytes`], which bounds it; with more than that it takes
    /// whatever comes again. What was offered stays offered (RFC 9293, 3.8.6).
    pub fn set_window(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        bytes: u32,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.pass_time(now);
        let number = self.known(connection).ok_or(Refused::Over)?;
        let whole = self.config.receive_window_bytes;
        let active = self.activate(number).ok_or(Refused::Full)?;
        active.rare_mut().rcv_wnd = bytes.min(whole);
        let record = &mut self.tables.records[number];
        match bytes > whole {
            true => record.clear(flag::WINDOW_SET),
            false => record.set(flag::WINDOW_SET),
        }
        if record.state.is_synchronized() {
            let offered = record.rcv_adv.distance_from(record.rcv_nxt).max(0) as u32;
            let opens = self.window_to_offer(number).saturating_sub(offered);
            // Silly windows are not offered: RFC 9293, 3.8.6.2.2. Other news than that of a window
            // that was nearly closed can wait for the next acknowledgement.
            let mss = u32::from(self.tables.records[number].mss);
            let step = match offered < 2 * mss {
                true => mss.min(whole / 2),
                false => bytes.min(whole) / 4,
            };
            if opens >= step.max(1) {
                self.tables.records[number].set(flag::ACK_NOW);
            }
            self.output(number, Why::HeldBack, None, effects);
        }
        Ok(())
    }

    /// Whether short segments of a connection wait while others are in flight, as
    /// [`Config::nagle`] says unless this does: RFC 9293, 3.7.4 (MUST-17).
    pub fn set_delay(
        &mut self,
        now: Nanoseconds,
        connection: ConnectionId,
        waits: bool,
        effects: &mut impl Effects,
    ) -> Result<(), Refused> {
        self.pass_time(now);
        let number = self.known(connection).ok_or(Refused::Over)?;
        let record = &mut self.tables.records[number];
        match waits {
            true => record.clear(flag::NO_DELAY),
            false => record.set(flag::NO_DELAY),
        }
        if record.state.is_synchronized() {
            self.output(number, Why::HeldBack, None, effects);
        }
        Ok(())
    }

    /// Copies everything held out of order out of its blocks, so that a port can use them again.
    pub fn spill(&mut self) {
        for active in self.tables.actives.iter_mut() {
            if !active.held().is_empty() {
                for held in &mut active.rare_mut().held {
                    held.range.spill();
                }
            }
        }
    }

    /// What the burst left to be sent.
    fn flush(&mut self, effects: &mut impl Effects) {
        let mut touched = std::mem::take(&mut self.touched);
        for number in touched.drain(..) {
            // It may be over, and its number even another's by now.
            if self.tables.records[number].state == State::Closed {
                continue;
            }
            self.tables.records[number].clear(flag::TOUCHED);
            self.output(number, Why::HeldBack, None, effects);
        }
        self.touched = touched;
        self.draw();
    }

    /// Draws on the budget what grew in this call. What lies outside the tables grows with them: if
    /// there is no room, neither will they grow.
    fn draw(&mut self) {
        let bytes = self.wheel.allocated_bytes()
            + self.touched.capacity() * size_of::<u32>()
            + self.listeners.allocated_bytes()
            + self.sockets.allocated_bytes()
            + self.fragments.allocated_bytes();
        if bytes > self.lease.bytes() {
            self.lease.resize(bytes);
        }
    }

    /// Something is to be sent when the burst is over.
    pub(crate) fn touch(&mut self, number: u32) {
        let record = &mut self.tables.records[number];
        if !record.has(flag::TOUCHED) {
            record.set(flag::TOUCHED);
            self.touched.push(number);
        }
    }
}
