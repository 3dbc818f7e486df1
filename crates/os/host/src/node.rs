//! The programs of a node of a network: one command with all that it starts, in a PID namespace of
//! its own, so that nothing of it outlives the run, however that ends.
//!
//! ```text
//!  run ── fork ─► new PID namespace ── fork ─► first process ── sh -c COMMAND ─► what that starts
//!   └── socket: begin, end ──────────────────────► │
//!   ◄────────── ready, ended, gone ────────────────┘
//! ```
//!
//! * The first process ends when its socket does, and with it the kernel kills every process of the
//!   namespace: forks, sessions of their own, programs that ignore TERM.
//! * It adopts and waits for all of them, so that their processor time is known.
//! * It is started before the run drops its privileges: it keeps those that it needs to end others.
//! * A command of another machine is a shell there: the first process connects at once, writes what
//!   is to be run when it begins, and holds the shell's input, whose end ends all there.

use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, pidfd_open, setrlimit,
};
use rustix::thread::{UnshareFlags, sched_setaffinity, unshare_unsafe};

use crate::clock::Stopwatch;
use crate::cores::set_of;
use crate::give_back::{beside, receive};
use crate::ports_in_use::ports_in_use;
use crate::sandboxed_reader::{close_others, fork};

/// How it is known that a node's command can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadyWhen {
    /// A program of the node listens at this port of TCP.
    Listens(u16),
    /// This command, for a shell, succeeds in the node.
    Succeeds(String),
    /// Something answers at this port of TCP on another machine.
    Answers(String, u16),
}

/// What the processes of a node may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// These CPUs; none: all.
    pub cpus: Vec<usize>,
    /// Bytes of memory of its own that each of them may have (RLIMIT_DATA).
    pub memory: Option<u64>,
    /// The user and the group that they are.
    pub user: Option<(u32, u32)>,
}

/// What a node runs.
#[derive(Debug)]
pub struct NodeCommand<'a> {
    /// For a shell.
    pub command: &'a str,
    /// Variables that its environment has beside this process's.
    pub environment: &'a [(String, String)],
    /// Where it begins.
    pub folder: &'a Path,
    /// When others may ask it.
    pub ready: Option<&'a ReadyWhen>,
    /// What it may use.
    pub limits: &'a NodeLimits,
    /// What a shell on another machine runs, to which `command` connects.
    pub elsewhere: Option<&'a str>,
    /// Its standard output and standard error.
    pub outputs: [BorrowedFd<'a>; 2],
}

/// What became of a node's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEvent {
    /// The shell on another machine answers.
    Connected,
    /// It can be asked.
    Ready,
    /// It ended by itself.
    Ended(NodeEnd),
    /// It could not be started: the error of the operating system.
    NotStarted(i32),
    /// All that it started has ended; the processor time of all.
    Gone {
        /// In user and kernel mode.
        cpu_ns: u64,
    },
    /// Its first process is gone.
    Lost,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEnd {
    /// Its exit status, unless a signal ended it.
    pub status: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// Since it was started.
    pub elapsed_ns: u64,
}

/// The programs of a node. Dropping this kills all of them.
#[derive(Debug)]
pub struct Node(OwnedFd);

const BEGIN: u8 = b'b';
const END: u8 = b'e';

/// How long programs have to end after TERM.
const PATIENCE: Duration = Duration::from_secs(2);
/// What the kernel does not end so soon after KILL hangs in a system call.
const KILLED: Duration = Duration::from_secs(1);
/// The pause between two looks whether a node is ready.
const LOOK: Duration = Duration::from_millis(5);
/// The pause between two commands that find that out.
const ASK: Duration = Duration::from_millis(50);
/// Children of others that have ended are waited for so often.
const REAP: Duration = Duration::from_millis(100);

