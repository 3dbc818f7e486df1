//! The effects of an imperfect tap on a capture, by seed: everything whose bytes survived is in the
//! trace, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use lineside_account::Counter;
use lineside_testkit::capture::{self, Frame};
use lineside_testkit::captures;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_testkit::oracle::{Block, Message, Oracle};

use crate::support::{Record, Trace, counters, example};

/// Seeds for each kind of harm and capture. More find more and take longer. With
/// `LINESIDE_KEEP=FOLDER` the harmed captures in which something is wrong are kept.
const SEEDS: u64 = 12;

/// The kinds of harm, mild enough that something survives.
fn harms(seed: u64, frames: usize) -> Vec<(&'static str, Harm)> {
    let none = Harm {
        seed,
        ..Harm::default()
    };
    vec![
        (
            "loss",
            Harm {
                drop: 0.01,
                ..none.clone()
            },
        ),
        (
            "heavy loss",
            Harm {
                drop: 0.05,
                ..none.clone()
            },
        ),
        (
            "bursts",
            Harm {
                drop: 0.002,
                burst: 40,
                ..none.clone()
            },
        ),
        (
            "late and twice, nothing lost",
            Harm {
                late: 0.05,
                duplicate: 0.01,
                ..none.clone()
            },
        ),
        (
            "late and lost",
            Harm {
                late: 0.05,
                duplicate: 0.01,
                drop: 0.01,
                ..none.clone()
            },
        ),
        (
            "snap length 128",
            Harm {
                snap: 128,
                ..none.clone()
            },
        ),
        (
            "snap length by seed",
            Harm {
                snap: 60 + (seed * 97 % 1400) as usize,
                ..none.clone()
            },
        ),
        (
            "late start",
            Harm {
                late_start: (frames as u64 * (seed + 1) / (SEEDS + 2)) as usize,
                ..none
            },
        ),
    ]
}

