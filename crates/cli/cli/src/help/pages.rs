//! What is known of each verb beside its flags.

/// What is known of a verb beside its flags.
pub(crate) struct Page {
    /// None for `lineside` itself.
    pub(crate) verb: &'static str,
    /// The flags of daily use, by purpose, most needed first: their long names, or the short one.
    pub(super) groups: &'static [(&'static str, &'static [&'static str])],
    /// The others, also of the same groups.
    pub(super) more: &'static [(&'static str, &'static [&'static str])],
    /// A command, and what it does.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) see_also: &'static str,
}

const TRACE: &[(&str, &str)] = &[
    (
        "TRACE/trace.json",
        "what the run was, its counters and its verdict",
    ),
    (
        "TRACE/operations/*.parquet",
        "the operations; other tables beside it",
    ),
];

pub(crate) const PAGES: [Page; 26] = [
    Page {
        verb: "capture",
        groups: &[
            ("Input", &["read", "interface", "filter", "duration"]),
            ("Output", &["output", "runs", "write-pcap", "keep", "force"]),
            ("Result", &["strict"]),
        ],
        more: &[
            (
                "Input",
                &["at", "c", "follow", "snapshot-length", "list-interfaces"],
            ),
            ("Output", &["b", "rotate", "flush"]),
            (
                "Tables",
                &[
                    "packets",
                    "no-details",
                    "no-checksums",
                    "monitor",
                    "drop-in",
                    "drop-in-bytes",
                ],
            ),
            (
                "Protocols",
                &["decode-as", "late-window", "duplicate-window"],
            ),
            (
                "Cores and memory",
                &["cores", "memory", "scheduler", "placement"],
            ),
        ],
        examples: &[
            ("lineside capture nfs.pcapng -o trace", "from a file"),
            (
                "lineside capture -i eth1 -o trace",
                "from the wire, until Ctrl-C",
            ),
        ],
        files: TRACE,
        see_also: "lineside-report(1), lineside-info(1), tcpdump(1), pcap-filter(7)",
    },
    Page {
        verb: "report",
        groups: &[
            ("Operations", &["since", "until", "client", "operation"]),
            ("Form", &["json", "csv", "html", "interval"]),
            ("Judgement", &["assert", "junit"]),
        ],
        more: &[
            (
                "Operations",
                &["server", "file", "user", "connection", "utc"],
            ),
            ("Form", &["full", "force"]),
            ("Judgement", &["target"]),
        ],
        examples: &[
            ("lineside report trace", "the result on one screen"),
            (
                "lineside report trace --assert 'p99(READ) < 10ms'",
                "for scripts",
            ),
        ],
        files: TRACE,
        see_also: "lineside-slow(1), lineside-compare(1), nfsiostat(8)",
    },
    Page {
        verb: "compare",
        groups: &[
            (
                "Operations",
                &["at", "since", "until", "client", "operation"],
            ),
            ("Form", &["calls", "full", "json", "csv"]),
            ("Judgement", &["assert"]),
        ],
        more: &[
            (
                "Operations",
                &["server", "file", "user", "connection", "utc"],
            ),
            ("Form", &["top", "markdown"]),
            ("Judgement", &["threshold", "control", "junit", "strict"]),
        ],
        examples: &[
            (
                "lineside compare yesterday today",
                "what changed, worst first",
            ),
            (
                "lineside compare before after --calls",
                "which calls differ, and what the time is made of",
            ),
        ],
        files: TRACE,
        see_also: "lineside-report(1), lineside-slow(1)",
    },
    Page {
        verb: "slow",
        groups: &[
            (
                "Operations",
                &["since", "until", "client", "server", "operation"],
            ),
            ("List", &["top", "by", "per"]),
            ("Form", &["json", "csv"]),
        ],
        more: &[("Operations", &["file", "user", "connection", "utc"])],
        examples: &[
            ("lineside slow trace 10ms", "all that took 10 ms or more"),
            ("lineside slow trace 1ms --operation READ", "READs alone"),
        ],
        files: TRACE,
        see_also: "lineside-report(1), lineside-failed(1), nfsslower(8)",
    },
    Page {
        verb: "failed",
        groups: &[
            (
                "Operations",
                &["status", "since", "until", "client", "server", "operation"],
            ),
            ("List", &["top", "per"]),
            ("Form", &["json", "csv"]),
        ],
        more: &[("Operations", &["file", "user", "connection", "utc"])],
        examples: &[
            (
                "lineside failed trace --per status",
                "what failed, and how often",
            ),
            (
                "lineside failed trace --status STALE",
                "which handles are stale",
            ),
        ],
        files: TRACE,
        see_also: "lineside-report(1), lineside-slow(1)",
    },
    Page {
        verb: "plan",
        groups: &[
            ("Plan", &["idle"]),
            ("Output", &["output", "force", "json"]),
        ],
        more: &[],
        examples: &[
            (
                "lineside plan trace",
                "threads, windows, thought, in shares",
            ),
            (
                "lineside plan trace -o plan",
                "each call with what it waited for",
            ),
        ],
        files: &[(
            "PLAN/",
            "tables calls and edges (Parquet), plan.json: what they come to",
        )],
        see_also: "lineside-report(1), lineside-capture(1)",
    },
    Page {
        verb: "image",
        groups: &[
            ("Where to", &["output", "to"]),
            ("Output", &["repairs", "json"]),
        ],
        more: &[],
        examples: &[
            (
                "lineside image trace -o tree --repairs repairs",
                "the tree in a folder of this host",
            ),
            (
                "lineside image trace --to nfs://server/export/new",
                "the tree on a server",
            ),
        ],
        files: &[(
            "FOLDER/",
            "of --repairs: table repairs (Parquet), image.json: what it comes to",
        )],
        see_also: "lineside-plan(1), lineside-capture(1)",
    },
    Page {
        verb: "emulate",
        groups: &[
            ("Link", &["delay", "loss", "rate", "step"]),
            ("Ends", &["between", "on", "server"]),
            ("Output", &["output", "write-pcap", "seed"]),
        ],
        more: &[
            (
                "Link",
                &["duplicate", "corrupt", "reorder", "limit", "link", "path"],
            ),
            (
                "Output",
                &["force", "b", "certificate", "strict", "verdict-limit"],
            ),
            (
                "Measuring and timing",
                &[
                    "monitor",
                    "drop-in",
                    "drop-in-bytes",
                    "wait-start",
                    "start-at",
                    "wait",
                ],
            ),
            ("Of a capture", &["read", "filter", "c", "inside"]),
        ],
        examples: &[
            (
                "lineside emulate a.pcap --write-pcap b.pcap --delay 10ms",
                "a capture",
            ),
            (
                "lineside emulate --between eth1,eth2 --delay 10ms -o run",
                "two wires",
            ),
        ],
        files: &[(
            "RUN/trace.json",
            "what was requested, and the certificate of what was done",
        )],
        see_also: "lineside-ctl(1), lineside-explain(1), tc-netem(8)",
    },
    Page {
        verb: "load",
        groups: &[
            ("Load", &["c", "d", "n", "R", "arrivals", "t"]),
            ("Request", &["H", "X"]),
            ("Result", &["assert", "output"]),
        ],
        more: &[
            (
                "Load",
                &[
                    "preset",
                    "search",
                    "precision",
                    "timeout",
                    "think",
                    "pipeline",
                    "requests-per-connection",
                    "arrivals-of",
                    "close",
                ],
            ),
            (
                "Request",
                &[
                    "body",
                    "fields",
                    "keys",
                    "key-size",
                    "value-size",
                    "get-ratio",
                    "mix",
                    "files",
                ],
            ),
            (
                "Result",
                &[
                    "force",
                    "junit",
                    "errors-max",
                    "strict",
                    "verdict-limit",
                    "row-sample",
                    "hdr",
                    "write-pcap",
                ],
            ),
            (
                "A server behind an emulated link",
                &["server", "server-link"],
            ),
            (
                "Our own TCP over an interface",
                &[
                    "interface",
                    "address",
                    "router",
                    "on-link",
                    "ports",
                    "serve-on",
                    "method",
                    "mtu",
                    "congestion",
                ],
            ),
            (
                "Exact timing",
                &["timer", "wait", "on-overrun", "pin", "real-time"],
            ),
            (
                "Several hosts and addresses",
                &["hosts", "rsh", "remote-lineside", "from", "public"],
            ),
        ],
        examples: &[
            ("lineside load http://127.0.0.1:8080/ -R 1000", "a rate"),
            (
                "lineside load serve http 127.0.0.1:8080",
                "a server to try it on",
            ),
        ],
        files: &[
            ("RUN/trace.json", "what was requested, and the certificate"),
            ("RUN/operations/*.parquet", "a row for each request"),
        ],
        see_also: "lineside-load-serve(1), lineside-report(1), wrk(1)",
    },
    Page {
        verb: "explain",
        groups: &[
            ("Frame", &["read", "frame"]),
            ("Link", &["delay", "loss", "rate", "limit"]),
        ],
        more: &[
            ("Frame", &["frame-size", "load", "filter", "inside", "flow"]),
            ("Link", &["reorder", "duplicate", "corrupt", "link", "path"]),
        ],
        examples: &[
            (
                "lineside explain --delay '10ms 1ms' --rate 1gbit",
                "settings",
            ),
            (
                "lineside explain -r a.pcap --frame 7 --delay 10ms",
                "a frame",
            ),
        ],
        files: &[],
        see_also: "lineside-emulate(1), lineside-ctl(1)",
    },
    Page {
        verb: "table",
        groups: &[],
        more: &[],
        examples: &[
            (
                "lineside table from-capture a.pcap -o way.dist",
                "a capture's times",
            ),
            (
                "lineside emulate a.pcap --delay '0 distribution way.dist'",
                "use it",
            ),
        ],
        files: &[],
        see_also: "lineside-emulate(1)",
    },
    Page {
        verb: "probe",
        groups: &[
            ("Way", &["serve", "udp", "icmp", "tcp", "port"]),
            ("Amount", &["count", "interval", "budget"]),
            ("Output", &["output", "json"]),
        ],
        more: &[
            ("Amount", &["timeout", "sessions", "public"]),
            ("Output", &["path-step", "force", "strict"]),
        ],
        examples: &[
            ("lineside probe --serve", "at the other end"),
            ("lineside probe HOST -o path", "both ways, or ICMP"),
        ],
        files: &[
            (
                "DIR/out.path, DIR/in.path",
                "each way over time, for emulate --path; both.path of round trips",
            ),
            (
                "DIR/out.times, DIR/in.times",
                "delays, a line each, for table",
            ),
            ("DIR/report.txt, DIR/report.json", "the report"),
        ],
        see_also: "lineside-emulate(1), lineside-table(1), ping(8), owping(1)",
    },
    Page {
        verb: "forward",
        groups: &[
            (
                "Services",
                &["interface", "service", "nat", "mode", "check", "resume"],
            ),
            ("Output", &["output", "write-pcap"]),
            ("The emulated adapter", &["emulated", "figure"]),
        ],
        more: &[
            (
                "Services",
                &["route", "connections-max", "idle-timeout", "syn-cookies"],
            ),
            ("Output", &["force", "strict"]),
            ("Frames", &["duration", "method", "wait", "cache", "hold"]),
            (
                "The emulated adapter",
                &[
                    "pattern",
                    "datagram-size",
                    "rate",
                    "burst",
                    "poisson",
                    "server",
                    "html",
                ],
            ),
        ],
        examples: &[
            (
                "sudo lineside forward --config nodes.toml -o run",
                "one address, many nodes",
            ),
            (
                "lineside forward --emulated --figure 6",
                "the payload cache beside its paper",
            ),
        ],
        files: &[
            ("RUN/trace.json", "what was counted, and the verdict"),
            ("RUN/state.0, RUN/state.1", "connections, for --resume"),
        ],
        see_also: "lineside-emulate(1)",
    },
    Page {
        verb: "info",
        groups: &[("Form", &["json"])],
        more: &[],
        examples: &[
            ("lineside info nfs.pcapng", "what is in a capture"),
            ("lineside info trace", "what a trace holds"),
        ],
        files: TRACE,
        see_also: "lineside-capture(1), lineside-report(1), capinfos(1)",
    },
    Page {
        verb: "packets",
        groups: &[
            ("Frames", &["operation", "connection", "around", "read"]),
            ("Output", &["write-pcap", "force"]),
        ],
        more: &[],
        examples: &[
            ("lineside packets trace --operation ID -w one.pcapng", "one"),
            ("lineside packets trace --connection 7 -w all.pcapng", "all"),
        ],
        files: TRACE,
        see_also: "lineside-slow(1), editcap(1), tshark(1)",
    },
    Page {
        verb: "ctl",
        groups: &[
            (
                "Link",
                &[
                    "delay",
                    "rate",
                    "loss",
                    "duplicate",
                    "reorder",
                    "limit",
                    "link",
                ],
            ),
            ("Form", &["interval", "json"]),
        ],
        more: &[("Link", &["corrupt", "path"])],
        examples: &[
            (
                "lineside ctl run --delay 'out: 40ms' --loss 0%",
                "change it",
            ),
            ("lineside ctl run stats --interval 1s", "watch counters"),
        ],
        files: &[("RUN/control", "the socket of the run, for its user")],
        see_also: "lineside-emulate(1)",
    },
    Page {
        verb: "replay-pcap",
        groups: &[
            ("Frames", &["interface", "filter", "c", "loop"]),
            ("Timing", &["speed", "rate", "fast"]),
            ("Form", &["json"]),
        ],
        more: &[],
        examples: &[
            ("lineside replay-pcap a.pcap -i eth1", "as it was"),
            (
                "lineside replay-pcap a.pcap -i eth1 --rate 1gbit",
                "as fast",
            ),
        ],
        files: &[],
        see_also: "lineside-capture(1), tcpreplay(1)",
    },
    Page {
        verb: "completions",
        groups: &[],
        more: &[],
        examples: &[
            (
                "lineside completions bash > /etc/bash_completion.d/lineside",
                "bash",
            ),
            (
                "lineside completions fish > ~/.config/fish/completions/lineside.fish",
                "fish",
            ),
        ],
        files: &[],
        see_also: "lineside-man(1)",
    },
    Page {
        verb: "doctor",
        groups: &[("What", &["i", "o"]), ("Form", &["json"])],
        more: &[],
        examples: &[
            ("lineside doctor", "kernel, clock, privileges, limits"),
            ("sudo lineside doctor -i eth1 -o /srv/traces", "these too"),
        ],
        files: &[],
        see_also: "lineside-capture(1), lineside-bundle(1)",
    },
    Page {
        verb: "bundle",
        groups: &[("Output", &["o", "with-names", "with-tables"])],
        more: &[],
        examples: &[
            ("lineside bundle trace", "lineside-bundle.tar, to send"),
            (
                "lineside bundle trace --with-tables -o all.tar",
                "everything",
            ),
        ],
        files: &[(
            "lineside-bundle.tar",
            "trace.json, tables.json, doctor.json, about.json, ends of logs",
        )],
        see_also: "lineside-info(1), lineside-doctor(1)",
    },
    Page {
        verb: "man",
        groups: &[],
        more: &[],
        examples: &[
            ("lineside man /usr/local/share/man/man1", "all pages"),
            ("lineside man | man -l -", "the first one"),
        ],
        files: &[],
        see_also: "lineside-completions(1)",
    },
    Page {
        verb: "predict",
        groups: &[
            ("Networks", &["delay", "rate", "loss"]),
            ("Output", &["output", "force", "json", "csv"]),
        ],
        more: &[
            ("Networks", &["limit", "congestion", "draws", "seed"]),
            ("Workload", &["idle", "longest"]),
        ],
        examples: &[
            (
                "lineside predict trace --delay 1ms,10ms --rate 100mbit",
                "two networks",
            ),
            (
                "lineside predict trace --delay 20ms --loss 0.1%,1% --csv",
                "every figure",
            ),
        ],
        files: &[(
            "FOLDER/",
            "table points (Parquet), predict.json: what is printed",
        )],
        see_also: "lineside-report(1), lineside-emulate(1)",
    },
    Page {
        verb: "replay",
        groups: &[
            ("Where to", &["to", "in-place", "as"]),
            ("Pace", &["loop", "speed", "clients"]),
            ("Output", &["output", "force", "json"]),
        ],
        more: &[
            ("Pace", &["idle", "timeout"]),
            (
                "Operations",
                &[
                    "since",
                    "until",
                    "client",
                    "server",
                    "file",
                    "user",
                    "connection",
                    "operation",
                    "utc",
                ],
            ),
        ],
        examples: &[
            (
                "lineside replay trace --to nfs://server/export/new -o run",
                "once more, elsewhere",
            ),
            (
                "lineside replay trace --to nfs://server/export/new --loop open --speed 2",
                "the trace's times, halved",
            ),
        ],
        files: TRACE,
        see_also: "lineside-plan(1), lineside-predict(1), lineside-replay-pcap(1)",
    },
    Page {
        verb: "lab",
        groups: &[
            ("Runs", &["dry-run", "resume", "install"]),
            ("Output", &["output", "force", "json", "quiet"]),
            ("Judgement", &["baseline", "strict"]),
        ],
        more: &[("Runs", &["rsh"]), ("Judgement", &["junit"])],
        examples: &[
            ("lineside lab memcached.toml --dry-run", "what it would run"),
            (
                "lineside lab memcached.toml -o run",
                "all of it, as any user",
            ),
        ],
        files: &[
            ("FILE", "the experiment: guide/lab.md has its keys"),
            (
                "RUN/points/*.parquet",
                "axes, repeat, metric, value, unit, verdict",
            ),
            ("RUN/lab.json", "medians with intervals, and assertions"),
            (
                "RUN/point=N/repeat=R/",
                "a run: outputs of its nodes, point.json, the links' trace.json",
            ),
            (
                "FILE.tar",
                "a lab for others: 'lab bundle RUN' packs it, 'lab rerun FILE.tar' runs it again",
            ),
        ],
        see_also: "lineside-emulate(1), lineside-load(1), lineside-predict(1)",
    },
    Page {
        verb: "version",
        groups: &[],
        more: &[],
        examples: &[
            ("lineside version", "for a bug report"),
            ("lineside --version", "the number alone"),
        ],
        files: &[],
        see_also: "lineside(1)",
    },
    Page {
        verb: "",
        groups: &[
            (
                "Record, cut and read off",
                &[
                    "capture",
                    "report",
                    "slow",
                    "failed",
                    "compare",
                    "info",
                    "packets",
                    "plan",
                    "image",
                    "replay",
                    "replay-pcap",
                    "predict",
                ],
            ),
            (
                "Emulate a network, load a server, forward connections",
                &[
                    "emulate", "lab", "load", "forward", "ctl", "explain", "probe", "table",
                ],
            ),
            (
                "This program",
                &["doctor", "bundle", "version", "completions", "man"],
            ),
        ],
        more: &[],
        examples: &[
            ("lineside capture nfs.pcapng -o trace", "operations"),
            ("lineside emulate --delay 50ms -- pytest", "a bad network"),
        ],
        files: &[],
        see_also: "lineside-capture(1), lineside-report(1), lineside-emulate(1)",
    },
];

/// Exit states, for man pages.
pub(crate) const EXIT_STATUS: [(&str, &str); 6] = [
    (
        "0",
        "done; also for a file that is cut in its last frame, with a warning",
    ),
    ("1", "failure: something could not be read or written"),
    ("2", "usage: an unknown flag, key or value"),
    (
        "3",
        "an --assert does not hold, or more requests failed than --errors-max allows",
    ),
    ("4", "with --strict: the verdict is not complete"),
    (
        "128+n",
        "signal n cut the reading of files short; what is complete is kept",
    ),
];
