//! The keys of `[forward]`.

use std::path::{Path, PathBuf};

use super::words::ServiceWords;
use crate::config::{self, ConfigError, Keys, Size, key, keys};

/// The default of `memory`.
const MEMORY_DEFAULT: usize = 256 << 20;

/// The default of `connections_max`.
const CONNECTIONS_MAX: u32 = 262_144;

keys! {
    /// The section `[forward]`.
    pub(crate) struct Section {
        ports: Vec<String> = key("Interfaces between which connections are forwarded; with one, \
        clients and nodes are both there")
            .long("ports").value("IF1[,IF2...]").commas();
        service: Vec<ServiceWords> = key("A virtual address and its nodes: 'tcp 10.9.1.100:80 to \
        10.9.2.2:8080 weight 3, 10.9.2.3:8080; choose least; check http /health'; can be repeated")
            .long("service").value("WORDS").or_one()
            .example("tcp 10.9.1.100:80 to 10.9.2.2:8080, 10.9.2.3:8080");
        nat: Vec<String> = key("Addresses from which nodes are reached: no host has them, and \
        nodes send their answers there; can be left out where every service keeps its clients")
            .long("nat").value("ADDRESS").commas().or_one()
            .example("10.9.2.100");
        route: Vec<String> = key("Where a network is: 'default via 10.9.1.1 dev IF1', \
        '10.9.3.0/24 via 10.9.2.1 dev IF2'; other addresses are looked for at every port; can be \
        repeated")
            .long("route").value("WORDS").or_one()
            .example("10.9.3.0/24 via 10.9.2.1 dev IF2");
        connections_max: u32 = key("Connections at once: the table is made for so many")
            .long("connections-max").value("N")
            .default(|| CONNECTIONS_MAX);
        timeout: Vec<String> = key("When idle entries go, NAME=TIME: established (2h4m), \
        transitory (4m), half_open (10s), udp (5m); can be repeated")
            .long("timeout").value("NAME=TIME").or_one()
            .example("udp=30s");
        syn_cookies: String = key("Answer handshakes here, without keeping any, while more than \
        this share of the table is half open, such as 25%")
            .long("syn-cookies").value("SHARE")
            .example("25%");
        method: String = key("How frames are taken and sent: auto, af_xdp, af_xdp_generic or \
        af_packet")
            .long("method").value("WORD")
            .default(|| "auto".to_owned());
        mode: String = key("Where frames of connections that are decided pass: auto (by the \
        driver where it can), driver or loop (all pass this program); or, in the loop, where their \
        payloads lie meanwhile: baseline, pcache, direct, spill or adaptive [default: auto, with \
        --emulated pcache]")
            .long("mode").value("WORD");
        cache: String = key("Payload memory of such a mode: how much of its ports' memory holds \
        payloads of frames that are to leave [default: 1.4MiB]")
            .long("cache").value("SIZE")
            .example("1.4MiB");
        hold: u32 = key("In such a mode, frames that wait before the first of them leaves, as in a \
        queue of that length, 50 ms at most")
            .long("hold").value("N");
        wait: String = key("How the loop waits for frames: spin (a core of its own), hybrid or \
        sleep")
            .long("wait").value("WORD")
            .default(|| "hybrid".to_owned());
        autostop: String = key("End after so long: duration:SECONDS")
            .short('a').long("autostop").value("CONDITION")
            .example("duration:60");
        seed: u64 = key("Seed of what strangers must not guess: hashes, NAT ports, cookies; without it, \
             each run draws its own")
            .long("seed").value("N");
        memory: Size = key("The one memory budget")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
        output: PathBuf = key("The folder of the run: trace.json with the counts, the socket of \
        ctl, and the table of connections for --resume")
            .short('o').long("output").value("RUN");
        force: bool = key("Replace RUN, and OUT of --write-pcap, if it is there")
            .long("force");
        write_pcap: PathBuf = key("Write the frames as they came and left: pcapng, or pcap if it \
        ends in .pcap")
            .long("write-pcap").value("OUT");
        no_sandbox: bool = key("Look into frames without a sandbox: with every file and system \
        call at hand that the user has")
            .long("no-sandbox");
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
