//! Many files at once: what is open, and what memory they take.

use std::path::Path;

use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_port::{FolderFile, Merge, PoolConfig, Port, PortError, Receive, Received};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::formats::gzip;
use crate::support::Bytes;

/// A frame of a file: microseconds after the one before it, and its length.
type Step = (u32, usize);

/// Most frames are short, some longer than the blocks of many files.
fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![9 => 0_usize..900, 1 => 0_usize..200_000]
}

/// Writes a file, compressed if asked, whose frames are filled with the number of the file.
fn write(path: &Path, number: usize, steps: &[Step], is_compressed: bool) {
    let mut file = Bytes::new(false);
    file.pcap_header(0xa1b2_c3d4, 1);
    let mut now_us = 0;
    for (step_us, len) in steps {
        now_us += step_us;
        file.pcap_record(
            now_us / 1_000_000,
            now_us % 1_000_000,
            *len as u32,
            &vec![number as u8; *len],
        );
    }
    let bytes = match is_compressed {
        true => gzip(&file.bytes),
        false => file.bytes,
    };
    std::fs::write(path, bytes).expect("room");
}

fn look(path: &Path, pool: &PoolConfig) -> FolderFile {
    let len = path.metadata().expect("it is there").len();
    FolderFile::new(path, pool, len).expect("a capture")
}

/// Files and numbers of the frames that come, while all are held until the memory is used up.
fn held(merge: &mut Merge, max: usize) -> Vec<(u16, u64)> {
    let (mut burst, mut held, mut came) = (Burst::new(), Vec::new(), Vec::new());
    let mut is_empty = false;
    loop {
        let received = merge.receive(&mut burst, max).expect("nothing is wrong");
        for frame in burst.drain(..) {
            let descriptor = *frame.descriptor();
            assert!(
                frame
                    .bytes()
                    .iter()
                    .all(|&byte| byte == descriptor.input as u8)
            );
            came.push((descriptor.input, descriptor.number));
            held.push(frame);
        }
        match received {
            Received::End => return came,
            Received::PoolEmpty => {
                assert!(!is_empty, "nothing is held, and no file goes on");
                held.clear();
                is_empty = true;
            }
            _ => is_empty = false,
        }
    }
}

/// All frames by their stamps, of equal ones by their files.
fn in_order(files: &[Vec<Step>]) -> Vec<(u16, u64)> {
    let mut frames = Vec::new();
    for (file, steps) in files.iter().enumerate() {
        let mut now_us = 0;
        for (index, (step_us, _)) in steps.iter().enumerate() {
            now_us += step_us;
            frames.push((now_us, file as u16, index as u64 + 1));
        }
    }
    frames.sort_unstable();
    frames
        .into_iter()
        .map(|(_, file, number)| (file, number))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is held of however many files, each goes on when it is let go.
    #[test]
    fn files_share_memory_and_none_waits_for_another(
        files in vec(vec((0_u32..9, lens()), 1..20), 2..40),
        compressed in vec(any::<bool>(), 40),
        bytes_max in 1_usize..(4 << 20),
        max in 1_usize..100,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let budget = Budget::new(64 << 20);
        let pool = PoolConfig::new(budget.clone(), bytes_max);
        let mut inputs = Vec::new();
        for (number, steps) in files.iter().enumerate() {
            let path = folder.path().join(format!("{number}.pcap"));
            write(&path, number, steps, compressed[number]);
            inputs.push(look(&path, &pool));
        }
        drop(pool);
        let mut merge = Merge::new(inputs);
        prop_assert_eq!(held(&mut merge, max), in_order(&files));
        drop(merge);
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}

/// A hundred times as many as have room in blocks of the usual length.
#[test]
fn thousands_that_overlap_take_small_blocks() {
    const FILES: usize = 2_000;
    let folder = tempfile::tempdir().expect("a folder");
    let budget = Budget::new(10 << 20);
    let pool = PoolConfig::new(budget.clone(), budget.limit_bytes());
    let steps = [(5, 100); 50];
    let inputs = (0..FILES).map(|number| {
        let path = folder.path().join(format!("{number}.pcap"));
        write(&path, number, &steps, false);
        look(&path, &pool)
    });
    let mut merge = Merge::new(inputs);
    let came = held(&mut merge, 256);
    assert_eq!(came, in_order(&vec![steps.to_vec(); FILES]));
    assert!(budget.peak_bytes() <= budget.limit_bytes());
}

#[test]
fn files_that_follow_each_other_take_the_memory_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let budget = Budget::new(64 << 20);
    let pool = PoolConfig::new(budget.clone(), budget.limit_bytes()).with_files_max(1);
    let inputs = (0..100).map(|number| {
        let path = folder.path().join(format!("{number}.pcap"));
        write(
            &path,
            number,
            &[(number as u32 * 100, 100), (1, 3000)],
            number % 2 == 0,
        );
        look(&path, &pool)
    });
    let mut merge = Merge::new(inputs.collect::<Vec<_>>());
    let mut burst = Burst::new();
    while merge.receive(&mut burst, 256).expect("one is open at once") != Received::End {
        burst.clear();
    }
    assert!(budget.peak_bytes() < 2 << 20, "{}", budget.peak_bytes());
}

/// A file that stays open needs no path, and one that was looked at is read as often as wanted.
#[test]
fn files_that_were_looked_at_are_read_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = PoolConfig::new(Budget::new(64 << 20), 1 << 20).with_files_max(1);
    let looked: Vec<_> = (0..20)
        .map(|number| {
            let path = folder.path().join(format!("{number}.pcap"));
            let steps = [(number as u32 * 100, 100), (1, 5000)];
            write(&path, number, &steps, number % 3 == 0);
            let held = (number % 2 == 0).then(|| std::fs::File::open(&path).expect("there"));
            let file = FolderFile::look(&path, held, &pool).expect("a capture");
            if number % 2 == 0 {
                std::fs::remove_file(&path).expect("there");
            }
            file
        })
        .collect();
    for _ in 0..3 {
        let mut merge = Merge::new(looked.iter().map(FolderFile::again));
        assert_eq!(held(&mut merge, 7).len(), 40);
        assert!(merge.facts().iter().all(|facts| facts.warnings.is_empty()));
    }
}

#[test]
fn a_file_too_many_is_an_error_and_the_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = PoolConfig::new(Budget::new(64 << 20), 1 << 20).with_files_max(2);
    let inputs = (0..3).map(|number| {
        let path = folder.path().join(format!("{number}.pcap"));
        write(&path, number, &[(0, 10), (9, 10)], false);
        look(&path, &pool)
    });
    let mut merge = Merge::new(inputs.collect::<Vec<_>>());
    let (mut burst, mut errors) = (Burst::new(), Vec::new());
    loop {
        match merge.receive(&mut burst, 10) {
            Ok(Received::End) => break,
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    let from: Vec<u16> = burst.iter().map(|frame| frame.descriptor().input).collect();
    assert_eq!(from, [0, 1, 0, 1]);
    let [error @ PortError::TooManyOpen { files_max: 2, .. }] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert!(error.to_string().contains("2.pcap") && error.to_string().contains("ulimit -n"));
    assert_eq!(merge.facts().len(), 3);
}
