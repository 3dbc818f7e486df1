//! Flags of `load` and `load serve`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::limits::LimitWords;
use super::stack::StackWords;
use crate::config::{Keys, Size, Time, key, keys};
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
        connections: u32 = key("Connections that are open at once")
            .short('c').long("connections").value("N")
            .default(|| 50);
        preset: String = key("A load that others have measured: etc (a key-value store), iot (many \
        devices), web or datacentre (flows to a sink); flags go before it")
            .long("preset").value("NAME")
            .words(|| PRESETS.to_vec());
        duration: Time = key("Requests leave for so long, such as 10s [default: 10s; none with -n \
        or a rate that ends]")
            .short('d').long("duration").value("TIME")
            .example("10s");
        requests: NonZeroU64 = key("Stop after N requests")
            .short('n').long("requests").value("N");
        rate: String = key("Requests a second, answered or not: 10000, or steps and ramps such as \
        '1000 for 10s, 1000 to 5000 in 30s'; without it each connection sends as soon as it has \
        its answer")
            .short('R').long("rate").value("RATE").hyphens()
            .example("10000");
        arrivals: String = key("How the instants at which requests leave are spread: constant, \
        poisson, 'gamma cv 2', 'on-off 20000 for 100ms, 0 for 900ms', 'file gaps.txt', ... \
        [default: constant]")
            .long("arrivals").value("MODEL").hyphens()
            .example("poisson");
        arrivals_of: String = key("What arrives at the rate: requests, on connections that are \
        open, or connections [default: requests]")
            .long("arrivals-of").value("WORD")
            .words(|| ARRIVALS_OF.to_vec());
        workers: u32 = key("Workers: threads that each have a share of the connections")
            .short('t').long("workers").value("CORES")
            .default(|| 1);
        headers: Vec<String> = key("A header of each request; can be repeated")
            .short('H').long("header").value("NAME: VALUE").or_one()
            .example("Accept: text/html");
        http_method: String = key("The method of requests [default: GET, or POST with --body]")
            .short('X').long("request").value("METHOD");
        body: String = key("The body of each request: this text, or @FILE for what is in a file")
            .long("body").value("TEXT|@FILE").hyphens();
        fields: bool = key("URL, headers and body have fields: {n}, {key}, {random:1..1000}, \
        {hex:16}, {bytes:64}; {{ is a brace")
            .long("fields");
        mix: String = key("Procedures of NFS with their shares [default: getattr:40%, lookup:15%, \
        access:15%, read:30%]")
            .long("mix").value("NAME:SHARE,...")
            .example("read:80%,write:20%");
        files: u32 = key("Make so many files of 1 MiB in the export first, where they are not \
        there [default: those that are there, up to 10000]")
            .long("files").value("N");
        keys: String = key("Keys of memcached, files of NFS, or {key} of --fields: 'zipf 0.99 over \
        100000', 'uniform over 1000' or 'sequential over 1000' [default: zipf 0.99 over 100000; all \
        files]")
            .long("keys").value("WORDS")
            .example("uniform over 1000");
        key_size: String = key("Bytes of memcached's keys: 30, 'uniform 20..200', ... [default: 30]")
            .long("key-size").value("BYTES");
        value_size: String = key("Bytes of memcached's values, or of READ and WRITE: 100, \
        'lognormal median 200 cv 2', ... [default: 100; of NFS 32KiB]")
            .long("value-size").value("BYTES");
        gets: String = key("Share of memcached's requests that read; the others store [default: \
        90%]")
            .long("gets").value("SHARE");
        pipeline: u32 = key("Requests that may be under way on a connection at once")
            .long("pipeline").value("N")
            .default(|| 1);
        requests_per_connection: u32 = key("Requests after which a connection ends and another \
        one opens [default: no end]")
            .long("requests-per-connection").value("N");
        close: String = key("How connections end: fin, rst (neither end waits in TIME-WAIT) or \
        peer (the server ends them)")
            .long("close").value("WORD")
            .words(|| CLOSE.to_vec())
            .default(|| "fin".to_owned());
        think: String = key("Without a rate: a connection waits before its next request: 2ms, \
        'exponential mean 10ms', 'lognormal median 5ms cv 2'")
            .long("think").value("TIMES").hyphens()
            .example("10ms");
        timeout: Time = key("A request without an answer for so long fails, such as 10s [default: \
        30s; of datagrams 1s]")
            .long("timeout").value("TIME");
    }
    with stack: StackWords; {
        ports: String = key("Local ports of -i")
            .long("ports").value("FIRST-LAST")
            .default(|| "1024-65535".to_owned());
        serve_on: String = key("Serve the other end too, at this interface by this program's own \
        TCP: a device between it and -i is tested")
            .long("serve-on").value("IF");
        server: String = key("Start a server by this command of a shell, in a network of its own \
        behind an emulated link, and load it by this program's own TCP; the server has 10.0.0.1, \
        and no privilege is needed")
            .long("server").value("CMD")
            .example("exec nginx");
        link: String = key("The link before the server of --server, in words of emulate's flags")
            .long("link").value("WORDS")
            .example("delay 20ms, loss 0.1%");
        from: Vec<String> = key("Addresses of this host from which connections come, in turn")
            .long("from").value("ADDRESS").commas().or_one()
            .example("127.0.0.2");
        timer: String = key("How departures are timed: io (what is due within 100 us is built \
        before, and the loop spins on it), app (built when it is due) or sleep (the kernel's \
        timers)")
            .long("timer").value("WORD")
            .words(|| TIMER.to_vec())
            .default(|| "io".to_owned());
        wait: String = key("What workers do while nothing is due: spin, hybrid or sleep [default: \
        hybrid; sleep with --timer sleep]")
            .long("wait").value("WORD");
        catch_up: String = key("What becomes of requests whose instants passed while the \
        generator stood still: keep (all leave at once), 'cap N' (N in a millisecond) or reanchor \
        (the schedule moves, which is counted)")
            .long("catch-up").value("WORDS")
            .default(|| "keep".to_owned());
        pin: bool = key("Keep each worker on a core of its own")
            .long("pin");
        real_time: bool = key("Have workers run before all normal threads (SCHED_FIFO): give each \
        one a core with --pin, and leave another one to the rest")
            .long("real-time");
        seed: u64 = key("Seed of all random draws: equal seeds give equal schedules")
            .long("seed").value("N")
            .default(|| 1);
        memory: Size = key("The one memory budget")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
        output: PathBuf = key("The folder of the run: trace.json with the certificate, and a row \
        for each request in operations")
            .short('o').long("output").value("RUN");
        force: bool = key("Replace RUN, and the FILE of --hdr, if it is there")
            .long("force");
        rows: String = key("Which requests have a row in operations: all, N for every Nth, or none")
            .long("rows").value("WHICH")
            .default(|| "all".to_owned());
        write_pcap: PathBuf = key("Write the frames of -i, as they came and left: pcapng, or pcap \
        if it ends in .pcap")
            .long("write-pcap").value("OUT");
        hdr: PathBuf = key("A log of histograms, an interval a second, for HdrHistogram's readers: \
        tags latency (from the planned instant) and service (from the departure), nanoseconds")
            .long("hdr").value("FILE");
        search: bool = key("Find the highest rate at which every request gets a good answer and \
        each --assert holds, by trials of -d, from -R on")
            .long("search");
        hosts: Vec<String> = key("Hosts that make the load together, each with an equal share")
            .long("hosts").value("HOST").commas().or_one();
        rsh: String = key("How a program is started on another host")
            .long("rsh").value("WORDS").hyphens()
            .default(|| "ssh".to_owned());
        agent: PathBuf = key("This program on --hosts [default: its path here]")
            .long("remote-lineside").value("PATH");
        asserts: Vec<String> = key("Exit with 3 unless this holds: 'p99 < 5ms', 'errors < 1%', \
        'rate > 9900/s'; can be repeated")
            .long("assert").value("ASSERTION").or_one()
            .example("p99 < 5ms");
        limits: LimitWords = key("A limit of the verdict, such as lateness_p99=2ms; can be \
        repeated")
            .long("limit").value("NAME=VALUE");
        no_sandbox: bool = key("Look into answers without a sandbox: with every file and system \
        call at hand that the user has")
            .long("no-sandbox");
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
    /// Take all this from the section load of a TOML file, or from an earlier run's trace.json,
    /// unless a flag sets it
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
    /// Print a line a second also where standard error is no terminal
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
    /// Bytes of each body, of what a source sends on each connection, or of each file, such as 64
    /// or 1MiB [default: 64; of a source, no end; of nfs 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = lineside_account::parse_size)]
    pub(super) size: Option<usize>,
    /// Workers: threads that each have a listener
    #[arg(short = 't', long, value_name = "CORES", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) workers: u32,
    #[command(flatten)]
    pub(super) stack: StackWords,
    /// What workers do while nothing comes: spin, hybrid or sleep
    #[arg(long, value_name = "WORD", default_value = "sleep")]
    pub(super) wait: String,
    /// The one memory budget, such as 256MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    #[arg(value_parser = lineside_account::parse_size)]
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
