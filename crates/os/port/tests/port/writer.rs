//! Captures that are written: read back by our reader, by tshark and by another library, and
//! rotated as dumpcap does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use lineside_account::Budget;
use lineside_frame::{Burst, Frame, LinkType};
use lineside_port::{
    CaptureReader, CaptureWriter, Interface, Port, PortError, Transmit, WriterConfig,
};
use lineside_testkit::disk::SmallDisk;
use lineside_testkit::waiting::wait_until;
use pcap_parser::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Expected, drain, pool, read, writer, writer_config};

const SECOND_NS: i64 = 1_000_000_000;

/// An Ethernet frame of `len` equal bytes.
fn frame(stamp_ns: i64, len: usize) -> Frame {
    let expected = Expected {
        stamp_ns: Some(stamp_ns),
        wire_len: len as u32,
        link_type: 1,
        bytes: vec![len as u8; len],
    };
    expected.frame(0)
}

fn read_file(path: &Path) -> Vec<Expected> {
    read(&std::fs::read(path).expect("it was written")).clean()
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// What a program prints; `None`, with a word about it, where it is not installed.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let talk = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {talk}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(_) => {
            println!("SKIP: {program} is not installed");
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_captures_are_read_back(
        frames in vec(
            (prop::option::weighted(0.9, 0_i64..4_294_967_296_000_000_000), 0_u32..100,
            vec(any::<u8>(), 0..100), 0_u16..3, 0_u16..3),
            0..40,
        ),
        is_pcapng in any::<bool>(),
        announced in 0_u16..3,
        packets in prop::option::of(1_usize..9),
        burst_len in 1_usize..9,
    ) {
        let written: Vec<(u16, Expected)> = frames
            .into_iter()
            .map(|(stamp_ns, cut_len, bytes, input, link_type)| {
                let expected = Expected {
                    stamp_ns,
                    wire_len: bytes.len() as u32 + cut_len,
                    link_type: if is_pcapng { link_type } else { 101 },
                    bytes,
                };
                (input, expected)
            })
            .collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(if is_pcapng { "out" } else { "out.pcap" });
        let words = packets.map(|packets| format!("packets:{packets}"));
        let interface = |input| Interface {
            link_type: LinkType(if is_pcapng { input } else { 101 }),
            ..Interface::default()
        };
        let config = WriterConfig {
            interfaces: (0..announced).map(interface).collect(),
            ..writer_config(words.as_deref().as_slice())
        };
        let budget = config.budget.clone();
        let mut writer = CaptureWriter::create(&path, config, Some(0)).expect("room");
        let mut bursts = written.chunks(burst_len).map(|frames| -> Burst {
            frames.iter().map(|(input, expected)| expected.frame(*input)).collect()
        });
        bursts.try_for_each(|mut burst| {
            let count = burst.len();
            prop_assert_eq!(writer.transmit(&mut burst).expect("room"), count);
            prop_assert!(burst.is_empty() && writer.reclaim() == 0);
            Ok(())
        })?;
        writer.finish().expect("room");
        prop_assert_eq!(budget.used_bytes(), 0);
        let files = files(folder.path());
        prop_assert_eq!(files.len(), packets.map_or(1, |packets| written.len() / packets + 1));
        let read: Vec<Expected> = files.iter().flat_map(|file| read_file(file)).collect();
        let expected: Vec<Expected> = { written.into_iter() }
            .map(|(_, expected)| Expected { stamp_ns: Some(expected.stamp_ns.unwrap_or(0)), ..expected })
            .collect();
        prop_assert_eq!(read, expected);
    }
}

