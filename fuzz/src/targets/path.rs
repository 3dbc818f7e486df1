//! The whole path: bytes of capture files to rows, with every check that needs no second opinion.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use lineside_account::{Budget, Counter, Counters, Kind};
use lineside_capture::{Config, Pipeline, PortRule, Step, Transport, run as drive};
use lineside_port::{CaptureReader, Merge, PoolConfig};
use lineside_rows::{RecordSink, RowRef, Table};
use twox_hash::XxHash3_64;

use super::{Bytes, Pieces};

/// Turns without a new frame after which the path is taken to hang.
const IDLE_TURNS_MAX: usize = 1000;

/// How a capture is run, besides its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) budget_bytes: usize,
    /// Bytes that a read returns at most.
    pub(crate) read_len: usize,
}

impl Setup {
    /// From three bytes of choices: ordinary bounds if they are 0, else bounds that are soon
    /// reached.
    pub(crate) fn new([limits, memory, read]: [u8; 3]) -> Self {
        let mut config = Config::default();
        let small = |bit: u8, ordinary: usize, small: usize| {
            if limits & (1 << bit) == 0 {
                ordinary
            } else {
                small
            }
        };
        config.flow.connections_max = small(0, config.flow.connections_max, 2);
        config.flow.flow_held_max_bytes = small(1, config.flow.flow_held_max_bytes, 3000);
        config.flow.fragments_held_max_bytes = small(2, config.flow.fragments_held_max_bytes, 4000);
        config.flow.late_segments = small(3, config.flow.late_segments as usize, 2) as u64;
        config.record.message_held_max_bytes = small(4, config.record.message_held_max_bytes, 2000);
        config.record.search_held_max_bytes = small(5, config.record.search_held_max_bytes, 5000);
        config.outstanding_max = small(6, config.outstanding_max, 3);
        config.answered_max = small(7, config.answered_max, 1);
        config.facts_max = small(7, config.facts_max, 5);
        if memory & 0x80 != 0 {
            let rules = &mut config.decode_as;
            rules.ports = vec![(Transport::Tcp, 0..=u16::MAX, PortRule::Rpc)];
            rules.programs = vec![(100_005, 100_003), (0x2000_0003, 0x4000_0000)];
        }
        Self {
            config,
            budget_bytes: [32 << 20, 4 << 20, 1 << 20, (1 << 20) + 10_000][usize::from(memory % 4)],
            read_len: [usize::MAX, 1, 17, 1000][usize::from(read % 4)],
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) counters: Counters,
    /// Of all rows, in whatever order they came.
    pub(crate) hash: u64,
    pub(crate) operations: usize,
    /// The first thing that is wrong.
    pub(crate) fault: Option<String>,
}

impl Outcome {
    /// Whether a bound was reached, so that the rows depend on more than the bytes.
    pub(crate) fn is_limited(&self) -> bool {
        self.counters.sum(Kind::Limit) > 0
            || self.counters.value(Counter::HolesGivenUp) > 0
            || self.counters.value(Counter::DroppedConnections) > 0
    }
}

/// Runs the files through the whole path. Those that are no captures are left out.
pub(crate) fn capture(files: &[Arc<[u8]>], setup: &Setup) -> Outcome {
    // Each input takes two blocks at least.
    let budget = Budget::new(setup.budget_bytes * files.len());
    let pool = PoolConfig::new(budget.clone(), setup.budget_bytes / 4);
    let readers = files.iter().enumerate().filter_map(|(input, bytes)| {
        let source = Pieces {
            bytes: Arc::clone(bytes),
            read: 0,
            len_max: setup.read_len,
        };
        let name = format!("input {input}");
        let reader = CaptureReader::new(Box::new(source), &name, &pool).ok()?;
        Some(reader)
    });
    let mut port = Merge::new(readers);
    let mut pipeline = Pipeline::new(setup.config.clone(), &budget, Rows::default());
    let (mut frames, mut idle_turns) = (0, 0);
    drive(&mut port, &mut pipeline, u64::MAX, |_, pipeline, _| {
        let received = pipeline.counters().value(Counter::FramesReceived);
        idle_turns = if received == frames {
            idle_turns + 1
        } else {
            0
        };
        frames = received;
        assert!(idle_turns < IDLE_TURNS_MAX, "no frame comes any more");
        Step::Continue
    });
    let (rows, counters) = pipeline.finish();
    drop((port, pool));
    let (hash, operations) = (rows.hash, rows.operations.len());
    let fault = counters
        .broken_identity()
        .or_else(|| held(&counters, &budget))
        .or_else(|| rows.fault());
    Outcome {
        counters,
        hash,
        operations,
        fault,
    }
}

fn held(counters: &Counters, budget: &Budget) -> Option<String> {
    let held = counters.value(Counter::StreamHeld);
    let (used, peak, limit) = (
        budget.used_bytes(),
        budget.peak_bytes(),
        budget.limit_bytes(),
    );
    if held != 0 {
        return Some(format!("{held} bytes are held at the end"));
    }
    if used != 0 {
        return Some(format!("{used} bytes of the budget were not given back"));
    }
    (peak > limit).then(|| format!("{peak} bytes were drawn on a budget of {limit}"))
}

/// The fuzz target: bytes of a file, or with the last bit set of frames, and four bytes of choices.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let form = bytes.last();
    let setup = Setup::new([bytes.last(), bytes.last(), bytes.last()]);
    let file: Arc<[u8]> = if form & 1 == 0 {
        bytes.0.into()
    } else {
        pcap(bytes, form >> 1).into()
    };
    let first = capture(&[Arc::clone(&file)], &setup);
    assert_eq!(first.fault, None);
    if form & 0x80 != 0 {
        let second = capture(&[file], &Setup::new([0, 2, 1]));
        assert_eq!(second.fault, None);
        if !first.is_limited() && !second.is_limited() && setup.config.flow.late_segments > 2 {
            assert_eq!(first.hash, second.hash, "rows depend on how they are read");
        }
    }
}

