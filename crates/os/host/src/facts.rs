//! How the machine is set, as far as results depend on it: each fact has a name and a text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::kernel::{chosen, text};
use crate::machine::{StealCounts, field, kib_field, read};
use crate::netlink::{Link, Netlink};

/// The facts of the machine that belong into a result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    /// Cores that this process may use (affinity and cgroup quota counted).
    pub cores: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// How it is set, by name: boot flags, governor, clock source, load, steal, adapters, TCP.
    pub settings: BTreeMap<String, String>,
}

impl MachineFacts {
    /// Asks the machine, once a process; what it does not show stays `None`. In a sandbox little is
    /// shown: a process that enters one asks before.
    pub fn read() -> &'static Self {
        static FACTS: OnceLock<MachineFacts> = OnceLock::new();
        FACTS.get_or_init(Self::ask)
    }

    /// All facts by name, as texts.
    pub fn by_name(&self) -> BTreeMap<String, String> {
        let number = |of: Option<u64>| of.map(|number| number.to_string());
        let named = [
            ("cores", number(self.cores)),
            ("memory_bytes", number(self.memory_bytes)),
            ("kernel", self.kernel.clone()),
            ("cpu_model", self.cpu_model.clone()),
        ];
        let mut all = self.settings.clone();
        let named = named.into_iter();
        all.extend(named.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        all
    }

    /// Asks the machine as it is now.
    pub fn ask() -> Self {
        // The kernel takes long to describe all processors, and they are alike.
        let mut cpu = String::new();
        let file = File::open("/proc/cpuinfo");
        let _ = file.and_then(|file| file.take(1024).read_to_string(&mut cpu));
        let cores = thread::available_parallelism();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            cores: cores.ok().map(|cores| cores.get() as u64),
            memory_bytes: kib_field(&read("/proc/meminfo"), "MemTotal"),
            kernel: kernel.ok().map(|release| release.trim().to_owned()),
            cpu_model: field(&cpu, "model name").map(str::to_owned),
            settings: settings(),
        }
    }
}

/// Flags of the kernel's command line on which times depend, by their names. Others stay out: they
/// name disks, hosts and networks.
const BOOT: [&str; 36] = [
    "amd_iommu",
    "amd_pstate",
    "clocksource",
    "cpufreq.default_governor",
    "cpuidle_haltpoll.force",
    "default_hugepagesz",
    "hpet",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "maxcpus",
    "mce",
    "mitigations",
    "nmi_watchdog",
    "nohlt",
    "nohz",
    "nohz_full",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "rcu_nocb_poll",
    "rcu_nocbs",
    "skew_tick",
    "threadirqs",
    "tsc",
];

/// What TCP and queues of sockets are set to, by the names of sysctl(8).
const SYSCTLS: [&str; 21] = [
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// Adapters that are listed.
const ADAPTERS_MAX: usize = 16;

/// What is found now; what the machine does not show is not there.
fn settings() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            found.insert(name.to_owned(), value);
        }
    };
    add("boot", text(Path::new("/proc/cmdline")).map(|it| boot(&it)));
    add("governor", governor());
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    add("clock_source", text(Path::new(clock)));
    let huge = text(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"));
    add(
        "huge_pages",
        huge.as_deref().and_then(chosen).map(str::to_owned),
    );
    let load = text(Path::new("/proc/loadavg"));
    add(
        "load",
        load.and_then(|it| it.split(' ').next().map(str::to_owned)),
    );
    let steal = StealCounts::share_since(Some(StealCounts::default()));
    add("steal", steal.map(|share| format!("{:.2}%", 100.0 * share)));
    for name in SYSCTLS {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let value = text(Path::new(&path));
        add(
            name,
            value.map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")),
        );
    }
    for (name, value) in adapters() {
        add(&format!("{ADAPTER}{name}"), Some(value));
    }
    found
}

/// How the names of adapters begin.
pub const ADAPTER: &str = "adapter.";

/// What of a command line is for times. What is after `--` is for the first program.
fn boot(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| *word != "--");
    let is_known = |word: &&str| BOOT.contains(&word.split('=').next().unwrap_or_default());
    words.filter(is_known).collect::<Vec<_>>().join(" ")
}

/// The governors of all processors, each once.
fn governor() -> Option<String> {
    let folder = Path::new("/sys/devices/system/cpu/cpufreq");
    let policies = fs::read_dir(folder).ok()?.flatten();
    let governors = policies.filter_map(|policy| text(&policy.path().join("scaling_governor")));
    let each: BTreeSet<String> = governors.collect();
    Some(each.into_iter().collect::<Vec<_>>().join(" "))
}

