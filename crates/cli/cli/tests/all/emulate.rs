//! `lineside emulate` on capture files and `lineside table`, from outside.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::Output;

use lineside_account::Budget;
use lineside_frame::{Burst, Frame};
use lineside_port::{CaptureReader, Merge, PoolConfig, Receive, Received};
use lineside_testkit::tshark;
use lineside_wire::build::FrameBuilder;

use crate::support::{example, lineside, manifest, repository, talk, wait_until};

/// All frames of a capture file: stamp, source, bytes.
fn frames(path: &Path) -> Vec<(i64, Option<IpAddr>, Vec<u8>)> {
    let pool = PoolConfig::new(Budget::new(64 << 20), 64 << 20);
    let reader = CaptureReader::open(path, &pool).expect("a capture");
    let mut port = Merge::new([reader]);
    let (mut frames, mut burst) = (Vec::new(), Burst::new());
    let read = |frame: Frame| {
        let stamp_ns = frame.descriptor().stamp_ns.expect("a stamp");
        let addresses = lineside_wire::addresses(frame.descriptor().link_type.0, frame.bytes());
        (
            stamp_ns,
            addresses.map(|(source, _)| source),
            frame.bytes().to_vec(),
        )
    };
    while port.receive(&mut burst, 256).expect("readable") != Received::End {
        frames.extend(burst.drain(..).map(read));
    }
    frames
}

fn emulate(input: &Path, out: &Path, words: &[&str]) -> Output {
    let mut command = lineside();
    command
        .arg("emulate")
        .arg("-r")
        .arg(input)
        .arg("--write-pcap")
        .arg(out)
        .args(words);
    command.output().expect("lineside runs")
}

/// The text of a run, from both its outputs.
fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &talk(output)
}

/// The sender of the example's first frame.
fn is_outbound(source: Option<IpAddr>, first: Option<IpAddr>) -> bool {
    source == first
}