/// What is read from files begins at its first frame: so is its first file called, and no
/// file comes before.
#[test]
fn the_first_file_is_called_by_the_first_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let begin_ns = 1_700_000_000 * SECOND_NS;
    let frame = |stamp_ns| {
        let expected = Expected {
            stamp_ns: Some(stamp_ns),
            wire_len: 60,
            link_type: 1,
            bytes: vec![0xaa; 60],
        };
        expected.frame(0)
    };
    let names = |begin_ns: Option<i64>, words: &[&str]| {
        let part = tempfile::tempdir_in(&folder).expect("room");
        let path = part.path().join("ring.pcapng");
        let config = writer_config(words);
        let mut writer = CaptureWriter::create(&path, config, begin_ns).expect("room");
        for second in 0..3 {
            let stamp_ns = 1_700_000_000 * SECOND_NS + second * SECOND_NS;
            writer.write(&[frame(stamp_ns)]).expect("room");
        }
        writer.finish().expect("room");
        let files = std::fs::read_dir(part.path()).expect("there");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string()
        };
        let mut names: Vec<_> = files.map(|entry| name(entry).expect("text")).collect();
        names.sort();
        names
    };
    for words in [
        &["duration:2"][..],
        &["packets:2"],
        &["packets:2", "files:5"],
    ] {
        let known = names(Some(begin_ns), words);
        assert_eq!(names(None, words), known, "{words:?}");
        assert_eq!(known.len(), 2, "{known:?}");
    }
}

#[test]
fn a_frame_with_a_rest_is_written_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["split.pcap", "split.pcapng"] {
        let path = folder.path().join(name);
        let mut received = frame(0, 100);
        let head = |len| frame(SECOND_NS, len);
        let mut burst: Burst = [
            head(7).with_rest(&mut received, 40..90),
            head(14).with_rest(&mut received, 99..100),
        ]
        .into();
        let mut writer = writer(&path, &[]);
        assert_eq!(writer.transmit(&mut burst).expect("writes"), 2);
        writer.finish().expect("finishes");
        let written = read_file(&path);
        let expected = [(7, 50), (14, 1)].map(|(head, rest)| Expected {
            stamp_ns: Some(SECOND_NS),
            wire_len: head as u32 + rest,
            link_type: 1,
            bytes: [vec![head; head.into()], vec![100; rest as usize]].concat(),
        });
        assert_eq!(written, expected, "{name}");
    }
}

#[test]
fn a_frame_that_does_not_fit_the_file_stays_in_the_burst() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.pcap");
    let mut writer = writer(&path, &[]);
    let of = |link_type, stamp_ns| {
        let expected = Expected {
            stamp_ns,
            wire_len: 4,
            link_type,
            bytes: b"data".to_vec(),
        };
        expected.frame(0)
    };
    let mut burst = vec![
        of(1, Some(5)),
        of(1, None),
        of(1, Some(-1)),
        of(101, Some(6)),
        of(1, Some(7)),
    ];
    let error = writer.transmit(&mut burst).expect_err("another link type");
    assert_eq!(
        error.to_string(),
        format!(
            "'{}' holds frames of link type 1, this one is of 101: \
             write one file for each, or name it .pcapng",
            path.display()
        )
    );
    assert_eq!(burst.len(), 2);
    let facts = writer.facts()[0];
    assert_eq!((facts.frames, facts.warnings.len()), (3, 1));
    writer.finish().expect("room");
    assert_eq!(read_file(&path).len(), 3);
}

#[test]
fn an_unwritable_name_is_reported_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = |name: &str, words: &[&str], link_types: &[u16]| {
        let interface = |&link_type| Interface {
            link_type: LinkType(link_type),
            ..Interface::default()
        };
        let config = WriterConfig {
            interfaces: link_types.iter().map(interface).collect(),
            ..writer_config(words)
        };
        let path = match name {
            "-" => PathBuf::from(name),
            name => folder.path().join(name),
        };
        let writer = CaptureWriter::create(&path, config, Some(0));
        writer.err().expect("refused").to_string()
    };
    for compressed in ["out.pcapng.gz", "out.zst"] {
        let error = error(compressed, &[], &[]);
        assert!(error.contains("leave the ending away"), "{error}");
    }
    assert!(error("-", &["packets:1"], &[]).ends_with("name a file"));
    assert!(error("", &["packets:1"], &[]).contains("that is a folder"));
    assert!(error("none/out", &["packets:1"], &[]).starts_with("cannot open '"));
    assert!(error("none/out", &[], &[]).starts_with("cannot open '"));
    assert!(error("out.pcap", &[], &[1, 113]).contains("or name it .pcapng"));
    let config = WriterConfig {
        budget: Budget::new(1 << 20),
        ..writer_config(&[])
    };
    let refused = CaptureWriter::create(&folder.path().join("out"), config, Some(0));
    assert!(matches!(refused, Err(PortError::Memory { .. })));
    assert_eq!(files(folder.path()), [] as [PathBuf; 0]);
}