impl Node {
    /// Makes the first process of a node in the network namespace of the calling thread, which has
    /// the rights of root in its user namespace. To be called before there is another thread.
    pub fn make(command: &NodeCommand<'_>) -> io::Result<Self> {
        let socket = beside(|socket| {
            // SAFETY: no table of descriptors is unshared.
            unsafe { unshare_unsafe(UnshareFlags::NEWPID) }?;
            fork(|| serve(socket, command)).map(drop)
        })?;
        Ok(Self(socket))
    }

    /// Starts the command.
    pub fn begin(&self) {
        self.ask(BEGIN);
    }

    /// Ends the command and all that it started: by TERM, and by KILL two seconds later.
    pub fn end(&self) {
        self.ask(END);
    }

    fn ask(&self, what: u8) {
        // Where nobody listens, all has ended: the next event says so.
        let _ = send(&self.0, &[what], SendFlags::NOSIGNAL);
    }

    /// What became of it since it was asked last, if something did.
    pub fn event(&self) -> Option<NodeEvent> {
        let mut message = [0; MESSAGE_LEN];
        loop {
            match recv(&self.0, &mut message[..], RecvFlags::DONTWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return None,
                Ok((MESSAGE_LEN, _)) => return Some(read(&message)),
                _ => return Some(NodeEvent::Lost),
            }
        }
    }
}

/// Bytes of a message: its kind and three numbers.
const MESSAGE_LEN: usize = 25;

fn written(event: NodeEvent) -> [u8; MESSAGE_LEN] {
    let (kind, numbers) = match event {
        NodeEvent::Ready => (0, [0; 3]),
        NodeEvent::Ended(end) => {
            let number = |of: Option<i32>| of.map_or(-1, i64::from);
            let elapsed = end.elapsed_ns.cast_signed();
            (1, [number(end.status), number(end.signal), elapsed])
        }
        NodeEvent::NotStarted(error) => (2, [error.into(), 0, 0]),
        NodeEvent::Gone { cpu_ns } => (3, [cpu_ns.cast_signed(), 0, 0]),
        NodeEvent::Lost => (4, [0; 3]),
        NodeEvent::Connected => (5, [0; 3]),
    };
    let mut message = [kind; MESSAGE_LEN];
    for (at, number) in numbers.iter().enumerate() {
        message[1 + 8 * at..][..8].copy_from_slice(&number.to_ne_bytes());
    }
    message
}

fn read(message: &[u8; MESSAGE_LEN]) -> NodeEvent {
    let number = |at: usize| {
        let bytes = message[1 + 8 * at..][..8].try_into();
        i64::from_ne_bytes(bytes.expect("eight bytes"))
    };
    let small = |at: usize| i32::try_from(number(at)).ok().filter(|it| *it >= 0);
    match message[0] {
        0 => NodeEvent::Ready,
        1 => NodeEvent::Ended(NodeEnd {
            status: small(0),
            signal: small(1),
            elapsed_ns: number(2).cast_unsigned(),
        }),
        2 => NodeEvent::NotStarted(small(0).unwrap_or_default()),
        3 => NodeEvent::Gone {
            cpu_ns: number(0).cast_unsigned(),
        },
        5 => NodeEvent::Connected,
        _ => NodeEvent::Lost,
    }
}

/// The first process of a node.
struct First<'a> {
    socket: &'a OwnedFd,
    command: &'a NodeCommand<'a>,
    began: Stopwatch,
    /// The command, until it has ended.
    main: Option<(Pid, OwnedFd)>,
    /// Whether it has yet to be found ready.
    awaits: bool,
    /// A command that finds that out, and when the next one may.
    asking: Option<Pid>,
    ask_at: Duration,
    /// To and from the shell on another machine.
    far: Option<Far>,
}

/// A shell on another machine.
struct Far {
    /// Its end ends what runs there.
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// What came before the line by which it is known, and after that nothing.
    before: Option<Vec<u8>>,
}

/// A line that a shell prints when it is there. What a login says before it is no output.
const HERE: &str = "lineside-is-here";
/// More than a login says.
const BEFORE_MAX: usize = 1 << 16;

