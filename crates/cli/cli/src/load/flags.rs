//! Flags of `load` and `load serve`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use lineside_load::protocol::{PRESETS, PROTOCOLS, Preset, Protocol, listed, preset, services};

use super::protocol_keys::ProtocolKeys;
use super::stack::StackWords;
use crate::config::{Keys, Sandboxing, Size, Time, key, keys};
use crate::confine::Confining;
use crate::limits::LimitWords;

/// The default of `memory`.
pub(super) const MEMORY_DEFAULT: usize = 256 << 20;

/// The words of `--arrivals-of`, the default first.
pub(super) const ARRIVALS_OF: [&str; 2] = ["requests", "connections"];
/// The words of `--close`, the default first.
pub(super) const CLOSE: [&str; 3] = ["fin", "rst", "peer"];
/// The words of `--timer`, the default first.
pub(super) const TIMER: [&str; 3] = ["io", "app", "sleep"];

keys! {
    /// The section `[load]`.
    pub(crate) struct Section {
        url: Vec<String> = key("").help_made(url_help)
            .value("URL").positional().or_one()
            .example("http://127.0.0.1:8080/");
        connections: u32 = key("Keep N connections open")
            .short('c').long("connections").value("N")
            .default(|| 50);
        preset: String = key("").help_made(preset_help)
            .long("preset").value("NAME")
            .words(|| PRESETS.iter().map(|each| each.name).collect());
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
    }
    with protocol: ProtocolKeys; {
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
        precision: String = key("With --search: end when the limit is known to this share of itself")
            .long("precision").value("SHARE")
            .default(|| "1%".to_owned());
        hosts: Vec<String> = key("Make the load from these hosts together, each with an equal share")
            .long("hosts").value("HOST").commas().or_one();
        rsh: String = key("Command that starts a program on another host")
            .long("rsh").value("WORDS").hyphens()
            .default(|| "ssh".to_owned());
        agent: PathBuf = key("Path of this program on --hosts [default: its path here]")
            .long("remote-lineside").value("PATH");
        public: bool = key("Load a public address with more than 1,000 requests a second")
            .long("public");
        asserts: Vec<String> = key("Exit with 3 unless this holds: 'p99 < 5ms', 'errors < 1%', \
        'rate > 9900/s'; can be repeated")
            .long("assert").value("EXPR").or_one()
            .example("p99 < 5ms");
        limits: LimitWords = key("Change a limit of the verdict, e.g. lateness_p99=2ms; can be repeated")
            .long("verdict-limit").value("NAME=VALUE").long_before(&["limit"]);
        errors_max: String = key("Exit with 3 if more than this share of the requests fail")
            .long("errors-max").value("SHARE")
            .default(|| "10%".to_owned());
        strict: bool = key("Exit with 4 unless the verdict is complete")
            .long("strict");
        sandbox: Sandboxing = key("Read answers in a sandbox: on, require (fail where the kernel \
        lacks a part) or off")
            .long("sandbox").value("WORD")
            .name_and_value_before("no_sandbox", Sandboxing::of_no_sandbox)
            .default(|| Sandboxing::On);
    }
}

fn url_help() -> String {
    let urls: Vec<_> = PROTOCOLS.iter().map(|protocol| protocol.url).collect();
    format!("The server: {}", listed(&urls, "or"))
}

fn preset_help() -> String {
    let each = PRESETS
        .iter()
        .map(|Preset { name, about, .. }| match about {
            Some(about) => format!("{name} ({about})"),
            None => (*name).to_owned(),
        });
    let all = listed(&each.collect::<Vec<_>>(), "or");
    format!("Use a published load: {all}; flags override it")
}

/// Reads the name of a protocol to serve.
fn service() -> impl TypedValueParser<Value = &'static Protocol> {
    let all = services().into_iter();
    let possible = all.map(|of| PossibleValue::new(of.name).help(of.service.about));
    PossibleValuesParser::new(possible).map(|name| {
        let known = services().into_iter().find(|of| of.name == name);
        known.expect("only these words pass")
    })
}

fn address_help() -> String {
    let all = services().into_iter();
    let ports: Vec<_> = all
        .map(|of| format!("{} {}", of.name, of.service.port))
        .collect();
    let ports = ports.join(", ");
    format!("Where: an address, with a port after a colon [default ports: {ports}]")
}

fn size_help() -> String {
    let all = services().into_iter().filter_map(|of| of.service.size);
    let (of, defaults): (Vec<_>, Vec<_>) = all.unzip();
    let (last, first) = of.split_last().expect("some have sizes");
    format!(
        "Bytes of {}, or of {last}, e.g. 64 or 1MiB [default: {}]",
        first.join(", of "),
        defaults.join("; ")
    )
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

/// Flags of `load serve`.
#[derive(Debug, Clone, Args)]
pub(super) struct ServeArguments {
    /// What to serve
    #[arg(value_name = "WHAT", value_parser = service())]
    pub(super) what: &'static Protocol,
    #[arg(value_name = "ADDRESS[:PORT]", help = address_help())]
    pub(super) at: String,
    #[arg(long, value_name = "SIZE", help = size_help())]
    #[arg(value_parser = lineside_words::parse_size)]
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
        let preset = given.of_preset().map_err(crate::config::ConfigError::new)?;
        Ok(given.over(preset).over(Self::defaults(crate::config::ALL)))
    }

    /// The preset, if there is one.
    pub(super) fn preset(&self) -> Option<&'static Preset> {
        preset(self.preset.as_deref()?)
    }

    /// Its values: a flag, or a key of a file, goes before them.
    fn of_preset(&self) -> Result<Self, String> {
        let mut keys = Self::default();
        let Some(preset) = self.preset() else {
            return Ok(keys);
        };
        let with_rate = preset.with_rate.iter().filter(|_| self.rate.is_some());
        for (name, value) in preset.keys.iter().chain(with_rate) {
            keys.read(name, &value.to_json())?;
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(preset: &str, url: &str) -> Section {
        let keys = Section {
            url: Some(vec![url.to_owned()]),
            preset: Some(preset.to_owned()),
            ..Section::default()
        };
        keys.resolved(None).expect("valid")
    }

    #[test]
    fn a_preset_stands_below_flags_and_above_defaults() {
        let iot = resolved("iot", "http://127.0.0.1/");
        assert_eq!(iot.connections, Some(1_000));
        let given = Section {
            connections: Some(7),
            preset: Some("iot".to_owned()),
            ..Section::default()
        };
        let given = given.resolved(None).expect("valid");
        assert_eq!((given.connections, given.pipeline), (Some(7), Some(1)));
    }

    #[test]
    fn every_preset_can_be_prepared_and_fits_its_protocols() {
        let all: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        assert_eq!(all, ["etc", "iot", "web", "datacentre"]);
        for (preset, url) in PRESETS.iter().flat_map(|preset| {
            let urls = preset.of.iter().map(|of| format!("{of}://127.0.0.1"));
            urls.map(move |url| (preset.name, url))
        }) {
            let mut keys = resolved(preset, &url);
            keys.prepare().expect(preset);
            keys.rate = Some("100".to_owned());
            keys.resolved(None).expect(preset).prepare().expect(preset);
        }
        let wrong = resolved("etc", "http://127.0.0.1/");
        let Err(error) = wrong.prepare() else {
            panic!("keys of HTTP");
        };
        assert!(error.to_string().contains("is for memcached"), "{error}");
    }
}
