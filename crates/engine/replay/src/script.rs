//! A workload as a trace shows it: calls, and what each waits for.
//!
//! Calls lie on a shelf, one behind the other: of each a head, which says when it may be made, and
//! a body with its arguments, which is read when that time has come.

use std::io;

use hashbrown::HashMap;
use lineside_plan::{Begin, CallIndex, EdgeKind, Step};

use crate::call::{Call, ConnectionId, FileId, LeftOut, Path, Program};
use crate::code::Coded;
use crate::own::Shown;
use crate::shelf::{Forward, Shelf};

/// Why a call waits for an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waits {
    /// As the plan has it.
    Plan(EdgeKind),
    /// It uses a file or a state that the other has named. A plan has edges from other threads for
    /// the first use alone: the rest is the order of threads, which open loop has not, nor a call
    /// at a time of day.
    Named,
}

const WAITS: [Waits; 4] = [
    Waits::Plan(EdgeKind::Resource),
    Waits::Plan(EdgeKind::Trigger),
    Waits::Plan(EdgeKind::Window),
    Waits::Named,
];

/// An earlier call whose reply a call waits for.
pub type Edge = (CallIndex, Waits);

/// When a call may be made, and where the rest of it is.
#[derive(Debug, Clone)]
pub struct Head {
    /// Its place among the calls.
    pub index: CallIndex,
    /// When it was made.
    pub call_ns: i64,
    /// Its connection.
    pub connection: ConnectionId,
    /// Its client.
    pub client: u32,
    /// What it is part of; `None`: it opens its connection.
    pub program: Option<Program>,
    /// It is not made.
    pub is_left_out: bool,
    /// It had a reply.
    pub is_answered: bool,
    /// Bytes of its WRITEs.
    pub write_bytes: u32,
    /// What it waits for.
    pub step: Step,
    /// What else.
    pub edges: Vec<Edge>,
    /// Where its body is, and how long.
    pub body: (u64, u32),
}

impl Head {
    pub(crate) fn put(&self, first_ns: i64, out: &mut Vec<u8>) {
        let back = |call: CallIndex| self.index - call;
        let flags = u64::from(self.is_left_out) | u64::from(self.is_answered) << 1;
        (flags | (self.edges.len() as u64) << 2).put(out);
        (self.call_ns - first_ns).put(out);
        self.connection.put(out);
        self.client.put(out);
        self.program.put(out);
        self.write_bytes.put(out);
        self.step.thread.put(out);
        let (back_to, ns) = match self.step.begin {
            Begin::At(ns) => (0, ns),
            Begin::After { call, think_ns } => (back(call), think_ns),
        };
        (back_to, ns).put(out);
        for &(from, waits) in &self.edges {
            let place = WAITS.iter().position(|it| *it == waits);
            (u64::from(back(from)) << 2 | place.unwrap_or_default() as u64).put(out);
        }
    }

    fn take(from: &mut &[u8], index: CallIndex, first_ns: i64) -> Option<Self> {
        let flags = u64::take(from)?;
        let back = |distance: u64| index.checked_sub(CallIndex::try_from(distance).ok()?);
        let (call_ns, connection) = Coded::take(from)?;
        let (client, program) = Coded::take(from)?;
        let (write_bytes, thread) = Coded::take(from)?;
        let begin = match <(u64, i64)>::take(from)? {
            (0, ns) => Begin::At(ns),
            (distance, think_ns) => Begin::After {
                call: back(distance)?,
                think_ns,
            },
        };
        let edges = (0..flags >> 2).map(|_| {
            let edge = u64::take(from)?;
            Some((back(edge >> 2)?, WAITS[(edge & 3) as usize]))
        });
        Some(Self {
            index,
            call_ns: first_ns.checked_add(call_ns)?,
            connection,
            client,
            program,
            is_left_out: flags & 1 != 0,
            is_answered: flags & 2 != 0,
            write_bytes,
            step: Step { thread, begin },
            edges: edges.collect::<Option<_>>()?,
            body: (0, 0),
        })
    }
}

