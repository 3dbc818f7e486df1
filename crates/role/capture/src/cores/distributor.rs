//! The reader's side: which frame goes to which pipeline, and how many batches may be under way.

use std::net::IpAddr;
use std::sync::mpsc::Receiver;

use lineside_account::{Budget, Counter, Counters};
use lineside_actor::{Address, Guest, Handle, Stopped};
use lineside_flow::{Fragments, Whole};
use lineside_frame::{Burst, Frame, FrameRef, LinkType};
use lineside_operations::Waiting;
use lineside_rows::LossRow;
use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::udp::{self, Datagram};
use lineside_wire::{Dissected, FourTuple, PROTOCOL_TCP, PROTOCOL_UDP, ipv4};

use super::batch::{Batch, Item, ToSink};
use crate::arrivals::{Arrivals, Span};
use crate::pipeline::dissect;

/// Most frames of a batch: enough to pay for its messages, few enough that the batches under way
/// fit in a cache.
const BATCH_FRAMES: usize = 128;
/// Most bytes of a batch's frames: half a block of a reader, so that few batches cannot pin a pool.
const BATCH_FRAME_BYTES: usize = 256 << 10;

/// Deals frames to pipelines. Both directions of a connection go to the same one, whole packets
/// only: fragments are put together here, at the moments at which a single pipeline would do it.
pub(super) struct Distributor {
    pub(super) handle: Handle,
    pub(super) pipelines: Vec<Share>,
    pub(super) sinks: Vec<Address<ToSink>>,
    /// Batches that come back.
    pub(super) returned: Receiver<Box<Batch>>,
    #[expect(clippy::vec_box, reason = "they travel in their boxes")]
    pub(super) free: Vec<Box<Batch>>,
    /// Batches that may still be made. So many as there are pipelines exist from the start: more
    /// are never open at once, so that one is under way whenever one is waited for.
    pub(super) to_make: usize,
    pub(super) under_way: usize,
    /// A simulated run begins when all is dealt: until then nothing comes back.
    pub(super) is_simulated: bool,
    pub(super) budget: Budget,
    pub(super) arrivals: Arrivals,
    pub(super) fragments: Fragments,
    /// Of what is counted here; pipelines count the rest.
    pub(super) counters: Counters,
    pub(super) wants_packets: bool,
    pub(super) ending: bool,
    /// The time that every pipeline got last while no frame came.
    pub(super) sent_time_ns: i64,
    /// Data goes without checksums.
    pub(super) is_relieved: bool,
    /// Runs actors where the reader would wait for them. Dropped after the handle, since it then
    /// runs them to the end.
    pub(super) guest: Option<Guest>,
}

/// Pipelines get the time this often while no frame comes.
const TIME_PERIOD_NS: i64 = 1_000_000_000;

/// A pipeline as the reader sees it.
pub(super) struct Share {
    pub(super) to: Address<Box<Batch>>,
    /// The batch that is being filled.
    pub(super) open: Option<Box<Batch>>,
    /// As of the last batch that came back.
    pub(super) counters: Counters,
    /// What waits for replies in it, as of then.
    pub(super) waiting: Waiting,
}

/// The run has ended before its input: an actor failed.
pub(super) struct Ended;

impl<M> From<Stopped<M>> for Ended {
    fn from(_: Stopped<M>) -> Self {
        Self
    }
}

impl Distributor {
    /// Takes a burst; it is empty afterwards.
    pub(super) fn on_burst(&mut self, burst: &mut Burst) -> Result<(), Ended> {
        burst
            .drain(..)
            .map(Frame::share)
            .try_for_each(|frame| self.on_frame(frame))
    }

    /// No frame came, and all that come have arrived after `until_ns`: nothing waits for more.
    pub(super) fn on_idle(&mut self, until_ns: i64) -> Result<(), Ended> {
        let now = self.arrivals.on_idle(until_ns);
        self.deal_overdue(now)?;
        self.flush()?;
        self.collect();
        if now.saturating_sub(self.sent_time_ns) < TIME_PERIOD_NS || self.is_simulated {
            return Ok(());
        }
        self.sent_time_ns = now;
        for pipeline in 0..self.pipelines.len() {
            let batch = self.batch()?;
            self.send(pipeline, batch)?;
        }
        Ok(())
    }

