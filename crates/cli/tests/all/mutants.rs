//! Seeded mutants of captures: whatever the bytes are, the command ends by itself, says what is wrong,
//! and its books balance.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use lineside_testkit::capture;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_time::Random;

use crate::support::{counters, example, lineside, manifest, shared_traces, talk};

/// Mutants in one run of `./test`; `LINESIDE_MUTANTS=10000` for a long one.
const MUTANTS: u64 = 1000;
/// Captures above this many bytes take too long for so many runs.
const CAPTURE_LEN_MAX: usize = 2 << 20;

#[test]
fn mutants_are_survived() {
    let mutants = std::env::var("LINESIDE_MUTANTS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut captures = vec![example()];
    if let Some(folder) = shared_traces() {
        for part in ["own", "public"] {
            let entries = std::fs::read_dir(folder.join(part)).expect("a folder of captures");
            captures.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    captures.sort();
    let originals: Vec<(PathBuf, Vec<u8>)> = captures
        .into_iter()
        .map(|path| {
            (
                path.clone(),
                capture::bytes(&path).expect("a readable file"),
            )
        })
        .filter(|(_, bytes)| bytes.len() <= CAPTURE_LEN_MAX)
        .collect();
    let mutant = |seed: u64| {
        let mut random = Random::new(seed);
        let (path, bytes) = &originals[random.below(originals.len() as u64) as usize];
        let what = format!("seed {seed}, {}", path.display());
        (what, mutate(path, bytes, &mut random))
    };
    survive(mutants.unwrap_or(MUTANTS), &mutant);
}

#[test]
fn a_cut_at_every_offset_is_survived() {
    let frames = capture::read(&example()).expect("the example");
    let pcap = capture::write(&frames[3..8]);
    let pcapng = capture::bytes(&example()).expect("the example");
    let pcapng = pcapng[..pcap.len() + 200].to_vec();
    let lens = [pcap.len() as u64, pcapng.len() as u64];
    survive(lens[0] + lens[1], &|at| match at.checked_sub(lens[0]) {
        None => (format!("pcap cut at {at}"), pcap[..at as usize].to_vec()),
        Some(at) => (
            format!("pcapng cut at {at}"),
            pcapng[..at as usize].to_vec(),
        ),
    });
}

/// Harm to the frames, to the bytes of the file, or its end.
fn mutate(path: &Path, bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mutant = bytes.to_vec();
    match (random.below(4), capture::read(path)) {
        (0 | 1, Ok(frames)) => {
            let harm = Harm {
                seed: random.bits(),
                late_start: random.below(frames.len() as u64 / 2 + 1) as usize,
                drop: [0.0, 0.02, 0.3][random.below(3) as usize],
                burst: 1 + random.below(20) as usize,
                duplicate: 0.02,
                late: 0.05,
                depth: 1 + random.below(50) as usize,
                snap: if random.chance(0.3) {
                    random.below(1600) as usize
                } else {
                    usize::MAX
                },
                corrupt: [0.0, 0.05, 0.5][random.below(3) as usize],
            };
            mutant = capture::write(&mangle(&frames, &harm).frames);
        }
        (2, _) => mutant.truncate(random.below(bytes.len() as u64 + 1) as usize),
        _ => {
            for _ in 0..=random.below(64) {
                let at = random.below(bytes.len() as u64) as usize;
                mutant[at] = random.bits() as u8;
            }
        }
    }
    mutant
}

/// Captures each of `count` mutants, on all cores.
fn survive(count: u64, mutant: &(impl Fn(u64) -> (String, Vec<u8>) + Sync)) {
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        let folder = tempfile::tempdir().expect("a folder");
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let (what, bytes) = mutant(number);
            if let Some(failure) = capture_one(folder.path(), &bytes) {
                failures
                    .lock()
                    .expect("no panic")
                    .push(format!("{what}: {failure}"));
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().expect("no panic");
    assert!(
        failures.is_empty(),
        "{} of {count}\n{}",
        failures.len(),
        failures[..failures.len().min(10)].join("\n")
    );
}

/// What went wrong, if anything.
fn capture_one(folder: &Path, bytes: &[u8]) -> Option<String> {
    let (input, out) = (folder.join("mutant"), folder.join("trace"));
    std::fs::write(&input, bytes).expect("the mutant is written");
    let command = lineside()
        .arg("capture")
        .arg(&input)
        .arg("-o")
        .arg(&out)
        .args(["-q", "--force"])
        .output();
    let output = command.expect("lineside runs");
    let talk = talk(&output);
    match output.status.code() {
        Some(0) => counters(&manifest(&out)).broken_identity(),
        // A file that is broken, not only cut: refused, with the name and without a panic.
        Some(1) if talk.contains(&input.display().to_string()) && !talk.contains("panicked") => {
            None
        }
        _ => Some(format!("{}: {talk}", output.status)),
    }
}