fn serve(socket: &OwnedFd, command: &NodeCommand<'_>) -> io::Result<()> {
    let [out, err] = command.outputs;
    let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
    let kept = [input.as_fd(), output.as_fd(), error.as_fd()];
    close_others(&[&kept[..], &[socket.as_fd(), out, err]].concat())?;
    // The terminal's signals are for the run. A session of its own would be scheduled as a group of
    // its own (autogroup), unlike the same command beside the run.
    rustix::process::setpgid(None, None)?;
    see_own_processes();
    let mut first = First {
        socket,
        command,
        began: Stopwatch::start(),
        main: None,
        awaits: false,
        asking: None,
        ask_at: Duration::ZERO,
        far: None,
    };
    if command.elsewhere.is_some() {
        first.start_main()?;
        while first.turn()? {}
        return Ok(());
    }
    let mut asked = [0];
    match receive(socket, &mut asked) {
        Some(_) if asked[0] == BEGIN => {}
        Some(_) => return report(socket, NodeEvent::Gone { cpu_ns: 0 }),
        None => return Ok(()),
    }
    first.began = Stopwatch::start();
    first.awaits = command.ready.is_some();
    first.start_main()?;
    while first.turn()? {}
    Ok(())
}

impl First<'_> {
    fn start_main(&mut self) -> io::Result<()> {
        let started = self
            .start(self.command.command, false)
            .and_then(|mut child| {
                let pid = pid_of(&child)?;
                if let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) {
                    // One that ends at once is found out by its end.
                    let _ = writeln!(input, "echo {HERE}");
                    self.far = Some(Far {
                        input: Some(input),
                        output,
                        before: Some(Vec::new()),
                    });
                }
                Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
            });
        match started {
            Ok(main) => self.main = Some(main),
            Err(error) => {
                let error = error.raw_os_error().unwrap_or(libc::EIO);
                report(self.socket, NodeEvent::NotStarted(error))?;
            }
        }
        Ok(())
    }

    /// Has the shell on another machine run what it is for.
    fn begin_elsewhere(&mut self) {
        self.began = Stopwatch::start();
        self.awaits = self.command.ready.is_some();
        let input = self.far.as_mut().and_then(|far| far.input.as_mut());
        if let (Some(input), Some(script)) = (input, self.command.elsewhere) {
            let _ = input.write_all(script.as_bytes());
        }
    }

    /// Starts a command of the node.
    fn start(&self, command: &str, is_quiet: bool) -> io::Result<Child> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::null());
        shell.current_dir(self.command.folder);
        let environment = self.command.environment.iter();
        shell.envs(environment.map(|(name, value)| (name, value)));
        let [out, err] = self.command.outputs;
        match is_quiet {
            true => shell.stdout(Stdio::null()).stderr(Stdio::null()),
            false => { shell.stdout(out.try_clone_to_owned()?) }.stderr(err.try_clone_to_owned()?),
        };
        if self.command.elsewhere.is_some() && !is_quiet {
            shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        let limits = self.command.limits;
        if let Some((user, group)) = limits.user {
            shell.uid(user).gid(group);
        }
        let cpus = set_of(&limits.cpus);
        let (has_cpus, memory) = (!limits.cpus.is_empty(), limits.memory);
        // SAFETY: between fork and exec there are system calls alone.
        // JUSTIFICATION: this process has to stay without these limits.
        unsafe {
            shell.pre_exec(move || {
                if has_cpus {
                    sched_setaffinity(None, &cpus)?;
                }
                if memory.is_some() {
                    let limit = Rlimit {
                        current: memory,
                        maximum: memory,
                    };
                    setrlimit(Resource::Data, limit)?;
                }
                Ok(())
            });
        }
        shell.spawn()
    }

    /// Waits for what comes next; whether it goes on.
    fn turn(&mut self) -> io::Result<bool> {
        let pause = if self.awaits { LOOK } else { REAP };
        let mut polled = vec![PollFd::new(self.socket, PollFlags::IN)];
        let main = self.main.as_ref();
        polled.extend(main.map(|(_, main)| PollFd::new(main, PollFlags::IN)));
        let far = self.far.as_ref();
        polled.extend(far.map(|far| PollFd::new(&far.output, PollFlags::IN)));
        let _ = poll(&mut polled, Some(&timeout(pause)));
        let is_asked = !polled[0].revents().is_empty();
        let has_output = far.is_some() && polled.last().is_some_and(|it| !it.revents().is_empty());
        if has_output {
            self.relay()?;
        }
        while let Some((process, status)) = ended() {
            self.on_end(process, status)?;
        }
        if self.awaits && self.main.is_some() && self.is_ready() {
            self.awaits = false;
            report(self.socket, NodeEvent::Ready)?;
        }
        if !is_asked {
            return Ok(true);
        }
        let mut asked = [0];
        let is_there = receive(self.socket, &mut asked).is_some();
        if is_there && asked[0] == BEGIN {
            self.begin_elsewhere();
            return Ok(true);
        }
        // Without the run all ends with this process.
        if is_there {
            self.end_elsewhere();
            end_all();
            let cpu_ns = cpu_of_children();
            report(self.socket, NodeEvent::Gone { cpu_ns })?;
        }
        Ok(false)
    }

    /// Passes on what came from another machine. Nothing more comes once it has ended.
    fn relay(&mut self) -> io::Result<()> {
        let Some(far) = &mut self.far else {
            return Ok(());
        };
        let mut some = [0; 1 << 14];
        let count = match rustix::io::read(&far.output, &mut some) {
            Ok(0) => {
                self.far = None;
                return Ok(());
            }
            Ok(count) => count,
            Err(_) => return Ok(()),
        };
        let bytes = &some[..count];
        if let Some(before) = &mut far.before {
            before.extend(bytes);
            let line = format!("{HERE}\n");
            let at = before
                .windows(line.len())
                .position(|it| it == line.as_bytes());
            let Some(at) = at.filter(|_| before.len() <= BEFORE_MAX) else {
                return Ok(());
            };
            let after = before[at + line.len()..].to_vec();
            far.before = None;
            report(self.socket, NodeEvent::Connected)?;
            return written_whole(self.command.outputs[0], &after);
        }
        written_whole(self.command.outputs[0], bytes)
    }

    /// Ends what runs on another machine, and waits a moment until that is known here.
    fn end_elsewhere(&mut self) {
        let Some(far) = &mut self.far else { return };
        far.input = None;
        let since = Stopwatch::start();
        while self.far.is_some() && since.elapsed() < PATIENCE {
            let Some(far) = &self.far else { return };
            let mut polled = [PollFd::new(&far.output, PollFlags::IN)];
            let is_ready = poll(&mut polled, Some(&timeout(ASK))).is_ok_and(|count| count > 0);
            if is_ready && self.relay().is_err() {
                return;
            }
        }
    }

    fn on_end(&mut self, process: Pid, status: WaitStatus) -> io::Result<()> {
        if self.asking == Some(process) {
            self.asking = None;
            self.ask_at = self.began.elapsed() + ASK;
            if status.exit_status() == Some(0) && self.awaits && self.main.is_some() {
                self.awaits = false;
                report(self.socket, NodeEvent::Ready)?;
            }
        }
        if self.main.take_if(|(main, _)| *main == process).is_some() {
            // What is in the pipe is its output still.
            self.end_elsewhere();
            let end = NodeEnd {
                status: status.exit_status(),
                signal: status.terminating_signal(),
                elapsed_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            };
            report(self.socket, NodeEvent::Ended(end))?;
        }
        Ok(())
    }

    /// Whether it can be asked, as far as that is seen from here; starts the command that finds it
    /// out.
    fn is_ready(&mut self) -> bool {
        match self.command.ready {
            None => true,
            Some(ReadyWhen::Listens(port)) => {
                let mut ports = ports_in_use().into_iter();
                ports.any(|it| it.protocol == "tcp" && it.listens && it.port == *port)
            }
            Some(ReadyWhen::Answers(host, port)) => {
                let is_due = self.began.elapsed() >= self.ask_at;
                self.ask_at = if is_due {
                    self.began.elapsed() + ASK
                } else {
                    self.ask_at
                };
                is_due && answers(host, *port)
            }
            Some(ReadyWhen::Succeeds(command)) => {
                if self.asking.is_none() && self.began.elapsed() >= self.ask_at {
                    let started = self.start(command, true);
                    self.asking = started.and_then(|child| pid_of(&child)).ok();
                }
                false
            }
        }
    }
}

