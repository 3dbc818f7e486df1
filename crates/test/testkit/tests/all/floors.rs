//! The floors of the crates above 5,000 lines: a module uses those of floors below.

use std::path::Path;

use lineside_testkit::layers::Uses;

/// Modules of a crate, the lowest floor first. Modules in one entry use each other. `lib` stands
/// for the names that a crate's root passes on.
type Floors = &'static [&'static [&'static str]];

/// From files to columns; what is found, as data; what it means; the passes that find it.
const ANALYZE: Floors = &[
    &["lib", "limits", "numbers"],
    &["read"],
    &["emulation", "forwarding", "replaying"],
    &["load model"],
    &["compare", "findings"],
    &["pass"],
];

/// Lines and blocks; what a report holds in blocks; drawings of blocks; the page; its two forms.
const RENDER: Floors = &[
    &["lib", "monitored", "points", "text"],
    &[
        "block",
        "adapter",
        "comparison",
        "csv",
        "doctor",
        "explained",
        "forward_plan",
        "intervals",
        "monitors_text",
        "plan",
        "run_stats",
        "slow",
    ],
    &["compared_calls", "failed", "lines", "section", "svg"],
    &[
        "chart",
        "forwarder_lines",
        "link_certificate",
        "link_line",
        "monitors_svg",
        "probe",
        "scale",
        "summary",
        "table",
    ],
    &["contours cuts", "page", "share_curve"],
    &["html", "terminal"],
];

const PORT: Floors = &[
    &["error", "lib", "record", "rotation"],
    &[
        "blocks", "erf", "live", "merge", "pcap", "pcapng", "recorded", "source", "watched",
        "wrapper",
    ],
    &["foreign"],
    &["encode", "folder", "reader"],
    &["output", "tail"],
    &["writer"],
];

const BALANCER: Floors = &[
    &["counters", "lib", "make", "ports", "proxy"],
    &["settings", "shelves"],
    &["effects", "packet"],
    &["cut", "health", "joints", "rewrite", "table"],
    &["affinity", "choice", "follow", "fragments"],
    &["pool"],
    &["nat"],
    &["checking", "forward"],
    &["fragmented", "proxied"],
    &[
        "change", "control", "driver", "open", "report", "room", "save",
    ],
];

const FLOW: Floors = &[
    &[
        "clock",
        "config",
        "counts",
        "damage",
        "deadlines",
        "lib",
        "round_trips",
        "taken",
        "whole",
    ],
    &["origin", "stream"],
    &["duplicates"],
    &["fragments"],
    &["connection context cut sink"],
    &["openings"],
    &["connections"],
    &["engine", "packets"],
];

const OPERATIONS: Floors = &[
    &[
        "arguments",
        "blocks",
        "decode_as",
        "details",
        "files",
        "layers",
        "lib",
        "slot",
    ],
    &["config", "family", "headers", "procedure", "sums"],
    &["operation"],
    &["fast_call", "rows"],
    &["protocol"],
    &["rpc"],
];

const TCP: Floors = &[
    &[
        "congestion",
        "counters",
        "effects",
        "index_table",
        "ip",
        "keyed",
        "lib",
        "lists",
        "options",
        "siphash",
    ],
    &["cookie", "scoreboard"],
    &["config ecn fragments leave neighbours ports receive record recovery slab stack tables"],
    &[
        "ack",
        "control",
        "errors",
        "listen",
        "output",
        "promotion",
        "reassembly",
        "rtt",
        "timers",
    ],
    &["datagrams", "input", "isn"],
];

const NFS: Floors = &[&["lib", "v2", "v3", "v4"], &["ancillary mount"], &["tests"]];

const PATH: Floors = &[
    &["element", "lib", "marks", "settings_words", "star", "steps"],
    &[
        "account",
        "direction_finder",
        "emulate",
        "forwarder",
        "middle",
        "monitors",
        "observe",
        "side",
        "switch",
        "virtual_time",
    ],
    &["classify", "delays", "live"],
    &["chain", "changes"],
    &["path"],
    &["certificate", "explain", "settings"],
];

const CRATES: [(&str, Floors); 9] = [
    ("report/analyze", ANALYZE),
    ("report/render", RENDER),
    ("os/port", PORT),
    ("engine/balancer", BALANCER),
    ("engine/flow", FLOW),
    ("engine/operations", OPERATIONS),
    ("protocol/tcp", TCP),
    ("protocol/nfs", NFS),
    ("role/path", PATH),
];

#[test]
fn modules_use_only_those_of_floors_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let against = CRATES.iter().flat_map(|(of, floors)| {
        let all = Uses::of(&root.join(of).join("src"));
        assert!(all.files() > 5, "{of}: {all:?}");
        all.against(floors)
            .into_iter()
            .map(move |what| format!("{of}: {what}"))
    });
    let against: Vec<_> = against.collect();
    assert!(against.is_empty(), "{against:#?}");
}