#[test]
fn surviving_messages_are_recorded_and_nothing_else() {
    let mut paths = vec![example(), captures::example("nfs-v4.pcapng.zst")];
    if let Some(folder) = captures::beside() {
        paths.extend(
            [
                "own/mix-v3.pcapng.zst",
                "own/udp-v3-ipv6.pcap.zst",
                "own/rpc-records.pcap.zst",
                "own/mix-v40.pcap.zst",
                "own/krb5-v41.pcap.zst",
            ]
            .map(|name| folder.join(name)),
        );
    }
    let mut failures = Vec::new();
    for path in paths {
        let whole = Whole::new(&path);
        for seed in 0..SEEDS {
            for (kind, harm) in harms(seed, whole.frames.len()) {
                whole.judge(kind, &harm, &mut failures);
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}

/// An unharmed capture and all known facts about it.
struct Whole {
    path: PathBuf,
    frames: Vec<Frame>,
    oracle: Oracle,
    blocks: Vec<Block>,
    rows: BTreeMap<Key, Vec<Record>>,
    /// The NFS columns of each operation, and its checksums.
    details: Details,
    checksums: BTreeSet<(Key, i64, i64)>,
}

/// A connection, a transaction and a place in its compound: client, its port, server, its port,
/// transport, xid, and the index of the operation; 0 if it is not known, or there is no compound.
type Key = (String, i64, String, i64, bool, i64, i64);

fn key_of_row(row: &Record) -> Key {
    let text = |column| row.text(column).unwrap_or_default().to_owned();
    let integer = |column| row.integer(column).unwrap_or(-1);
    (
        text("client_address"),
        integer("client_port"),
        text("server_address"),
        integer("server_port"),
        row.text("transport") == Some("udp"),
        integer("xid"),
        row.integer("compound_index").unwrap_or(0),
    )
}

impl Whole {
    fn new(path: &Path) -> Self {
        let frames = capture::read(path).expect("a whole capture");
        let oracle = Oracle::new(&frames);
        let trace = Trace::of(path, &[]);
        trace.assert_identities(&path.display().to_string());
        let checksums = checksums(&trace);
        let details = by_operation(&trace);
        let mut rows: BTreeMap<Key, Vec<Record>> = BTreeMap::new();
        for row in trace.operations {
            rows.entry(key_of_row(&row)).or_default().push(row);
        }
        Self {
            path: path.to_owned(),
            blocks: oracle.blocks(),
            frames,
            oracle,
            rows,
            details,
            checksums,
        }
    }

    fn judge(&self, kind: &str, harm: &Harm, failures: &mut Vec<String>) {
        let mangled = mangle(&self.frames, harm);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("harmed.pcap");
        std::fs::write(&file, capture::write(&mangled.frames)).expect("the harmed capture");
        // A packet that the tap duplicated counts as one sent twice here, not as one mirrored.
        let trace = Trace::of(&file, &["--duplicate-window", "0s"]);
        let what = format!(
            "{} {kind} seed {}",
            self.path.file_name().unwrap_or_default().display(),
            harm.seed
        );
        trace.assert_identities(&what);

        let mut problems = Vec::new();
        let mut rows: BTreeMap<Key, Vec<&Record>> = BTreeMap::new();
        for row in &trace.operations {
            rows.entry(key_of_row(row)).or_default().push(row);
        }
        let details = by_operation(&trace);
        let has_unread = counters(&trace.manifest).value(Counter::RpcUnread) > 0;
        self.judge_recall((&mangled.kept, has_unread), &rows, &mut problems);
        self.judge_precision(&rows, &details, harm.duplicate > 0.0, &mut problems);
        self.judge_checksums(&mangled.kept, &checksums(&trace), &rows, &mut problems);
        if harm.drop == 0.0 && harm.late_start == 0 && harm.snap == usize::MAX {
            self.judge_nothing_lost(&rows, &mut problems);
        }
        if let (Some(keep), false) = (std::env::var_os("LINESIDE_KEEP"), problems.is_empty()) {
            let name = format!("{}.pcap", what.replace(' ', "-"));
            std::fs::copy(&file, Path::new(&keep).join(name)).expect("the harmed capture is kept");
        }
        let count = problems.len();
        failures.extend(
            problems
                .into_iter()
                .take(3)
                .map(|problem| format!("{what} ({count}): {problem}")),
        );
    }

    fn key_of_message(&self, message: &Message) -> Key {
        let stream = &self.oracle.streams[message.stream];
        let (client, server) = if message.call {
            (stream.source, stream.destination)
        } else {
            (stream.destination, stream.source)
        };
        (
            client.ip().to_string(),
            client.port().into(),
            server.ip().to_string(),
            server.port().into(),
            stream.udp,
            message.xid.into(),
            0,
        )
    }

    /// Every message whose header survived has its place in a row. One that stands alone is
    /// believed by evidence from outside it; where there is none, its bytes are counted as unread,
    /// which makes the verdict incomplete.
    fn judge_recall(
        &self,
        (kept, has_unread): (&[usize], bool),
        rows: &BTreeMap<Key, Vec<&Record>>,
        problems: &mut Vec<String>,
    ) {
        let mut survived: BTreeMap<(Key, bool), (i64, usize)> = BTreeMap::new();
        for (index, message) in self.oracle.messages.iter().enumerate() {
            if self.oracle.header_survives(message, kept) {
                let (times, example) = survived
                    .entry((self.key_of_message(message), message.call))
                    .or_default();
                (*times, *example) = (*times + 1, index);
            }
        }
        for ((key, call), &(times, example)) in &survived {
            let (missing, more) = if *call {
                ("call_missing", "retransmissions")
            } else {
                ("reply_missing", "duplicate_replies")
            };
            let here = rows.get(key).map_or(&[][..], Vec::as_slice);
            let is_alone = !survived.contains_key(&(key.clone(), !call));
            let found: i64 = here
                .iter()
                .map(|row| i64::from(!row.is(missing)) + row.integer(more).unwrap_or(0))
                .sum();
            if found < times && !(has_unread && is_alone && found == 0) {
                let message = &self.oracle.messages[example];
                let (first, last) = self.oracle.frames_of(message);
                problems.push(format!(
                    "{times} {} survived, {found} recorded: {key:?} {:?}, frames {} to {} of the \
                    whole",
                    if *call { "calls" } else { "replies" },
                    message.procedure,
                    first + 1,
                    last + 1
                ));
            }
        }
    }

    /// Every row stands in the unharmed trace, and none twice.
    fn judge_precision(
        &self,
        rows: &BTreeMap<Key, Vec<&Record>>,
        details: &Details,
        twice: bool,
        problems: &mut Vec<String>,
    ) {
        for (key, here) in rows {
            let whole = self.rows.get(key).map_or(&[][..], Vec::as_slice);
            // A datagram that the tap recorded twice is a call that came again: it may stand twice.
            let again_allowed = twice && key.4;
            let fits = |mine: &Record, theirs: &Record| {
                self.contradiction(mine, theirs, details).is_none()
            };
            if !assign(here, whole, again_allowed, &fits) {
                let first = here.first().zip(whole.first());
                problems.push(format!(
                    "{} rows of {key:?} where the unharmed trace has {}: {:?}",
                    here.len(),
                    whole.len(),
                    first.and_then(|(mine, theirs)| self.contradiction(mine, theirs, details))
                ));
            }
        }
    }

    /// The first field that both rows have with different values.
    fn contradiction(&self, mine: &Record, theirs: &Record, details: &Details) -> Option<String> {
        fn of<'a>(details: &'a Details, row: &Record) -> &'a [Record] {
            let id = row.integer("operation_id");
            id.and_then(|id| details.get(&id))
                .map_or(&[], Vec::as_slice)
        }
        // Where no operation of a compound survived, its row has the procedure's name.
        let is_unread =
            mine.integer("compound_index").is_none() && theirs.integer("compound_index").is_some();
        let ignored = |column: &str| is_circumstance(column) || is_unread && column == "operation";
        mine.contradiction(theirs, ignored).or_else(|| {
            let whole = of(&self.details, theirs);
            of(details, mine).iter().find_map(|mine| {
                match whole.iter().find(|theirs| theirs.table == mine.table) {
                    Some(theirs) => mine.contradiction(theirs, |column| column == "operation_id"),
                    None => Some(format!(
                        "details where the unharmed trace has none: {mine:?}"
                    )),
                }
            })
        })
    }

    fn judge_checksums(
        &self,
        kept: &[usize],
        here: &BTreeSet<(Key, i64, i64)>,
        rows: &BTreeMap<Key, Vec<&Record>>,
        problems: &mut Vec<String>,
    ) {
        for block in &self.blocks {
            let message = &self.oracle.messages[block.message];
            // Whether the message may be missing was judged before.
            let missing = match message.call {
                true => "call_missing",
                false => "reply_missing",
            };
            let halves = rows.get(&self.key_of_message(message));
            if !halves.is_some_and(|rows| rows.iter().any(|row| !row.is(missing))) {
                continue;
            }
            let entry = (self.key_of_message(message), block.number, block.checksum);
            if !here.contains(&entry) && self.oracle.block_survives(block, kept) {
                let (first, last) = self.oracle.frames_of(message);
                let place = &block.bytes;
                problems.push(format!(
                    "block without checksum: {entry:?}, frames {} to {} of the whole, {place:?}",
                    first + 1,
                    last + 1
                ));
            }
        }
        for wrong in here.difference(&self.checksums) {
            problems.push(format!(
                "checksum that the unharmed trace does not have: {wrong:?}"
            ));
        }
    }

    /// Late frames and duplicates lose nothing: the rows are those of the unharmed trace, field by
    /// field.
    fn judge_nothing_lost(&self, rows: &BTreeMap<Key, Vec<&Record>>, problems: &mut Vec<String>) {
        for (key, whole) in &self.rows {
            let here = rows.get(key).map_or(&[][..], Vec::as_slice);
            let whole: Vec<&Record> = whole.iter().collect();
            let here: Vec<Record> = here.iter().map(|row| (*row).clone()).collect();
            let same = |theirs: &Record, mine: &Record| {
                theirs.contradiction(mine, is_circumstance).is_none()
            };
            if !assign(&whole, &here, key.4, &same) {
                problems.push(format!(
                    "nothing was lost, but {} rows of {key:?} are {} now, or lack fields",
                    whole.len(),
                    here.len()
                ));
            }
        }
    }
}

/// Ids, frame numbers, times, flags and counters: they describe how an operation was observed, not
/// what it was.
fn is_circumstance(column: &str) -> bool {
    const FLAGS: [&str; 11] = [
        "call_missing",
        "reply_missing",
        "call_incomplete",
        "reply_incomplete",
        "data_incomplete",
        "not_executed",
        "repeat",
        "reply_ambiguous",
        "retransmissions",
        "duplicate_replies",
        "connection_id",
    ];
    const OWN: [&str; 7] = [
        "operation_id",
        "rpc_id",
        "repeat_of",
        "call_frame",
        "reply_frame",
        "call_input",
        "reply_input",
    ];
    const TIMES: [&str; 6] = [
        "call_time_ns",
        "call_end_ns",
        "reply_time_ns",
        "reply_end_ns",
        "call_recovery_ns",
        "reply_recovery_ns",
    ];
    FLAGS.contains(&column) || OWN.contains(&column) || TIMES.contains(&column)
}

/// Whether each of `these` finds one of `those` that it fits, no two the same unless `shared`.
fn assign(
    these: &[&Record],
    those: &[Record],
    shared: bool,
    fits: &impl Fn(&Record, &Record) -> bool,
) -> bool {
    fn place(
        at: usize,
        these: &[&Record],
        those: &[Record],
        taken: &mut Vec<bool>,
        fits: &impl Fn(&Record, &Record) -> bool,
    ) -> bool {
        let Some(this) = these.get(at) else {
            return true;
        };
        for that in 0..those.len() {
            if !taken[that] && fits(this, &those[that]) {
                taken[that] = true;
                if place(at + 1, these, those, taken, fits) {
                    return true;
                }
                taken[that] = false;
            }
        }
        false
    }
    if shared {
        return these
            .iter()
            .all(|this| those.iter().any(|that| fits(this, that)));
    }
    place(0, these, those, &mut vec![false; those.len()], fits)
}

/// The rows of an operation in the tables of single protocols.
type Details = BTreeMap<i64, Vec<Record>>;

fn by_operation(trace: &Trace) -> Details {
    let mut details = Details::new();
    for row in trace.details() {
        let id = row.integer("operation_id").expect("never null");
        details.entry(id).or_default().push(row.clone());
    }
    details
}

/// Each checksum with the transaction that moved the block.
fn checksums(trace: &Trace) -> BTreeSet<(Key, i64, i64)> {
    let id = |row: &Record| row.integer("operation_id").expect("never null");
    let keys: BTreeMap<i64, Key> = trace
        .operations
        .iter()
        .map(|row| (id(row), key_of_row(row)))
        .collect();
    let entry = |row: &Record| {
        let key = keys
            .get(&id(row))
            .unwrap_or_else(|| panic!("a checksum without operation: {row:?}"));
        (
            key.clone(),
            row.integer("block").expect("never null"),
            row.integer("checksum").expect("never null"),
        )
    };
    trace.checksums.iter().map(entry).collect()
}