#[test]
fn stamps_are_those_that_arithmetic_gives() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.pcapng");
    let original = frames(&example());
    let first = original[0].1;
    let inside = first.expect("an address").to_string();
    // Out: a wire of 1 Gbit/s with preamble, check sequence and gap, behind 100 us. In: 250 us.
    let words = [
        "--delay",
        "100us",
        "--delay",
        "in: 250us",
        "--rate",
        "out:1gbit overhead ethernet",
        "--limit",
        "1gb",
    ];
    let output = emulate(
        &example(),
        &out,
        &[&words[..], &["--inside", &inside]].concat(),
    );
    assert!(output.status.success(), "{}", talk(&output));
    let mut expected = Vec::new();
    let mut free_ns = 0;
    let mut now = 0;
    for (number, (stamp_ns, source, bytes)) in original.iter().enumerate() {
        now = now.max(*stamp_ns);
        let at_ns = if is_outbound(*source, first) {
            // 1 Gbit/s: 8 ns a byte.
            free_ns = free_ns.max(now + 100_000) + 8 * (bytes.len() as i64 + 24);
            free_ns
        } else {
            now + 250_000
        };
        expected.push((at_ns, number));
    }
    expected.sort_unstable();
    let found = frames(&out);
    assert_eq!(found.len(), original.len());
    for ((stamp_ns, _, bytes), (at_ns, number)) in found.iter().zip(&expected) {
        assert_eq!(stamp_ns, at_ns, "frame {}", number + 1);
        assert_eq!(bytes, &original[*number].2, "frame {}", number + 1);
    }
    // Another reader sees the same.
    if !tshark::available() {
        println!("SKIP: no tshark to read the stamps with");
        return;
    }
    let mut command = std::process::Command::new("tshark");
    command
        .arg("-r")
        .arg(&out)
        .args(["-T", "fields", "-e", "frame.time_epoch"]);
    let read = command.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let seconds = |at_ns: i64| format!("{}.{:09}", at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let wanted: Vec<_> = expected.iter().map(|&(at_ns, _)| seconds(at_ns)).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn a_seed_gives_the_same_file_again_and_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let words = [
        "--delay",
        "1ms 200us distribution pareto order fifo",
        "--loss",
        "2%",
        "--duplicate",
        "1%",
        "--corrupt",
        "1%",
    ];
    let run = path("run");
    let emulated = |name: &str, seed: &str, more: &[&str]| {
        let output = emulate(
            &example(),
            &path(name),
            &[&words[..], &["--seed", seed], more].concat(),
        );
        assert!(output.status.success(), "{}", talk(&output));
        std::fs::read(path(name)).expect("written")
    };
    let first = emulated("first.pcapng", "7", &["-o", run.to_str().expect("UTF-8")]);
    assert!(
        first == emulated("again.pcapng", "7", &[]),
        "the same seed, another file"
    );
    assert!(
        first != emulated("other.pcapng", "8", &[]),
        "another seed, the same file"
    );

    let manifest = manifest(&run);
    let certificate = manifest.certificate.expect("a certificate");
    assert_eq!(certificate["seed"], 7);
    assert_eq!(certificate["clock"], "virtual");
    assert_eq!(certificate["verdict"]["state"], "complete");
    assert_eq!(
        certificate["directions"]["outbound"]["settings"]["delay"],
        "1ms 200us distribution pareto order fifo"
    );
    let mut left = 0;
    for name in ["outbound", "inbound"] {
        let report = &certificate["directions"][name];
        let count = |name: &str| report["counters"][name].as_u64().expect("a number");
        let lost = report["counters"]["dropped"]["loss"]
            .as_u64()
            .expect("a number");
        assert_eq!(
            count("entered") + count("duplicated"),
            count("released") + lost
        );
        assert!(lost > 0 && count("corrupted") > 0);
        left += count("released");
        assert!(
            report["drawn_distance"]["p_value"]
                .as_f64()
                .expect("a number")
                > 0.001
        );
        assert_eq!(report["late"]["over_1us"], 0);
        assert!(
            report["warnings"][0]
                .as_str()
                .expect("a warning")
                .contains("as order is kept")
        );
    }
    assert_eq!(left, frames(&path("first.pcapng")).len() as u64);
    let info = lineside().arg("info").arg(&run).output().expect("it runs");
    assert!(info.status.success(), "{}", talk(&info));
    assert!(String::from_utf8_lossy(&info.stdout).contains("verdict      complete"));
    // `--force` replaces the named output, and nothing else.
    let output = emulate(&example(), &path("first.pcapng"), &[]);
    assert!(!output.status.success() && talk(&output).contains("exists already"));
    let output = emulate(&path("first.pcapng"), &path("first.pcapng"), &["--force"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let output = emulate(
        &example(),
        &path("first.pcapng"),
        &["--force", "-o", run.to_str().expect("UTF-8"), "--json"],
    );
    assert!(output.status.success(), "{}", talk(&output));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["verdict"]["state"], "complete");
}

/// A pcap file of `count` datagrams of 1,042 bytes, 1 us apart, there and back in turn.
fn write_capture(path: &Path, count: u32) {
    let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let ways = [addresses, [addresses[1], addresses[0]]]
        .map(|[source, destination]| FrameBuilder::new(source, destination).udp(1, 2, &[7; 1000]));
    // Little-endian, nanoseconds, Ethernet.
    let mut file: Vec<u8> = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]
        .map(u32::to_le_bytes)
        .concat();
    for number in 0..count {
        let frame = &ways[number as usize % 2];
        let len = frame.len() as u32;
        file.extend(
            [1_700_000_000, number * 1000, len, len]
                .map(u32::to_le_bytes)
                .concat(),
        );
        file.extend(frame);
    }
    std::fs::write(path, file).expect("written");
}

#[test]
fn frames_under_way_leave_the_readers_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (
        folder.path().join("in.pcap"),
        folder.path().join("out.pcap"),
    );
    write_capture(&input, 20_000);
    // 21 MB are held to the end, more than the quarter that the reader has.
    let output = emulate(&input, &out, &["--delay", "1h", "--memory", "64MiB"]);
    assert!(output.status.success(), "{}", talk(&output));
    let (original, found) = (frames(&input), frames(&out));
    assert_eq!(found.len(), original.len());
    assert!(
        found
            .iter()
            .zip(&original)
            .all(|(left, came)| left.2 == came.2)
    );
    assert!(
        found
            .iter()
            .zip(&original)
            .all(|(left, came)| left.0 == came.0 + 3_600_000_000_000)
    );
    // Frames that do not fit are reported.
    let output = emulate(
        &input,
        &out,
        &[
            "--force",
            "--certificate",
            "--delay",
            "1h",
            "--memory",
            "24MiB",
        ],
    );
    assert!(
        messages(&output).contains("verdict      limited"),
        "{}",
        messages(&output)
    );
    assert!(
        messages(&output).contains("give more with --memory"),
        "{}",
        messages(&output)
    );
}