#[test]
fn other_readers_read_the_written_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.pcapng");
    let of = |name: &str, filter: Option<&str>| Interface {
        name: Some(name.to_owned()),
        link_type: LinkType::ETHERNET,
        snap_len: 96,
        filter: filter.map(str::to_owned),
        ..Interface::default()
    };
    let config = WriterConfig {
        interfaces: vec![of("tap-in", Some("tcp port 2049")), of("tap-out", None)],
        application: "lineside of a test".to_owned(),
        comment: Some("what was to be seen".to_owned()),
        ..writer_config(&[])
    };
    let begin_ns = 1_700_000_000 * SECOND_NS;
    let mut writer = CaptureWriter::create(&path, config, Some(begin_ns)).expect("room");
    let ethernet = |stamp_ns, wire_len: u32, input| {
        let expected = Expected {
            stamp_ns,
            wire_len,
            link_type: 1,
            bytes: vec![0xaa; wire_len.min(96) as usize],
        };
        expected.frame(input)
    };
    let raw = Expected {
        stamp_ns: Some(begin_ns + 3),
        wire_len: 20,
        link_type: LinkType::RAW.0,
        bytes: [&[0x45][..], &[0; 19]].concat(),
    };
    let frames = [
        ethernet(Some(begin_ns + 1), 61, 0),
        ethernet(Some(begin_ns + 2), 1514, 1),
        raw.frame(1),
        ethernet(None, 64, 0),
    ];
    writer.write(&frames).expect("room");
    let figures = Interface {
        received: Some(1 << 33),
        dropped: Some(7),
        dropped_by_system: Some(8),
        ..Interface::default()
    };
    writer.set_figures(1, &figures);
    writer.on_timer(begin_ns + 5 * SECOND_NS).expect("room");
    writer.finish().expect("room");

    let ours = read(&std::fs::read(&path).expect("it was written"));
    let described = &ours.facts.interfaces;
    assert_eq!(described[0].filter.as_deref(), Some("tcp port 2049"));
    assert_eq!(described[1].received, Some(1 << 33));
    assert_eq!(
        (described[1].dropped, described[1].dropped_by_system),
        (Some(7), Some(8))
    );
    assert_eq!(
        described.len(),
        3,
        "raw frames are of an interface of their own"
    );

    let file = std::fs::File::open(&path).expect("it was written");
    let mut parser = pcap_parser::PcapNGReader::new(65_536, file).expect("a section");
    let (mut frames, mut statistics) = (Vec::new(), Vec::new());
    while let Ok((len, block)) = parser.next() {
        match block {
            pcap_parser::PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                frames.push((block.if_id, block.orig_len(), block.packet_data().len()));
            }
            pcap_parser::PcapBlockOwned::NG(Block::InterfaceStatistics(block)) => {
                let stamps = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                let values: Vec<Vec<u8>> = { block.options.iter() }
                    .map(|option| option.value.to_vec())
                    .collect();
                statistics.push((block.if_id, stamps, values));
            }
            _ => {}
        }
        parser.consume(len);
    }
    assert_eq!(
        frames,
        [(0, 61, 61), (1, 1514, 96), (2, 20, 20), (0, 64, 64)]
    );
    let words = |stamp_ns: i64| {
        let stamp = stamp_ns as u64;
        [
            ((stamp >> 32) as u32).to_le_bytes(),
            (stamp as u32).to_le_bytes(),
        ]
        .concat()
    };
    let end_ns = begin_ns + 5 * SECOND_NS;
    let times = [words(begin_ns), words(end_ns)];
    assert_eq!(statistics.len(), 2);
    assert_eq!(statistics[0].2[..2], times);
    assert_eq!((statistics[1].0, statistics[1].1), (1, end_ns as u64));
    assert_eq!(statistics[1].2[..2], times);
    let counts: Vec<&[u8]> = statistics[1].2[2..5].iter().map(Vec::as_slice).collect();
    assert_eq!(
        counts,
        [
            (1_u64 << 33).to_le_bytes(),
            7_u64.to_le_bytes(),
            8_u64.to_le_bytes()
        ]
    );

    let file = path.display().to_string();
    let fields = [
        "-r",
        &file,
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.len",
        "-e",
        "frame.cap_len",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.comment",
        "-E",
        "separator=,",
    ];
    let Some(lines) = output_of("tshark", &fields) else {
        return;
    };
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        [
            "1700000000.000000001,61,61,tap-in,",
            "1700000000.000000002,1514,96,tap-out,",
            "1700000000.000000003,20,20,tap-out,",
            // Its comma is the comment's own.
            "0.000000000,64,64,tap-in,without a time stamp, or with one before 1970",
        ]
    );
    let Some(about) = output_of("capinfos", &["-M", &file]) else {
        return;
    };
    for fact in [
        "Capture comment:     what was to be seen",
        "Capture application: lineside of a test",
        "Number of packets:   4",
        "Number of interfaces in file: 3",
        "Name = tap-in",
        "Filter string = tcp port 2049",
        "Capture length = 96",
        "Time precision = nanoseconds (9)",
        "Number of stat entries = 1",
    ] {
        assert!(about.contains(fact), "{fact}: {about}");
    }
}

