//! `capture -f`: matching frames give the same rows as without a filter, and the others are
//! accounted for.

use lineside_account::Counter;
use lineside_testkit::capture;
use lineside_wire::build::FrameBuilder;

use crate::support::{Trace, counters, example, lineside, sorted, talk};

#[test]
fn rows_of_matching_frames_equal_those_without_a_filter() {
    let whole = Trace::of(&example(), &[]);
    let frames = whole.manifest.inputs[0].frames;
    let cases = [
        ("tcp port 52234", 52234),
        ("tcp port 2049 and port 52246 and not net 10", 52246),
        ("ip6 and tcp and port 48352", 48352),
    ];
    for (filter, port) in cases {
        let filtered = Trace::of(&example(), &["-f", filter]);
        let mut expected = whole.operations.clone();
        expected.retain(|row| row.integer("client_port") == Some(port));
        assert!(expected.len() >= 10, "{filter}: {} rows", expected.len());
        // Ids and frame numbers included.
        assert_eq!(sorted(&filtered.operations), sorted(&expected), "{filter}");

        let shared = Trace::of(&example(), &["-f", filter, "--cores", "2"]);
        assert_eq!(sorted(&shared.operations), sorted(&expected), "{filter}");
        assert_eq!(
            counters(&shared.manifest).value(Counter::FramesReceived),
            frames
        );
        shared.assert_identities(filter);

        filtered.assert_identities(filter);
        let counters = counters(&filtered.manifest);
        assert_eq!(counters.value(Counter::FramesReceived), frames);
        let taken = counters.value(Counter::FramesTcp);
        assert_eq!(counters.value(Counter::FramesFiltered), frames - taken);
        assert_eq!(filtered.manifest.configuration["capture"]["filter"], filter);
        assert_eq!(filtered.manifest.inputs[0].frames, frames);
    }
}

#[test]
fn frames_are_limited_after_the_filter_and_the_summary_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    let capture = lineside()
        .arg("capture")
        .arg(example())
        .args(["-c", "10", "--filter", "udp", "-o"])
        .arg(&out)
        .output()
        .expect("lineside runs");
    assert!(capture.status.success(), "{}", talk(&capture));
    let info = lineside().arg("info").arg(&out).output();
    let trace = Trace::read(&out, folder);
    let counters = counters(&trace.manifest);
    let filtered = counters.value(Counter::FramesFiltered);
    assert_eq!(counters.value(Counter::FramesReceived) - filtered, 10);
    let line = format!("filter       \"udp\": {filtered} frames did not match");
    for output in [capture, info.expect("lineside runs")] {
        let text = String::from_utf8_lossy(&output.stdout).replace(',', "");
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[test]
fn a_filter_that_cannot_be_used_is_refused_with_a_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |input: &std::path::Path, filter: &str| {
        let output = lineside()
            .arg("capture")
            .arg(input)
            .args(["-f", filter, "-o"])
            .arg(folder.path().join("trace"))
            .output()
            .expect("lineside runs");
        (output.status.code(), talk(&output))
    };
    let (status, messages) = refused(&example(), "tcp and gateway x");
    assert_eq!(status, Some(2), "{messages}");
    assert!(
        messages.contains("'gateway' is not supported"),
        "{messages}"
    );
    assert!(
        messages.contains("\n    tcp and gateway x\n            ^^^^^^^\n"),
        "{messages}"
    );

    // Only the frames show that there is no Ethernet header.
    let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let bytes = builder.with_link_type(101).udp(700, 2049, b"");
    let frame = capture::Frame {
        stamp_ns: Some(1),
        wire_len: bytes.len() as u32,
        link_type: 101,
        bytes,
    };
    let path = folder.path().join("raw.pcap");
    std::fs::write(&path, capture::write(&[frame])).expect("written");
    let (status, messages) = refused(&path, "ether src 2:0:0:0:0:1");
    assert_eq!(status, Some(1), "{messages}");
    assert!(
        messages.contains("raw.pcap', frame 1: frames of link type 101"),
        "{messages}"
    );
}