    /// A row of frames that a port dropped.
    pub(super) fn on_loss(&mut self, row: &LossRow) -> Result<(), Ended> {
        self.deal(0, 0, Item::Loss(Box::new(row.clone())))
    }

    fn deal_overdue(&mut self, now: i64) -> Result<(), Ended> {
        if !self.fragments.is_empty() {
            while let Some(whole) = self.fragments.overdue(now, false, &mut self.counters) {
                self.deal_whole(now, whole)?;
            }
        }
        Ok(())
    }

    fn on_frame(&mut self, frame: FrameRef) -> Result<(), Ended> {
        let now = self.arrivals.on_frame(&frame, &mut self.counters);
        self.deal_overdue(now)?;
        let len = frame.bytes().len();
        let pipelines = self.pipelines.len();
        if let Some(hash) = usual_hash(&frame) {
            return self.deal(place(hash, pipelines), len, Item::Frame(now, frame));
        }
        let dissected = dissect(&frame);
        if frame.descriptor().damaged {
            // Counted by a pipeline, and part of nothing.
            return self.deal(0, len, Item::Frame(now, frame));
        }
        if let Dissected::Fragment(ip, fragment) = &dissected {
            let counters = &mut self.counters;
            let outcome = self
                .fragments
                .on_fragment(now, ip, fragment, &frame, counters);
            counters.count(outcome);
            while let Some(whole) = self.fragments.done(now, &mut self.counters) {
                self.deal_whole(now, whole)?;
            }
            if !self.wants_packets {
                return Ok(());
            }
            return self.deal(0, len, Item::Fragment(frame, outcome));
        }
        self.deal(
            share(tuple(&dissected), pipelines),
            len,
            Item::Frame(now, frame),
        )
    }

    fn deal_whole(&mut self, now: i64, whole: Whole) -> Result<(), Ended> {
        let dissected = whole.dissected().unwrap_or(Dissected::NotIp);
        let pipeline = share(tuple(&dissected), self.pipelines.len());
        self.deal(
            pipeline,
            whole.held_len(),
            Item::Whole(now, Box::new(whole)),
        )
    }

    fn deal(&mut self, pipeline: usize, len: usize, item: Item) -> Result<(), Ended> {
        if self.pipelines[pipeline].open.is_none() {
            self.pipelines[pipeline].open = Some(self.batch()?);
        }
        let open = &mut self.pipelines[pipeline].open;
        if let Some(batch) = open {
            batch.items.push(item);
            batch.bytes += len;
            if batch.items.len() < BATCH_FRAMES && batch.bytes < BATCH_FRAME_BYTES {
                return Ok(());
            }
        }
        match open.take() {
            Some(batch) => self.send(pipeline, batch),
            None => Ok(()),
        }
    }

    /// An empty batch; waits for one if all are under way.
    fn batch(&mut self) -> Result<Box<Batch>, Ended> {
        loop {
            self.collect();
            if let Some(batch) = self.free.pop() {
                return Ok(batch);
            }
            if self.to_make > 0 {
                self.to_make -= 1;
                if let Some(batch) = Batch::new(&self.budget) {
                    return Ok(batch);
                }
                // The others have to do.
                self.to_make = 0;
            }
            if self.is_simulated {
                return Ok(Box::default());
            }
            self.wait()?;
        }
    }

    /// Waits until a batch comes back, or lends the actors a hand.
    fn wait(&mut self) -> Result<(), Ended> {
        let Some(guest) = &mut self.guest else {
            let batch = self.returned.recv().map_err(|_| Ended)?;
            self.on_returned(batch);
            return Ok(());
        };
        let mut came = self.returned.try_recv().ok();
        while came.is_none() {
            if guest.has_ended() {
                return Err(Ended);
            }
            if guest.work() {
                came = self.returned.try_recv().ok();
            } else {
                guest.wait(|| {
                    came = self.returned.try_recv().ok();
                    came.is_some()
                });
            }
        }
        came.into_iter().for_each(|batch| self.on_returned(batch));
        Ok(())
    }