/// Whether something answers at a port of another machine.
fn answers(host: &str, port: u16) -> bool {
    let addresses = (host, port).to_socket_addrs();
    let mut addresses = addresses.into_iter().flatten();
    addresses.any(|address| TcpStream::connect_timeout(&address, 10 * ASK).is_ok())
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::Other.into())
}

/// Writes all of it.
fn written_whole(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = rustix::io::write(to, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn report(socket: &OwnedFd, event: NodeEvent) -> io::Result<()> {
    send(socket, &written(event), SendFlags::NOSIGNAL)?;
    Ok(())
}

fn timeout(pause: Duration) -> Timespec {
    Timespec {
        tv_sec: pause.as_secs().cast_signed(),
        tv_nsec: pause.subsec_nanos().into(),
    }
}

/// A child that has ended.
fn ended() -> Option<(Pid, WaitStatus)> {
    rustix::process::wait(WaitOptions::NOHANG).ok().flatten()
}

/// Ends all other processes of the namespace of which this is the first process.
fn end_all() {
    let signal = |signal: Signal| {
        // -1: kill(2) of a first process reaches those of its namespace.
        let _ = rustix::process::kill_process_group(Pid::INIT, signal);
    };
    signal(Signal::TERM);
    let since = Stopwatch::start();
    let mut is_killed = false;
    // Until there is no child, since all that is left behind is one.
    while rustix::process::wait(WaitOptions::NOHANG).is_ok() {
        let elapsed = since.elapsed();
        if elapsed > PATIENCE && !is_killed {
            is_killed = true;
            signal(Signal::KILL);
        }
        if elapsed > PATIENCE + KILLED {
            return;
        }
        since.wait_until(elapsed + Duration::from_millis(1));
    }
}

/// The processor time of all children that were waited for, and of theirs.
fn cpu_of_children() -> u64 {
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for what it writes.
    // JUSTIFICATION: neither std nor rustix has this call.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000;
    (ns(usage.ru_utime) + ns(usage.ru_stime)).cast_unsigned()
}

/// Lets programs of this namespace see their own processes at /proc. A container that masks parts
/// of /proc forbids it: then they see all others.
fn see_own_processes() {
    // SAFETY: no table of descriptors is unshared.
    if unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.is_err() {
        return;
    }
    let none = std::ptr::null();
    let (root, proc) = (c"/".as_ptr(), c"/proc".as_ptr());
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the texts end with zero, and live as long as the program.
    // JUSTIFICATION: rustix has these calls behind a feature that nothing else needs.
    unsafe {
        libc::mount(
            none,
            root,
            none,
            libc::MS_REC | libc::MS_PRIVATE,
            none.cast(),
        );
        libc::mount(c"proc".as_ptr(), proc, c"proc".as_ptr(), flags, none.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written() {
        let end = |status, signal| {
            NodeEvent::Ended(NodeEnd {
                status,
                signal,
                elapsed_ns: 5_000_000_000,
            })
        };
        for event in [
            NodeEvent::Ready,
            end(Some(0), None),
            end(Some(127), None),
            end(None, Some(9)),
            NodeEvent::NotStarted(libc::ENOENT),
            NodeEvent::Gone { cpu_ns: 1 << 40 },
            NodeEvent::Lost,
            NodeEvent::Connected,
        ] {
            assert_eq!(read(&written(event)), event);
        }
    }
}
