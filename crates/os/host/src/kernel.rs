//! What the kernel offers and what limits this process, asked without changing anything: sockets
//! that are opened are closed at once, and missing permission is distinguished from a missing
//! feature.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

use crate::machine::kib_field;
use crate::monotonic_ns;

/// Whether the kernel has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It is there, and this process may use it.
    Usable,
    /// It may be there; this process may not use it, by its privileges or a filter of system calls.
    Denied,
    /// The kernel does not have it.
    Absent,
}

/// Features of the kernel that runs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFeatures {
    /// Packet sockets.
    pub packet_sockets: Availability,
    /// Sockets of AF_XDP.
    pub xdp_sockets: Availability,
    /// bpf(2).
    pub bpf: Availability,
    /// The version of Landlock, or why there is none and the way out.
    pub landlock: Result<u32, &'static str>,
    /// Filters of system calls that refuse with an error.
    pub seccomp: Availability,
    /// I/O priorities.
    pub io_priorities: Availability,
}

impl KernelFeatures {
    /// Asks the kernel.
    pub fn probe() -> Self {
        Self {
            packet_sockets: socket(libc::AF_PACKET),
            xdp_sockets: socket(libc::AF_XDP),
            bpf: bpf(),
            landlock: landlock(),
            seccomp: seccomp(),
            io_priorities: io_priorities(),
        }
    }
}

/// A raw socket of a family. Protocol 0: it gets no frame.
fn socket(family: i32) -> Availability {
    // SAFETY: no memory is passed.
    let descriptor = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor >= 0 {
        // SAFETY: it was opened above, and nothing else has it.
        unsafe { libc::close(descriptor) };
    }
    answered(descriptor.into())
}

/// A map of no size, which the kernel refuses: how it does says whether it would have made another.
fn bpf() -> Availability {
    const MAP_CREATE: libc::c_int = 0;
    let attributes = [0_u64; 16];
    // SAFETY: the attributes are whole and their length is given; the kernel reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            MAP_CREATE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    match answered(result) {
        // EINVAL, as it should be.
        Availability::Absent
            if io::Error::last_os_error().kind() == io::ErrorKind::InvalidInput =>
        {
            Availability::Usable
        }
        other => other,
    }
}

/// Why a policy leaves no Landlock, and the way out.
pub(crate) const LANDLOCK_DENIED: &str = "a filter of this service or container denies it: let it \
    call landlock_create_ruleset, landlock_add_rule and landlock_restrict_self";

pub(crate) fn landlock() -> Result<u32, &'static str> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: by this flag nothing is read and no descriptor made; the answer is a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    if version > 0 {
        return Ok(version as u32);
    }
    Err(match io::Error::last_os_error().raw_os_error() {
        Some(libc::EOPNOTSUPP) => "it is switched off: lsm=landlock,… on the kernel's command line",
        Some(libc::EPERM | libc::EACCES) => LANDLOCK_DENIED,
        _ => "the kernel has it from Linux 5.13 on",
    })
}

fn seccomp() -> Availability {
    const GET_ACTION_AVAIL: libc::c_uint = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads the number that is pointed to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            GET_ACTION_AVAIL,
            0_u32,
            std::ptr::from_ref(&action),
        )
    };
    answered(result)
}

fn io_priorities() -> Availability {
    const WHO_PROCESS: libc::c_int = 1;
    // SAFETY: no memory is passed.
    answered(unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) })
}

/// What the result of a system call says, and errno where it failed.
fn answered(result: i64) -> Availability {
    if result >= 0 {
        return Availability::Usable;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Availability::Denied,
        _ => Availability::Absent,
    }
}

/// What memory and this process are limited to. `None` is what is not shown, as in a container
/// without /sys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostLimits {
    /// Clock sources that could be used.
    pub clock_sources: Vec<String>,
    /// Bytes that may be locked; `None`: no limit.
    pub locked_bytes_max: Option<u64>,
    /// Descriptors that may be open; `None`: no limit.
    pub descriptors_max: Option<u64>,
    /// Bytes of memory that the control group may have; `None`: no limit, or none that is shown.
    pub group_bytes_max: Option<u64>,
    /// Bytes of memory that could be had now.
    pub available_bytes: Option<u64>,
}