/// A file of frames that each have a length and a step in time before them, which bytes that are
/// inserted or removed do not upset.
fn pcap(mut frames: Bytes<'_>, choice: u8) -> Vec<u8> {
    let link_type = [1, 101, 113, 276][usize::from(choice % 4)];
    let mut file = Vec::new();
    let mut put = |words: &[u32], bytes: &[u8]| {
        for word in words {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(bytes);
    };
    put(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 0, link_type], &[]);
    let mut stamp_ns = 1_700_000_000_000_000_000_u64;
    while !frames.is_empty() {
        // Up to half a millisecond, or up to two minutes.
        stamp_ns += match frames.u8() {
            step @ 0..=0xf7 => u64::from(step) * 2_000,
            step => (u64::from(step) - 0xf7) * 15_000_000_000,
        };
        let len = usize::from(frames.u16());
        let frame = frames.take(len);
        let (seconds, rest) = (stamp_ns / 1_000_000_000, stamp_ns % 1_000_000_000);
        put(
            &[seconds as u32, rest as u32, frame.len() as u32, len as u32],
            frame,
        );
    }
    file
}

/// Remembers of the rows what they can be checked by.
#[derive(Default)]
struct Rows {
    hash: u64,
    operations: Vec<i64>,
    details: Vec<(Table, i64)>,
    blocks: Vec<(i64, i64)>,
    text: String,
}

impl Rows {
    fn hash(&mut self, row: &impl Debug) {
        self.text.clear();
        write!(self.text, "{row:?}").expect("a string takes everything");
        let hash = XxHash3_64::oneshot(self.text.as_bytes());
        self.hash = self.hash.wrapping_add(hash);
    }

    fn detail(&mut self, table: Table, operation_id: i64, row: &impl Debug) {
        self.details.push((table, operation_id));
        self.hash(row);
    }

    fn fault(mut self) -> Option<String> {
        self.operations.sort_unstable();
        self.blocks.sort_unstable();
        self.details.sort_unstable();
        let twice = |ids: &[i64]| {
            ids.windows(2)
                .find(|pair| pair[0] == pair[1])
                .map(|pair| pair[0])
        };
        if let Some(id) = twice(&self.operations) {
            return Some(format!("the operation {id} has two rows"));
        }
        if let Some(pair) = self.details.windows(2).find(|pair| pair[0] == pair[1]) {
            let (table, id) = pair[0];
            return Some(format!(
                "the operation {id} has two rows in {}",
                table.name()
            ));
        }
        if let Some(pair) = self.blocks.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(format!("the block {:?} has two checksums", pair[0]));
        }
        let known = |id: &i64| self.operations.binary_search(id).is_ok();
        let mut others = self
            .details
            .iter()
            .map(|(_, id)| id)
            .chain(self.blocks.iter().map(|(id, _)| id));
        let orphan = others.find(|id| !known(id))?;
        Some(format!("the operation {orphan} has details but no row"))
    }
}

impl RecordSink for Rows {
    fn wants(&self, _: Table) -> bool {
        true
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, row: RowRef<'_>) {
        match row {
            RowRef::Operations(row) => {
                self.operations.push(row.operation_id);
                self.hash(row);
            }
            RowRef::Checksums(run) => {
                for (&sum, block) in run.sums.iter().zip(run.first_block..) {
                    self.blocks.push((run.operation_id, block));
                    self.hash(&(run.operation_id, block, sum));
                }
            }
            RowRef::Nfs(row) => self.detail(Table::Nfs, row.operation_id, row),
            RowRef::Nfs4(row) => self.detail(Table::Nfs4, row.operation_id, row),
            RowRef::Services(row) => self.detail(Table::Services, row.operation_id, row),
            RowRef::Connections(row) => self.hash(row),
            RowRef::Files(row) => self.hash(row),
            RowRef::Losses(row) => self.hash(row),
            RowRef::Packets(row) => self.hash(row),
            RowRef::MonitorBins(row) => self.hash(row),
            RowRef::MonitorWindows(row) => self.hash(row),
            RowRef::MonitorFlows(row) => self.hash(row),
            RowRef::MonitorEvents(row) => self.hash(row),
        }
    }
}
