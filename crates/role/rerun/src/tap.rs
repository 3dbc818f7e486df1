//! What passes the sockets of a run, as frames: so that its rows are made as a capture's are, and
//! nothing else decodes them.
//!
//! ```text
//!  Lines: opened, written, read, closed ─► Tap: TCP segments with those times ─► queue ─► FramePort
//! ```
//!
//! A segment is as long as what was written or read at once: there is no loss and no order but that
//! of the sockets. Segments of the network are not seen here.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::{Facts, Port, PortError, Receive, Received};
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};

/// Bytes of a segment: what an IP packet holds.
const SEGMENT_BYTES: usize = 60_000;
/// Frames are kept until the run has time for the wake-up of a thread, or there are so many bytes.
const KEPT_BYTES: usize = 1 << 20;
/// Batches that wait. When there are more, the run waits: rows are complete, and the wait is a
/// stall.
const BATCHES_MAX: usize = 32;
/// A thread that takes frames looks so often whether parts are to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// The end in the run.
pub struct Tap {
    queue: SyncSender<Vec<Frame>>,
    kept: Vec<Frame>,
    kept_bytes: usize,
    number: u64,
}

/// The other end.
pub struct FramePort {
    queue: Receiver<Vec<Frame>>,
    batch: std::vec::IntoIter<Frame>,
    facts: Facts,
}

/// A tap, and where its frames come out.
pub fn tap() -> (Tap, FramePort) {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let port = FramePort {
        queue: receiver,
        batch: Vec::new().into_iter(),
        facts: Facts {
            name: "sockets".to_owned(),
            format: "what was written and read".to_owned(),
            link_types: vec![LinkType::RAW],
            resolution_ns: Some(1),
            ..Facts::default()
        },
    };
    let tap = Tap {
        queue: sender,
        kept: Vec::new(),
        kept_bytes: 0,
        number: 0,
    };
    (tap, port)
}

/// A connection, as its tap numbers its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tapped {
    ends: [SocketAddr; 2],
    /// The next sequence numbers: of our end, and of the server.
    next: [u32; 2],
}

/// Which end sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Us = 0,
    Server = 1,
}

impl Tap {
    /// A connection is asked for.
    pub(crate) fn asked(&mut self, ends: [SocketAddr; 2], now: i64) -> Tapped {
        let mut tapped = Tapped { ends, next: [0; 2] };
        self.segment(&mut tapped, By::Us, now, TcpFlags::SYN, &[]);
        tapped
    }

    /// It is open.
    pub(crate) fn opened(&mut self, tapped: &mut Tapped, now: i64) {
        let both = TcpFlags::SYN | TcpFlags::ACK;
        self.segment(tapped, By::Server, now, both, &[]);
        self.segment(tapped, By::Us, now, TcpFlags::ACK, &[]);
    }

    /// Bytes passed.
    pub(crate) fn passed(&mut self, tapped: &mut Tapped, by: By, now: i64, bytes: &[u8]) {
        let flags = TcpFlags::ACK | TcpFlags::PSH;
        for bytes in bytes.chunks(SEGMENT_BYTES) {
            self.segment(tapped, by, now, flags, bytes);
        }
    }

    /// An end sends no more.
    pub(crate) fn ended(&mut self, tapped: &mut Tapped, by: By, now: i64) {
        self.segment(tapped, by, now, TcpFlags::FIN | TcpFlags::ACK, &[]);
    }

    fn segment(&mut self, tapped: &mut Tapped, by: By, now: i64, flags: TcpFlags, bytes: &[u8]) {
        let (one, other) = (by as usize, 1 - by as usize);
        let [source, destination] = [tapped.ends[one], tapped.ends[other]];
        let fields = TcpFields {
            source_port: source.port(),
            destination_port: destination.port(),
            sequence: tapped.next[one],
            acknowledgement: tapped.next[other],
            flags,
            ..TcpFields::default()
        };
        let takes_one = flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::FIN);
        let len = bytes.len() as u32 + u32::from(takes_one);
        tapped.next[one] = tapped.next[one].wrapping_add(len);
        let builder = FrameBuilder::new(source.ip(), destination.ip());
        let packet = builder.with_link_type(LinkType::RAW.0).tcp(&fields, bytes);
        self.number += 1;
        let descriptor = Descriptor {
            stamp_ns: Some(now),
            wire_len: packet.len() as u32,
            link_type: LinkType::RAW,
            number: self.number,
            ordinal: self.number,
            ..Descriptor::default()
        };
        self.kept_bytes += packet.len();
        self.kept.push(Frame::copied(&packet, descriptor));
        if self.kept_bytes >= KEPT_BYTES {
            self.pass_on();
        }
    }

    /// Frames that were kept go to whoever takes them, who may have ended, and says why.
    pub(crate) fn pass_on(&mut self) {
        if !self.kept.is_empty() {
            self.kept_bytes = 0;
            let _ = self.queue.send(std::mem::take(&mut self.kept));
        }
    }
}

impl Port for FramePort {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Receive for FramePort {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let mut taken = 0;
        while taken < max {
            match self.batch.next() {
                Some(frame) => {
                    self.facts.frames += 1;
                    self.facts.bytes += u64::from(frame.descriptor().wire_len);
                    burst.push(frame);
                    taken += 1;
                }
                None if taken > 0 => break,
                None => match self.queue.recv_timeout(PATIENCE) {
                    Ok(batch) => self.batch = batch.into_iter(),
                    Err(RecvTimeoutError::Timeout) => return Ok(Received::Interrupted),
                    Err(RecvTimeoutError::Disconnected) => return Ok(Received::End),
                },
            }
        }
        Ok(Received::Frames(taken))
    }

    fn leave(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }
}