impl HostLimits {
    /// Asks the kernel.
    pub fn read() -> Self {
        let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
        let sources = text(Path::new(sources)).unwrap_or_default();
        let memory = text(Path::new("/proc/meminfo")).unwrap_or_default();
        Self {
            clock_sources: sources.split_whitespace().map(str::to_owned).collect(),
            locked_bytes_max: getrlimit(Resource::Memlock).current,
            descriptors_max: getrlimit(Resource::Nofile).current,
            group_bytes_max: group_bytes_max(),
            available_bytes: kib_field(&memory, "MemAvailable"),
        }
    }
}

/// The word in brackets: `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// The limit of this control group, version 2, and those above it: the lowest counts.
fn group_bytes_max() -> Option<u64> {
    let group = text(Path::new("/proc/self/cgroup"))?;
    let group = group.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let own = Path::new("/sys/fs/cgroup").join(group);
    let groups = own
        .ancestors()
        .take_while(|at| at.starts_with("/sys/fs/cgroup"));
    let limit = |at: &Path| text(&at.join("memory.max"))?.parse().ok();
    groups.filter_map(limit).min()
}

pub(crate) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Bytes that this user may still write where `path` is, or would be made.
pub fn free_disk_bytes(path: &Path) -> io::Result<u64> {
    let whole = std::path::absolute(path)?;
    let there = whole.ancestors().find(|at| at.exists());
    let disk = statvfs(there.unwrap_or(&whole))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// By how much a thread that sleeps `nap` wakes too late, `count` times, in nanoseconds and
/// ascending order.
pub fn wake_latenesses(nap: Duration, count: usize) -> Vec<i64> {
    let nap_ns = nap.as_nanos() as i64;
    let late = |_| {
        let begin_ns = monotonic_ns();
        let mut now_ns = begin_ns;
        // It may wake too early, which is not what is measured.
        while now_ns < begin_ns + nap_ns {
            let left_ns = (begin_ns + nap_ns - now_ns) as u64;
            std::thread::park_timeout(Duration::from_nanos(left_ns));
            now_ns = monotonic_ns();
        }
        now_ns - begin_ns - nap_ns
    };
    let mut found: Vec<i64> = (0..count).map(late).collect();
    found.sort_unstable();
    found
}

/// What a reading of the clock costs, in nanoseconds, over `count` of them.
pub fn clock_read_ns(count: u32) -> f64 {
    let begin_ns = monotonic_ns();
    for _ in 0..count {
        std::hint::black_box(monotonic_ns());
    }
    (monotonic_ns() - begin_ns) as f64 / f64::from(count.max(1))
}

/// Sets a value of the kernel's, in a file below `/proc`.
#[expect(
    clippy::disallowed_methods,
    reason = "procfs has no other way, and nobody puts a link there"
)]
pub(crate) fn set(path: impl AsRef<Path>, value: impl AsRef<[u8]>) -> io::Result<()> {
    fs::write(path, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(chosen("[open"), None);
    }

    #[test]
    fn the_kernel_is_asked_without_harm() {
        let features = KernelFeatures::probe();
        // Linux without packet sockets would be a strange place to build this.
        assert_ne!(features.packet_sockets, Availability::Absent);
        assert_ne!(features.io_priorities, Availability::Absent);
        let limits = HostLimits::read();
        assert!(limits.available_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(limits.descriptors_max.is_none_or(|count| count > 2));
    }

    #[test]
    fn a_disk_is_asked_for_a_folder_that_is_not_there_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let there = free_disk_bytes(folder.path()).expect("a disk");
        let not_yet = free_disk_bytes(&folder.path().join("a/b")).expect("the same disk");
        assert!(there > 0 && not_yet > 0);
    }

    #[test]
    fn nobody_wakes_too_early() {
        let late = wake_latenesses(Duration::from_micros(200), 5);
        assert_eq!(late.len(), 5);
        assert!(late.is_sorted() && late[0] >= 0, "{late:?}");
        assert!(clock_read_ns(1000) > 0.0);
    }
}
