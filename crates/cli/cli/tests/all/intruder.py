"""Whoever took over a process of lineside, at the instant at which its list of system calls holds.

Each process that a role starts is traced (ptrace(2)). When one has entered its sandbox, the tracer
makes it call what an intruder would call, by its own registers: what the kernel answers there is
what it would answer to the intruder. On the way in, the tracer may answer in the kernel's place as
an older one would: without Landlock, or with one that has no scopes.

    intruder.py PROGRAM FOLDER VERBS...     prints a table, and fails if there is a way out
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long
TRACEME, CONT, GETREGS, SETREGS, SYSCALL, DETACH, SETOPTIONS = 0, 7, 12, 13, 24, 17, 0x4200
GETEVENTMSG = 0x4201
# SYSGOOD, FORK, VFORK, CLONE, EXEC, EXITKILL
OPTIONS = 1 | 2 | 4 | 8 | 16 | (1 << 20)
NAMES = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
    "fs_base gs_base ds es fs gs"
).split()


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


NUMBERS = dict(
    read=0, open=2, ioctl=16, socketpair=53, socket=41, connect=42, bind=49, clone=56, fork=57,
    vfork=58, execve=59, kill=62, fcntl=72, rename=82, mkdir=83, rmdir=84, unlink=87, symlink=88,
    chmod=90, chown=92, fchown=93, lchown=94, ptrace=101, syslog=103, setuid=105, setpriority=141,
    sched_setscheduler=144, mount=165, prctl=157, chroot=161, tkill=200, sched_setaffinity=203,
    tgkill=234, keyctl=250, ioprio_set=251, openat=257, fchownat=260, unshare=272,
    rt_sigqueueinfo=129, perf_event_open=298, prlimit64=302, open_by_handle_at=304, setns=308,
    process_vm_readv=310, kcmp=312, sched_setattr=314, seccomp=317, bpf=321, execveat=322,
    userfaultfd=323, io_uring_setup=425, pidfd_send_signal=424, open_tree=428, move_mount=429,
    fsopen=430, pidfd_open=434, clone3=435, pidfd_getfd=438, process_madvise=440,
    landlock_create_ruleset=444, memfd_secret=447, process_mrelease=448,
    rt_tgsigqueueinfo=297, memfd_create=319, init_module=175, kexec_load=246, reboot=169,
    personality=135, setsid=112, setpgid=109, timer_create=222,
)
REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EXDEV}
NEW = dict(user=0x10000000, net=0x40000000, mounts=0x00020000, processes=0x20000000)
SIGCHLD = 17
NETLINK, UNIX, INET, INET6, PACKET, VSOCK, XDP, ALG = 16, 1, 2, 10, 17, 40, 44, 38


def attempts(place):
    """What is tried: name, system call, arguments. Texts are paths, bytes are memory."""
    parent, room = os.getpid(), bytes(256)
    near, out = f"{place}/near", f"{place}/out"
    files = [
        ("read a file beside", "open", [f"{near}/secret", os.O_RDONLY]),
        ("read a folder beside", "open", [near, os.O_RDONLY | os.O_DIRECTORY]),
        ("write a file beside", "open", [f"{near}/secret", os.O_WRONLY]),
        ("make a file beside", "open", [f"{near}/new", os.O_WRONLY | os.O_CREAT, 0o666]),
        ("remove a file beside", "unlink", [f"{near}/secret"]),
        ("write in the output's folder", "open", [f"{out}/other", os.O_WRONLY]),
        ("make a file in it", "open", [f"{out}/.profile", os.O_WRONLY | os.O_CREAT, 0o666]),
        ("remove a file in it", "unlink", [f"{out}/other"]),
        ("rename in it", "rename", [f"{out}/other", f"{out}/renamed"]),
        ("make a folder in it", "mkdir", [f"{out}/made", 0o777]),
        ("remove a folder in it", "rmdir", [f"{out}/empty"]),
        ("make a link in it", "symlink", ["/etc", f"{out}/link"]),
        ("read passwords", "open", ["/etc/passwd", os.O_RDONLY]),
        ("read the home", "open", [os.path.expanduser("~"), os.O_RDONLY]),
        ("read another process", "open", [f"/proc/{parent}/environ", os.O_RDONLY]),
        ("read the first process", "open", ["/proc/1/status", os.O_RDONLY]),
        ("list processes", "open", ["/proc", os.O_RDONLY | os.O_DIRECTORY]),
        ("read the kernel's symbols", "open", ["/proc/kallsyms", os.O_RDONLY]),
        ("write its own memory", "open", ["/proc/self/mem", os.O_RDWR]),
        ("write a kernel's setting", "open", ["/proc/sys/kernel/core_pattern", os.O_WRONLY]),
        ("write to the terminal", "open", ["/dev/tty", os.O_RDWR]),
        ("write to the log", "open", ["/dev/kmsg", os.O_WRONLY]),
        ("read the disk", "open", ["/dev/vda", os.O_RDONLY]),
    ]
    calls = [
        ("make a child", "clone", [SIGCHLD]),
        ("fork", "fork", []),
        ("vfork", "vfork", []),
        ("clone3", "clone3", [struct.pack("11Q", NEW["user"], *[0] * 3, SIGCHLD, *[0] * 6), 88]),
        ("replace itself", "execve", ["/bin/true", 0, 0]),
        ("replace itself by a descriptor", "execveat", [-100 % 2**64, "/bin/true", 0, 0, 0]),
        ("type", "ioctl", [0, 0x5412, room]),
        ("type, other high bits", "ioctl", [0, 0x5412 | 1 << 32, room]),
        ("select and paste", "ioctl", [0, 0x541C, room]),
        ("set the terminal", "ioctl", [0, 0x5402, room]),
        ("signals of a socket", "ioctl", [0, 0x8902, room]),
        ("signals of a file", "fcntl", [0, 8, parent]),
        ("signals of a file, in full", "fcntl", [0, 15, room]),
        ("end another", "kill", [parent, 0]),
        ("end all", "kill", [2**64 - 1, 0]),
        ("end a thread", "tkill", [parent, 0]),
        ("end its thread", "tgkill", [parent, parent, 0]),
        ("signal with a value", "rt_sigqueueinfo", [parent, 10, room]),
        ("signal a thread with one", "rt_tgsigqueueinfo", [parent, parent, 10, room]),
        ("limit another", "prlimit64", [parent, 7, 0, room]),
        ("slow down another", "setpriority", [0, parent, 19]),
        ("slow down a user", "setpriority", [2, 0, 19]),
        ("move another", "sched_setaffinity", [parent, 8, b"\x01" + bytes(7)]),
        ("schedule another", "sched_setscheduler", [parent, 0, room]),
        ("schedule another, in full", "sched_setattr", [parent, room, 0]),
        ("disks of another", "ioprio_set", [1, parent, 0]),
        ("hold another", "pidfd_open", [parent, 0]),
        ("signal by a descriptor", "pidfd_send_signal", [0, 0, 0, 0]),
        ("take a descriptor", "pidfd_getfd", [0, 0, 0]),
        ("advise another", "process_madvise", [0, 0, 0, 0, 0]),
        ("reap another", "process_mrelease", [0, 0]),
        ("trace", "ptrace", [16, parent, 0, 0]),
        ("read memory", "process_vm_readv", [parent, 0, 0, 0, 0, 0]),
        ("compare", "kcmp", [parent, parent, 0, 0, 0]),
        ("enter a namespace", "setns", [0, 0]),
        ("mount", "mount", ["none", near, "tmpfs", 0, 0]),
        ("a tree of mounts", "open_tree", [-100 % 2**64, "/", 1]),
        ("a file system", "fsopen", ["tmpfs", 0]),
        ("move a mount", "move_mount", [0, "", 0, "", 0]),
        ("change the root", "chroot", [near]),
        ("become root", "setuid", [0]),
        ("give away", "fchown", [0, 0, 0]),
        ("give away by a path", "fchownat", [-100 % 2**64, f"{out}/other", 0, 0, 0]),
        ("change modes by a path", "chmod", [f"{out}/other", 0o777]),
        ("open by a handle", "open_by_handle_at", [0, room, 0]),
        ("load BPF", "bpf", [5, room, 120]),
        ("make a map of BPF", "bpf", [0, room, 120]),
        ("count events", "perf_event_open", [room, 0, 0, 0, 0]),
        ("io_uring", "io_uring_setup", [8, room]),
        ("catch page faults", "userfaultfd", [0]),
        ("keys", "keyctl", [0, 0, 0, 0, 0]),
        ("the kernel's log", "syslog", [3, room, 100]),
        ("memory as a file", "memfd_create", ["x", 0]),
        ("secret memory", "memfd_secret", [0]),
        ("load a module", "init_module", [0, 0, ""]),
        ("load a kernel", "kexec_load", [0, 0, 0, 0]),
        ("restart", "reboot", [0, 0, 0, 0]),
        ("personality", "personality", [0x0040000]),
        ("leave the session", "setsid", []),
        ("leave the group", "setpgid", [0, 0]),
        ("a timer for another thread", "timer_create", [1, room, room]),
        ("leave a core", "prctl", [4, 1, 0, 0, 0]),
        ("a second filter", "seccomp", [1, 0, room]),
        ("a pair of sockets", "socketpair", [UNIX, 1, 0, room]),
        ("a packet socket", "socket", [PACKET, 3, 0]),
        ("a raw socket", "socket", [INET, 3, 1]),
        ("a raw socket of IPv6", "socket", [INET6, 3, 58]),
        ("a socket of ping", "socket", [INET, 2, 1]),
        ("a UNIX socket", "socket", [UNIX, 1, 0]),
        ("a VM socket", "socket", [VSOCK, 1, 0]),
        ("an XDP socket", "socket", [XDP, 3, 0]),
        ("a cipher", "socket", [ALG, 5, 0]),
        ("TCP", "socket", [INET, 1, 0]),
        ("TCP of IPv6", "socket", [INET6, 1, 0]),
        ("MPTCP", "socket", [INET, 1, 262]),
        ("UDP", "socket", [INET, 2, 0]),
        ("rtnetlink", "socket", [NETLINK, 3, 0]),
        ("netfilter", "socket", [NETLINK, 3, 12]),
        ("generic netlink", "socket", [NETLINK, 3, 16]),
        ("netlink of sockets", "socket", [NETLINK, 3, 4]),
        ("audit", "socket", [NETLINK, 3, 9]),
    ]
    for what, flag in NEW.items():
        calls += [
            (f"a child's {what}", "clone", [flag | SIGCHLD]),
            (f"a thread's {what}", "clone", [flag | 0x10000 | 0x800 | 0x100]),
            (f"own {what}", "unshare", [flag]),
        ]
    return [(name, call, words, True) for name, call, words in files] + [
        (name, call, words, False) for name, call, words in calls
    ]


def ptrace(request, process, data=0):
    address = ctypes.addressof(data) if isinstance(data, Registers) else data
    if LIBC.ptrace(request, process, None, address) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def arrange(place):
    """What is in the folders beside a run, which the intruder before may have changed."""
    for each in ["near", "out/empty"]:
        os.makedirs(f"{place}/{each}", exist_ok=True)
    for each in ["near/secret", "out/other"]:
        open(f"{place}/{each}", "w").write("secret")
    for each in ["near/new", "out/.profile", "out/renamed", "out/link"]:
        if os.path.lexists(f"{place}/{each}"):
            os.remove(f"{place}/{each}")
    if os.path.isdir(f"{place}/out/made"):
        os.rmdir(f"{place}/out/made")


class Traced:
    """A process of a role."""

    def __init__(self, process):
        self.process, self.is_inside, self.has_read, self.call = process, False, False, None
        self.is_program, self.leader, self.answers, self.held = False, process, {}, ""

    def registers(self):
        registers = Registers()
        ptrace(GETREGS, self.process, registers)
        return registers

    def make_call(self, registers, call, words):
        """The kernel's answer to a system call of the process, which then goes on as before."""
        place, memory, numbers = registers.rsp - 16384, b"", []
        for word in words:
            if isinstance(word, int):
                numbers.append(word)
                continue
            word = word.encode() + b"\0" if isinstance(word, str) else word
            numbers.append(place + len(memory))
            memory += word + bytes(-len(word) % 16)
        if memory:
            with open(f"/proc/{self.process}/mem", "r+b", buffering=0) as file:
                file.seek(place)
                file.write(memory)
        changed = Registers.from_buffer_copy(registers)
        changed.rax = NUMBERS[call]
        for name, number in zip(["rdi", "rsi", "rdx", "r10", "r8", "r9"], numbers):
            setattr(changed, name, number % 2**64)
        changed.rip = registers.rip - 2
        changed.orig_rax = 2**64 - 1
        ptrace(SETREGS, self.process, changed)
        for _ in range(2):
            ptrace(SYSCALL, self.process)
            _, status = os.waitpid(self.process, 0x40000000)
            if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
                return None
        answer = ctypes.c_longlong(self.registers().rax).value
        return answer

    def intrude(self, place):
        arrange(place)
        registers = self.registers()
        status = open(f"/proc/{self.process}/status").read()
        self.held = status.split("CapEff:\t")[1].split("\n")[0].lstrip("0")
        for name, call, words, is_file in attempts(place):
            self.answers[name] = (self.make_call(registers, call, words), is_file)
        registers.orig_rax = 2**64 - 1
        ptrace(SETREGS, self.process, registers)


