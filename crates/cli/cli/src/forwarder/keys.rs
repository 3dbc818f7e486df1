//! The keys of `[forward]`.

use std::path::{Path, PathBuf};

use lineside_run::request::ForwardRequest;

use super::service_words::ServiceWords;
use crate::config::{self, ConfigError, Duration, Keys, Sandboxing, Size, key, keys};

/// The default of `memory`.
const MEMORY_DEFAULT: usize = 256 << 20;

/// The default of `syn_cookies`.
const SYN_COOKIES: &str = "25%";

/// The default of `connections_max`.
const CONNECTIONS_MAX: u32 = 262_144;

keys! {
    /// The section `[forward]`.
    pub(crate) struct Section {
        ports: Vec<String> = key("Forward between these interfaces; with one, clients and nodes \
        are both there")
            .short('i').long("interface").value("IF1[,IF2...]").commas()
            .long_before(&["ports"]);
        service: Vec<ServiceWords> = key("A virtual address and its nodes: 'tcp 10.9.1.100:80 to \
        10.9.2.2:8080 weight 3, 10.9.2.3:8080; choose least; check http /health'; can be repeated")
            .long("service").value("WORDS").or_one()
            .example("tcp 10.9.1.100:80 to 10.9.2.2:8080, 10.9.2.3:8080");
        nat: Vec<String> = key("Reach nodes from these addresses, which no host has; not needed if \
        every service keeps its clients' addresses")
            .long("nat").value("ADDRESS").commas().or_one()
            .example("10.9.2.100");
        route: Vec<String> = key("Add a route: 'default via 10.9.1.1 dev IF1', '10.9.3.0/24 via \
        10.9.2.1 dev IF2'; other addresses are looked up at every port; can be repeated")
            .long("route").value("WORDS").or_one()
            .example("10.9.3.0/24 via 10.9.2.1 dev IF2");
        connections_max: u32 = key("Room of the connection table")
            .long("connections-max").value("N")
            .default(|| CONNECTIONS_MAX);
        timeout: Vec<String> = key("Remove idle entries after TIME: established (2h4m), transitory \
        (4m), half_open (1m), udp (5m), unanswered UDP (30s); can be repeated")
            .long("idle-timeout").value("NAME=TIME").or_one()
            .long_before(&["timeout"])
            .example("udp=30s");
        syn_cookies: String = key("Answer SYNs with cookies while more than this share of the table, \
        or of a node's port numbers, is half open; off: never")
            .long("syn-cookies").value("SHARE")
            .default(|| SYN_COOKIES.to_owned());
        method: String = key("How to receive and send frames: auto, af_xdp, af_xdp_generic or \
        af_packet")
            .long("method").value("WORD")
            .default(|| "auto".to_owned());
        mode: String = key("Where to forward frames of known connections: auto (in the driver if \
        it can), driver or loop (in this program); or in the loop with payloads in: baseline, \
        pcache, direct, spill or adaptive [default: auto; with --emulated pcache]")
            .long("mode").value("WORD");
        cache: String = key("Payload memory of such a mode [default: 1.4MiB]")
            .long("cache").value("SIZE")
            .example("1.4MiB");
        hold: u32 = key("In such a mode, hold N frames before the first leaves, 50 ms at most")
            .long("hold").value("N");
        wait: String = key("How to wait for frames: spin (needs a core), hybrid or sleep")
            .long("wait").value("WORD")
            .default(|| "hybrid".to_owned());
        duration: Duration = key("End the run after TIME, e.g. 60s")
            .short('d').long("duration").value("TIME")
            .short_before('a').long_before(&["autostop"]).name_before("autostop")
            .example("60s");
        seed: u64 = key("Seed of hashes, NAT ports and cookies, which others must not guess \
        [default: drawn by each run]")
            .long("seed").value("N");
        memory: Size = key("Memory limit for the whole run")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
        output: PathBuf = key("Write the run into this folder: trace.json with the counts, the \
        socket of ctl, and the table of connections for --resume")
            .short('o').long("output").value("RUN");
        force: bool = key("Replace RUN, and OUT of --write-pcap, if they exist")
            .long("force");
        write_pcap: PathBuf = key("Write the frames as they came and left: pcapng, or pcap if it \
        ends in .pcap")
            .short('w').long("write-pcap").value("OUT");
        strict: bool = key("Exit with 4 unless the verdict is complete")
            .long("strict");
        sandbox: Sandboxing = key("Read frames in a sandbox: on, require (fail where the kernel \
        lacks a part) or off")
            .long("sandbox").value("WORD")
            .name_and_value_before("no_sandbox", Sandboxing::of_no_sandbox)
            .default(|| Sandboxing::On);
    }
}

impl Section {
    /// Flags, over the file of `--config`, over the defaults.
    pub(crate) fn resolved(&self, file: Option<&Path>) -> Result<Self, ConfigError> {
        let below = file.map(|path| config::from_file(path, "forward"));
        let given = self.clone().over(below.transpose()?.unwrap_or_default());
        given.check_words().map_err(ConfigError::new)?;
        Ok(given.over(Self::defaults(config::ALL)))
    }
}

/// The section of a file, for a reload.
pub(crate) fn reload_of(path: &Path) -> Result<ForwardRequest, ConfigError> {
    let keys: Section = config::from_file(path, "forward")?;
    let mut forward = serde_json::Map::new();
    keys.write(&mut forward);
    forward.retain(|_, value| !value.is_null());
    Ok(ForwardRequest::Reload {
        forward: forward.into(),
    })
}