/// Adapters that are up: hardware, and what has an address.
fn adapters() -> Vec<(String, String)> {
    let read = || {
        let netlink = Netlink::open()?;
        std::io::Result::Ok((netlink.links()?, netlink.addresses()?))
    };
    let Ok((links, addresses)) = read() else {
        return Vec::new();
    };
    let is_listed = |link: &Link| {
        let has = |flag: libc::c_int| link.flags & flag.cast_unsigned() != 0;
        let is_hardware = link.kind.is_none();
        let has_address = { addresses.iter() }.any(|(index, _)| *index == link.index);
        has(libc::IFF_UP) && !has(libc::IFF_LOOPBACK) && (is_hardware || has_address)
    };
    let listed = links.into_iter().filter(is_listed).take(ADAPTERS_MAX);
    listed
        .map(|link| (link.name.clone(), adapter(&link)))
        .collect()
}

fn adapter(link: &Link) -> String {
    let sys = Path::new("/sys/class/net").join(&link.name);
    let driver = fs::read_link(sys.join("device/driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name);
    let driver = driver.map(|it| it.to_string_lossy().into_owned());
    let kind = driver.or_else(|| link.kind.clone());
    let mut out = format!(
        "{}, MTU {}",
        kind.unwrap_or_else(|| "?".to_owned()),
        link.mtu
    );
    let queues = fs::read_dir(sys.join("queues"))
        .into_iter()
        .flatten()
        .flatten();
    let queues: Vec<_> = queues.map(|queue| queue.file_name()).collect();
    let count = |kind: &str| {
        let is_of = |name: &&std::ffi::OsString| name.to_string_lossy().starts_with(kind);
        queues.iter().filter(is_of).count()
    };
    out += &format!(", queues {} in {} out", count("rx-"), count("tx-"));
    let speed = text(&sys.join("speed")).and_then(|it| it.parse::<u32>().ok());
    if let Some(speed) = speed.filter(|speed| *speed > 0) {
        out += &format!(", {speed} Mbit/s");
    }
    let offloads = OFFLOADS.iter().filter(|(command, bit, _)| {
        ethtool(&link.name, *command).is_some_and(|value| value & bit != 0)
    });
    let offloads: Vec<_> = offloads.map(|(_, _, name)| *name).collect();
    out + ", offloads "
        + &match offloads.is_empty() {
            true => "none".to_owned(),
            false => offloads.join(" "),
        }
}

/// Commands of linux/ethtool.h that answer with a number, the bit that counts, and ethtool(8)'s
/// word.
const OFFLOADS: [(u32, u32, &str); 7] = [
    (0x14, u32::MAX, "rx"),
    (0x16, u32::MAX, "tx"),
    (0x18, u32::MAX, "sg"),
    (0x1e, u32::MAX, "tso"),
    (0x23, u32::MAX, "gso"),
    (0x2b, u32::MAX, "gro"),
    (0x25, 1 << 15, "lro"),
];

/// What a driver answers to a command that asks for one number.
fn ethtool(name: &str, command: u32) -> Option<u32> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data: 0 };
    // SAFETY: all zeros is a value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: a name is shorter than its field.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    // SAFETY: the request names an interface, and points to the two numbers that the kernel reads
    // and fills by these commands; both live.
    // JUSTIFICATION: neither std nor rustix has this request.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (result == 0).then_some(value.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_flags_name_no_disk_host_or_secret() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1b2c ip=::::zorkmid:eth0 isolcpus=2-3 quiet \
                    mitigations=off token=zorkmid nohz_full=2-3 -- idle=poll --secret";
        assert_eq!(boot(line), "isolcpus=2-3 mitigations=off nohz_full=2-3");
        assert!(BOOT.is_sorted() && SYSCTLS.is_sorted());
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let facts = MachineFacts::read();
        assert!(facts.cores.is_some_and(|cores| cores > 0));
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        let kernel = facts.kernel.as_ref();
        assert!(kernel.is_some_and(|release| !release.is_empty()));
        let named = facts.by_name();
        assert_eq!(Some(&named["kernel"]), kernel);
        assert!(named.len() > facts.settings.len() + 2, "{named:?}");
    }

    #[test]
    fn settings_of_this_machine_are_found() {
        let found = settings();
        let rmem = found
            .get("net.ipv4.tcp_rmem")
            .map(|it| it.split(' ').count());
        assert_eq!(rmem, Some(3), "{found:?}");
        assert!(found["load"].parse::<f64>().is_ok(), "{found:?}");
        for (name, value) in &found {
            let is_adapter = name.starts_with(ADAPTER);
            assert!(!is_adapter || value.contains("MTU"), "{name}: {value}");
            assert!(
                !value.contains('\n') && !value.is_empty(),
                "{name}: {value}"
            );
        }
    }
}
