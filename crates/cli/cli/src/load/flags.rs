//! Flags of `load` and `load serve`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::limits::LimitWords;
use super::stack::StackWords;
use crate::config::{Keys, Sandboxing, Size, Time, key, keys};
use crate::confine::Confining;

/// The default of `memory`.
pub(super) const MEMORY_DEFAULT: usize = 256 << 20;

/// The words of `--preset`.
pub(super) const PRESETS: [&str; 4] = ["etc", "iot", "web", "datacentre"];
/// The words of `--arrivals-of`, the default first.
pub(super) const ARRIVALS_OF: [&str; 2] = ["requests", "connections"];
/// The words of `--close`, the default first.
pub(super) const CLOSE: [&str; 3] = ["fin", "rst", "peer"];
/// The words of `--timer`, the default first.
pub(super) const TIMER: [&str; 3] = ["io", "app", "sleep"];

keys! {
    /// The section `[load]`.
    pub(crate) struct Section {
        url: Vec<String> = key("The server: http://HOST[:PORT][/PATH], memcached://HOST[:PORT], \
        dns://HOST[:PORT]/NAME[?type=A], nfs://HOST[:PORT]/EXPORT, udp://HOST[:PORT], \
        echo://HOST[:PORT][?bytes=64], sink://HOST[:PORT][?bytes=1MiB] or \
        source://HOST[:PORT][?bytes=1MiB]")
            .value("URL").positional().or_one()
            .example("http://127.0.0.1:8080/");
        connections: u32 = key("Keep N connections open")
            .short('c').long("connections").value("N")
            .default(|| 50);
        preset: String = key("Use a published load: etc (a key-value store), iot (many devices), web or \
        datacentre (flows to a sink); flags override it")
            .long("preset").value("NAME")
            .words(|| PRESETS.to_vec());
        duration: Time = key("How long to send requests, e.g. 10s [default: 10s; no end with -n or a \
        rate that ends]")
            .short('d').long("duration").value("TIME")
            .example("10s");
        requests: NonZeroU64 = key("Stop after N requests")
            .short('n').long("requests").value("N");
        rate: String = key("Send this many requests per second, answered or not: 10000, or steps and \
        ramps '1000 for 10s, 1000 to 5000 in 30s'; without it each connection sends its next \
        request after the answer")
            .short('R').long("request-rate").value("RATE").hyphens()
            .long_before(&["rate"])
            .example("10000");
        arrivals: String = key("Distribution of send times: constant, poisson, 'gamma cv 2', \
        'on-off 20000 for 100ms, 0 for 900ms', 'file gaps.txt', ... [default: constant]")
            .long("arrivals").value("MODEL").hyphens()
            .example("poisson");
        arrivals_of: String = key("What arrives at the rate: requests, on open connections, or \
        connections [default: requests]")
            .long("arrivals-of").value("WORD")
            .words(|| ARRIVALS_OF.to_vec());
        workers: u32 = key("Use N cores: a thread each, with a share of the connections")
            .short('t').long("cores").value("N").long_before(&["workers"])
            .default(|| 1);
        headers: Vec<String> = key("Add a header to each request; can be repeated")
            .short('H').long("header").value("NAME: VALUE").or_one()
            .example("Accept: text/html");
        http_method: String = key("Method of the requests [default: GET, or POST with --body]")
            .short('X').long("request").value("METHOD");
        body: String = key("Body of the requests: this text, or @FILE for a file's content")
            .long("body").value("TEXT|@FILE").hyphens();
        fields: bool = key("Fill in fields of URL, headers and body: {number} of the request, {key}, \
        {random:1..1000}, {hex:16}, {bytes:64}; {{ is a brace")
            .long("fields");
        mix: String = key("NFS procedures with their shares [default: getattr:40%, lookup:15%, access:15%, \
        read:30%]")
            .long("mix").value("NAME:SHARE,...")
            .example("read:80%,write:20%");
        files: u32 = key("Create N files of 1 MiB in the export first [default: use those that exist, \
        up to 10000]")
            .long("files").value("N");
        keys: String = key("Distribution of memcached keys, NFS files, or {key} of --fields: 'zipf 0.99 over \
        100000', 'uniform over 1000' or 'sequential over 1000' [default: zipf 0.99 over 100000; all \
        files]")
            .long("keys").value("WORDS")
            .example("uniform over 1000");
        key_size: String = key("Bytes of memcached keys: 30, 'uniform 20..200', ... [default: 30]")
            .long("key-size").value("BYTES");
        value_size: String = key("Bytes of memcached values, or of READ and WRITE: 100, \
        'lognormal median 200 cv 2', ... [default: 100; of NFS 32KiB]")
            .long("value-size").value("BYTES");
        get_ratio: String = key("Share of memcached requests that read; the others store [default: \
        90%]")
            .long("get-ratio").value("SHARE").long_before(&["gets"]).name_before("gets");
        pipeline: u32 = key("Send up to N requests on a connection before the first answer")
            .long("pipeline").value("N")
            .default(|| 1);
        requests_per_connection: u32 = key("Close a connection after N requests and open another \
        [default: never]")
            .long("requests-per-connection").value("N");
        close: String = key("How to close connections: fin, rst (no TIME-WAIT at either end) or peer \
        (the server closes)")
            .long("close").value("WORD")
            .words(|| CLOSE.to_vec())
            .default(|| "fin".to_owned());
        think: String = key("Without a rate: wait before the next request on a connection: 2ms, \
        'exponential mean 10ms', 'lognormal median 5ms cv 2'")
            .long("think").value("TIMES").hyphens()
            .example("10ms");
        timeout: Time = key("Fail a request that has no answer after TIME, e.g. 10s [default: 30s; of \
        datagrams 1s]")
            .long("timeout").value("TIME");
    }
    with stack: StackWords; {
        ports: String = key("Local ports of -i")
            .long("ports").value("FIRST-LAST")
            .default(|| "1024-65535".to_owned());
        serve_on: String = key("Serve the other end too, at this interface by this program's own \
        TCP, to test a device between it and -i")
            .long("serve-on").value("IF");
        server: String = key("Start this shell command as the server, at 10.0.0.1 in a network \
        namespace of its own behind an emulated link, and load it; needs no root")
            .long("server").value("CMD")
            .example("exec nginx");
        link: String = key("The emulated link to the server of --server: emulate's flags without --, with \
        commas between them: 'delay 20ms, rate 5mbit, loss 0.1%'")
            .long("server-link").value("WORDS").long_before(&["link"]).hyphens()
            .example("delay 20ms, loss 0.1%");
        from: Vec<String> = key("Connect from these addresses of this host, in turn")
            .long("from").value("ADDRESS").commas().or_one()
            .example("127.0.0.2");
        timer: String = key("How to time requests: io (build requests 100 us early, then busy-wait \
        for their time), app (build them when due) or sleep (kernel timers)")
            .long("timer").value("WORD")
            .words(|| TIMER.to_vec())
            .default(|| "io".to_owned());
        wait: String = key("How to wait while nothing is due: spin, hybrid or sleep [default: hybrid; sleep \
        with --timer sleep]")
            .long("wait").value("WORD");
        on_overrun: String = key("What to do with requests that fell due while the generator was \
        stalled: keep (send all at once), 'cap N' (N per millisecond) or reanchor (move the \
        schedule, and count it)")
            .long("on-overrun").value("WORDS").long_before(&["catch-up"]).name_before("catch_up")
            .default(|| "keep".to_owned());
        pin: bool = key("Pin each thread to a core of its own")
            .long("pin");
        real_time: bool = key("Run at real-time priority (SCHED_FIFO); use --pin, and leave one core to \
        everything else")
            .long("real-time");
        seed: u64 = key("Seed of all random draws: equal seeds give equal schedules")
            .long("seed").value("N")
            .default(|| 1);
        memory: Size = key("Memory limit for the whole run")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
        output: PathBuf = key("Write the run into this folder: trace.json with the certificate, and a \
        row for each request in operations")
            .short('o').long("output").value("RUN");
        force: bool = key("Replace RUN, and the FILE of --hdr, if they exist")
            .long("force");
        row_sample: String = key("Write rows of these requests to operations: all, N for every \
        Nth, or none")
            .long("row-sample").value("WHICH").long_before(&["rows"]).name_before("rows")
            .default(|| "all".to_owned());
        write_pcap: PathBuf = key("Write the frames of -i, as they came and left: pcapng, or pcap \
        if it ends in .pcap")
            .short('w').long("write-pcap").value("OUT");
        hdr: PathBuf = key("Write a histogram log for HdrHistogram's readers, an interval a second: tags \
        latency (from the planned time) and service (from the send time), nanoseconds")
            .long("hdr").value("FILE");
        search: bool = key("Find the highest rate at which every request gets a good answer and \
        each --assert holds, by trials of -d, from -R on")
            .long("search");
        hosts: Vec<String> = key("Make the load from these hosts together, each with an equal share")
            .long("hosts").value("HOST").commas().or_one();
        rsh: String = key("Command that starts a program on another host")
            .long("rsh").value("WORDS").hyphens()
            .default(|| "ssh".to_owned());
        agent: PathBuf = key("Path of this program on --hosts [default: its path here]")
            .long("remote-lineside").value("PATH");
        asserts: Vec<String> = key("Exit with 3 unless this holds: 'p99 < 5ms', 'errors < 1%', \
        'rate > 9900/s'; can be repeated")
            .long("assert").value("EXPR").or_one()
            .example("p99 < 5ms");
        limits: LimitWords = key("Change a limit of the verdict, e.g. lateness_p99=2ms; can be repeated")
            .long("verdict-limit").value("NAME=VALUE").long_before(&["limit"]);
        sandbox: Sandboxing = key("Read answers in a sandbox: on, require (fail where the kernel \
        lacks a part) or off")
            .long("sandbox").value("WORD")
            .name_and_value_before("no_sandbox", Sandboxing::of_no_sandbox)
            .default(|| Sandboxing::On);
    }
}

