//! What somebody who runs code in a parser's thread would try, each refused, and what a run does,
//! each done. Without the test harness: a sandbox is entered by a process of one thread.
#![expect(
    clippy::disallowed_methods,
    reason = "what is made by paths is what is refused"
)]

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use lineside_host::{Ender, Sandbox};

/// A system call by its number, with these arguments.
fn call(number: libc::c_long, arguments: [usize; 4]) -> io::Result<i64> {
    let [a, b, c, d] = arguments;
    // SAFETY: pointers are null, or to texts that live until the call returns.
    match unsafe { libc::syscall(number, a, b, c, d, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

fn refused<T>(what: &str, tried: io::Result<T>) {
    let Err(error) = tried else {
        panic!("{what}: it was done");
    };
    let kind = error.raw_os_error();
    let is_refusal = matches!(kind, Some(libc::EPERM | libc::EACCES | libc::EXDEV));
    assert!(is_refusal, "{what}: {error}, which is no refusal");
    println!("  refused: {what}: {error}");
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero in it")
}

/// Tries to reach what is outside.
fn break_out(outside: &Path, inside: &Path) {
    let secret = outside.join("secret");
    refused("read a file", File::open(&secret));
    refused("read by a link", {
        let link = inside.join("link");
        std::os::unix::fs::symlink(&secret, &link).and_then(|()| File::open(link))
    });
    refused("read a folder", fs::read_dir(outside));
    refused("read passwords", File::open("/etc/passwd"));
    refused("write a file", fs::write(&secret, b"changed"));
    refused("append", File::options().append(true).open(&secret));
    refused("make a file", File::create(outside.join("new")));
    refused("make a folder", fs::create_dir(outside.join("folder")));
    refused("remove a file", fs::remove_file(&secret));
    refused("rename to the outside", {
        fs::write(inside.join("part"), b"x").expect("it is the run's");
        fs::rename(inside.join("part"), outside.join("part"))
    });
    refused(
        "link to the inside",
        fs::hard_link(&secret, inside.join("secret")),
    );
    refused("cut a file", {
        let path = text(&secret);
        call(libc::SYS_truncate, [path.as_ptr() as usize, 0, 0, 0])
    });
    refused("change a file's mode", {
        let path = text(&secret);
        let here = libc::AT_FDCWD as usize;
        call(libc::SYS_fchmodat, [here, path.as_ptr() as usize, 0o777, 0])
    });
    refused(
        "write to a device",
        File::options().write(true).open("/dev/kmsg"),
    );
    refused("connect by TCP", TcpStream::connect("127.0.0.1:9"));
    refused("listen by TCP", TcpListener::bind("127.0.0.1:0"));
    refused("send a datagram", UdpSocket::bind("127.0.0.1:0"));
    refused(
        "connect to a daemon",
        UnixStream::connect("/run/systemd/private"),
    );
    refused("make a socket", UnixDatagram::unbound());
    refused("execute", Command::new("/bin/true").spawn());
    let word = text(Path::new("/bin/true"));
    refused(
        "replace itself",
        call(libc::SYS_execve, [word.as_ptr() as usize, 0, 0, 0]),
    );
    for (what, number, arguments) in [
        ("trace a process", libc::SYS_ptrace, [16, 1, 0, 0]),
        ("load BPF", libc::SYS_bpf, [0, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0, 0]),
        ("change the root", libc::SYS_chroot, [0, 0, 0, 0]),
        (
            "make a namespace",
            libc::SYS_unshare,
            [libc::CLONE_NEWUSER as usize, 0, 0, 0],
        ),
        ("enter a namespace", libc::SYS_setns, [0, 0, 0, 0]),
        ("use io_uring", libc::SYS_io_uring_setup, [8, 0, 0, 0]),
        ("catch page faults", libc::SYS_userfaultfd, [0, 0, 0, 0]),
        (
            "read other memory",
            libc::SYS_process_vm_readv,
            [1, 0, 0, 0],
        ),
        (
            "write other memory",
            libc::SYS_process_vm_writev,
            [1, 0, 0, 0],
        ),
        (
            "open by a handle",
            libc::SYS_open_by_handle_at,
            [0, 0, 0, 0],
        ),
        ("use keys", libc::SYS_keyctl, [0, 0, 0, 0]),
        ("count events", libc::SYS_perf_event_open, [0, 0, 0, 0]),
        ("load a module", libc::SYS_finit_module, [0, 0, 0, 0]),
        ("load a kernel", libc::SYS_kexec_load, [0, 0, 0, 0]),
        ("become another", libc::SYS_setuid, [0, 0, 0, 0]),
        ("end a process", libc::SYS_kill, [1, 0, 0, 0]),
        ("take a descriptor", libc::SYS_pidfd_getfd, [0, 0, 0, 0]),
        ("make memory a file", libc::SYS_memfd_create, [0, 0, 0, 0]),
        ("set the clock", libc::SYS_clock_settime, [0, 0, 0, 0]),
        ("restart the machine", libc::SYS_reboot, [0, 0, 0, 0]),
        ("write to the log", libc::SYS_syslog, [0, 0, 0, 0]),
        ("change the name", libc::SYS_sethostname, [0, 0, 0, 0]),
        ("limit the list", libc::SYS_seccomp, [0, 0, 0, 0]),
        (
            "take a packet socket",
            libc::SYS_socket,
            [libc::AF_PACKET as usize, 3, 0, 0],
        ),
        (
            "take a VM socket",
            libc::SYS_socket,
            [libc::AF_VSOCK as usize, 1, 0, 0],
        ),
        (
            "leave a core",
            libc::SYS_prctl,
            [libc::PR_SET_DUMPABLE as usize, 1, 0, 0],
        ),
    ] {
        refused(what, call(number, arguments));
    }
}

/// Facts of this process are read, and no others of `/proc` and `/sys`.
fn read_facts() {
    let other = std::os::unix::process::parent_id();
    for own in [
        "/proc/self/status",
        "/proc/thread-self/stat",
        "/proc/meminfo",
        "/proc/stat",
    ] {
        assert!(fs::read(own).is_ok_and(|text| !text.is_empty()), "{own}");
    }
    for (what, path) in [
        ("the first process", "/proc/1/status"),
        ("its command line", "/proc/1/cmdline"),
        ("another process", &format!("/proc/{other}/status")),
        ("its environment", &format!("/proc/{other}/environ")),
        ("the kernel's symbols", "/proc/kallsyms"),
        ("its modules", "/proc/modules"),
        ("its log", "/proc/kmsg"),
        ("its memory", "/proc/kcore"),
        ("timers", "/proc/timer_list"),
        ("keys", "/proc/keys"),
        ("disks", "/proc/partitions"),
        ("its words", "/proc/cmdline"),
        ("addresses of its code", "/sys/kernel/notes"),
        ("its tables", "/sys/firmware/acpi/tables/DSDT"),
        ("groups", "/sys/fs/cgroup/cgroup.procs"),
    ] {
        if Path::new(path).exists() {
            refused(what, File::open(path));
        }
    }
    refused("all processes", fs::read_dir("/proc"));
    refused("itself", File::options().write(true).open("/proc/self/mem"));
}

/// Does what a run does.
fn work(inside: &Path, input: &Path) {
    assert_eq!(fs::read(input).expect("it was named"), b"frames");
    let table = inside.join("operations");
    fs::create_dir(&table).expect("a table's folder");
    let mut part = File::create_new(table.join(".part.tmp")).expect("a part");
    part.write_all(b"rows")
        .and_then(|()| part.sync_all())
        .expect("written");
    fs::rename(table.join(".part.tmp"), table.join("part")).expect("its name");
    fs::create_dir(inside.join(".operations.tmp")).expect("a folder beside it");
    fs::hard_link(table.join("part"), inside.join(".operations.tmp/part")).expect("a link");
    fs::remove_file(table.join("part")).expect("removed");
    fs::remove_dir(&table).expect("removed");
    fs::rename(inside.join(".operations.tmp"), &table).expect("renamed");
    assert!(
        fs::read_to_string("/proc/self/status")
            .expect("facts")
            .contains("Seccomp:\t2")
    );
    thread::spawn(|| vec![1_u8; 1 << 20].len())
        .join()
        .expect("a thread");
}

/// Tries what reaches other processes, the terminal and other namespaces, by numbers that a filter
/// sees: Landlock, whose scopes an older kernel lacks, has no part in it.
fn reach_others() {
    let own = std::process::id() as usize;
    let other = std::os::unix::process::parent_id() as usize;
    let room = [0_u64; 16];
    let room = room.as_ptr() as usize;
    let high = 1 << 32;
    let new = |flag: libc::c_int| (flag | libc::SIGCHLD) as usize;
    for (what, number, arguments) in [
        (
            "make a child",
            libc::SYS_clone,
            [libc::SIGCHLD as usize, 0, 0, 0],
        ),
        (
            "a child's user namespace",
            libc::SYS_clone,
            [new(libc::CLONE_NEWUSER), 0, 0, 0],
        ),
        (
            "a child's network",
            libc::SYS_clone,
            [new(libc::CLONE_NEWNET), 0, 0, 0],
        ),
        ("a thread's mounts", libc::SYS_clone, {
            let flags = libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;
            [(flags | libc::CLONE_NEWNS) as usize, 0, 0, 0]
        }),
        (
            "type",
            libc::SYS_ioctl,
            [0, libc::TIOCSTI as usize, room, 0],
        ),
        (
            "type, with other high bits",
            libc::SYS_ioctl,
            [0, libc::TIOCSTI as usize | high, room, 0],
        ),
        (
            "select and paste",
            libc::SYS_ioctl,
            [0, libc::TIOCLINUX as usize, room, 0],
        ),
        (
            "take a terminal",
            libc::SYS_ioctl,
            [0, libc::TIOCSCTTY as usize, 1, 0],
        ),
        (
            "set a terminal",
            libc::SYS_ioctl,
            [0, libc::TCSETS as usize, room, 0],
        ),
        (
            "choose who is signalled",
            libc::SYS_ioctl,
            [0, 0x8901, room, 0],
        ),
        (
            "look at an interface",
            libc::SYS_ioctl,
            [0, libc::SIOCGIFCONF as usize, room, 0],
        ),
        (
            "send signals by files",
            libc::SYS_fcntl,
            [0, libc::F_SETOWN as usize, other, 0],
        ),
        (
            "send signals by files, in full",
            libc::SYS_fcntl,
            [0, 15, room, 0],
        ),
        ("choose the signal", libc::SYS_fcntl, [0, 10, 9, 0]),
        ("limit another", libc::SYS_prlimit64, [other, 7, room, 0]),
        ("limit the first", libc::SYS_prlimit64, [1, 7, 0, room]),
        (
            "slow down another",
            libc::SYS_setpriority,
            [0, other, 19, 0],
        ),
        ("slow down a user", libc::SYS_setpriority, [2, 0, 19, 0]),
        ("slow down a group", libc::SYS_setpriority, [1, 0, 19, 0]),
        (
            "move another",
            libc::SYS_sched_setaffinity,
            [other, 8, room, 0],
        ),
        (
            "schedule another",
            libc::SYS_sched_setscheduler,
            [other, 0, room, 0],
        ),
        (
            "schedule another, in full",
            libc::SYS_sched_setattr,
            [other, room, 0, 0],
        ),
        ("disks of another", libc::SYS_ioprio_set, [1, other, 0, 0]),
        ("end another", libc::SYS_kill, [other, 0, 0, 0]),
        ("end all", libc::SYS_kill, [usize::MAX, 0, 0, 0]),
        ("end its thread", libc::SYS_tkill, [other, 0, 0, 0]),
        ("end a thread of it", libc::SYS_tgkill, [other, other, 0, 0]),
        (
            "end a thread, by another half",
            libc::SYS_tgkill,
            [other | own << 32, other, 0, 0],
        ),
        (
            "send a signal with a value",
            libc::SYS_rt_sigqueueinfo,
            [other, 10, room, 0],
        ),
        (
            "send one to a thread",
            libc::SYS_rt_tgsigqueueinfo,
            [other, other, 10, room],
        ),
        ("hold another", libc::SYS_pidfd_open, [other, 0, 0, 0]),
        (
            "signal by a descriptor",
            libc::SYS_pidfd_send_signal,
            [0, 9, 0, 0],
        ),
        ("give away", libc::SYS_fchown, [0, 0, 0, 0]),
        ("give away by a path", libc::SYS_fchownat, [0, 0, 0, 0]),
        (
            "ask about links",
            libc::SYS_socket,
            [libc::AF_NETLINK as usize, 3, 0, 0],
        ),
        (
            "ask nf_tables",
            libc::SYS_socket,
            [libc::AF_NETLINK as usize, 3, 12, 0],
        ),
        (
            "ask about sockets",
            libc::SYS_socket,
            [libc::AF_NETLINK as usize, 3, 4, 0],
        ),
        ("make a pair of sockets", libc::SYS_socketpair, [1, 1, 0, 0]),
        ("connect", libc::SYS_connect, [0, 0, 0, 0]),
        ("bind", libc::SYS_bind, [0, 0, 0, 0]),
    ] {
        refused(what, call(number, arguments));
    }
    // As by a kernel that lacks them: libc goes on by what it did before.
    for (number, arguments) in [
        (libc::SYS_clone3, [room, 88, 0, 0]),
        (libc::SYS_sched_getaffinity, [other, 8, room, 0]),
    ] {
        let error = call(number, arguments).expect_err("it is not there");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
    }
    assert!(
        call(libc::SYS_prlimit64, [0, 7, 0, room]).is_ok(),
        "its own limits"
    );
    assert!(call(libc::SYS_tgkill, [own, 0, 0, 0]).is_err_and(|error| {
        // No thread has that number.
        error.raw_os_error() == Some(libc::EINVAL)
    }));
}

/// What some runs may do beside, and no more than that. In a process of its own.
fn do_what_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = other.local_addr().expect("bound");
    let mut child = Command::new("sleep").arg("60").spawn().expect("it runs");
    let ender = Ender::start().expect("it starts");
    let confined = { Sandbox::new().may_ask_about_links().may_connect(at.port()) }.enter();
    let confined = confined.expect("it is entered");
    assert_eq!(confined.allowed.len(), 2, "{confined:?}");
    if confined.holds != ["landlock", "seccomp"] {
        ender.kill(child.id());
        child.wait().expect("it ended");
        return;
    }
    assert!(TcpStream::connect(at).is_ok(), "the port of the run");
    refused("connect to another port", TcpStream::connect(other));
    refused("listen by TCP", TcpListener::bind("127.0.0.1:0").map(drop));
    refused("send a datagram", UdpSocket::bind("127.0.0.1:0"));
    refused("make a socket", UnixDatagram::unbound());
    refused("read a file", File::open("/etc/passwd"));
    refused("execute", Command::new("/bin/true").spawn());
    refused("load BPF", call(libc::SYS_bpf, [1, 0, 0, 0]));
    let raw = libc::SOCK_RAW as usize;
    let of_internet = [libc::AF_INET as usize, raw, 1, 0];
    refused("take a raw socket", call(libc::SYS_socket, of_internet));
    let id = child.id() as usize;
    let attach = libc::PTRACE_ATTACH as usize;
    refused("trace a child", call(libc::SYS_ptrace, [attach, id, 0, 0]));
    refused("end a child", child.kill());
    let netlink = |protocol| {
        call(
            libc::SYS_socket,
            [libc::AF_NETLINK as usize, 3, protocol, 0],
        )
    };
    assert!(netlink(0).is_ok(), "links are asked about");
    for (what, protocol) in [("sockets", 4), ("nf_tables", 12), ("families", 16)] {
        refused(what, netlink(protocol));
    }
    // Neither is of the run.
    ender.kill(std::os::unix::process::parent_id());
    ender.kill(1);
    ender.kill(child.id());
    child.wait().expect("it ended");
}

/// From now on these system calls fail with an error, as under a container's policy or an older
/// kernel.
fn deny(numbers: &[libc::c_long], errno: i32) {
    let filter = |code: u32, jt, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    // The number is the first of what a filter sees.
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut program = vec![filter(load, 0, 0)];
    let (compare, end) = (
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    for (place, &number) in numbers.iter().enumerate() {
        program.push(filter(
            compare,
            (numbers.len() - place) as u8,
            number as u32,
        ));
    }
    program.push(filter(end, 0, libc::SECCOMP_RET_ALLOW));
    program.push(filter(end, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    let pointer = std::ptr::from_ref(&program) as usize;
    let mode = libc::SECCOMP_MODE_FILTER as usize;
    let no_more = libc::PR_SET_NO_NEW_PRIVS as usize;
    call(libc::SYS_prctl, [no_more, 1, 0, 0]).expect("no new privileges");
    call(
        libc::SYS_prctl,
        [libc::PR_SET_SECCOMP as usize, mode, pointer, 0],
    )
    .expect("a filter");
}

/// A missing part is reported, with a remedy, and the rest holds. In a process of its own.
fn go_without(part: &str, errno: i32) {
    let numbers = match part {
        "landlock" => &[
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
        ][..],
        // Its version can be asked for, and it says no later.
        "rules of landlock" => &[libc::SYS_landlock_add_rule],
        "the end of landlock" => &[libc::SYS_landlock_restrict_self],
        _ => &[libc::SYS_seccomp],
    };
    deny(numbers, errno);
    if part.ends_with(" landlock") {
        // In a process that ends: what holds of it would hold for what follows.
        let required = Sandbox::new().required().enter();
        let error = required.expect_err("it is not whole").to_string();
        assert!(
            error.contains("--sandbox on does with what there is"),
            "{error}"
        );
        return;
    }
    let confined = Sandbox::new().enter().expect("it goes on without");
    println!("  without {part}: {confined:?}");
    let missing = match &confined.missing[..] {
        [missing] => missing,
        // The kernel lacks the other one too.
        [_, _] => return,
        _ => panic!("{confined:?}"),
    };
    let helps = match (part, errno) {
        ("landlock", libc::ENOSYS) => "from Linux 5.13 on",
        (_, libc::EPERM) => "a filter of this service or container denies it: let it call",
        _ => "seccomp",
    };
    assert!(missing.contains(helps), "{missing}");
    match part {
        "landlock" => {
            assert_eq!(confined.holds, ["seccomp"]);
            reach_others();
            refused("execute", Command::new("/bin/true").spawn());
            refused("listen by TCP", TcpListener::bind("127.0.0.1:0"));
        }
        _ => {
            assert_eq!(confined.holds, ["landlock"]);
            refused("read a file", File::open("/etc/passwd"));
            refused("listen by TCP", TcpListener::bind("127.0.0.1:0"));
        }
    }
}

/// This test again, in a process of its own.
fn again(words: &[&str]) {
    let own = std::env::current_exe().expect("a path");
    let status = Command::new(own).args(words).status();
    assert!(status.expect("it runs").success(), "{words:?}");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("allowed") => return do_what_is_allowed(),
        Some("without") => return go_without(&words[1], words[2].parse().expect("a number")),
        _ => {}
    }
    let parent = tempfile::tempdir().expect("a folder");
    let at = |name: &str| parent.path().join(name);
    for name in ["outside", "inside"] {
        fs::create_dir(at(name)).expect("a folder");
    }
    fs::write(at("outside/secret"), b"secret").expect("written");
    fs::write(at("input"), b"frames").expect("written");
    let (outside, inside, input) = (at("outside"), at("inside"), at("input"));
    again(&["allowed"]);
    for part in ["rules of landlock", "the end of landlock"] {
        again(&["without", part, &libc::EPERM.to_string()]);
    }
    for part in ["landlock", "seccomp"] {
        for errno in [libc::ENOSYS, libc::EPERM] {
            again(&["without", part, &errno.to_string()]);
        }
    }
    let sandbox = Sandbox::new().may_read(&input).may_write_below(&inside);
    let confined = sandbox.enter().expect("it is entered");
    println!("sandbox: {confined:?}");
    if confined.holds != ["landlock", "seccomp"] {
        println!("SKIP: the sandbox: this kernel has no Landlock or no seccomp: {confined:?}");
        return;
    }
    work(&inside, &input);
    let parser = thread::spawn({
        let inside = inside.clone();
        move || {
            break_out(&outside, &inside);
            reach_others();
            read_facts();
        }
    });
    parser.join().expect("each was refused");
    // The run goes on.
    fs::write(inside.join("after"), b"x").expect("written");
    println!("test what_a_parser_tries_in_a_sandbox_is_refused ... ok");
    // The folder is outside: it cannot remove itself.
    let _ = parent.keep();
}
