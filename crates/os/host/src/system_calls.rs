//! The system calls that a run in a sandbox may make. All others fail with `EPERM`, so that a
//! surprise is an error that names itself.
//!
//! What a filter sees of a call are its numbers, not the memory that they point to. A call whose
//! numbers reach other processes, other namespaces or the terminal is allowed with these numbers
//! alone that do not, whatever Landlock has of scopes; one that hides them in memory is not there.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, apply_filter, sock_filter,
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
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_sched_yield,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
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

/// Of ioctl(2), whose request has 32 bits for the kernel: what the standard library asks of files
/// and of terminals, how much of a socket is unsent, and the carrier of a TAP device. Nothing types
/// into a terminal (TIOCSTI, TIOCLINUX) or chooses who gets a signal (FIOSETOWN, SIOCSPGRP).
#[allow(
    clippy::unnecessary_cast,
    reason = "with musl they are of another type"
)]
const IOCTL: [u64; 8] = [
    libc::FIONBIO as u64,
    libc::FIOCLEX as u64,
    libc::FIONREAD as u64,
    libc::TCGETS as u64,
    libc::TCGETS2 as u64,
    libc::TIOCGWINSZ as u64,
    libc::TIOCOUTQ as u64,
    libc::TUNSETCARRIER as u64,
];

/// Of fcntl(2): flags and copies of descriptors, and the room of pipes. F_SETOWN, by which others
/// get signals, is not among them.
const FCNTL: [u64; 8] = [
    libc::F_DUPFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_GETPIPE_SZ as u64,
    libc::F_SETPIPE_SZ as u64,
];

