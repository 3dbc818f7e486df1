//! What a script configures: its `--name=value` lines, and the `sysctl` lines of Linux and FreeBSD
//! as far as they have a meaning for the stack.

use lineside_tcp::congestion::{CUBIC, NEW_RENO};
use lineside_tcp::{Config, Ecn};

use super::Fault;
use super::packet::{Ends, OUR_LINK};
use super::script::Script;

/// packetdrill's default, `--tolerance_usecs`.
const TOLERANCE_NS: i64 = 4_000_000;
/// The stack's clock of timestamps: RFC 7323, 5.4 asks for 1 ms to 1 s.
const TICK_NS: i64 = 1_000_000;

/// Settings that change nothing in virtual time: caches, adapters' limits, pacing, or what has the
/// only value that the stack knows.
const IGNORED: [&str; 22] = [
    "net.inet.tcp.hostcache.purgenow",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_fack",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fastopen_key",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_invalid_ratelimit",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_ecn_option",
    "net.inet.tcp.syncookies",
    "net.ipv4.tcp_syncookies",
];
/// Settings that have one value here.
const FIXED: [(&str, &str); 4] = [
    ("net.inet.tcp.blackhole", "0"),
    ("net.inet.tcp.rexmit_initial", "1000"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.inet.tcp.functions_default", "freebsd"),
];
/// Commands that look at a host or clear its caches: nothing here depends on them.
const COMMANDS: [&str; 5] = [
    "ethtool -K ",
    "sockstat ",
    "tcpdrop ",
    "ip tcp_metrics ",
    "/tmp/sysctl_restore",
];

/// What a script is run with.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) ends: Ends,
    pub(super) tolerance_ns: i64,
    /// `None`: timestamps are not compared.
    pub(super) tick_ns: Option<i64>,
    /// Of a socket that chose none, and the largest, which the window's scale fits.
    pub(super) receive_bytes: u32,
    pub(super) receive_max: u32,
    pub(super) send_bytes: u32,
    /// A receive buffer grows to whole segments once their size is known: FreeBSD.
    pub(super) rounds_buffers: bool,
    /// A buffer is twice what was asked for: Linux.
    pub(super) doubles_buffers: bool,
}

impl Settings {
    pub(super) fn of(script: &Script) -> Result<Self, Fault> {
        let mut is_ipv4 = true;
        let (mut tolerance_ns, mut tick_ns, mut mtu) = (TOLERANCE_NS, Some(TICK_NS), 1500);
        for (line, name, value) in &script.options {
            let fault = || Fault::new(*line, format!("--{name}={value}: no such value"));
            let number = || value.parse::<u32>().map_err(|_| fault());
            match name.as_str() {
                "ip_version" => {
                    is_ipv4 = match value.as_str() {
                        "ipv4" => true,
                        "ipv6" => false,
                        _ => return Err(fault()),
                    }
                }
                "tolerance_usecs" => tolerance_ns = i64::from(number()?) * 1000,
                "tcp_ts_tick_usecs" => {
                    tick_ns = Some(i64::from(number()?) * 1000).filter(|&tick| tick > 0);
                }
                "mtu" => mtu = number()?.clamp(576, 9000) as usize,
                _ => {
                    let what = format!(
                        "no option --{name}: ip_version, tolerance_usecs, tcp_ts_tick_usecs and \
                         mtu are known"
                    );
                    return Err(Fault::new(*line, what));
                }
            }
        }
        let ends = Ends::of(is_ipv4);
        let config = Config {
            mtu,
            receive_window_bytes: 65_535,
            connections_max: 64,
            active_max: 64,
            time_wait_max: 64,
            neighbours_max: 16,
            ..Config::new(OUR_LINK, &[ends.ours])
        };
        Ok(Self {
            config,
            ends,
            tolerance_ns,
            tick_ns,
            receive_bytes: 65_535,
            receive_max: 65_535,
            send_bytes: 262_144,
            rounds_buffers: false,
            doubles_buffers: false,
        })
    }

    /// Runs a command, or says why it cannot be. Whether it changed anything.
    pub(super) fn command(&mut self, line: u32, command: &str) -> Result<bool, Fault> {
        let mut changed = false;
        for command in command.split(['\n', ';']).map(str::trim) {
            if command.is_empty() || COMMANDS.iter().any(|known| command.starts_with(known)) {
                continue;
            }
            if command.ends_with("common/defaults.sh") {
                self.as_linux();
                changed = true;
                continue;
            }
            let mut words = command.split_whitespace();
            let program = words.next().unwrap_or_default();
            if program != "sysctl" && !program.ends_with("set_sysctls.py") {
                let what = format!(
                    "`{command}` is not run: only sysctl lines are read; take the command out of \
                     the script"
                );
                return Err(Fault::new(line, what));
            }
            let rest = command[program.len()..].replace(['"', '\\'], "");
            changed |= self.sysctls(line, &rest)?;
        }
        Ok(changed)
    }