/// Frames a second apart, as dumpcap is given them and as our writer is.
#[test]
fn files_are_rotated_as_dumpcap_rotates_them() {
    let lens: Vec<usize> = (0..50).map(|index| 60 + index * 37 % 400).collect();
    let frames: Burst = { lens.iter().zip(0..) }
        .map(|(&len, second)| frame(second * SECOND_NS, len))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole.pcap");
    let mut single = writer(&whole, &[]);
    single.write(&frames).expect("room");
    single.finish().expect("room");
    for (name, words) in [
        ("a.b.pcapng", &["packets:5"][..]),
        ("none", &["packets:7", "files:3"]),
        ("a.pcap", &["filesize:1"]),
        ("a.pcap", &["filesize:2", "files:2", "packets:9"]),
        ("a.pcapng", &["packets:1000", "files:2"]),
        ("a.pcapng", &["packets:1", "files:1"]),
    ] {
        let theirs = tempfile::tempdir().expect("a folder");
        let mut dumpcap = Command::new("dumpcap");
        dumpcap
            .args(["-q", "-i", "-", "-w"])
            .arg(theirs.path().join(name));
        for word in words {
            dumpcap.args(["-b", word]);
        }
        if name.ends_with(".pcap") {
            dumpcap.arg("-P");
        }
        let input = std::fs::File::open(&whole).expect("it was written");
        // dumpcap reads pipes only.
        let mut cat = Command::new("cat");
        let mut cat = cat
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat runs");
        let piped = cat.stdout.take().expect("it was piped");
        let Ok(output) = dumpcap.stdin(piped).output() else {
            println!("SKIP: dumpcap is not installed");
            cat.wait().expect("cat ends");
            return;
        };
        cat.wait().expect("cat ends");
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{talk}");

        let ours = tempfile::tempdir().expect("a folder");
        let mut writer = writer(&ours.path().join(name), words);
        writer.write(&frames).expect("room");
        writer.finish().expect("room");
        let shape = |folder: &Path| -> Vec<(String, Vec<Vec<u8>>)> {
            let files = files(folder);
            let shape = files.iter().map(|file| {
                let name = file.file_name().expect("a file").to_string_lossy();
                let digits = |c: char| if c.is_ascii_digit() { '9' } else { c };
                let (stem, time) = name.split_at(name.find("_0").expect("a number") + 7);
                let time: String = time.chars().map(digits).collect();
                let frames = read_file(file).into_iter().map(|frame| frame.bytes);
                (format!("{stem}{time}"), frames.collect())
            });
            shape.collect()
        };
        assert_eq!(shape(ours.path()), shape(theirs.path()), "{name} {words:?}");
    }
}

