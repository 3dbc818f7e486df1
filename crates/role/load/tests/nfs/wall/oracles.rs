//! Our server before clients that are not its own: libnfs' programs, the testkit's client, and
//! tshark as the reader of everything.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use lineside_testkit::drive::{Drive, Server, Session, Shape, Transfer};
use lineside_testkit::waiting::{wait_until, wait_until_still};
use lineside_time::Random;

use super::{EXPORT, serving, store};

fn have(tools: &[&str]) -> bool {
    tools.iter().all(|tool| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("command -v {tool}")]);
        let found = shell.stdout(Stdio::null()).status();
        let is_there = found.is_ok_and(|status| status.success());
        if !is_there {
            println!("SKIP: no {tool}");
        }
        is_there
    })
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("it runs");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {talk}");
    output
}

#[test]
fn libnfs_lists_reads_and_writes() {
    if !have(&["nfs-ls", "nfs-cat", "nfs-cp"]) {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lineside-nfs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let ((), served) = serving(&store(40), |at| {
        let port = at.port();
        let url = |path: &str| {
            format!("nfs://127.0.0.1{EXPORT}{path}?version=3&nfsport={port}&mountport={port}")
        };
        let listed = run("nfs-ls", &["-R", &url("/")]).stdout;
        let listed = String::from_utf8(listed).expect("text");
        let lines = listed.lines().filter(|line| line.contains("f00000"));
        assert_eq!(lines.count(), 40, "{listed}");
        assert!(listed.contains("100000"), "{listed}");

        let whole = run("nfs-cat", &[&url("/d00003/f0000007")]).stdout;
        assert_eq!(whole.len(), 100_000);
        let again = run("nfs-cat", &[&url("/d00003/f0000007")]).stdout;
        assert_eq!(whole, again);
        let other = run("nfs-cat", &[&url("/d00003/f0000011")]).stdout;
        assert_ne!(whole, other);

        let mut bytes = vec![0; 300_001];
        Random::new(4).fill(&mut bytes);
        let from = folder.join("from");
        std::fs::write(&from, &bytes).expect("a file");
        run(
            "nfs-cp",
            &[from.to_str().expect("a plain path"), &url("/d00000/new")],
        );
        let read = run("nfs-cat", &[&url("/d00000/new")]).stdout;
        assert!(read == bytes, "{} bytes", read.len());
    });
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    assert!(served.counts.requests > 60, "{:?}", served.counts);
}

fn drive(at: SocketAddr, shape: &Shape) {
    let server = Server {
        nfs: at,
        mount: at,
        export: EXPORT.to_owned(),
    };
    let mut session = Session::open(&server, shape).expect("it is mounted");
    let file = session.create("driven").expect("a file");
    let (writes, reads) = Transfer::sequence(777, 400_000, 30_000);
    session.transfer(&file, 3, 4, &writes).expect("WRITEs");
    session.commit(&file).expect("a COMMIT");
    session
        .transfer(&file, 3, 4, &reads)
        .expect("READs of what was written");
    let mut random = Random::new(shape.seed);
    let mut transfers = Transfer::random(&mut random, 200, 399_223, 30_000);
    transfers
        .iter_mut()
        .for_each(|transfer| transfer.offset += 777);
    session
        .transfer(&file, 3, 8, &transfers)
        .expect("READs and WRITEs");
    let tally = session.close().expect("it is unmounted").to_json();
    let statuses = tally["nfs"]["READ"]["statuses"].as_object().expect("READs");
    assert_eq!(statuses.keys().collect::<Vec<_>>(), ["NFS3_OK"]);
}

#[test]
fn what_is_written_in_any_shape_is_read_again() {
    let shapes = [
        Shape::default(),
        Shape {
            fragments: vec![300, 1, 4_000],
            seed: 2,
            ..Shape::default()
        },
        Shape {
            segment_len_max: Some(150),
            seed: 3,
            ..Shape::default()
        },
    ];
    let ((), _) = serving(&store(0), |at| {
        shapes.iter().for_each(|shape| drive(at, shape))
    });
}

#[test]
fn tshark_finds_nothing_malformed() {
    if !have(&["tcpdump", "tshark", "nfs-ls"]) {
        return;
    }
    let file = std::env::temp_dir().join(format!("lineside-nfs-{}.pcap", std::process::id()));
    let path = file.to_str().expect("a plain path").to_owned();
    let (port, _) = serving(&store(40), |at| {
        let port = at.port().to_string();
        let arguments = ["-i", "lo", "-U", "-B", "65536", "-w", &path, "port", &port];
        let recording = Command::new("tcpdump")
            .args(arguments)
            .stderr(Stdio::null())
            .spawn();
        let mut recording = recording.expect("tcpdump");
        // Until the header of the file is there it does not listen.
        let len = || std::fs::metadata(&file).map_or(0, |file| file.len());
        wait_until("tcpdump listens", || len() >= 24);
        drive(at, &Shape::default());
        let tree = super::prepared(at, super::made(40, false)).expect("a tree");
        let shares = "null:10%,getattr:10%,setattr:10%,lookup:10%,access:10%,read:10%,write:10%,\
                      readdir:5%,readdirplus:5%,fsstat:5%,fsinfo:5%,pathconf:5%,commit:5%";
        super::loaded(at, super::mix(shares), tree, 4, 1);
        let url = format!("nfs://127.0.0.1{EXPORT}/?version=3&nfsport={port}&mountport={port}");
        run("nfs-ls", &["-R", &url]);
        wait_until_still("tcpdump has written all", len);
        run("kill", &["-INT", &recording.id().to_string()]);
        recording.wait().expect("it ends");
        port
    });
    let decode = format!("tcp.port=={port},rpc");
    let tshark = |filter: &str, fields: &[&str]| {
        let mut arguments = vec!["-r", &path, "-d", &decode, "-Y", filter, "-T", "fields"];
        fields
            .iter()
            .for_each(|field| arguments.extend(["-e", field]));
        String::from_utf8(run("tshark", &arguments).stdout).expect("text")
    };
    let malformed = tshark(
        "_ws.malformed || _ws.expert.message contains \"alformed\"",
        &["frame.number", "_ws.expert.message"],
    );
    assert_eq!(malformed, "");
    let procedures = tshark("nfs && rpc.msgtyp == 1", &["nfs.procedure_v3"]);
    let mut seen: Vec<u32> = { procedures.lines() }
        .flat_map(|line| line.split(','))
        .filter_map(|number| number.trim().parse().ok())
        .collect();
    let replies = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert!(replies > 2_500, "{replies} replies were dissected");
    assert_eq!(seen, [0, 1, 2, 3, 4, 6, 7, 8, 16, 17, 18, 19, 20, 21]);
    std::fs::remove_file(&file).expect("the file is ours");
}