    fn on_returned(&mut self, mut batch: Box<Batch>) {
        self.under_way -= 1;
        // Batches of a pipeline come back in the order in which they went.
        let share = &mut self.pipelines[batch.pipeline];
        share.counters.clone_from(&batch.counters);
        share.waiting = batch.waiting;
        batch.clear();
        (batch.spill, batch.close_from) = (false, None);
        self.free.push(batch);
    }

    fn send(&mut self, pipeline: usize, mut batch: Box<Batch>) -> Result<(), Ended> {
        batch.pipeline = pipeline;
        batch.now = self.arrivals.now();
        batch.ending = self.ending;
        batch.is_relieved = self.is_relieved;
        self.under_way += 1;
        self.handle.send(&self.pipelines[pipeline].to, batch)?;
        Ok(())
    }

    /// Sends what is open, however little.
    pub(super) fn flush(&mut self) -> Result<(), Ended> {
        for pipeline in 0..self.pipelines.len() {
            if let Some(batch) = self.pipelines[pipeline].open.take() {
                self.send(pipeline, batch)?;
            }
        }
        Ok(())
    }

    /// The port has no free block left: waits until frames come back, or makes the pipelines let go
    /// of those that they hold. To be called until the port has one.
    pub(super) fn relieve(&mut self) -> Result<(), Ended> {
        let spilled = self.fragments.spill();
        self.counters.add(Counter::RangesSpilled, spilled as u64);
        self.flush()?;
        if self.under_way > 0 && !self.is_simulated {
            return self.wait();
        }
        for pipeline in 0..self.pipelines.len() {
            let mut batch = self.batch()?;
            batch.spill = true;
            self.send(pipeline, batch)?;
        }
        self.drain()
    }

    /// The input has ended: everything that waits becomes rows.
    pub(super) fn finish(&mut self) -> Result<(), Ended> {
        self.ending = true;
        self.flush()?;
        let now = self.arrivals.now();
        while let Some(whole) = self.fragments.overdue(now, true, &mut self.counters) {
            self.deal_whole(now, whole)?;
        }
        self.flush()?;
        for pipeline in 0..self.pipelines.len() {
            let mut batch = self.batch()?;
            batch.close_from = Some(0);
            self.send(pipeline, batch)?;
        }
        self.drain()
    }

    pub(super) fn settle(&mut self) -> Result<(), Ended> {
        self.flush()?;
        self.tell_sinks(false)
    }