#[test]
fn files_end_by_time_and_are_called_by_local_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let begin_ns = 1_700_000_003 * SECOND_NS;
    let config = writer_config(&["duration:10", "interval:60"]);
    let path = folder.path().join("out.pcapng");
    let mut writer = CaptureWriter::create(&path, config, Some(begin_ns)).expect("room");
    // 1,700,000,040 is a multiple of 60.
    for second in [3, 12, 13, 14, 34, 36, 20, 41] {
        let stamp_ns = (1_700_000_000 + second) * SECOND_NS;
        writer
            .write(&[frame(stamp_ns, second as usize)])
            .expect("room");
    }
    writer.on_timer(1_700_000_051 * SECOND_NS).expect("room");
    writer.finish().expect("room");
    let mut found = Vec::new();
    for file in files(folder.path()) {
        let lens: Vec<usize> = read_file(&file)
            .iter()
            .map(|frame| frame.bytes.len())
            .collect();
        found.push((file.file_name().expect("a file").to_owned(), lens));
    }
    let expected = [
        (3, vec![3, 12]),
        (13, vec![13, 14]),
        (34, vec![34, 36, 20]),
        (41, vec![41]),
        (51, vec![]),
    ];
    let expected: Vec<_> = { expected.into_iter().zip(1..) }
        .map(|((second, lens), number)| {
            let seconds = format!("@{}", 1_700_000_000 + second);
            let time = output_of("date", &["-d", &seconds, "+%Y%m%d%H%M%S"]).expect("coreutils");
            (
                format!("out_{number:05}_{}.pcapng", time.trim()).into(),
                lens,
            )
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_section_begins_anew_when_it_describes_too_many_interfaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let mut writer = writer(&path, &[]);
    let written: Vec<Expected> = (0..70_000_u32)
        .map(|index| Expected {
            // The latest there is: no file is due then.
            stamp_ns: Some(i64::MAX),
            wire_len: 1,
            link_type: index as u16,
            bytes: vec![index as u8],
        })
        .collect();
    for (expected, index) in written.iter().zip(0_u32..) {
        let input = (index >> 16) as u16;
        writer.write(&[expected.frame(input)]).expect("room");
    }
    writer.finish().expect("room");
    assert!(read_file(&path) == written);
}

#[test]
fn written_frames_reach_the_file_within_a_second_of_stamps() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["out.pcap", "out.pcapng"] {
        let path = folder.path().join(name);
        let mut writer = writer(&path, &[]);
        writer
            .write(&[frame(0, 60), frame(SECOND_NS / 2, 61)])
            .expect("room");
        assert_eq!(read_file_now(&path), 0, "it waits for more");
        writer.on_timer(SECOND_NS).expect("room");
        wait_until("two frames are there", || read_file_now(&path) == 2);
        writer.write(&[frame(2 * SECOND_NS, 62)]).expect("room");
        wait_until("three frames are there", || read_file_now(&path) == 3);
    }
}

/// Frames of a file that is being written; nothing in it is cut. A pcap file may be empty still.
fn read_file_now(path: &Path) -> usize {
    match std::fs::read(path).expect("it was made") {
        bytes if bytes.is_empty() => 0,
        bytes => read(&bytes).clean().len(),
    }
}