#[test]
fn impossible_settings_are_refused_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.pcap");
    let bad = folder.path().join("bad.txt");
    std::fs::write(&bad, "100us\n120us\nten\n").expect("written");
    let bad = bad.to_str().expect("UTF-8");
    for (words, message) in [
        (
            &["--delay", "1ms 1ms distribtion normal"][..],
            "column 9: 'distribtion' is unknown here; the nearest known word is distribution",
        ),
        (
            &["--delay", &format!("0 distribution {bad}")],
            "line 3, column 1: 'ten' is not a number",
        ),
        (
            &["--delay", "0 1us distribution nromal"],
            "the nearest known word is normal",
        ),
        (&["--rate", "0"], "'0' is not a rate"),
        (&["--loss", "in:200%"], "'200%' is not a share"),
        (&["--reorder", "10%"], "add --delay"),
        (&["--inside", "10.0.0.0/40"], "is not a network"),
    ] {
        let output = emulate(&example(), &out, words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            talk(&output)
        );
        assert!(
            talk(&output).contains(message),
            "{words:?}: {}",
            talk(&output)
        );
        assert!(!out.exists());
    }
    // Odd but possible settings are accepted, with a warning.
    for (words, message) in [
        (["--delay", "10us 100us"], "of the draws lie below 0"),
        (["--inside", "10.0.0.0/8"], "inside: no frame came from"),
    ] {
        let output = emulate(&example(), &out, &[&words[..], &["--force"]].concat());
        let messages = messages(&output);
        assert!(output.status.success(), "{messages}");
        assert!(messages.contains(message), "{words:?}: {messages}");
    }
}