/// Flags of `load`: the keys of `[load]`, and what concerns the command line alone.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) other: Option<Other>,
    #[command(flatten)]
    pub(super) keys: Section,
    /// Read settings from the section load of a TOML file, or from an earlier run's trace.json;
    /// flags override them
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Be directed by another host, over standard input and output
    #[arg(long = "agent", hide = true)]
    pub(super) agent_of_another: bool,
    /// Write what came of each --assert as JUnit's XML, for Jenkins and GitLab
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Print the certificate as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print a line a second also if standard error is no terminal
    #[arg(short, long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
}

/// What `load` does beside a load.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Other {
    /// Serve until Ctrl-C: the other end of a load
    Serve(Box<ServeArguments>),
}

/// What a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Service {
    /// HTTP/1.1: each request gets 200 and a body
    Http,
    /// Whatever comes goes back
    Echo,
    /// Whatever comes is counted
    Sink,
    /// Bytes, as fast as the client takes them
    Source,
    /// A memcached with half of --memory
    Memcached,
    /// The zone load.example by UDP: each name in it has the address 192.0.2.1
    Dns,
    /// Stamped datagrams: sent back, or counted with loss, order and jitter
    Udp,
    /// NFSv3 with MOUNT at the same port: 1,000 files in /export
    Nfs,
}

