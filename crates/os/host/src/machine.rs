use std::fs;

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

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
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
        let used = MemoryUse::read();
        assert!(used.peak_bytes >= used.anonymous_bytes);
        assert!(used.anonymous_bytes.is_some_and(|bytes| bytes > 0));
    }
}
