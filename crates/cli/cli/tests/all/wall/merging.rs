//! Parts a second that become large ones: what readers see meanwhile, and what is left.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_trace::State;
use lineside_trace::read::{PartReader, ReadError};

use crate::support::{example, lineside, manifest, parts, records, sorted, talk, wait_until};
use crate::wall::wire::{Running, Wire, need_wire};

/// The example at one frame every 10 ms, over some minutes.
fn slowed(path: &Path) {
    let mut frames = capture::read(&example()).expect("the example");
    for (frame, place) in frames.iter_mut().zip(0..) {
        frame.stamp_ns = Some(1_700_000_003_000_000_000 + place * 10_000_000);
    }
    std::fs::write(path, capture::write(&frames)).expect("written");
}

fn run(input: &Path, out: &Path, options: &[&str]) {
    let output = lineside()
        .arg("capture")
        .arg(input)
        .args(["--packets", "-q", "-o"])
        .arg(out)
        .args(options)
        .output()
        .expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
}

/// The rows of a table's parts, each part by itself, but for empty ones.
fn rows_of_parts(out: &Path, table: Table) -> BTreeSet<Vec<u8>> {
    let bytes = |path: PathBuf| std::fs::read(path).expect("a part");
    let is_empty = |bytes: &Vec<u8>| {
        let part = PartReader::open(bytes.clone()).expect("a part");
        part.row_count() == 0
    };
    let parts = parts(out, table).into_iter().map(bytes);
    parts.filter(|bytes| !is_empty(bytes)).collect()
}

/// Each trace has an id of its own, in every part.
fn without_id(parts: BTreeSet<Vec<u8>>, out: &Path) -> BTreeSet<Vec<u8>> {
    let id = manifest(out).trace_id.into_bytes();
    let blank = |mut bytes: Vec<u8>| {
        for at in 0..bytes.len().saturating_sub(id.len()) {
            if bytes[at..].starts_with(&id) {
                bytes[at..at + id.len()].fill(b'0');
            }
        }
        bytes
    };
    parts.into_iter().map(blank).collect()
}

/// The files are those of a run that wrote large parts from the start, byte for byte, on one core;
/// on several at least their rows are.
#[test]
fn merged_parts_are_those_of_a_run_that_wrote_large_ones() {
    let folder = crate::support::private_folder();
    let at = |name: &str| folder.path().join(name);
    slowed(&at("slow.pcap"));
    run(&at("slow.pcap"), &at("large"), &["--rotate", "20s"]);
    let small = ["--rotate", "20s", "--flush", "1s"];
    run(&at("slow.pcap"), &at("small"), &small);
    let on_cores = [&small[..], &["--cores", "2"]].concat();
    run(&at("slow.pcap"), &at("cores"), &on_cores);
    let has_rows = |table: &&Table| !Table::MONITORS.contains(table);
    for &table in Table::ALL.iter().filter(has_rows) {
        let of = |name: &str| without_id(rows_of_parts(&at(name), table), &at(name));
        assert!(of("small") == of("large"), "{}", table.name());
        let rows = |name: &str| sorted(&records(&at(name), table));
        assert!(rows("cores") == rows("large"), "{}", table.name());
        for name in ["small", "cores"] {
            let (stated, found) = (manifest(&at(name)), parts(&at(name), table));
            let stated = stated.tables[table.name()];
            assert_eq!(stated.parts, found.len() as u64, "{name} {}", table.name());
            let bytes = found
                .iter()
                .map(|path| path.metadata().expect("there").len());
            assert_eq!(stated.bytes, bytes.sum::<u64>(), "{name} {}", table.name());
        }
    }
    let parts = |name: &str| parts(&at(name), Table::Packets).len();
    assert!(parts("large") > 2, "a window ended");
    assert!(parts("cores") < parts("large") + 3, "they were merged");
}

/// How many rows a reader counts that lists a folder and opens what it found; `None` if a file is
/// gone meanwhile, so that it has to ask again.
fn count(out: &Path, table: Table) -> Option<u64> {
    let folder = std::fs::read_dir(out.join(table.name())).ok()?;
    let names: Vec<_> = folder
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let is_part = |path: &&PathBuf| path.extension().is_some_and(|end| end == "parquet");
    let rows = names.iter().filter(is_part).map(|path| {
        let part = PartReader::open(File::open(path).ok()?);
        match part {
            Ok(part) => Some(part.row_count()),
            Err(ReadError::Io(_)) => None,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    });
    rows.sum()
}

/// The numbers of the first and the last part that each part is made of; one number of those that
/// were not merged.
fn numbers_of_parts(out: &Path) -> Vec<Vec<usize>> {
    let numbers = parts(out, Table::Operations).into_iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let words = name.split('-').skip(1);
        words.filter_map(|word| word.parse().ok()).collect()
    });
    numbers.collect()
}

