//! Seeded mutants of captures: whatever a tap, a disk or an attacker did to them, nothing panics,
//! memory stays inside the budget, the identities of the counters hold, and the same bytes give the
//! same rows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lineside_capture::Config;
use lineside_testkit::capture::{self, Frame};
use lineside_testkit::captures;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_time::Random;

use crate::inputs::each;
use crate::targets::path::{Setup, capture as run};

/// Mutants in an ordinary run; `LINESIDE_MUTANTS=10000` for a long one, `LINESIDE_MUTANT=7` for one
/// alone.
const MUTANTS: u64 = 1000;
/// Larger captures would spend the time on decompression.
const CAPTURE_LEN_MAX: usize = 8 << 20;
/// Frames of a mutant: a window of a larger capture.
const FRAMES_MAX: u64 = 2000;
/// Captures that are cut at every offset.
const CUT_LEN_MAX: usize = 3000;

struct Original {
    path: PathBuf,
    bytes: Vec<u8>,
    /// None if the file is cut or damaged as it is.
    frames: Vec<Frame>,
}

struct Mutant {
    what: String,
    files: Vec<Arc<[u8]>>,
    choices: [u8; 3],
}

#[test]
fn mutants_do_no_harm() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let originals = originals();
    if let Some(seed) = number("LINESIDE_MUTANT") {
        let mutant = mutant(&originals, seed);
        println!("{} {:?}", mutant.what, mutant.choices);
        assert_eq!(check(&mutant).err(), None);
        return;
    }
    let count = number("LINESIDE_MUTANTS").unwrap_or(MUTANTS);
    let operations = survive(count, |seed| mutant(&originals, seed));
    assert!(operations > count, "hardly anything was left to find");
}

#[test]
fn small_captures_cut_at_every_offset_do_no_harm() {
    let mut originals = originals();
    // Of the large ones, the first frames of one as a file.
    let large = originals.iter().find(|each| each.frames.len() > 5);
    let begin = large.map(|large| Original {
        path: large.path.clone(),
        bytes: capture::write(&large.frames[..5]),
        frames: Vec::new(),
    });
    originals.retain(|original| original.bytes.len() <= CUT_LEN_MAX);
    originals.extend(begin);
    let ends: Vec<u64> = originals
        .iter()
        .scan(0, |end, original| {
            *end += original.bytes.len() as u64;
            Some(*end)
        })
        .collect();
    survive(ends.last().copied().unwrap_or(0), |place| {
        let at = ends
            .partition_point(|&end| end <= place)
            .min(ends.len() - 1);
        let original = &originals[at];
        let len = (place + original.bytes.len() as u64 - ends[at]) as usize;
        Mutant {
            what: format!("{} cut at {len}", original.path.display()),
            files: vec![original.bytes[..len].into()],
            choices: [0; 3],
        }
    });
}

/// The captures at hand.
fn originals() -> Vec<Original> {
    let original = |path: PathBuf| {
        let is_small = path.metadata().is_ok_and(|facts| facts.len() < 1 << 20);
        let bytes = is_small.then(|| capture::bytes(&path))?.ok()?;
        let is_capture = bytes.len() > 24 && path.extension().is_some_and(|name| name != "md");
        let frames = capture::read(&path).unwrap_or_default();
        (is_capture && bytes.len() <= CAPTURE_LEN_MAX).then_some(Original {
            path,
            bytes,
            frames,
        })
    };
    let originals: Vec<Original> = captures::all().into_iter().filter_map(original).collect();
    assert!(!originals.is_empty(), "there is nothing to change");
    originals
}

/// The mutant of this number: always the same.
fn mutant(originals: &[Original], seed: u64) -> Mutant {
    let mut random = Random::new(seed);
    // One in four has two inputs, which are merged.
    let count = if random.chance(0.25) { 2 } else { 1 };
    let (mut files, mut names) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let original = &originals[random.below(originals.len() as u64) as usize];
        let mut bytes = match &original.frames[..] {
            frames @ [_, ..] if random.chance(0.8) => frame_level(frames, &mut random),
            _ => original.bytes.clone(),
        };
        if bytes.len() as u64 > 1000 * FRAMES_MAX {
            bytes.truncate(random.below(1000 * FRAMES_MAX) as usize);
        }
        if random.chance(0.3) {
            let share = 0.0001 * f64::powf(200.0, random.below(1000) as f64 / 1000.0);
            change_bytes(&mut bytes, share, &mut random);
        }
        if random.chance(0.1) {
            bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        }
        names.push(original.path.display().to_string());
        files.push(bytes.into());
    }
    let mut choice = || {
        if random.chance(0.5) {
            0
        } else {
            random.bits() as u8
        }
    };
    Mutant {
        what: format!("seed {seed}, {}", names.join(" and ")),
        files,
        choices: [choice(), choice(), choice()],
    }
}