    /// `[-w] NAME=VALUE...`, where a value may have several words.
    fn sysctls(&mut self, line: u32, text: &str) -> Result<bool, Fault> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        // A shell's comment.
        let text = text.split_once(" #").map_or(text, |(text, _)| text);
        for word in text
            .split_whitespace()
            .filter(|word| !word.starts_with('-'))
        {
            match (word.split_once('='), pairs.last_mut()) {
                (Some((name, value)), _) => {
                    let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
                    pairs.push((name, value.to_owned()));
                }
                (None, Some((_, value))) => *value += &format!(" {word}"),
                (None, None) => {
                    return Err(Fault::new(line, format!("`{word}` is not NAME=VALUE")));
                }
            }
        }
        let mut changed = false;
        for (name, value) in pairs {
            if IGNORED.contains(&name.as_str()) {
                continue;
            }
            self.set(&name, &value)
                .map_err(|what| Fault::new(line, what))?;
            changed = true;
        }
        Ok(changed)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some((_, known)) = FIXED.iter().find(|(fixed, _)| *fixed == name) {
            return match known.split(' ').any(|known| known == value) {
                true => Ok(()),
                false => Err(format!("{name}={value}: the stack knows {known} only")),
            };
        }
        if name == "net.ipv4.tcp_congestion_control" {
            self.config.congestion = match value {
                "reno" => &NEW_RENO,
                "cubic" => &CUBIC,
                _ => return Err(format!("{name}={value}: reno and cubic are known")),
            };
            return Ok(());
        }
        let numbers: Option<Vec<u32>> = { value.split_whitespace() }
            .map(|number| number.parse().ok())
            .collect();
        let numbers = numbers.ok_or_else(|| format!("{name}={value} is not a number"))?;
        match numbers[..] {
            [_, default, most] => self.set_buffers(name, default, most),
            [number] => self.set_number(name, number),
            _ => Err(format!("{name}={value}: one number, or three of a buffer")),
        }
    }

    fn set_buffers(&mut self, name: &str, default: u32, most: u32) -> Result<(), String> {
        match name {
            "net.ipv4.tcp_rmem" => (self.receive_bytes, self.receive_max) = (default, most),
            "net.ipv4.tcp_wmem" => self.send_bytes = default,
            _ => return Err(format!("no setting {name} with three numbers")),
        }
        Ok(())
    }

    fn set_number(&mut self, name: &str, number: u32) -> Result<(), String> {
        let config = &mut self.config;
        let ms = i64::from(number) * 1_000_000;
        let seconds = ms * 1000;
        let few = number.min(255) as u8;
        match name {
            "net.ipv4.tcp_timestamps" | "net.inet.tcp.rfc1323" => config.timestamps = number != 0,
            "net.ipv4.tcp_ecn" | "net.inet.tcp.ecn.enable" => {
                config.ecn = match number {
                    0 => Ecn::Off,
                    1 => Ecn::Ask,
                    _ => Ecn::Accept,
                }
            }
            "net.ipv4.tcp_sack" | "net.inet.tcp.sack.enable" => config.sack = number != 0,
            "net.inet.tcp.recvspace" => {
                (self.receive_bytes, self.rounds_buffers) = (number, true);
                // FreeBSD's kern.ipc.maxsockbuf.
                self.receive_max = self.receive_max.max(number).max(2 << 20);
            }
            "net.inet.tcp.sendspace" => self.send_bytes = number,
            "kern.ipc.maxsockbuf" => self.receive_max = number,
            "net.inet.tcp.insecure_rst" => config.resets_exact = number == 0,
            "net.inet.tcp.insecure_syn" => config.syn_challenged = number == 0,
            "net.inet.tcp.drop_synfin" => config.syn_fin_dropped = number != 0,
            "net.inet.tcp.delacktime" => config.delayed_ack_ns = ms,
            "net.inet.tcp.msl" => config.time_wait_ns = 2 * ms,
            "net.inet.tcp.rexmit_min" => config.rto_min_ns = ms,
            "net.ipv4.tcp_syn_retries" | "net.ipv4.tcp_synack_retries" => {
                config.syn_retries_max = few;
            }
            "net.ipv4.tcp_retries2" => config.retries_max = few,
            "net.ipv4.tcp_fin_timeout" => config.fin_wait_2_ns = seconds,
            "net.inet.tcp.finwait2_timeout" => config.fin_wait_2_ns = ms,
            "net.ipv4.tcp_keepalive_time" => config.keep_alive_ns = Some(seconds),
            "net.ipv4.tcp_keepalive_intvl" => config.keep_alive_interval_ns = seconds,
            "net.ipv4.tcp_keepalive_probes" => config.keep_alive_probes_max = few,
            "net.ipv4.tcp_max_syn_backlog" => config.half_open_max = number,
            _ => {
                return Err(format!(
                    "no setting {name}: take the line out of the script, or map it in \
                     drill/settings.rs"
                ));
            }
        }
        Ok(())
    }

    /// The defaults that packetdrill's scripts for Linux expect.
    fn as_linux(&mut self) {
        // Its window begins with 64 KiB, and its scale fits what it may grow to.
        (self.receive_bytes, self.receive_max) = (65_535, 15 << 20);
        self.send_bytes = 256 << 10;
        self.doubles_buffers = true;
        self.config.syn_retries_max = 5;
        self.config.congestion = &CUBIC;
        // Linux acknowledges the first segments of a connection at once.
        self.config.delayed_ack_ns = 0;
    }
}
