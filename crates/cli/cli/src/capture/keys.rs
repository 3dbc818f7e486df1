//! The keys of `[capture]`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use lineside_capture::{Config, Scheduler};

use crate::config::{Duration, Modes, Sandboxing, Size, Time, key, keys};
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
        zstd, xz, lz4); - is standard input; several are merged by timestamp")
            .value("FILE")
            .positional()
            .also('r', "read", "The same as FILE");
        interfaces: Vec<String> = key("Interfaces to capture from; several are merged by timestamp; \
        any: all that are up")
            .short('i').long("interface").value("IF").commas()
            .example("eth0");
        method: String = key("How to receive frames: auto, af_packet, af_xdp or af_xdp_generic")
            .long("method").value("WORD")
            .words(|| METHODS.map(|(word, _)| word).into())
            .only(INTERFACES)
            .default(|| METHODS[0].0.to_owned());
        sockets: usize = key("Use N packet sockets for each interface")
            .long("sockets").value("N")
            .only(INTERFACES)
            .default(|| 1);
        promiscuous: bool = key("Capture only frames addressed to this host")
            .short('p').long("no-promiscuous").off()
            .only(INTERFACES)
            .default(|| true);
        overload: String = key("What to drop when the run falls behind: drop (frames, at the port) \
        or no-checksums (keep every operation, leave checksums out)")
            .long("overload").value("WORD")
            .words(|| OVERLOADS.into())
            .only(INTERFACES)
            .default(|| OVERLOADS[0].to_owned());
        duration: Duration = key("End a live run after TIME (60s); dumpcap's duration:60 works too")
            .short('a').long("duration").value("TIME").long_before(&["autostop"])
            .example("60s");
        output: PathBuf = key("Write the trace into this folder")
            .short('o').long("output").value("TRACE");
        write_pcap: PathBuf = key("Write the frames to a capture file too, or, without -o, \
        instead: pcapng, or pcap if it ends in .pcap; - is standard output")
            .short('w').long("write-pcap").value("FILE");
        pcap_rotation: Vec<String> = key("Start a new capture file at filesize:kB or filesize:10MB, \
        duration:60s, interval:1h or packets:N; keep the last N with files:N; can be repeated")
            .short('b').value("COND")
            .example("files:10");
        runs: bool = key("Write this run to TRACE/run=TIME, a folder for each run; complete runs that \
        were killed before")
            .long("runs")
            .default(|| false);
        force: bool = key("Replace an existing trace")
            .long("force")
            .default(|| false);
        filter: String = key("Read only frames that match this tcpdump filter, e.g. 'tcp port \
        2049 and host 10.0.0.1'")
            .short('f').long("filter").value("EXPR").hyphens()
            .example("tcp port 2049");
        snap_len: u32 = key("Keep the first N bytes of each frame (0: all); what is cut off is \
        missing from the trace")
            .short('s').long("snapshot-length").value("N")
            .default(|| 0);
        decode_as: Vec<String> = key("Decode a port or program as this protocol: tcp.port==20490,rpc (none: \
        ignore the port), udp.port==10800,vxlan, rpc.program==0x20000003,nfs; can be repeated")
            .short('d').long("decode-as").value("RULE")
            .example("tcp.port==20490,rpc")
            .default(Vec::new);
        at: String = key("Of a file of 'emulate --write-pcap', read each pair of hosts at one \
        port: the server's, the client's, or PORT")
            .long("at").value("server|client|PORT")
            .default(|| "server".to_owned());
        frames_max: NonZeroU64 = key("Stop after N frames (of those that match)")
            .short('c').value("N");
        follow: bool = key("Continue as a file grows, or a folder gets its next file, until \
        Ctrl-C or -a TIME")
            .long("follow");
        memory: Size = key("Memory limit for the whole run, e.g. 256MiB")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
        rotate: Vec<String> = key("Start a new part of a table at this size (1MiB to 64MiB), after \
        this time (from 1s), or either (16MiB,60s); with -i, --follow or a pipe also after 1h")
            .long("rotate").value("SIZE|TIME").commas().hyphens()
            .default(|| vec!["64MiB".to_owned()]);
        flush: String = key("Make rows readable after TIME, e.g. 10s, in small parts that are merged \
        later; none: write final parts only; with -i, --follow or a pipe 1s")
            .long("flush").value("TIME|none")
            .default(|| "none".to_owned());
        keep: Vec<String> = key("Keep this time (30d), size (800MiB) or both of the trace; the \
        oldest parts are deleted, also when the disk is full")
            .long("keep").value("TIME|SIZE").commas().hyphens()
            .default(Vec::new);
        sandbox: Sandboxing = key("Read input in a sandbox: on, require (fail where the kernel \
        lacks a part) or off")
            .long("sandbox").value("WORD")
            .default(|| Sandboxing::On);
        checksums: bool = key("Leave out the table checksums")
            .long("no-checksums").off()
            .default(|| true);
        details: bool = key("Leave out the tables nfs, nfs4 and services")
            .long("no-details").off()
            .default(|| true);
        packets: bool = key("Write the table packets too: a row for each frame")
            .long("packets")
            .default(|| false);
        monitors: Vec<String> = key("Measure frames, into the tables monitor_*: 'gap,size', \
        'packets window 10ms', 'all at eth1.came match tcp port 2049'; can be repeated")
            .long("monitor").value("WORDS").or_one()
            .example("gap,size")
            .default(Vec::new);
        drop_ins: Vec<String> = key("Pipe each frame's headers to a program, as Arrow IPC or \
        (NAME=csv:COMMAND) CSV; its rows become the table monitor_NAME; can be repeated")
            .long("drop-in").value("NAME=COMMAND").or_one()
            .example("ports=python3 ports.py")
            .default(Vec::new);
        drop_in_bytes: usize = key("Pipe the first N bytes of each frame to drop-ins too")
            .long("drop-in-bytes").value("N")
            .default(|| 0);
        strict: bool = key("Exit with 4 if anything is missing from the capture")
            .long("strict")
            .default(|| false);
        cores: usize = key("Use N cores; with files, one of them reads")
            .long("cores").value("N")
            .default(|| 1);
        scheduler: String = key("How to share cores: stealing (balance load) or pinned (one core \
        per actor, for dedicated machines)")
            .long("scheduler").value("WORD")
            .words(|| Scheduler::WORDS.into())
            .default(|| Scheduler::WORDS[0].to_owned());
        placement: Vec<String> = key("With pinned, place an actor on a core, e.g. pipeline-0=1; \
        traffic:TRACE: let actors that exchanged most messages in that run share a core")
            .long("placement").value("ACTOR=CORE|traffic:TRACE").commas()
            .example("pipeline-0=1")
            .default(Vec::new);
        late_window: Time = key("Count a hole as lost once it was acknowledged and then TIME, e.g. \
        2ms, and 32 segments passed")
            .long("late-window").value("TIME")
            .default(|| Time::of_ns(Config::default().flow.late_window_ns));
        late_segments: u64 = key("... and after this many further segments of its connection")
            .default(|| Config::default().flow.late_segments);
        duplicate_window: Time = key("Drop a packet that repeats within TIME, e.g. 2ms, as mirrored \
        twice; 0s drops none")
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