/// What an imperfect tap would have recorded, and frames with changed bytes: as a file that is
/// whole.
fn frame_level(frames: &[Frame], random: &mut Random) -> Vec<u8> {
    let len = (frames.len() as u64).min(FRAMES_MAX);
    let start = random.below(frames.len() as u64 - len + 1) as usize;
    let window = &frames[start..start + len as usize];
    let harm = Harm {
        seed: random.bits(),
        late_start: if random.chance(0.2) {
            random.below(len) as usize
        } else {
            0
        },
        drop: [0.0, 0.01, 0.1, 0.4][random.below(4) as usize],
        burst: 1 + random.below(10) as usize,
        duplicate: [0.0, 0.02, 0.3][random.below(3) as usize],
        late: [0.0, 0.05, 0.5][random.below(3) as usize],
        depth: 1 + random.below(60) as usize,
        snap: if random.chance(0.2) {
            random.below(300) as usize
        } else {
            usize::MAX
        },
        corrupt: [0.0, 0.02, 0.3][random.below(3) as usize],
    };
    let mut frames = mangle(window, &harm).frames;
    if random.chance(0.3) {
        // Headers most of all: there a byte changes what follows.
        for frame in &mut frames {
            if random.chance(0.2) {
                let end = frame.bytes.len().min(160);
                change_bytes(&mut frame.bytes[..end], 0.02, random);
            }
        }
    }
    if random.chance(0.1) {
        // Clocks that jump, and frames without a stamp in all but name.
        for frame in &mut frames {
            if random.chance(0.05) {
                let bits = random.below(48);
                let by = random.below(1 << bits) as i64;
                let by = if random.chance(0.5) { by } else { -by };
                frame.stamp_ns = frame.stamp_ns.map(|stamp| (stamp + by).max(0));
            }
        }
    }
    capture::write(&frames)
}

/// Changes about this share of the bytes, at least one.
fn change_bytes(bytes: &mut [u8], share: f64, random: &mut Random) {
    let count = 1 + (bytes.len() as f64 * share) as u64;
    for _ in 0..count.min(bytes.len() as u64) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = match random.below(5) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at] ^ 1 << random.below(8),
            3 => bytes[at].wrapping_add(1),
            _ => random.bits() as u8,
        };
    }
}

/// Runs each of `count` mutants twice, on all cores; returns how many operations were found.
fn survive(count: u64, mutant: impl Fn(u64) -> Mutant + Sync) -> u64 {
    let operations = AtomicU64::new(0);
    each(count, |number| {
        let mutant = mutant(number);
        let failure = match catch_unwind(AssertUnwindSafe(|| check(&mutant))) {
            Ok(Ok(seen)) => {
                operations.fetch_add(seen as u64, Ordering::Relaxed);
                return None;
            }
            Ok(Err(failure)) => failure,
            Err(_) => "panicked, see above".to_owned(),
        };
        let (what, choices) = (&mutant.what, mutant.choices);
        Some(format!("{what}: {failure} (choices {choices:?})"))
    });
    let operations = operations.into_inner();
    println!("{count} mutants, {operations} operations");
    operations
}

/// What is wrong with a mutant, or how many operations were in it.
fn check(mutant: &Mutant) -> Result<usize, String> {
    let setup = Setup::new(mutant.choices);
    let first = run(&mutant.files, &setup);
    if let Some(fault) = first.fault {
        return Err(fault);
    }
    // Once more: the same way if a bound was reached, else by other reads, bursts and blocks, and
    // without the short ways.
    let is_limited = first.is_limited();
    let again = if is_limited {
        setup
    } else {
        let config = Config {
            fast_path: false,
            ..setup.config
        };
        Setup {
            config,
            read_len: if setup.read_len == usize::MAX {
                1000
            } else {
                usize::MAX
            },
            budget_bytes: 32 << 20,
        }
    };
    let second = run(&mutant.files, &again);
    match second.fault {
        Some(fault) => Err(format!("the second time: {fault}")),
        // With other bursts, a table may be full that was not the first time.
        None if second.hash != first.hash && second.is_limited() == is_limited => {
            Err("other rows the second time".to_owned())
        }
        None => Ok(first.operations),
    }
}