#[test]
fn whoever_writes_faster_than_the_disk_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    output_of("mkfifo", &[&path.display().to_string()]).expect("coreutils");
    const FRAMES: usize = 600;
    let written = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = writer(&path, &[]);
            for index in 0..FRAMES {
                let frame = frame(index as i64 * SECOND_NS / 1000, 65_536);
                writer.write(&[frame]).expect("a reader");
                written.store(index + 1, Ordering::Relaxed);
            }
            writer.finish().expect("a reader");
        });
        let mut reader = None;
        let (mut last, mut looks) = (0, 0);
        // It has filled at least what it may, and has not gone on for twenty looks.
        let is_stuck = || {
            reader.get_or_insert_with(|| CaptureReader::open(&path, &pool()).expect("a header"));
            let count = written.load(Ordering::Relaxed);
            looks = if count == last { looks + 1 } else { 0 };
            last = count;
            count >= 100 && looks >= 20
        };
        wait_until("the queue is full", is_stuck);
        // 16 chunks of 512 KiB, one more that is being filled, and what the pipe and the reader
        // hold.
        assert!(last < 160, "{last} frames of 64 KiB");
        let mut reader = reader.expect("opened");
        let mut count = 0;
        let error = drain(&mut reader, 7, |_| count += 1);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(count, FRAMES);
    });
}

#[test]
fn a_full_disk_is_reported_and_earlier_frames_are_complete() {
    let error = CaptureWriter::create(Path::new("/dev/full"), writer_config(&[]), Some(0));
    let error = error.err().expect("full").to_string();
    assert!(
        error.starts_with("cannot write '/dev/full' at offset 0: "),
        "{error}"
    );
    assert!(
        error.ends_with("free some space, or write elsewhere"),
        "{error}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let Some(_disk) = SmallDisk::mount(folder.path(), 64 << 10) else {
        println!("SKIP: mounting a small tmpfs needs root");
        return;
    };
    for name in ["out.pcap", "out.pcapng"] {
        let path = folder.path().join(name);
        let mut writer = writer(&path, &[]);
        let frames: Burst = (0..200).map(|index| frame(index, 1000)).collect();
        // Whether the first call fails already is a matter of time.
        let mut outcome = Ok(());
        for second in 1..100 {
            outcome = writer
                .write(&frames)
                .and_then(|()| writer.on_timer(second * SECOND_NS));
            if outcome.is_err() {
                break;
            }
        }
        let error = outcome.expect_err("full").to_string();
        assert!(
            error.contains(name) && error.contains("at offset 65"),
            "{error}"
        );
        assert!(
            error.ends_with("free some space, or write elsewhere"),
            "{error}"
        );
        let again = writer.write(&frames).expect_err("ended").to_string();
        assert!(
            again.ends_with("is no longer written since an earlier error"),
            "{again}"
        );
        writer.finish().expect("it was reported");
        let count = read_file(&path).len();
        assert!((60..65).contains(&count), "{name}: {count}");
        std::fs::remove_file(&path).expect("removed");
    }
}

/// The first file, which is renamed when the first frame gives its time, and those after it.
#[test]
fn files_of_a_rotation_replace_others_only_if_asked_to() {
    let frames: Burst = (5..7).map(|second| frame(second * SECOND_NS, 60)).collect();
    let write = |folder: &Path, replaces| {
        let config = WriterConfig {
            replaces,
            ..writer_config(&["packets:1"])
        };
        let mut writer = CaptureWriter::create(&folder.join("a.pcapng"), config, None)?;
        writer.write(&frames)?;
        writer.finish()
    };
    let before = tempfile::tempdir().expect("a folder");
    write(before.path(), false).expect("nothing is in the way");
    let names = files(before.path());
    assert_eq!(names.len(), 3);
    for name in &names {
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().join(name.file_name().expect("a file"));
        std::fs::write(&there, "precious").expect("room");
        let error = write(folder.path(), false)
            .expect_err("it is there")
            .to_string();
        assert!(
            error.contains("exists already") && error.contains("--force"),
            "{error}"
        );
        assert_eq!(std::fs::read(&there).expect("it is there"), b"precious");
        let made = files(folder.path()).len();
        assert_eq!(
            made,
            names
                .iter()
                .position(|other| other == name)
                .expect("one of them")
                + 1
        );
        write(folder.path(), true).expect("it may be replaced");
        assert_ne!(std::fs::read(&there).expect("it is there"), b"precious");
    }
}
