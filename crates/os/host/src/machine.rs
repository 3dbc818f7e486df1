use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::sync::OnceLock;
use std::thread;

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
            settings: crate::facts::settings(),
        }
    }
}

/// Memory of this process, for `--stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// The most that was ever resident (`VmHWM`): mapped and cached files count too.
    pub peak_bytes: Option<u64>,
    /// Resident now and not backed by a file (`RssAnon`): what it allocated.
    pub anonymous_bytes: Option<u64>,
}

impl MemoryUse {
    /// Asks the kernel.
    pub fn read() -> Self {
        let status = read("/proc/self/status");
        Self {
            peak_bytes: kib_field(&status, "VmHWM"),
            anonymous_bytes: kib_field(&status, "RssAnon"),
        }
    }
}

/// Processor time of the whole machine since it started, in ticks (`/proc/stat`, proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StealCounts {
    /// All of it.
    pub total: u64,
    /// What a hypervisor gave to others while this machine wanted it.
    pub steal: u64,
}

impl StealCounts {
    /// Asks the kernel; `None` where it does not say.
    pub fn read() -> Option<Self> {
        Self::of(&read("/proc/stat"))
    }

    fn of(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = { line.split_whitespace() }
            .map_while(|word| word.parse().ok())
            .collect();
        // What guests used is in the first two already.
        Some(Self {
            total: ticks.get(..8)?.iter().sum(),
            steal: ticks[7],
        })
    }

    /// The share of the time since `before` that went to others; `None` if it is not known.
    pub fn share_since(before: Option<Self>) -> Option<f64> {
        let (before, now) = (before?, Self::read()?);
        let total = now
            .total
            .checked_sub(before.total)
            .filter(|&total| total > 0)?;
        Some(now.steal.saturating_sub(before.steal) as f64 / total as f64)
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Bytes of a line `name: 123 kB`.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let number = field(text, name)?.strip_suffix("kB")?;
    number.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_of_ten_figures() {
        let text = "cpu  10 1 5 70 2 1 1 10 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let counts = StealCounts::of(text).expect("a line");
        assert_eq!((counts.total, counts.steal), (100, 10));
        assert_eq!(StealCounts::of("cpu  1 2 3\n"), None);
    }

    #[test]
    fn fields_of_proc_files_are_read() {
        let text = "MemTotal:       16 kB\nmodel name\t: A CPU @ 2: GHz\nodd\n";
        assert_eq!(kib_field(text, "MemTotal"), Some(16_384));
        assert_eq!(field(text, "model name"), Some("A CPU @ 2: GHz"));
        assert_eq!(kib_field(text, "model name"), None);
        assert_eq!(field(text, "absent"), None);
    }

    #[test]
    fn this_machine_says_something() {
        let facts = MachineFacts::read();
        assert!(facts.cores.is_some_and(|cores| cores > 0));
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        let kernel = facts.kernel.as_ref();
        assert!(kernel.is_some_and(|release| !release.is_empty()));
        let named = facts.by_name();
        assert_eq!(Some(&named["kernel"]), kernel);
        assert!(named.len() > facts.settings.len() + 2, "{named:?}");
        let used = MemoryUse::read();
        assert!(used.peak_bytes >= used.anonymous_bytes);
        assert!(used.anonymous_bytes.is_some_and(|bytes| bytes > 0));
    }
}
