//! Rings of files whose writer does not wait for its reader.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};

use lineside_frame::Burst;
use lineside_port::{Facts, FolderFile, Port, Receive, Received, Tail, list};
use lineside_testkit::capture;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::pool;

/// Who writes a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// Empties the oldest file and begins it anew.
    Tcpdump,
    /// Deletes the oldest file.
    Dumpcap,
}

struct Ring {
    folder: PathBuf,
    writer: Writer,
    files: usize,
    /// Files begun so far.
    begun: usize,
    file: Option<File>,
    frames: u32,
    /// What has not reached the file yet.
    held: Vec<u8>,
    /// Of the first frame; the clock may be set meanwhile.
    now_s: u64,
}

impl Ring {
    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(match self.writer {
            Writer::Tcpdump => format!("cap{}", number % self.files),
            Writer::Dumpcap => format!("cap_{number:05}_20261127{number:06}.pcap"),
        })
    }

    fn next_file(&mut self) {
        self.flush();
        self.begun += 1;
        let file = File::create(self.path(self.begun)).expect("created");
        if self.writer == Writer::Dumpcap && self.begun > self.files {
            std::fs::remove_file(self.path(self.begun - self.files)).expect("it was there");
        }
        self.file = Some(file);
        self.held = capture::write(&[])[..24].to_vec();
        // It is a frame that makes the writer go on.
        self.frame();
    }

    fn frame(&mut self) {
        self.frames += 1;
        self.now_s += 1;
        let frame = capture::Frame {
            // No two have the same, also when the clock was set back.
            stamp_ns: Some((self.now_s * 1_000_000_000) as i64 + i64::from(self.frames)),
            bytes: self.frames.to_be_bytes().to_vec(),
            wire_len: 4,
            link_type: 1,
        };
        self.held.extend(&capture::write(&[frame])[24..]);
    }

    /// Writes what is held but for `left` bytes.
    fn write(&mut self, left: usize) {
        let len = self.held.len().saturating_sub(left);
        let rest = self.held.split_off(len);
        if let Some(file) = &mut self.file {
            file.write_all(&self.held).expect("written");
        }
        self.held = rest;
    }

    fn flush(&mut self) {
        self.write(0);
    }
}

/// A step of the writer or of the reader.
#[derive(Debug, Clone, Copy)]
enum Step {
    Frames(u8),
    Write(u8),
    NextFile,
    Read(u8),
    SetBack(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_u8..20).prop_map(Step::Frames),
        2 => (0_u8..40).prop_map(Step::Write),
        3 => Just(Step::NextFile),
        4 => (1_u8..40).prop_map(Step::Read),
        1 => (0_u16..1000).prop_map(Step::SetBack),
    ];
    vec(step, 1..200)
}

/// The files of a folder one after the other, without the waits of a merge.
struct Reader {
    files: VecDeque<FolderFile>,
    followed: Tail,
    ended: Vec<Facts>,
    /// The frames' numbers.
    got: Vec<u32>,
}

impl Reader {
    fn open(folder: &Path) -> Self {
        let (mut files, _) = list(folder, &pool()).expect("captures");
        let followed = Tail::folder(folder, &files, &pool()).expect("the last file");
        files.pop();
        Self {
            files: files.into(),
            followed,
            ended: Vec::new(),
            got: Vec::new(),
        }
    }

    /// One call; whether it gave anything.
    fn read(&mut self, max: usize) -> bool {
        let mut burst = Burst::new();
        let port: &mut dyn Receive = match self.files.front_mut() {
            Some(file) => file,
            None => &mut self.followed,
        };
        let received = port.receive(&mut burst, max).expect("no error of a ring");
        for frame in burst.drain(..) {
            let bytes = frame.bytes().try_into().expect("a frame that was written");
            self.got.push(u32::from_be_bytes(bytes));
        }
        if received == Received::End
            && let Some(file) = self.files.pop_front()
        {
            self.ended.extend(file.facts().into_iter().cloned());
            return true;
        }
        matches!(received, Received::Frames(_))
    }

    fn read_all(&mut self) {
        // A file that was read to its end may be reported before its newer bytes are read.
        for _ in 0..3 {
            while self.read(64) {}
        }
    }