/// Calls whose first number is a process or a thread: 0, which is the caller itself.
const OF_ITSELF: [libc::c_long; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_getparam,
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
    /// Giving files away.
    pub(crate) giving: bool,
    /// Files of all kinds but devices, and the times of those that are open.
    pub(crate) trees: bool,
    /// Maps of BPF that are open.
    pub(crate) maps: bool,
    /// Questions about links: rtnetlink.
    pub(crate) links: bool,
    /// Sockets of files.
    pub(crate) files: bool,
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
            (self.signals, "signals to processes"),
            (self.giving, "giving files away"),
            (
                self.trees,
                "links, FIFOs, sockets of files, and times of open files",
            ),
            (self.maps, "maps of BPF that are open"),
            (self.links, "questions about links"),
            (self.files, "sockets of files"),
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

fn program(further: &Further) -> Result<BpfProgram, BackendError> {
    let plain = WITHIN.iter().chain(WITH_PATHS).chain(OLD_FORMS);
    let mut rules: BTreeMap<_, _> = plain.map(|&call| (call, Vec::new())).collect();
    rules.extend(of_itself()?);
    rules.insert(libc::SYS_ioctl, any_of(1, &IOCTL)?);
    rules.insert(libc::SYS_fcntl, any_of(1, &FCNTL)?);
    rules.insert(libc::SYS_prctl, any_of(0, &PRCTL)?);
    if further.signals {
        let ending = [libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal];
        rules.extend(ending.map(|call| (call, Vec::new())));
    }
    if further.giving {
        rules.insert(libc::SYS_fchown, Vec::new());
        // Of what can be opened as a path alone, as links can.
        let itself = (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) as u64;
        rules.insert(
            libc::SYS_fchownat,
            vec![SeccompRule::new(vec![is(4, Eq, itself)?])?],
        );
    }
    if further.trees {
        let kind = |kind: libc::mode_t| -> Result<_, BackendError> {
            let is_kind = is(2, MaskedEq(libc::S_IFMT.into()), kind.into())?;
            SeccompRule::new(vec![is_kind])
        };
        // Without a path it is about a descriptor.
        let no_path = SeccompCondition::new(1, SeccompCmpArgLen::Qword, Eq, 0)?;
        rules.insert(libc::SYS_symlinkat, Vec::new());
        rules.insert(
            libc::SYS_mknodat,
            vec![kind(libc::S_IFIFO)?, kind(libc::S_IFSOCK)?],
        );
        rules.insert(libc::SYS_utimensat, vec![SeccompRule::new(vec![no_path])?]);
    }
    if further.maps {
        rules.insert(libc::SYS_bpf, any_of(0, &BPF)?);
    }
    let sockets = sockets(further)?;
    if !sockets.is_empty() {
        rules.insert(libc::SYS_socket, sockets);
        rules.extend([libc::SYS_bind, libc::SYS_connect].map(|call| (call, Vec::new())));
    }
    if further.listens {
        rules.insert(libc::SYS_listen, Vec::new());
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?;
    let list: BpfProgram = filter.try_into()?;
    Ok([&as_if_missing()[..], &list].concat())
}

/// Calls that reach other processes, with the numbers that do not.
fn of_itself() -> Result<Vec<(libc::c_long, Vec<SeccompRule>)>, BackendError> {
    // Threads, in the namespaces of this process: no child, which might have others.
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    let is_thread = MaskedEq((namespaces | libc::CLONE_THREAD) as u64);
    let threads = SeccompRule::new(vec![is(0, is_thread, libc::CLONE_THREAD as u64)?])?;
    // What ends a process that panics within a panic is a signal to itself.
    let own = SeccompRule::new(vec![is(0, Eq, std::process::id().into())?])?;
    // PRIO_PROCESS is 0 too.
    let this_one = SeccompRule::new(vec![is(0, Eq, 0)?, is(1, Eq, 0)?])?;
    let mut rules = vec![
        (libc::SYS_clone, vec![threads]),
        (libc::SYS_sched_getaffinity, Vec::new()),
        (libc::SYS_tgkill, vec![own]),
        (libc::SYS_getpriority, vec![this_one.clone()]),
        (libc::SYS_setpriority, vec![this_one]),
    ];
    for call in OF_ITSELF {
        rules.push((call, any_of(0, &[0])?));
    }
    Ok(rules)
}

/// Which sockets may be made: no other, so that there is none to bind or connect elsewhere.
fn sockets(further: &Further) -> Result<Vec<SeccompRule>, BackendError> {
    let mut sockets = Vec::new();
    if further.links {
        // What a link is, and how many frames it dropped, is asked of the kernel as it changes.
        let family = is(0, Eq, libc::AF_NETLINK as u64)?;
        let protocol = is(2, Eq, libc::NETLINK_ROUTE as u64)?;
        sockets.push(SeccompRule::new(vec![family, protocol])?);
    }
    if further.files {
        let family = is(0, Eq, libc::AF_UNIX as u64)?;
        let kind = is(1, MaskedEq(0xf), libc::SOCK_STREAM as u64)?;
        sockets.push(SeccompRule::new(vec![family, kind])?);
    }
    for (is_allowed, kind) in [
        (further.streams, libc::SOCK_STREAM),
        (further.datagrams, libc::SOCK_DGRAM),
    ] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            if is_allowed {
                sockets.push(SeccompRule::new(vec![
                    is(0, Eq, family as u64)?,
                    // The type's other bits are flags.
                    is(1, MaskedEq(0xf), kind as u64)?,
                    // The one protocol of such a type: neither MPTCP nor ICMP.
                    is(2, Eq, 0)?,
                ])?);
            }
        }
    }
    Ok(sockets)
}

/// A rule for each value that one of a call's numbers may have.
fn any_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rules = values
        .iter()
        .map(|&value| SeccompRule::new(vec![is(argument, Eq, value)?]));
    rules.collect()
}

/// Of the lower 32 bits, which are all that the kernel looks at here.
fn is(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

/// What comes before the list: calls that are answered with ENOSYS, as by a kernel without them.
///
/// * clone3(2) has its flags in memory, which no filter reads; libc then makes threads by clone(2).
/// * sched_getaffinity(2) of another thread: glibc asks it of each that it starts, and does without
///   the answer of a kernel that has none.
fn as_if_missing() -> [sock_filter; 6] {
    // Where `struct seccomp_data` has the number of the call, and the lower half of its first
    // argument: machines with the other half there are none that seccompiler knows.
    const NUMBER: u32 = 0;
    const FIRST: u32 = 16;
    let line = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    [
        line(load, 0, 0, NUMBER),
        line(equals, 3, 0, libc::SYS_clone3 as u32),
        line(equals, 0, 3, libc::SYS_sched_getaffinity as u32),
        line(load, 0, 0, FIRST),
        line(equals, 1, 0, 0),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, missing),
    ]
}
