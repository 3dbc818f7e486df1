//! Traces of made-up traffic as servers have it, for tests of what is read out of a trace.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use lineside_rows::{ConnectionRow, FileRow, OperationRow, Row, Table, Word};
use lineside_time::Random;
use lineside_trace::{EncoderConfig, Manifest, Part, SCHEMA_VERSION, State, TraceEncoder};

/// When every trace begins.
pub(crate) const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// The first of the directories of files 0 to 19.
const DIRECTORY: i64 = 500_000;

/// One operation, before it is written.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    /// Since the begin of the trace.
    pub(crate) at_ns: i64,
    pub(crate) name: &'static str,
    pub(crate) client: u8,
    /// The last byte of its address.
    pub(crate) server: u8,
    pub(crate) connection: i64,
    pub(crate) file: i64,
    pub(crate) latency_ns: f64,
    /// Of that, from the first byte of the reply to its last.
    pub(crate) transfer_ns: f64,
    pub(crate) status: &'static str,
}

/// Traffic as servers have it: load and latency that wander, bursts, and long tails.
pub(crate) struct Traffic {
    pub(crate) seed: u64,
    pub(crate) seconds: i64,
    pub(crate) per_second: f64,
    pub(crate) server: u8,
    pub(crate) verdict: State,
    /// What files are called, and the id of the operation that showed it.
    pub(crate) names: (&'static str, i64),
    /// What TCP had to do on the one connection: its intervals.
    pub(crate) intervals: fn(ConnectionRow) -> Vec<ConnectionRow>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            seed: 1,
            seconds: 120,
            per_second: 300.0,
            server: 1,
            verdict: State::Complete,
            names: ("file", 1),
            intervals: |row| vec![row],
        }
    }
}

/// Between 0 and 1, neither included.
pub(crate) fn unit(random: &mut Random) -> f64 {
    (random.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64
}

pub(crate) fn normal(random: &mut Random) -> f64 {
    let (one, other) = (unit(random), unit(random));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

/// The first of `count` most often, the last least.
fn zipf(random: &mut Random, count: u64) -> u64 {
    (((count + 1) as f64).powf(unit(random)) as u64).min(count) - 1
}

impl Traffic {
    fn operations(&self) -> Vec<Operation> {
        let random = &mut Random::new(self.seed);
        let mut operations = Vec::new();
        let (mut load, mut slow) = (0.0, 0.0);
        for step in 0..self.seconds * 2 {
            // What wanders forgets within a few seconds.
            load = 0.7 * load + 0.2 * normal(random);
            slow = 0.7 * slow + 0.15 * normal(random);
            let burst = if random.chance(0.02) { 4.0 } else { 1.0 };
            let mean = self.per_second / 2.0 * f64::exp(load) * burst;
            let mut at = 0.0;
            loop {
                at -= unit(random).ln() / mean;
                if at >= 1.0 {
                    break;
                }
                let at_ns = step * SECOND_NS / 2 + (at * 5e8) as i64;
                operations.push(Operation {
                    server: self.server,
                    ..operation(random, at_ns, slow)
                });
            }
        }
        operations
    }

    /// Writes the trace, each operation as `change` leaves it; those of which it returns `false`
    /// are left out.
    pub(crate) fn write(&self, path: &Path, change: impl Fn(&mut Operation) -> bool) {
        let mut operations = self.operations();
        operations.retain_mut(|operation| change(operation));
        operations.sort_by_key(|each| each.at_ns + each.latency_ns as i64);
        let id = format!("trace-{}", self.seed);
        let root = path.to_owned();
        let sink = |part: Part| -> Result<(), Infallible> {
            let folder = root.join(part.table.name());
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(part.file_name()), part.bytes()).expect("written");
            Ok(())
        };
        let mut encoder = TraceEncoder::new(&EncoderConfig::new(Table::ALL, &id), sink);
        let server = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, self.server)));
        for (number, each) in (1..).zip(&operations) {
            row(number << 18, each).write_to(&mut encoder);
        }
        for file in 0..20 {
            let mut fact = FileRow {
                file_id: Some(file),
                operation_id: self.names.1,
                // Five in a directory.
                parent_file_id: Some(DIRECTORY + file / 5),
                ..FileRow::default()
            };
            fact.name.set(format!("{}-{file}", self.names.0).as_bytes());
            fact.write_to(&mut encoder);
        }
        for directory in 0..4 {
            let mut fact = FileRow {
                file_id: Some(DIRECTORY + directory),
                operation_id: 1,
                ..FileRow::default()
            };
            fact.name.set(format!("directory-{directory}").as_bytes());
            fact.write_to(&mut encoder);
        }
        let connection = ConnectionRow {
            connection_id: 1,
            server_address: server,
            transport: Some("tcp"),
            program: Word::Known("nfs"),
            ..ConnectionRow::default()
        };
        let intervals = (self.intervals)(connection);
        { intervals.iter() }.for_each(|row| row.write_to(&mut encoder));
        let _sink = encoder.finish().expect("nothing fails");
        let mut manifest = Manifest {
            schema_version: SCHEMA_VERSION.to_owned(),
            trace_id: id,
            ..Manifest::default()
        };
        manifest.verdict.state = self.verdict;
        if self.verdict != State::Complete {
            manifest.verdict.reasons = vec!["12 bytes of streams were lost".to_owned()];
            let share = ("stream_bytes_lost".to_owned(), 0.02);
            manifest.verdict.shares.extend([share]);
        }
        fs::write(path.join("trace.json"), manifest.to_json()).expect("written");
    }
}