    fn facts(&self) -> Vec<&Facts> {
        self.ended.iter().chain(self.followed.facts()).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No frame comes twice or wrong, and if one is missing the reader says so. None
    /// is missing if it read all the time, or the writer has not come round; and if then or of
    /// dumpcap's numbers none is missing, it says nothing.
    #[test]
    fn a_ring_that_laps_its_reader_says_so(
        writer in prop_oneof![Just(Writer::Tcpdump), Just(Writer::Dumpcap)],
        files in prop_oneof![2_usize..6, 2_usize..60],
        before in 1_usize..10,
        steps in steps(),
        sets_clock in any::<bool>(),
        is_eager in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ring = Ring {
            folder: folder.path().to_owned(),
            writer,
            files,
            begun: 0,
            file: None,
            frames: 0,
            held: Vec::new(),
            now_s: 1_700_000_000,
        };
        for _ in 0..before {
            ring.next_file();
            (0..2).for_each(|_| ring.frame());
            ring.flush();
        }
        let mut reader = Reader::open(folder.path());
        for step in iter::once(Step::Write(255)).chain(steps) {
            match step {
                Step::Frames(count) => (0..count).for_each(|_| ring.frame()),
                Step::Write(left) => ring.write(left.into()),
                Step::NextFile => ring.next_file(),
                Step::Read(max) => drop(reader.read(max.into())),
                Step::SetBack(by_s) if sets_clock => ring.now_s -= u64::from(by_s),
                Step::SetBack(_) => {}
            }
            if is_eager {
                reader.read_all();
            }
        }
        ring.flush();
        reader.read_all();
        let facts = reader.facts();
        let lapses: u64 = facts.iter().map(|facts| facts.lapses).sum();
        prop_assert_eq!(
            facts.iter().map(|facts| facts.frames).sum::<u64>(),
            reader.got.len() as u64
        );
        let mut numbers = reader.got.clone();
        if !sets_clock {
            prop_assert!(numbers.is_sorted(), "{:?}", numbers);
        }
        numbers.sort_unstable();
        prop_assert!(numbers.windows(2).all(|two| two[0] < two[1]), "twice: {:?}", numbers);
        let first = before.saturating_sub(files) as u32 * 3 + 1;
        prop_assert!(numbers.iter().all(|number| (first..=ring.frames).contains(number)));
        let missing = (first..=ring.frames).filter(|number| numbers.binary_search(number).is_err());
        let missing: Vec<u32> = missing.collect();
        let warnings: Vec<_> = facts.iter().flat_map(|facts| &facts.warnings).collect();
        prop_assert!(missing.is_empty() || lapses > 0, "{:?} of {}", missing, ring.frames);
        if is_eager || ring.begun <= files && !sets_clock {
            prop_assert!(missing.is_empty(), "{:?} of {}", missing, ring.frames);
        }
        // tcpdump's names do not tell whether a file had another round.
        if missing.is_empty() && (ring.begun <= files || writer == Writer::Dumpcap && !sets_clock) {
            prop_assert!(warnings.is_empty(), "{:?}", warnings);
        }
    }
}

/// After 1,024 files all that follow are one input.
#[test]
fn many_files_of_a_ring_are_reported_as_one() {
    const FILES_KEPT: usize = 1024;
    let folder = tempfile::tempdir().expect("a folder");
    let write = |number: usize| {
        let frame = capture::Frame {
            stamp_ns: Some(number as i64 * 1_000),
            wire_len: 4,
            link_type: 1,
            bytes: (number as u32).to_be_bytes().to_vec(),
        };
        let path = |number: usize| folder.path().join(number.to_string());
        std::fs::write(path(number), capture::write(&[frame])).expect("written");
        if number > 4 {
            std::fs::remove_file(path(number - 4)).expect("it was there");
        }
    };
    write(1);
    let mut reader = Reader::open(folder.path());
    for number in 2..FILES_KEPT + 10 {
        reader.read_all();
        write(number);
    }
    reader.read_all();
    let facts = reader.facts();
    assert_eq!(facts.len(), FILES_KEPT + 1);
    assert_eq!(facts[FILES_KEPT - 1].frames, 1);
    let last = facts[FILES_KEPT];
    assert_eq!((last.frames, last.bytes), (9, 9 * (24 + 16 + 4)));
    assert!(
        last.name.ends_with("and others after the first 1024"),
        "{}",
        last.name
    );
    assert_eq!(reader.got.len(), FILES_KEPT + 9);
}