#[test]
fn readers_see_each_row_once_while_parts_are_merged() {
    need_wire!();
    let wire = Wire::new("merging", 1);
    let frames = capture::read(&example()).expect("the example");
    let tcp = ["-f", "tcp", "-i", "t0", "--method", "af_packet"];
    let listen = |options: &[&str]| Running::start(&wire.tap, &[&tcp, options].concat());
    let merged = listen(&["--rotate", "1s", "--flush", "100ms"]);
    let on_cores = listen(&["--rotate", "1s", "--flush", "100ms", "--cores", "2"]);
    let large = listen(&["--flush", "none"]);
    let readers = [merged.out.clone(), on_cores.out.clone()];
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = |out: &PathBuf| {
            let (mut counts, mut latest, mut gone) = (BTreeSet::new(), 0, 0);
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                match count(out, Table::Operations) {
                    Some(rows) => {
                        assert!(rows >= latest, "{rows} after {latest}");
                        latest = rows;
                        counts.insert(rows);
                    }
                    None => gone += 1,
                }
                std::thread::yield_now();
            }
            (counts.len(), latest, gone)
        };
        let readers = readers.each_ref().map(|out| scope.spawn(move || read(out)));
        for chunk in frames.chunks(frames.len() / 40) {
            wire.send(chunk);
            // A pace, so that many parts are written; nothing is held to it.
            std::thread::park_timeout(std::time::Duration::from_millis(150));
        }
        wait_until("parts are merged", || {
            let mut outs = [&merged.out, &on_cores.out].into_iter();
            outs.all(|out| {
                numbers_of_parts(out)
                    .iter()
                    .any(|numbers| numbers.len() == 2)
            })
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            let (counts, latest, gone) = reader.join().expect("it reads");
            println!("{counts} counts up to {latest}, {gone} times a file was gone");
            assert!(counts > 3, "{counts}");
        }
    });
    let ended = [large, merged, on_cores].map(|running| {
        running.signal("INT");
        let ended = running.end();
        assert!(ended.status.success(), "{}", ended.messages);
        ended
    });
    // Ids and numbers of frames count from where each began to listen, and each stamps by itself.
    let own = |name: &str| {
        let ids = [
            "operation_id",
            "rpc_id",
            "connection_id",
            "call_frame",
            "reply_frame",
        ];
        ids.contains(&name) || name.ends_with("_ns")
    };
    let rows = |at: usize| {
        let columns = Table::Operations.columns().iter();
        let rows = records(&ended[at].out, Table::Operations).into_iter();
        let rows = rows.map(|row| {
            let others = columns.clone().filter(|column| !own(column.name));
            let values = others.map(|column| row.value(column.name));
            format!("{:?}", values.collect::<Vec<_>>())
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        rows
    };
    assert!(!rows(0).is_empty());
    for other in [1, 2] {
        assert!(rows(other) == rows(0));
        let hidden = std::fs::read_dir(&ended[other].out).expect("there");
        let names = hidden.map(|entry| entry.expect("an entry").file_name());
        let names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
        let parts = numbers_of_parts(&ended[other].out);
        let written = parts.iter().flatten().max().expect("some") + 1;
        assert!(parts.iter().any(|numbers| numbers.len() == 2), "{parts:?}");
        assert!(parts.len() < written, "{parts:?}");
    }
}

#[test]
fn dropped_rows_go_as_whole_parts_and_are_counted() {
    let folder = crate::support::private_folder();
    let at = |name: &str| folder.path().join(name);
    let mut frames = capture::read(&example()).expect("the example");
    for frame in &mut frames {
        frame.stamp_ns = frame
            .stamp_ns
            .map(|ns| ns % 1_000_000_000 + 1_700_000_000_000_000_000);
    }
    // The same operations again and again, until they are more than is kept.
    let mut all = Vec::new();
    for turn in 0..280_i64 {
        all.extend(frames.iter().cloned().map(|mut frame| {
            frame.stamp_ns = frame.stamp_ns.map(|ns| ns + turn * 1_000_000_000);
            frame
        }));
    }
    std::fs::write(at("long.pcap"), capture::write(&all)).expect("written");
    run(&at("long.pcap"), &at("all"), &["--rotate", "1MiB"]);
    run(
        &at("long.pcap"),
        &at("kept"),
        &["--rotate", "1MiB", "--keep", "4MiB"],
    );
    let (all, kept) = (manifest(&at("all")), manifest(&at("kept")));
    let sum = |of: fn(&lineside_trace::TableSummary) -> u64,
               manifest: &lineside_trace::Manifest| {
        manifest.tables.values().map(of).sum::<u64>()
    };
    let bytes = sum(|table| table.bytes, &kept);
    assert!(
        sum(|table| table.bytes, &all) > 5 << 20,
        "the test needs more than {}",
        sum(|table| table.bytes, &all)
    );
    assert!(bytes <= 4 << 20 && bytes > 2 << 20, "{bytes}");
    let removed = kept.removed.expect("it is reported");
    assert_eq!(
        removed.rows + sum(|table| table.rows, &kept),
        sum(|table| table.rows, &all)
    );
    assert!(removed.kept_since_ns.is_some() && removed.parts > 0);
    assert!(all.removed.is_none());
    assert_eq!(kept.verdict.state, State::Limited, "{:?}", kept.verdict);
    let reason = kept.verdict.reasons.concat();
    assert!(
        reason.contains("--keep") && reason.contains("(give more: keep)"),
        "{reason}"
    );
}

/// Their tables are written beside the others, and what goes of both is one figure.
#[test]
fn removed_rows_of_monitors_are_counted() {
    let folder = crate::support::private_folder();
    let at = |name: &str| folder.path().join(name);
    let mut frames = capture::read(&example()).expect("the example");
    frames.sort_by_key(|frame| frame.stamp_ns);
    // Uneven times, so that windows take room.
    let (mut random, mut now_ns) = (1_u64, 1_700_000_000_000_000_000);
    let mut all = Vec::new();
    for frame in std::iter::repeat_n(&frames, 120).flatten() {
        random = random.wrapping_mul(6_364_136_223_846_793_005);
        random = random.wrapping_add(1_442_695_040_888_963_407);
        now_ns += (random >> 44) as i64;
        all.push(capture::Frame {
            stamp_ns: Some(now_ns),
            ..frame.clone()
        });
    }
    std::fs::write(at("long.pcap"), capture::write(&all)).expect("written");
    let monitors = (1..=16).flat_map(|us| ["--monitor".into(), format!("packets window {us}us")]);
    let monitors: Vec<String> = monitors.collect();
    let capture = |name: &str, words: &[&str]| {
        let monitors = monitors.iter().map(String::as_str);
        let words = words.iter().copied().chain(["--rotate", "1MiB"]);
        run(
            &at("long.pcap"),
            &at(name),
            &words.chain(monitors).collect::<Vec<_>>(),
        );
        manifest(&at(name))
    };
    let all = capture("all", &[]);
    let rows = |manifest: &lineside_trace::Manifest| {
        manifest
            .tables
            .values()
            .map(|table| table.rows)
            .sum::<u64>()
    };
    let windows = Table::MonitorWindows.name();
    for cores in ["1", "2"] {
        let kept = capture(cores, &["--keep", "4MiB", "--cores", cores]);
        let gone = all.tables[windows].rows - kept.tables[windows].rows;
        assert!(gone > 0, "the test needs more windows: {:?}", all.tables);
        let left = records(&at(cores), Table::MonitorWindows).len() as u64;
        assert_eq!(kept.tables[windows].rows, left);
        let removed = kept.removed.expect("it is reported");
        assert_eq!(removed.rows + rows(&kept), rows(&all));
        assert!(removed.rows >= gone && removed.parts > 0 && removed.bytes > 0);
        assert!(removed.kept_since_ns.is_some());
        assert_eq!(kept.counters["limits.rows_kept"].value, removed.rows);
        for verb in ["report", "info"] {
            let output = lineside().arg(verb).arg(at(cores)).output();
            let text = output.expect("it runs").stdout;
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains("--keep"), "{verb}: {text}");
        }
    }
}
