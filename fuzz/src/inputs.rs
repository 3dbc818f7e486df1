//! Targets without a fuzzer, for the tests of `lineside-capture` and `lineside-cli`: on inputs that
//! once failed, on the seeds, and on seeded changes of both. The changes are the same each time;
//! `fuzz/run` is what looks for paths that no one has seen.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use lineside_time::Random;

type Target = (&'static str, fn(&[u8]));

/// Changed inputs of each target in an ordinary run; `LINESIDE_CHANGED=400000` for a long one.
const CHANGED: u64 = 20_000;
/// Targets of which an input takes a millisecond or more: a tenth of the inputs.
const SLOW: [&str; 6] = ["agents", "nfs_client", "part", "path", "runs", "splice"];
/// What an input may grow by.
const GROWTH_MAX: usize = 256;

/// Runs each input of a folder by the target in its name, `TARGET-what.bin`; how many there were.
pub(crate) fn found(targets: &[Target], folder: &Path) -> usize {
    let inputs = files(folder);
    for path in &inputs {
        let target = of(targets, path);
        let (_, run) = target.unwrap_or_else(|| panic!("{}: no such target", path.display()));
        let outcome = catch_unwind(|| run(&bytes(path)));
        assert!(outcome.is_ok(), "{}: see above", path.display());
    }
    inputs.len()
}

/// Runs each target on its seeds, and on changes of them and of the inputs in `once_failed`.
pub(crate) fn changed(targets: &[Target], once_failed: &Path) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
    let once_failed = files(once_failed);
    each(targets.len() as u64, |number| {
        let (name, run) = targets[number as usize];
        let mut inputs: Vec<Vec<u8>> = files(&seeds.join(name)).iter().map(|p| bytes(p)).collect();
        assert!(!inputs.is_empty(), "{name} has no seed");
        let own = |path: &&PathBuf| of(targets, path).is_some_and(|(own, _)| own == name);
        inputs.extend(once_failed.iter().filter(own).map(|path| bytes(path)));
        survive(name, run, &inputs)
    });
}

/// Looks for what is wrong with each number below `count`, on all cores; panics if something is.
pub(crate) fn each(count: u64, fault: impl Fn(u64) -> Option<String> + Sync) {
    let (next, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            if let Some(failure) = fault(number) {
                failures.lock().expect("no panic here").push(failure);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().expect("no panic here");
    assert!(
        failures.is_empty(),
        "{} of {count}\n{}",
        failures.len(),
        failures[..failures.len().min(10)].join("\n")
    );
}

/// The first of a target's inputs that fails, which is left where a fuzzer leaves its own.
fn survive(name: &str, run: fn(&[u8]), inputs: &[Vec<u8>]) -> Option<String> {
    let asked = std::env::var("LINESIDE_CHANGED").ok();
    let count = asked.and_then(|text| text.parse().ok()).unwrap_or(CHANGED);
    let count = count / if SLOW.contains(&name) { 10 } else { 1 };
    let mut random = Random::new(1);
    let seeds = inputs.iter().cloned();
    let changes = (0..count).map(|_| change(inputs, &mut random));
    for (number, input) in seeds.chain(changes).enumerate() {
        if catch_unwind(|| run(&input)).is_err() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/artifacts");
            let path = folder.join(name).join(format!("changed-{number}.bin"));
            let left = std::fs::create_dir_all(folder.join(name));
            let left = left.and_then(|()| std::fs::write(&path, &input));
            return Some(format!("{}: see above, {left:?}", path.display()));
        }
    }
    None
}

/// One of the inputs with one to four changes of the kinds that fuzzers make.
fn change(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let any = |random: &mut Random| &inputs[random.below(inputs.len() as u64) as usize];
    let mut bytes = any(random).clone();
    let len_max = bytes.len() + GROWTH_MAX;
    for _ in 0..=random.below(4) {
        let len = bytes.len() as u64;
        let at = random.below(len) as usize;
        let reach = 1 << random.below(8);
        let end = (at + 1 + random.below(reach) as usize).min(bytes.len());
        match random.below(8) {
            _ if bytes.is_empty() => bytes.push(random.bits() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = b"\0\x01\n\x7f\x80\xff"[random.below(6) as usize],
            2 => drop(bytes.drain(at..end)),
            3 => bytes.extend_from_within(at..end),
            4 => bytes.truncate(at),
            5 => number(&mut bytes, at, random),
            6 => digits(&mut bytes, at, random),
            _ => {
                let other = any(random);
                let from = random.below(other.len() as u64) as usize;
                let part = &other[from..(from + end - at).min(other.len())];
                match random.chance(0.5) {
                    true => drop(
                        bytes.splice(at..(at + part.len()).min(bytes.len()), part.iter().copied()),
                    ),
                    false => drop(bytes.splice(at..at, part.iter().copied())),
                }
            }
        }
        bytes.truncate(len_max);
    }
    bytes
}

/// A number of 2, 4 or 8 bytes in either order: at an edge, or a little more or less than it was.
fn number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let width = (2 << random.below(3)).min(bytes.len() - at);
    let field = &mut bytes[at..at + width];
    let is_little = random.chance(0.5);
    let old = field
        .iter()
        .fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    let value = match random.below(6) {
        0 => u64::MAX,
        1 => u64::MAX >> 1,
        2 => 1 << random.below(64),
        3 => (1 << random.below(64)) - 1,
        _ => old.wrapping_add(random.below(33)).wrapping_sub(16),
    };
    for (place, byte) in field.iter_mut().rev().enumerate() {
        *byte = (value >> (8 * place)) as u8;
    }
    if is_little {
        field.reverse();
    }
}

/// Digits of a text, the next from `at` on: another number.
fn digits(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let from = at + from;
    let len = bytes[from..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let value = match random.below(4) {
        0 => random.below(10),
        1 => u64::MAX >> random.below(64),
        _ => random.bits() >> random.below(64),
    };
    bytes.splice(from..from + len, value.to_string().into_bytes());
}

fn of(targets: &[Target], path: &Path) -> Option<Target> {
    let name = path.file_name()?.to_str()?.split('-').next()?;
    targets.iter().copied().find(|(target, _)| *target == name)
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}