def run(words, place, kernel, seconds=20.0, until=None, hears=""):
    """Runs a role and gets into each of its processes; those that it had. It hears a text."""
    with open(f"{place}/input", "w") as file:
        file.write(hears)
    child = os.fork()
    if child == 0:
        heard = os.open(f"{place}/input", os.O_RDONLY)
        log = os.open(f"{place}/log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(heard, 0), os.dup2(log, 1), os.dup2(log, 2)
        LIBC.ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execv(words[0], words)
    os.waitpid(child, 0)
    ptrace(SETOPTIONS, child, OPTIONS)
    known, over = {child: Traced(child)}, []
    known[child].is_first = True
    ptrace(SYSCALL, child)
    started, ending = time.monotonic(), False
    while known:
        process, status = os.waitpid(-1, 0x40000000 | os.WNOHANG)
        if process == 0:
            late = time.monotonic() - started
            if (late > seconds or until and until(known)) and not ending:
                ending = True
                os.kill(child, signal.SIGINT)
            if late > seconds + 20:
                for each in list(known):
                    os.kill(each, signal.SIGKILL)
            time.sleep(0.001)
            continue
        traced = known.get(process)
        if traced is None:
            traced = known[process] = Traced(process)
            try:
                group = open(f"/proc/{process}/status").read().split("Tgid:\t")[1].split("\n")[0]
                traced.leader = int(group)
            except OSError:
                pass
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            over.append(known.pop(process))
            continue
        try:
            step(traced, os.WSTOPSIG(status), status >> 16, place, kernel, known)
        except ProcessLookupError:
            continue
        if traced.is_program:
            over.append(known.pop(process))
    return over


def step(traced, stop, event, place, kernel, known):
    process, passed = traced.process, 0
    if stop == signal.SIGTRAP | 0x80:
        registers = traced.registers()
        if traced.call is None:
            traced.call = (registers.orig_rax, registers.rdi, registers.rsi, registers.rdx)
        else:
            (call, first, _, flags), traced.call = traced.call, None
            answer = ctypes.c_longlong(registers.rax).value
            if call in (0, 45, 47):
                traced.has_read = True
            if call == NUMBERS["landlock_create_ruleset"]:
                if kernel == "without Landlock":
                    registers.rax = -errno.ENOSYS % 2**64
                    ptrace(SETREGS, process, registers)
                elif kernel == "without scopes" and flags == 1:
                    registers.rax = 5
                    ptrace(SETREGS, process, registers)
            is_filter = call == NUMBERS["seccomp"] and first == 1
            is_filter |= call == NUMBERS["prctl"] and first == 22
            if is_filter and answer == 0:
                traced.is_inside = True
                traced.intrude(place)
    elif event == 4 and not getattr(traced, "is_first", False):
        # A program of the user.
        traced.is_program = True
        ptrace(DETACH, process)
        return
    elif event == 4:
        traced.is_first = False
    elif event or stop == signal.SIGSTOP:
        # A child's or a thread's beginning.
        if traced.call is not None and not event:
            traced.call = None
    elif stop != signal.SIGTRAP:
        passed = stop
    # What one inside calls by itself shows nothing more; a child of it is traced all the same.
    ptrace(CONT if traced.is_inside else SYSCALL, process, passed)


def ways_out(traced, kernel, allowed):
    """What was not refused, and is not the role's."""
    found = []
    for name, (answer, is_file) in traced.answers.items():
        if is_file and kernel == "without Landlock":
            continue
        is_refused = answer is not None and -answer in REFUSALS
        # What is not there is no way out.
        is_absent = is_file and answer is not None and -answer in (errno.ENOENT, errno.ENXIO)
        if not is_refused and not is_absent and name not in allowed:
            found.append((name, answer))
    return found


RTNETLINK = {"rtnetlink"}
TCP = {"TCP", "TCP of IPv6"}


def roles(place, example, port):
    """By name: the verb, its words, what it may do, and whether a signal ends it."""
    trace, out = f"{place}/trace", f"{place}/out"
    interfaces = ["-i", "m0"]
    local = f"127.0.0.1:{port}"
    return {
        "capture FILE": ("capture", [example, "-o", f"{place}/run"], set(), False),
        "capture FILE -w": ("capture", [example, "-w", f"{out}/w.pcapng"], set(), False),
        "capture FILE -b": (
            "capture", [example, "-w", f"{out}/b.pcapng", "-b", "packets:500"], set(), False,
        ),
        "capture -i": ("capture", [*interfaces, "-o", f"{place}/live"], RTNETLINK, True),
        "capture -i -b": (
            "capture", [*interfaces, "-w", f"{out}/l.pcapng", "-b", "packets:9"], RTNETLINK, True,
        ),
        "report": ("report", [trace], set(), False),
        "report --html": (
            "report",
            [trace, "--html", f"{out}/page", "--junit", f"{out}/j", "--assert", "p99 < 1h"],
            set(),
            False,
        ),
        "slow": ("slow", [trace, "0ms"], set(), False),
        "failed": ("failed", [trace], set(), False),
        "plan": ("plan", [trace, "-o", f"{place}/plan"], set(), False),
        "image": ("image", [trace, "--repairs", f"{place}/repairs"], set(), False),
        "image -o": ("image", [trace, "-o", f"{place}/image"], set(), False),
        "image --to": ("image", [trace, "--to", f"nfs://{local}/e/d"], TCP, False),
        "predict": ("predict", [trace, "--delay", "1ms"], set(), False),
        "replay": (
            "replay", [trace, "--to", f"nfs://{local}/x/y", "-o", f"{place}/again"], TCP, False,
        ),
        "compare": ("compare", [trace, trace], set(), False),
        "info": ("info", [trace], set(), False),
        "packets": ("packets", [trace, "--operation", "1", "-w", f"{out}/p.pcapng"], set(), False),
        "bundle": ("bundle", [trace, "-o", f"{out}/b.tar"], set(), False),
        "replay-pcap": ("replay-pcap", [example, *interfaces, "--fast"], RTNETLINK, False),
        "emulate FILE": (
            "emulate", ["--delay", "1ms", example, "--write-pcap", f"{out}/e.pcapng"], set(), False,
        ),
        "emulate CMD": (
            "emulate",
            ["--delay", "1ms", "-o", f"{place}/cmd", "--", "sleep", "0.3"],
            RTNETLINK,
            False,
        ),
        "emulate --between": (
            "emulate", ["--between", "m0,m1", "--link", "flap 10s 500ms carrier"], RTNETLINK, True,
        ),
        "forward": (
            "forward",
            ["-i", "m0,m1", "--service", "tcp 10.9.1.100:80 to 10.9.2.2:80", "--nat", "10.9.2.9"],
            RTNETLINK,
            True,
        ),
        "load": (
            "load",
            [f"http://{local}/", "-n", "10", "--hdr", f"{out}/h", "-o", f"{place}/load"],
            TCP,
            False,
        ),
        "load UDP": ("load", [f"udp://{local}", "-n", "3"], {"UDP"}, False),
        "load -i": (
            "load",
            ["http://10.9.0.9/", "-i", "m0", "--address", "10.9.1.0/24", "-n", "1"],
            RTNETLINK,
            True,
        ),
        "load --hosts": (
            "load",
            [f"http://{local}/", "-n", "10", "--hosts", "A=1", "--rsh", "env", "--rows", "none"],
            set(),
            False,
        ),
        # Directed by what `work` says, as by another host.
        "load --agent": ("load", ["--agent"], TCP, False),
        "load serve": ("load", ["serve", "http", "127.0.0.1:0"], TCP, True),
        "load serve UDP": ("load", ["serve", "udp", "127.0.0.1:0"], {"UDP"}, True),
        "probe": ("probe", ["127.0.0.1", "--icmp", "-c", "3", "-i", "1ms"], set(), False),
        "probe --tcp": (
            "probe", ["127.0.0.1", "--tcp", str(port), "-c", "3", "-i", "1ms"], TCP, False,
        ),
        "probe --serve": ("probe", ["--serve", "127.0.0.1", "--port", "0"], set(), True),
        "ctl": ("ctl", [trace, "mark", "here"], set(), False),
        "explain": ("explain", [example, "--delay", "1ms", "--frame", "1"], set(), False),
        "table": ("table", ["from-trace", trace], set(), False),
        "table from-ping": ("table", ["from-ping", "127.0.0.1", "-c", "3"], set(), False),
    }


def work(program, folder, port):
    """What the host that directs a load sends to an agent."""
    arrange(folder)
    words = ["load", f"http://127.0.0.1:{port}/", "-n", "10", "-q", "-o", f"{folder}/keys"]
    subprocess.run([program, *words], check=True)
    with open(f"{folder}/keys/trace.json") as file:
        keys = json.load(file)["configuration"]["load"]
    lines = [{"kind": "hello", "version": 1}, {"kind": "ping"}]
    lines.append({"kind": "work", "keys": keys, "among": [0, 1]})
    return "".join(json.dumps(line) + "\n" for line in lines)


# What reads no foreign bytes; and lab, which runs commands of its file as the user that it is. The
# process of a point that turns its links is the one of 'emulate CMD'.
WITHOUT = {"doctor", "version", "completions", "man", "help", "lab"}

# What processes beside a run may do, by the name that each has for its system calls: they read no
# foreign byte, and answer to a run that may be taken over.
IN_FOLDER = {
    "write in the output's folder", "make a file in it", "remove a file in it", "rename in it",
    "make a folder in it", "remove a folder in it", "make a link in it",
}
HELPERS = {
    # Makes, names and removes files of a series: its own folder, and its owner's.
    "maker": IN_FOLDER | {"give away"},
    # Gives a run's folder back, and removes it if it is empty.
    "giver": {"give away", "remove a folder in it"},
    # Removes an output that is empty.
    "tidier": {"remove a file in it"},
    # Ends programs of the run.
    "ender": {
        "read the first process", "list processes", "read another process",
        "read the kernel's symbols", "hold another", "signal by a descriptor",
    },
    # Connects to a run.
    "caller": {"a UNIX socket", "connect"},
}


def main():
    program, example, folder = sys.argv[1:4]
    wanted = sys.argv[4:]
    LIBC.unshare(NEW["net"])
    for words in [
        "link set lo up", "link add m0 type veth peer name m0far",
        "link add m1 type veth peer name m1far", "link set m0 up", "link set m0far up",
        "link set m1 up", "link set m1far up",
    ]:
        subprocess.run(["ip", *words.split()], check=True)
    help_text = subprocess.run([program, "--help"], capture_output=True, text=True).stdout
    verbs = {line.split()[0] for line in help_text.split("\n") if line.startswith("  ")
             and not line.startswith("   ") and line.split()[0].replace("-", "").isalpha()}
    verbs.discard("lineside")
    server = subprocess.Popen(
        [program, "load", "serve", "http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    port = int("".join(c for c in server.stderr.readline().rsplit(":", 1)[1] if c.isdigit())[:5])
    rows = roles(folder, example, port)
    trace = f"{folder}-trace"
    subprocess.run([program, "capture", "-q", example, "-o", trace], check=True)
    heard = {"load --agent": work(program, folder, port)}
    without_row = verbs - {row[0] for row in rows.values()} - WITHOUT
    faults = [f"{verb}: no row for this verb" for verb in sorted(without_row)]
    for name, (verb, words, allowed, is_endless) in rows.items():
        if wanted and name not in wanted:
            continue
        for kernel in ["this", "without scopes", "without Landlock"]:
            shutil.rmtree(folder, ignore_errors=True)
            arrange(folder)
            shutil.copytree(trace, f"{folder}/trace")
            until = lambda known: all(each.is_inside for each in known.values())
            until = until if is_endless else None
            hears = heard.get(name, "")
            over = run([program, verb, *words], folder, kernel, 8.0, until, hears)
            faults += judged(name, kernel, over, allowed, folder)
    server.kill()
    print("\n".join(faults) or "no way out")
    sys.exit(bool(faults))


def judged(name, kernel, over, allowed, folder):
    """Prints a row, and returns what is wrong with it."""
    inside = [each for each in over if each.answers]
    tries = sum(len(each.answers) for each in inside)
    outside = [
        each for each in over
        if not each.is_inside and not each.is_program and each.has_read and each.leader == each.process
    ]
    leaders = {each.process for each in inside}
    outside = [each for each in outside if each.process not in leaders]
    # The run is the process that was started; programs of hosts are one like it.
    first = min(each.process for each in over)
    helpers = [allowed, *HELPERS.values()]
    out = []
    for each in inside:
        by_kind = [ways_out(each, kernel, kind) for kind in helpers]
        out.append((each, by_kind[0] if each.process == first else min(by_kind, key=len)))
    count = sum(len(found) for _, found in out)
    print(f"{name:20} {kernel:18} {len(inside)} processes, {tries} tries, {count} ways out", flush=True)
    faults = [f"{name}, {kernel}: process without a sandbox" for _ in outside]
    faults += [f"{name}, {kernel}, capabilities {each.held or 'none'}: {what}: {answer}"
               for each, found in out for what, answer in found]
    if not inside:
        faults.append(f"{name}, {kernel}: no sandbox: " + open(f"{folder}/log").read()[-300:])
    return faults


main()