fn operation(random: &mut Random, at_ns: i64, slow: f64) -> Operation {
    let (name, typical_ns) = match random.below(10) {
        0..=4 => ("READ", 400_000.0),
        5..=6 => ("WRITE", 900_000.0),
        7..=8 => ("GETATTR", 100_000.0),
        _ => ("LOOKUP", 150_000.0),
    };
    let mut latency_ns = typical_ns * f64::exp(0.8 * normal(random) + slow);
    if random.chance(0.01) {
        latency_ns *= unit(random).powf(-0.7);
    }
    let missing = name == "LOOKUP" && random.chance(0.2);
    // Some files are used all the time, others for a while.
    let file = if random.chance(0.8) {
        zipf(random, 200)
    } else {
        1_000 + at_ns as u64 / (10 * SECOND_NS as u64) * 50 + random.below(50)
    };
    Operation {
        at_ns,
        name,
        client: zipf(random, 12) as u8,
        server: 1,
        connection: 1,
        file: file as i64,
        latency_ns: latency_ns.min(3e9),
        transfer_ns: 0.0,
        status: if missing { "NFS3ERR_NOENT" } else { "NFS3_OK" },
    }
}

fn row(id: i64, each: &Operation) -> OperationRow {
    let call_ns = BEGIN_NS + each.at_ns;
    let reply_ns = call_ns + each.latency_ns as i64;
    let moves = matches!(each.name, "READ" | "WRITE");
    OperationRow {
        operation_id: id,
        rpc_id: id,
        connection_id: each.connection,
        call_time_ns: Some(call_ns),
        call_end_ns: Some(call_ns),
        reply_time_ns: Some(reply_ns - each.transfer_ns as i64),
        reply_end_ns: Some(reply_ns),
        client_address: Some(IpAddr::V4(Ipv4Addr::new(10, 1, 0, each.client))),
        server_address: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, each.server))),
        program: Word::Known("nfs"),
        version: Some(3),
        operation: Word::Known(each.name),
        rpc_status: Word::Known("SUCCESS"),
        status: Word::Known(each.status),
        user_id: Some(1_000 + i64::from(each.client)),
        file_id: Some(each.file),
        transferred: moves.then_some(4_096),
        ..OperationRow::default()
    }
}
