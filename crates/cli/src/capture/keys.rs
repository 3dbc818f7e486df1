//! The keys of `[capture]`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use lineside_capture::{Config, Scheduler};

use crate::config::{Duration, Modes, Size, Time, key, keys};
use crate::inputs::METHODS;

/// Sources of frames.
pub(super) const FILES: Modes = 1;
pub(super) const INTERFACES: Modes = 2;

/// The default of `memory`: enough for the trace of any capture.
const MEMORY_DEFAULT: usize = 256 << 20;

/// The words of `--overload`: frames are dropped at the port, or checksums are left out before
/// that.
pub(super) const OVERLOADS: [&str; 2] = ["drop", "no-checksums"];

keys! {
    /// The section `[capture]`. A key that is absent has its default; `resolved` fills in all.
    pub(crate) struct Section {
        inputs: Vec<PathBuf> = key("Capture files: pcap or pcapng, plain or compressed (gzip, \
        zstd, xz, lz4); - is standard input. Several are merged by their stamps")
            .value("FILE")
            .positional()
            .also('r', "read", "The same as FILE");
        interfaces: Vec<String> = key("Interfaces to capture from instead; several are merged by \
        their stamps; any: all that are up")
            .short('i').long("interface").value("IF").commas()
            .example("eth0");
        method: String = key("How frames are taken from interfaces: auto, af_packet, af_xdp or \
        af_xdp_generic")
            .long("method").value("WORD")
            .words(|| METHODS.map(|(word, _)| word).into())
            .only(INTERFACES)
            .default(|| METHODS[0].0.to_owned());
        sockets: usize = key("Packet sockets that share the frames of an interface")
            .long("sockets").value("N")
            .only(INTERFACES)
            .default(|| 1);
        promiscuous: bool = key("Capture only frames addressed to this host")
            .short('p').long("no-promiscuous").off()
            .only(INTERFACES)
            .default(|| true);
        overload: String = key("How a live run sheds load when it falls behind: drop (frames, at \
        the port) or no-checksums (keep every operation, leave checksums out)")
            .long("overload").value("WORD")
            .words(|| OVERLOADS.into())
            .only(INTERFACES)
            .default(|| OVERLOADS[0].to_owned());
        duration: Duration = key("End a live run: duration:SECONDS")
            .short('a').long("autostop").value("COND")
            .example("60s");
        output: PathBuf = key("The folder of the trace")
            .short('o').long("output").value("TRACE");
        write_pcap: PathBuf = key("Write the frames into a capture file too, or, without -o, \
        instead: pcapng, or pcap if it ends in .pcap; - is standard output")
            .short('w').long("write-pcap").value("FILE");
        pcap_rotation: Vec<String> = key("When the next capture file begins, in dumpcap's form: \
        filesize:kB, duration:SECONDS, interval:SECONDS, packets:N; files:N keeps the last N")
            .short('b').value("COND")
            .example("files:10");
        runs: bool = key("TRACE is a folder of runs: this one is TRACE/run=TIME in it, and runs \
        that were killed before are closed")
            .long("runs")
            .default(|| false);
        force: bool = key("Replace an existing trace")
            .long("force")
            .default(|| false);
        filter: String = key("Look only at frames that match, as tcpdump's filters do: 'tcp port \
        2049 and host 10.0.0.1'")
            .short('f').long("filter").value("EXPR").hyphens()
            .example("tcp port 2049");
        snap_len: u32 = key("Keep the first N bytes of each frame, as tcpdump's -s does; 0 keeps \
        all. What is cut off is missing in the trace")
            .short('s').long("snapshot-length").value("N")
            .default(|| 0);
        decode_as: Vec<String> = key("Protocols that content does not show: tcp.port==20490,rpc \
        (or none: ignore the port), rpc.program==0x20000003,nfs; can be repeated")
            .short('d').long("decode-as").value("RULE")
            .example("tcp.port==20490,rpc")
            .default(Vec::new);
        frames_max: NonZeroU64 = key("Stop after N frames (of those that match)")
            .short('c').value("N");
        follow: bool = key("Continue as a file grows, or a folder gets its next file, until a \
        signal or -a duration:SECONDS ends the run")
            .long("follow");
        memory: Size = key("The one memory budget, such as 256MiB")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
        rotate: Vec<String> = key("Limits of a part of a table: a size from 1MiB to 64MiB, a time \
        from 1s on, or one of each (16MiB,60s); without it 64MiB, and 1h where data come as time \
        passes (-i, --follow, a pipe)")
            .long("rotate").value("SIZE|TIME").commas().hyphens()
            .default(|| vec!["64MiB".to_owned()]);
        flush: String = key("When rows can be read: after this time they are in a small part, \
        such as 10s, which becomes a piece of one that --rotate limits; or none: parts are final \
        from the start; without it 1s where data come as time passes")
            .long("flush").value("TIME|none")
            .default(|| "none".to_owned());
        keep: Vec<String> = key("What is kept of the trace: a time (30d), a size (800MiB), or \
        both; whole parts go, the oldest first, also to make room on a full disk")
            .long("keep").value("TIME|SIZE").commas().hyphens()
            .default(Vec::new);
        sandbox: bool = key("Read foreign bytes without a sandbox: with every file and system call \
        at hand that the user has")
            .long("no-sandbox").off()
            .default(|| true);
        checksums: bool = key("Leave out the table checksums")
            .long("no-checksums").off()
            .default(|| true);
        details: bool = key("Leave out the tables nfs, nfs4 and services")
            .long("no-details").off()
            .default(|| true);
        packets: bool = key("Write the table packets too: a row for each frame")
            .long("packets")
            .default(|| false);
        monitors: Vec<String> = key("Measure what passes, into the tables monitor_*: 'gap,size', \
        'packets window 10ms', 'all at eth1.came match tcp port 2049'; can be repeated")
            .long("monitor").value("WORDS").or_one()
            .example("gap,size")
            .default(Vec::new);
        drop_ins: Vec<String> = key("Give each frame's head to a program, as Arrow IPC or \
        (NAME=csv:COMMAND) as CSV, whose rows become the table monitor_NAME; can be repeated")
            .long("drop-in").value("NAME=COMMAND").or_one()
            .example("ports=python3 ports.py")
            .default(Vec::new);
        drop_in_bytes: usize = key("Give drop-ins the first N bytes of each frame too")
            .long("drop-in-bytes").value("N")
            .default(|| 0);
        strict: bool = key("Exit with 4 if anything is missing from the capture")
            .long("strict")
            .default(|| false);
        cores: usize = key("Cores that rebuild operations; with files, the reading thread is one \
        of them")
            .long("cores").value("N")
            .default(|| 1);
        scheduler: String = key("How actors share several cores: stealing (balances load) or \
        pinned (a core each, for dedicated machines)")
            .long("scheduler").value("WORD")
            .words(|| Scheduler::WORDS.into())
            .default(|| Scheduler::WORDS[0].to_owned());
        placement: Vec<String> = key("Cores of actors under pinned, such as pipeline-0=1, or \
        traffic:TRACE: actors that exchanged most messages in that run share \
        one; the others are spread")
            .long("placement").value("ACTOR=CORE|traffic:TRACE").commas()
            .example("pipeline-0=1")
            .default(Vec::new);
        late_window: Time = key("A hole counts as lost when it was acknowledged and then this time \
        and 32 segments passed, such as 2ms")
            .long("late-window").value("TIME")
            .default(|| Time::of_ns(Config::default().flow.late_window_ns));
        late_segments: u64 = key("... and after this many further segments of its connection")
            .default(|| Config::default().flow.late_segments);
        duplicate_window: Time = key("A packet that is repeated within this time was mirrored \
        twice, such as 2ms; 0s looks for none")
            .long("duplicate-window").value("TIME")
            .default(|| Time::of_ns(Config::default().flow.duplicate_window_ns));
        flow_held_max: Size = key("Bytes that one direction of a connection may hold out of order")
            .default(|| Size::of_kib(Config::default().flow.flow_held_max_bytes));
        connections_max: usize = key("Connections at once")
            .default(|| Config::default().flow.connections_max);
        idle_timeout: Time = key("A UDP conversation without packets for this long has ended, and so has a TCP \
        connection that carried nothing")
            .default(|| Time::of_ns(Config::default().flow.idle_timeout_ns));
        fragment_timeout: Time = key("A fragmented packet is dropped after this time")
            .default(|| Time::of_ns(Config::default().flow.fragment_timeout_ns));
        fragments_held_max: Size = key("Bytes of fragments held at once")
            .default(|| Size::of_kib(Config::default().flow.fragments_held_max_bytes));
        interval: Time = key("Interval of the table connections")
            .default(|| Time::of_ns(Config::default().flow.interval_ns));
        record_max: Size = key("A longer record is counted and passed over")
            .default(|| Size::of_kib(Config::default().record.record_max_bytes));
        message_held_max: Size = key("Bytes of one message held for parsing")
            .default(|| Size::of_kib(Config::default().record.message_held_max_bytes));
        search_held_max: Size = key("Bytes held while a lost record mark is searched")
            .default(|| Size::of_kib(Config::default().record.search_held_max_bytes));
        search_max: Size = key("Bytes searched without success until a stream is treated as \
        another protocol")
            .default(|| Size::of_kib(Config::default().record.search_max_bytes as usize));
        reply_timeout: Time = key("A call without a reply is dropped after this time")
            .default(|| Time::of_ns(Config::default().reply_timeout_ns));
        outstanding_max: usize = key("Calls outstanding at once, as far as a quarter of the \
        memory bears them")
            .default(|| Config::default().outstanding_max);
        answered_max: usize = key("Answered calls remembered per connection")
            .default(|| Config::default().answered_max);
        file_facts_max: usize = key("Facts of files remembered per connection")
            .default(|| Config::default().facts_max);
    }
}
