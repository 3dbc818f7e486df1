//! The system calls that a run in a sandbox may make. All others fail with `EPERM`, so that a
//! surprise is an error that names itself.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

/// Memory, threads, time, and what is open: nothing here reaches anything new.
const WITHIN: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_capget,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_fchmod,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ioctl,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

/// Calls that take a path: Landlock says which.
const WITH_PATHS: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
];

/// The forms that only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLD_FORMS: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_dup2,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FORMS: &[libc::c_long] = &[libc::SYS_renameat];

/// Of prctl(2): names of threads and of memory, whether a process leaves a core.
const PRCTL: [u64; 4] = [
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_GET_DUMPABLE as u64,
    0x5356_4d41,
];

/// Of bpf(2): reading and writing maps that are open.
const BPF: [u64; 8] = [
    1,  // BPF_MAP_LOOKUP_ELEM
    2,  // BPF_MAP_UPDATE_ELEM
    3,  // BPF_MAP_DELETE_ELEM
    4,  // BPF_MAP_GET_NEXT_KEY
    24, // BPF_MAP_LOOKUP_BATCH
    25, // BPF_MAP_LOOKUP_AND_DELETE_BATCH
    26, // BPF_MAP_UPDATE_BATCH
    27, // BPF_MAP_DELETE_BATCH
];

/// What some runs need beside the list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Further {
    /// Ending other processes.
    pub(crate) signals: bool,
    /// Maps of BPF that are open.
    pub(crate) maps: bool,
    /// Further TCP sockets.
    pub(crate) streams: bool,
    /// That accept connections.
    pub(crate) listens: bool,
    /// Further UDP sockets.
    pub(crate) datagrams: bool,
}

impl Further {
    pub(crate) fn words(&self) -> Vec<&'static str> {
        let words = [
            (
                self.signals,
                "signals to processes of its user, which it ends",
            ),
            (self.maps, "maps of BPF that are open"),
            (self.streams, "TCP sockets, for the ports of this run"),
            (self.datagrams, "UDP sockets"),
        ];
        { words.into_iter() }
            .filter_map(|(is_allowed, word)| is_allowed.then_some(word))
            .collect()
    }
}

/// From now on this thread, and those that it starts, make these calls alone.
pub(crate) fn restrict(further: &Further) -> Result<(), String> {
    let program = program(further).map_err(|error| error.to_string())?;
    apply_filter(&program).map_err(|error| match error {
        Error::Seccomp(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            "a filter of this service or container denies it: let it call seccomp".to_owned()
        }
        other => other.to_string(),
    })
}

fn program(further: &Further) -> Result<BpfProgram, seccompiler::BackendError> {
    let plain = WITHIN.iter().chain(WITH_PATHS).chain(OLD_FORMS);
    let mut rules: BTreeMap<_, _> = plain.map(|&call| (call, Vec::new())).collect();
    let first_is = |value: u64| {
        let length = SeccompCmpArgLen::Dword;
        let is = SeccompCondition::new(0, length, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![is])
    };
    // What a link is, and how many frames it dropped, is asked of the kernel as it changes. No
    // other socket can be made but those of `further`, so that there is none to bind or connect
    // elsewhere.
    let mut sockets = vec![first_is(libc::AF_NETLINK as u64)?];
    for (is_allowed, kind) in [
        (further.streams, libc::SOCK_STREAM),
        (further.datagrams, libc::SOCK_DGRAM),
    ] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            if is_allowed {
                sockets.push(socket(family as u64, kind as u64)?);
            }
        }
    }
    rules.insert(libc::SYS_socket, sockets);
    if further.listens {
        rules.insert(libc::SYS_listen, Vec::new());
    }
    if further.signals {
        rules.extend([libc::SYS_kill, libc::SYS_pidfd_send_signal].map(|call| (call, Vec::new())));
    }
    if further.maps {
        let commands = BPF.map(first_is).into_iter().collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_bpf, commands);
    }
    rules.extend([libc::SYS_bind, libc::SYS_connect].map(|call| (call, Vec::new())));
    let prctl = PRCTL.map(first_is).into_iter().collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_prctl, prctl);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()
}

/// Sockets of this family and type; the type's other bits are flags.
fn socket(family: u64, kind: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let length = || SeccompCmpArgLen::Dword;
    let is_family = SeccompCondition::new(0, length(), SeccompCmpOp::Eq, family)?;
    let is_kind = SeccompCondition::new(1, length(), SeccompCmpOp::MaskedEq(0xf), kind)?;
    SeccompRule::new(vec![is_family, is_kind])
}