#[test]
fn flags_of_another_mode_and_a_missing_mode_are_refused() {
    let file = example();
    let capture = &[file.to_str().expect("UTF-8")][..];
    let between = &["--between", "lo,lo2"][..];
    let commands = &["--server", "x"][..];
    let on = &["--on", "lo"][..];
    let interfaces_only = "is for 'emulate --between IF1,IF2' and 'emulate --on IF', and this is";
    let commands_only = "is for 'emulate -- CMD', and this is";
    let capture_only = "is for 'emulate FILE'";
    let live = "is for 'emulate --between IF1,IF2', 'emulate --on IF' and 'emulate -- CMD', and \
                this is";
    for (mode, flag, is_for) in [
        (capture, &["--wait", "nonsense"][..], live),
        (capture, &["--method", "af_packet"], interfaces_only),
        (capture, &["--tap"], live),
        (capture, &["--no-checksum-completion"], interfaces_only),
        (capture, &["-a", "duration:1"], interfaces_only),
        (capture, &["--outside"], commands_only),
        (capture, &["--server-wait", "1s"], commands_only),
        (capture, between, capture_only),
        (between, &["--outside"], commands_only),
        (on, &["--outside"], commands_only),
        (on, &["-c", "1"], capture_only),
        (commands, on, "is for 'emulate --on IF', and this is"),
        (between, &["--server-wait", "1s"], commands_only),
        (between, &["-c", "1"], capture_only),
        (capture, &["-b", "files:2"], "between"),
        (commands, &["--method", "auto"], interfaces_only),
        (commands, &["-a", "duration:1"], interfaces_only),
        (commands, &["-f", "tcp"], capture_only),
    ] {
        let output = lineside().arg("emulate").args(mode).args(flag).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{mode:?} {flag:?}");
        let message = talk(&output);
        assert!(message.contains(is_for), "{mode:?} {flag:?}: {message}");
        assert!(message.contains(flag[0]), "{mode:?} {flag:?}: {message}");
    }
    for idle in [&["--wait", "spin"][..], &["--force"]] {
        let output = lineside().arg("explain").args(idle).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(idle[0]), "{}", talk(&output));
    }
    let output = lineside()
        .args(["emulate", "--delay", "1ms"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    for mode in ["FILE", "--between IF1,IF2", "(-- CMD)"] {
        assert!(talk(&output).contains(mode), "{}", talk(&output));
    }
    // The recorded configuration has only keys of this mode, and can be run again.
    let folder = tempfile::tempdir().expect("a folder");
    let (first, again) = (folder.path().join("first"), folder.path().join("again"));
    let first = first.to_str().expect("UTF-8");
    let output = emulate(&file, &folder.path().join("out.pcap"), &["-o", first]);
    assert!(output.status.success(), "{}", talk(&output));
    let output = lineside()
        .args(["emulate", "--force", "-o"])
        .arg(&again)
        .arg("--config")
        .arg(format!("{first}/trace.json"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let configured = |run: &Path| manifest(run).configuration["emulate"].clone();
    assert!(configured(&again)["wait"].is_null());
    let explain = |more: &[&str]| {
        let mut command = lineside();
        command.args(["explain", "--config", &format!("{first}/trace.json")]);
        let output = command.args(more).output().expect("it runs");
        assert!(output.status.success(), "{more:?}: {}", talk(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let directions = |text: &str| text.matches("bound\n").count();
    assert_eq!(directions(&explain(&[])), 2, "the settings of both");
    assert_eq!(
        directions(&explain(&["--frame", "2"])),
        1,
        "a frame has one"
    );
}

#[test]
fn a_table_is_made_of_samples_and_drawn_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let samples = folder.path().join("samples.txt");
    let text: String = (0..4800)
        .map(|k| format!("{}.5us\n", 100 + k % 400))
        .collect();
    std::fs::write(&samples, text).expect("written");
    let samples = samples.to_str().expect("UTF-8");
    let table = |words: &[&str]| {
        let output = lineside()
            .arg("table")
            .args(words)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let printed = table(&[samples]);
    assert!(
        printed.contains("samples      4800, mean 300 us"),
        "{printed}"
    );
    let figures: serde_json::Value =
        serde_json::from_str(&table(&[samples, "--json", "--entries", "1000"])).expect("JSON");
    assert_eq!(figures["entries"], 1000);
    assert!((figures["mean"].as_f64().expect("a number") - 300_000.0).abs() < 500.0);
    assert!(figures["table_from_samples_ks"].as_f64().expect("a number") < 0.002);

    let out = folder.path().join("out.pcapng");
    let output = emulate(
        &example(),
        &out,
        &[
            "--json",
            "--delay",
            &format!("1ms distribution {samples} order reorder"),
        ],
    );
    assert!(output.status.success(), "{}", talk(&output));
    let certificate: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let report = &certificate["directions"]["outbound"];
    for what in ["asked", "drawn", "realised"] {
        let mean_ns = report[what]["mean_ns"].as_f64().expect("a number");
        assert!(
            (mean_ns - 1_300_000.0).abs() < 10_000.0,
            "{what}: {mean_ns}"
        );
    }
    // The shape, through netem's form and the original's.
    for (form, name) in [("netem", "shape.dist"), ("coe", "shape.coe")] {
        let path = folder.path().join(name);
        std::fs::write(&path, table(&[samples, "--export", form])).expect("written");
        let printed = table(&[path.to_str().expect("UTF-8")]);
        assert!(printed.contains("4096 entries"), "{printed}");
        assert!(printed.contains("deviation 1.0000"), "{printed}");
    }
    assert!(
        table(&["pareto"]).contains("mean -0.0335, deviation 0.8197"),
        "{}",
        table(&["pareto"])
    );
}

#[test]
fn a_report_draws_the_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let words = ["--delay", "5ms 1ms distribution normal", "--loss", "10%"];
    let output = lineside()
        .arg("emulate")
        .arg(example())
        .args(words)
        .arg("-o")
        .arg(&run)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let report = |options: &[&str]| {
        let output = lineside().arg("report").arg(&run).args(options).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        assert!(output.stderr.is_empty(), "{}", talk(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let first = report(&[]);
    assert!(first.lines().count() <= 25, "{first}");
    // What was printed at the end is the same screen.
    let closing = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(closing.lines().count() <= 25, "{closing}");
    let text = report(&["--full"]);
    assert!(text.contains("Link outbound"), "{text}");
    for expected in ["outbound", "5ms 1ms", "by loss", "realised", "seed"] {
        for text in [&first, &closing, &text] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
    assert!(!text.contains("Workload"), "there is no trace: {text}");
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    let certificate = manifest(&run).certificate.expect("it is there");
    let outbound = &json["emulation"]["directions"]["outbound"];
    let asked = &certificate["directions"]["outbound"];
    assert_eq!(
        outbound["counters"]["released"],
        asked["counters"]["released"]
    );
    assert_eq!(outbound["realised"]["p99_ns"], asked["realised"]["p99_ns"]);
    assert_eq!(
        outbound["difference"],
        serde_json::Value::Null,
        "virtual time is exact"
    );
    let page = report(&["--html", "-"]);
    let (_, index) = page.split_once("<nav").expect("an index");
    let (index, _) = index.split_once("</nav>").expect("its end");
    for name in [">Emulated link<", ">Link inbound<", ">Link outbound<"] {
        assert_eq!(index.matches(name).count(), 1, "{name}: {index}");
    }
    // Words do not fit into the cards of single numbers.
    assert!(!page.contains("class=\"facts\""), "{page}");
}

#[test]
fn a_killed_run_is_reported_with_its_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, run) = (folder.path().join("in.pcap"), folder.path().join("run"));
    write_capture(&input, 1000);
    let mut command = lineside();
    command.args(["emulate", "-", "--delay", "20ms", "--loss", "in: 1%"]);
    command
        .arg("-o")
        .arg(&run)
        .stdin(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    // Its input does not end.
    let mut stdin = child.stdin.take().expect("piped");
    let bytes = std::fs::read(&input).expect("it is there");
    stdin.write_all(&bytes).expect("it is read");
    wait_until("frames have come", || run.join("trace.json").exists());
    child.kill().expect("ours");
    child.wait().expect("ours");
    let report = |options: &[&str]| {
        let output = lineside().arg("report").arg(&run).args(options).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let text = report(&[]);
    for expected in ["unfinished", "was killed", "certificate", "20ms", "in: 1%"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("Workload"), "there is no trace: {text}");
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    assert_eq!(json["emulation"]["verdict"], "unfinished");
    assert_eq!(json["emulation"]["asked"]["delay"], "20ms");
}

#[test]
fn a_failure_before_the_first_frame_leaves_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, damaged) = (
        folder.path().join("run"),
        folder.path().join("damaged.pcap"),
    );
    write_capture(&damaged, 1);
    // The header of its one frame claims more than there may be.
    let mut bytes = std::fs::read(&damaged).expect("it is there");
    bytes[32..40].fill(0xff);
    std::fs::write(&damaged, bytes).expect("written");
    let nowhere = folder.path().join("nowhere/out.pcap");
    let (example, nowhere) = (example(), nowhere.to_str().expect("UTF-8"));
    let fail = |verb: &str, input: &Path, words: &[&str]| {
        let mut command = lineside();
        command.arg(verb).arg(input).arg("-o").arg(&run).args(words);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    };
    for verb in ["emulate", "capture"] {
        fail(verb, &example, &["--write-pcap", nowhere]);
        assert!(!run.exists(), "{verb}");
    }
    fail("emulate", &damaged, &[]);
    assert!(!run.exists());
    // An existing one stays.
    std::fs::create_dir(&run).expect("new");
    fail("emulate", &example, &["--force", "--write-pcap", nowhere]);
    assert!(run.exists());
}

/// The words of a failure in the guide.
fn recipe(failure: &str) -> Vec<String> {
    let guide = std::fs::read_to_string(repository().join("docs/guide/failures.md"));
    let guide = guide.expect("the guide");
    let row = { guide.lines() }
        .find_map(|line| line.strip_prefix(&format!("| {failure} | `")))
        .unwrap_or_else(|| panic!("{failure} is in the guide"));
    let words = row.split('`').next().expect("its words");
    let (flag, rest) = words.split_once(' ').expect("a flag and its words");
    vec![flag.to_owned(), rest.trim_matches('\'').to_owned()]
}

#[test]
fn recipes_of_failures_lose_what_they_name_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.pcapng");
    let input = example();
    let all = frames(&input);
    let clients: [IpAddr; 2] =
        ["192.0.2.2", "2001:db8::2"].map(|ip| ip.parse().expect("an address"));
    let is_grey = |bytes: &[u8]| {
        bytes[12..14] == [8, 0]
            && bytes[23] == 6
            && [bytes[35], bytes[37]].iter().any(|low| low & 15 == 9)
    };
    type Loses<'a> = Box<dyn Fn(&(i64, Option<IpAddr>, Vec<u8>)) -> bool + 'a>;
    let cases: [(&str, Loses<'_>); 4] = [
        ("down", Box::new(|_| true)),
        (
            "one direction only",
            Box::new(|frame| frame.1.is_some_and(|source| !clients.contains(&source))),
        ),
        ("MTU hole", Box::new(|frame| frame.2.len() >= 1400)),
        ("grey", Box::new(|frame| is_grey(&frame.2))),
    ];
    for (failure, loses) in cases {
        let words = recipe(failure);
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .chain(["--force"])
            .collect();
        let output = emulate(&input, &out, &words);
        assert!(output.status.success(), "{failure}: {}", messages(&output));
        let left: Vec<_> = frames(&out).into_iter().map(|frame| frame.2).collect();
        let expected = all.iter().filter(|frame| !loses(frame));
        let expected: Vec<_> = expected.map(|frame| frame.2.clone()).collect();
        assert!(expected.len() < all.len(), "{failure} loses something");
        assert!(left == expected, "{failure}: {} left", left.len());
    }
}