/// What was seen of all calls while they were written.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Calls without openings.
    pub calls: u64,
    /// When the first call was made, and the last one.
    pub span_ns: Option<(i64, i64)>,
    /// The user of the first call that has one.
    pub user: Option<(u32, u32)>,
    /// The greatest minor version, if most calls are of NFSv4.
    pub minor_version: Option<u32>,
    /// Files that calls use before a reply named them, in the order of their first use.
    pub needed: Vec<FileId>,
    /// Directories that a client of NFSv4 passes on its way from the root of the server, before the
    /// trace makes any: no mount names them.
    pub ways: Vec<(u32, Path)>,
}

/// A workload. [`Writer`](crate::Writer) writes it.
#[derive(Debug)]
pub struct Script {
    pub(crate) shelf: Box<dyn Shelf>,
    /// Where each [`BLOCK_CALLS`]th call begins, and where the last one ends.
    pub(crate) places: Vec<u64>,
    pub(crate) len: CallIndex,
    /// What was seen of all calls.
    pub survey: Survey,
    /// By `operation_id`: values of the server's own which its reply has, and which VERIFYs
    /// compare.
    pub shown: HashMap<i64, Vec<Shown>>,
    /// Files by directory and name, as the trace reports them.
    pub names: HashMap<(FileId, Box<[u8]>), FileId>,
    /// What the clients mounted.
    pub roots: Vec<FileId>,
    /// The roots of the servers of NFSv4, as paths below the directory.
    pub tops: Vec<Path>,
    /// Where what was mounted is, and files that were there before, below the directory: as the
    /// trace's image has them.
    pub paths: HashMap<FileId, Path>,
    /// What it has not.
    pub left_out: LeftOut,
}

/// Calls whose place is known.
pub(crate) const BLOCK_CALLS: CallIndex = 64;
/// Bytes of the two lengths before a head and its body.
const LENS: usize = 8;

/// Heads one after the other.
#[derive(Debug)]
pub struct Heads<'a> {
    bytes: Forward<'a>,
    next: CallIndex,
    first_ns: i64,
}

impl Heads<'_> {
    /// The next one; `None`: there is no more.
    pub fn read(&mut self) -> io::Result<Option<Head>> {
        if self.bytes.is_over() {
            return Ok(None);
        }
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let at = self.bytes.at();
        let lens = self.bytes.peek(LENS)?.first_chunk::<LENS>().copied();
        let [a, b, c, d, e, f, g, h] = lens.ok_or_else(damaged)?;
        let head_len = u32::from_le_bytes([a, b, c, d]) as usize;
        let body_len = u32::from_le_bytes([e, f, g, h]);
        let bytes = self.bytes.peek(LENS + head_len)?;
        let head = bytes.get(LENS..).filter(|head| head.len() == head_len);
        let head = head.and_then(|mut head| Head::take(&mut head, self.next, self.first_ns));
        let mut head = head.ok_or_else(damaged)?;
        let before = (LENS + head_len) as u64;
        head.body = (at + before, body_len);
        self.bytes.skip(before + u64::from(body_len));
        self.next += 1;
        Ok(Some(head))
    }
}

impl Script {
    /// Calls and openings.
    pub fn len(&self) -> CallIndex {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the first call was made.
    pub fn first_ns(&self) -> i64 {
        self.survey.span_ns.map_or(0, |(first_ns, _)| first_ns)
    }

    /// All heads, in the order in which calls were made.
    pub fn heads(&self) -> Heads<'_> {
        self.heads_from(0, self.places.len().saturating_sub(1))
    }

    fn heads_from(&self, block: usize, end: usize) -> Heads<'_> {
        let place = |block: usize| self.places.get(block).copied().unwrap_or(0);
        Heads {
            bytes: Forward::new(&*self.shelf, place(block)..place(end)),
            next: block as CallIndex * BLOCK_CALLS,
            first_ns: self.first_ns(),
        }
    }

    /// Gives `each` all heads, the last first.
    pub(crate) fn backwards(&self, mut each: impl FnMut(Head) -> io::Result<()>) -> io::Result<()> {
        for block in (0..self.places.len().saturating_sub(1)).rev() {
            let (mut heads, mut all) = (self.heads_from(block, block + 1), Vec::new());
            while let Some(head) = heads.read()? {
                all.push(head);
            }
            all.into_iter().rev().try_for_each(&mut each)?;
        }
        Ok(())
    }

    /// A call, whose body is there.
    pub fn call(&self, (at, len): (u64, u32)) -> io::Result<Call> {
        let mut bytes = vec![0; len as usize];
        self.shelf.read_at(at, &mut bytes)?;
        Call::decode(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}