    /// Lets sinks settle, for the last time if every batch has come back.
    pub(super) fn tell_sinks(&mut self, is_last: bool) -> Result<(), Ended> {
        for sink in &self.sinks {
            self.handle.send(sink, ToSink::Settle(is_last))?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Ended> {
        while self.under_way > 0 && !self.is_simulated {
            self.wait()?;
        }
        Ok(())
    }

    /// Takes what has come back: after a simulated run, all.
    pub(super) fn collect(&mut self) {
        while let Ok(batch) = self.returned.try_recv() {
            self.on_returned(batch);
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let mut sum = self.counters.clone();
        for share in &self.pipelines {
            sum.merge(&share.counters);
        }
        sum
    }

    pub(super) fn waiting(&self) -> Waiting {
        let mut sum = Waiting::default();
        self.pipelines
            .iter()
            .for_each(|share| sum.add(share.waiting));
        sum
    }

    pub(super) fn spans(&self) -> &[Span] {
        self.arrivals.spans()
    }
}

/// The ends by which a frame is dealt: of TCP by address and port, of UDP by port alone, since a
/// reply may come from another address than its call went to. `None`: the frame belongs to no
/// connection.
fn tuple(dissected: &Dissected) -> Option<FourTuple> {
    match dissected {
        Dissected::Tcp(ip, tcp) => Some(FourTuple::of(ip, tcp.source_port, tcp.destination_port)),
        Dissected::Udp(_, udp) => {
            let ports = [udp.source_port, udp.destination_port];
            Some(FourTuple::of_ipv4([0; 2], ports))
        }
        _ => None,
    }
}

/// The [`hash`] of most frames, at a glance: IPv4 without options and whole, right after an
/// Ethernet header.
#[inline]
fn usual_hash(frame: &FrameRef) -> Option<u64> {
    const TRANSPORT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    const PORTS_LEN: usize = udp::field::LEN;
    let header = frame.bytes().first_chunk::<{ TRANSPORT + PORTS_LEN }>()?;
    let packet = ipv4::Packet::new_unchecked(&header[ethernet::HEADER_LEN..TRANSPORT]);
    // TCP has its ports at the same place.
    let transport = Datagram::new_unchecked(&header[TRANSPORT..]);
    let is_usual = frame.descriptor().link_type == LinkType::ETHERNET
        && ethernet::Frame::new_unchecked(header).ether_type() == ether_type::IPV4
        && packet.is_plain()
        && !packet.is_fragment();
    let (source, destination) = (transport.source_port(), transport.destination_port());
    let (from, to) = match packet.protocol() {
        PROTOCOL_TCP => (packet.source().to_bits(), packet.destination().to_bits()),
        PROTOCOL_UDP if !lineside_wire::may_be_tunnel([source, destination]) => (0, 0),
        _ => return None,
    };
    let sum = number(from.into(), source).wrapping_add(number(to.into(), destination));
    is_usual.then(|| mix(sum))
}

/// Which of this many pipelines has the connection: both directions alike. Frames of no connection
/// go to the first one.
fn share(tuple: Option<FourTuple>, pipelines: usize) -> usize {
    place(hash(tuple), pipelines)
}

/// The same number for both directions of a connection.
fn hash(tuple: Option<FourTuple>) -> u64 {
    let [one, other] = tuple.map_or([0; 2], |tuple| {
        tuple.ends().map(|end| {
            let bits = match end.address {
                IpAddr::V4(address) => u64::from(address.to_bits()),
                IpAddr::V6(address) => {
                    let bits = address.to_bits();
                    mix(bits as u64) ^ (bits >> 64) as u64
                }
            };
            number(bits, end.port)
        })
    });
    mix(one.wrapping_add(other))
}

/// The upper bits are the well mixed ones (Lemire, Fast random integer generation in an interval,
/// 2019).
fn place(hash: u64, pipelines: usize) -> usize {
    ((u128::from(hash) * pipelines as u128) >> 64) as usize
}

/// An end as a number.
fn number(address: u64, port: u16) -> u64 {
    mix(address ^ u64::from(port) << 48)
}

/// SplitMix64's finalizer (Steele, Lea and Flood 2014).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;
    use lineside_wire::build::{FrameBuilder, TcpFields};

    use super::*;

    #[test]
    fn both_directions_meet_and_connections_spread() {
        let (client, server) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let share_of = |from: (IpAddr, u16), to: (IpAddr, u16)| {
            let fields = TcpFields {
                source_port: from.1,
                destination_port: to.1,
                ..TcpFields::default()
            };
            let bytes = FrameBuilder::new(from.0, to.0).tcp(&fields, b"x");
            let descriptor = Descriptor {
                wire_len: bytes.len() as u32,
                link_type: LinkType::ETHERNET,
                ..Descriptor::default()
            };
            let frame = Frame::copied(&bytes, descriptor).share();
            let dissected = tuple(&dissect(&frame)).expect("a connection");
            let usual = usual_hash(&frame).expect("a usual frame");
            assert_eq!(usual, hash(Some(dissected)), "at a glance as by dissection");
            place(usual, 4)
        };
        let mut counts = [0; 4];
        for port in 600..1000 {
            let there = share_of((client, port), (server, 2049));
            assert_eq!(there, share_of((server, 2049), (client, port)));
            counts[there] += 1;
        }
        assert!(
            counts.iter().all(|count| (70..=130).contains(count)),
            "{counts:?}"
        );
    }
}
