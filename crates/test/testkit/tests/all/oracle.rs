//! The oracle and tshark are two opinions, written apart from each other: they must agree.

use std::collections::BTreeMap;

use lineside_testkit::oracle::Oracle;
use lineside_testkit::{capture, captures, tshark};

/// Complete captures beside the repository, small enough, in which tshark sees every NFSv3 and
/// MOUNT message.
const CAPTURES: [&str; 6] = [
    "mix-v3-1500.pcap.zst",
    "mix-v3-ipv6.pcap.zst",
    "mix-v3.pcapng.zst",
    "seq-v3-tso.pcap.zst",
    "udp-v3.pcap.zst",
    "udp-v3-ipv6.pcap.zst",
];

#[test]
fn the_oracle_and_tshark_find_the_same_messages() {
    if !tshark::available() {
        println!("SKIP: the oracle is not compared with tshark: there is none");
        return;
    }
    let mut paths = captures::examples();
    if let Some(folder) = captures::beside() {
        paths.extend(CAPTURES.map(|name| folder.join("own").join(name)));
    }
    for path in paths {
        let name = path.display();
        let frames = capture::read(&path).expect("a whole capture");
        let oracle = Oracle::new(&frames);
        // By frame, stamp, xid and direction; how often, for a call may come again in one frame.
        let mut found: BTreeMap<_, i32> = BTreeMap::new();
        for message in &oracle.messages {
            if let Some((program @ (100_003 | 100_005), 3, procedure)) = message.procedure {
                let (_, frame) = oracle.frames_of(message);
                let key = (
                    frame as u64 + 1,
                    message.xid,
                    message.call,
                    program,
                    procedure,
                );
                *found.entry(key).or_default() += 1;
            }
        }
        let total: i32 = found.values().sum();
        for message in tshark::dissect(&path, true).expect("tshark runs") {
            if let (true, Some(program), Some(procedure)) =
                (message.is_nfs3(), message.program, message.procedure)
            {
                *found
                    .entry((message.frame, message.xid, message.call, program, procedure))
                    .or_default() -= 1;
                let frame = &frames[message.frame as usize - 1];
                assert_eq!(
                    frame.stamp_ns,
                    Some(message.stamp_ns),
                    "{name} frame {}",
                    message.frame
                );
            }
        }
        found.retain(|_, count| *count != 0);
        assert!(
            found.is_empty(),
            "{name}: of {total}, seen by one only (1 oracle, -1 tshark): {found:?}"
        );
        println!("{name}: {total} messages, {} blocks", oracle.blocks().len());
    }
}