/// Flags of `load serve`.
#[derive(Debug, Clone, Args)]
pub(super) struct ServeArguments {
    /// What to serve
    #[arg(value_name = "WHAT")]
    pub(super) what: Service,
    /// Where: an address, with a port after a colon [default ports: http 8080, echo 7, sink 9,
    /// source 19, memcached 11211, dns 53, udp 7, nfs 2049]
    #[arg(value_name = "ADDRESS[:PORT]")]
    pub(super) at: String,
    /// Bytes of each body, of what a source sends on each connection, or of each file, e.g. 64 or
    /// 1MiB [default: 64; of a source, no end; of nfs 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = lineside_words::parse_size)]
    pub(super) size: Option<usize>,
    /// Use N cores: a thread each, with a listener of its own
    #[arg(
        short = 't',
        long = "cores",
        alias = "workers",
        value_name = "N",
        default_value_t = 1
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) workers: u32,
    #[command(flatten)]
    pub(super) stack: StackWords,
    /// How to wait while nothing comes: spin, hybrid or sleep
    #[arg(long, value_name = "WORD", default_value = "sleep")]
    pub(super) wait: String,
    /// Memory limit, e.g. 256MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    #[arg(value_parser = lineside_words::parse_size)]
    pub(super) memory: usize,
    /// Print the counts as JSON at the end
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}

impl Section {
    /// Flags, over the file of `--config`, over the defaults.
    pub(super) fn resolved(
        &self,
        file: Option<&std::path::Path>,
    ) -> Result<Self, crate::config::ConfigError> {
        let below = file.map(|path| crate::config::from_file(path, "load"));
        let given = self.clone().over(below.transpose()?.unwrap_or_default());
        given
            .check_words()
            .map_err(crate::config::ConfigError::new)?;
        let preset = given.of_preset();
        Ok(given.over(preset).over(Self::defaults(crate::config::ALL)))
    }
}
