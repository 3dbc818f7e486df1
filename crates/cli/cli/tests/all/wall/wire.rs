//! Wires of our own: network namespaces joined by veth pairs, frames sent at one end, `lineside`
//! listening at the other.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::Transmit;
use lineside_port::live::{Interface, open_to_send};
use lineside_testkit::{capture, waiting};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use tempfile::TempDir;

pub(crate) use crate::support::private_folder;
use crate::support::{Trace, lineside, talk, wait_until};

/// The reason for which there can be no wire here; `None` if there can. `tools` are the programs
/// that a test needs besides.
pub(crate) fn obstacle(tools: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    let missing = |tool: &&&str| {
        let found = Command::new("sh")
            .args(["-c", "PATH=$PATH:/usr/sbin:/sbin command -v \"$0\"", tool])
            .output();
        !found.is_ok_and(|output| output.status.success())
    };
    let missing = ["ip", "ethtool"].iter().chain(tools).find(missing)?;
    Some(format!("{missing} is missing"))
}

/// Returns, and prints the reason, where there can be no wire.
macro_rules! need_wire {
    ($($tool:literal),*) => {
        if let Some(why) = $crate::wall::wire::obstacle(&[$($tool),*]) {
            println!("SKIP: no wire: {why}");
            return;
        }
    };
}
pub(crate) use need_wire;

/// A network namespace without IPv6, so that it sends nothing of its own. It ends with this.
pub(crate) struct Namespace {
    name: String,
    is_ours: bool,
}

impl Namespace {
    /// `what` distinguishes the namespaces of this process.
    pub(crate) fn new(what: &str) -> Self {
        waiting::take_place();
        let namespace = Self {
            name: format!("lineside-{}-{what}", std::process::id()),
            is_ours: true,
        };
        run(Command::new("ip").args(["netns", "add", &namespace.name]));
        let quiet = "for which in all default; do echo 1 \
        >/proc/sys/net/ipv6/conf/$which/disable_ipv6; done";
        run(namespace.command("sh").args(["-c", quiet]));
        namespace
    }

    /// A namespace that another owner made, and removes.
    pub(crate) fn of_another(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_ours: false,
        }
    }

    /// Its name for `ip netns`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A program in it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// `ip` with words, about its links and addresses.
    pub(crate) fn ip(&self, words: &str) {
        run(Command::new("ip")
            .args(["-n", &self.name])
            .args(words.split(' ')));
    }

    /// Runs a Python program in it with these lines as its input, frames in hexadecimal.
    pub(crate) fn python(&self, program: &str, frames: &[Vec<u8>]) {
        let mut child = self.command("python3");
        let child = child.args(["-c", program]).stdin(Stdio::piped()).spawn();
        let mut child = child.expect("python3 runs");
        let mut input = child.stdin.take().expect("is piped");
        for frame in frames {
            let digits = frame.iter().map(|byte| format!("{byte:02x}"));
            let line: String = digits.chain(["\n".to_owned()]).collect();
            input.write_all(line.as_bytes()).expect("it reads");
        }
        drop(input);
        assert!(child.wait().expect("it ends").success());
    }

    /// Waits until its programs have read what came.
    pub(crate) fn wait_until_read(&self) {
        wait_until("what came is read", || {
            self.enter(|| waiting::unread_bytes(None)) == 0
        });
    }

    /// Runs a closure on a thread inside it.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            let file = File::open(format!("/run/netns/{}", self.name)).expect("it is there");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter");
            work()
        };
        std::thread::scope(|scope| {
            let done = scope.spawn(entered).join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// Runs a program that must succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", talk(&output));
}

/// Veth pairs from `g0`, `g1`, ... in one namespace to `t0`, `t1`, ... in another.
pub(crate) struct Wire {
    pub(crate) generator: Namespace,
    pub(crate) tap: Namespace,
}

impl Wire {
    /// The frames of any capture fit through.
    pub(crate) const MTU: u32 = 9000;

    pub(crate) fn new(what: &str, pairs: usize) -> Self {
        let wire = Self {
            generator: Namespace::new(&format!("{what}-g")),
            tap: Namespace::new(&format!("{what}-t")),
        };
        let mtu = Self::MTU;
        for pair in 0..pairs {
            wire.tap.ip(&format!(
                "link add t{pair} mtu {mtu} type veth peer name g{pair} netns {} mtu {mtu}",
                wire.generator.name
            ));
            wire.generator.ip(&format!("link set g{pair} up"));
            wire.tap.ip(&format!("link set t{pair} up"));
        }
        wire
    }

    /// Sends all frames into `g0`.
    pub(crate) fn send(&self, frames: &[capture::Frame]) {
        let frames: Vec<_> = frames.iter().map(|frame| (0, frame)).collect();
        self.send_into(&frames);
    }

    /// Sends each frame into the pair whose number goes with it. They arrive in this order: all on
    /// one core.
    pub(crate) fn send_into(&self, frames: &[(usize, &capture::Frame)]) {
        self.generator.enter(|| {
            let mut core = CpuSet::new();
            core.set(rustix::thread::sched_getcpu());
            sched_setaffinity(None, &core).expect("a core that was given");
            let pairs = frames.iter().map(|(pair, _)| pair + 1).max().unwrap_or(0);
            let mut ports: Vec<_> = (0..pairs)
                .map(|pair| {
                    let interface = Interface::named(&format!("g{pair}")).expect("there");
                    open_to_send(&interface).expect("it is up")
                })
                .collect();
            for chunk in frames.chunk_by(|one, next| one.0 == next.0) {
                send_all(&mut *ports[chunk[0].0], chunk);
            }
        });
    }
}

fn send_all(port: &mut dyn Transmit, frames: &[(usize, &capture::Frame)]) {
    let mut burst: Burst = frames
        .iter()
        .map(|(_, frame)| {
            let descriptor = Descriptor {
                wire_len: frame.wire_len,
                link_type: LinkType(frame.link_type),
                ..Descriptor::default()
            };
            Frame::copied(&frame.bytes, descriptor)
        })
        .collect();
    let mut in_vain = 0;
    while !burst.is_empty() {
        match port.transmit(&mut burst).expect("frames can be sent") {
            0 => {
                in_vain += 1;
                assert!(in_vain < 1_000_000, "the kernel takes no frames");
                std::thread::yield_now();
            }
            _ => in_vain = 0,
        }
    }
}

/// A running `lineside capture`.
pub(crate) struct Running {
    child: Child,
    /// The trace's folder, if one is written.
    pub(crate) out: PathBuf,
    /// A folder for other files of the test.
    pub(crate) folder: TempDir,
}

/// The outcome of a run.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) messages: String,
    pub(crate) out: PathBuf,
    pub(crate) folder: TempDir,
}

impl Running {
    /// Captures into a trace in a new folder; listens when this returns.
    pub(crate) fn start(namespace: &Namespace, options: &[&str]) -> Self {
        let folder = private_folder();
        let out = folder.path().join("trace");
        let mut command = namespace.command(lineside().get_program());
        command
            .args(["capture", "-o"])
            .arg(&out)
            .args(options)
            .current_dir(folder.path());
        let running = Self::spawn(&mut command, out, folder);
        let manifest = running.out.join("trace.json");
        running.wait_until("it listens", || manifest.exists());
        running
    }

    /// Starts a command that is called as `lineside capture` is.
    pub(crate) fn spawn(command: &mut Command, out: PathBuf, folder: TempDir) -> Self {
        let messages = File::create(folder.path().join("messages")).expect("a new file");
        let printed = File::create(folder.path().join("printed")).expect("a new file");
        let child = command.stdout(printed).stderr(messages).spawn();
        Self {
            child: child.expect("it runs"),
            out,
            folder,
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its messages so far.
    pub(crate) fn messages(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("messages")).expect("it is text")
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let process = PathBuf::from(format!("/proc/{}/fd/2", self.id()));
        wait_until(what, || {
            assert!(
                done() || std::fs::read_link(&process).is_ok(),
                "it ended before: {what}: {}",
                self.messages()
            );
            done()
        });
    }

    /// Sends it a signal, such as `INT`.
    pub(crate) fn signal(&self, signal: &str) {
        run(Command::new("kill").args([format!("-{signal}"), self.id().to_string()]));
    }

    /// Waits until it has received this many frames; fails if there are more.
    pub(crate) fn wait_for_frames(&self, frames: usize) {
        assert_eq!(self.wait_for_at_least(frames), frames);
    }

    /// Waits until it has received at least this many frames; returns their number.
    pub(crate) fn wait_for_at_least(&self, frames: usize) -> usize {
        let mut received = 0;
        self.wait_until("the frames are received", || {
            self.signal("USR1");
            let text = self.messages();
            // Only whole lines: the last one may be about to be written.
            let mut lines = text.split_inclusive('\n').rev();
            let line = lines
                .find(|line| line.starts_with("frames.received") && line.ends_with('\n'))
                .unwrap_or("frames.received 0");
            let number = line.split_whitespace().nth(1).unwrap_or_default();
            received = number.replace(',', "").parse().expect("a number");
            received >= frames
        });
        received
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let child = &mut self.child;
        let mut status = None;
        wait_until("it ends", || {
            status = child.try_wait().expect("our child");
            status.is_some()
        });
        Ended {
            status: status.expect("it ended"),
            messages: self.messages(),
            out: std::mem::take(&mut self.out),
            folder: std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder")),
        }
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(self) -> Ended {
        self.signal("INT");
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Its standard output.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("printed")).expect("it is text")
    }

    /// Its trace, if it ended with this exit status.
    pub(crate) fn trace(self, code: i32) -> Trace {
        assert_eq!(self.status.code(), Some(code), "{}", self.messages);
        let signal = self.status.signal();
        assert_eq!(signal, None, "{}", self.messages);
        Trace::read(&self.out, self.folder)
    }
}

/// A tcpdump that records an interface, in nanoseconds.
pub(crate) struct Tcpdump {
    child: Child,
    path: PathBuf,
    messages: PathBuf,
}

impl Tcpdump {
    /// Records into `path`; listens when this returns. `program` is `tcpdump` where the interface
    /// is.
    pub(crate) fn start(program: Command, interface: &str, path: &Path) -> Self {
        Self::filtered(program, interface, path, "")
    }

    /// Records the frames that a filter takes.
    pub(crate) fn filtered(program: Command, interface: &str, path: &Path, filter: &str) -> Self {
        // Each place of the ring is as long as a frame may be: about 16,000 of them.
        Self::with(program, interface, path, &["-s", "16000", "--", filter])
    }

    /// Records this many bytes of each frame.
    pub(crate) fn cut(program: Command, interface: &str, path: &Path, len: &str) -> Self {
        Self::with(program, interface, path, &["-s", len])
    }

    fn with(mut program: Command, interface: &str, path: &Path, options: &[&str]) -> Self {
        let messages = path.with_extension("messages");
        // Every frame is written when it comes, so that the last one may be waited for.
        let child = program
            .args(["-Z", "root", "-i", interface, "-n", "-U"])
            .args(["--immediate-mode", "-B", "262144"])
            .args(["--time-stamp-precision=nano", "-w"])
            .arg(path)
            .args(options)
            .stdin(Stdio::null())
            .stderr(File::create(&messages).expect("a new file"))
            .spawn();
        let tcpdump = Self {
            child: child.expect("tcpdump runs"),
            path: path.to_owned(),
            messages,
        };
        wait_until("tcpdump listens", || {
            let messages = std::fs::read_to_string(&tcpdump.messages).unwrap_or_default();
            messages.contains("listening on")
        });
        tcpdump
    }

    /// Waits until these bytes were recorded, and ends; an error if it dropped a frame.
    pub(crate) fn end(mut self, last: &[u8]) -> Result<(), String> {
        wait_until("tcpdump has the last frame", || {
            assert!(
                self.child.try_wait().expect("our child").is_none(),
                "tcpdump ended"
            );
            let bytes = std::fs::read(&self.path).unwrap_or_default();
            bytes.windows(last.len()).rev().any(|window| window == last)
        });
        self.interrupt()
    }

    /// Ends when its file has not grown for a while.
    pub(crate) fn end_when_quiet(mut self) {
        let (mut before, mut quiet) = (0, 0);
        wait_until("tcpdump is quiet", || {
            let len = std::fs::metadata(&self.path).map_or(0, |facts| facts.len());
            quiet = if len == before { quiet + 1 } else { 0 };
            before = len;
            // A look each 10 ms.
            quiet > 25
        });
        self.interrupt().expect("it keeps up");
    }

    fn interrupt(&mut self) -> Result<(), String> {
        run(Command::new("kill").args(["-INT", &self.child.id().to_string()]));
        let _ = self.child.wait();
        let messages = std::fs::read_to_string(&self.messages).unwrap_or_default();
        match messages.contains("\n0 packets dropped by kernel") {
            true => Ok(()),
            false => Err(format!("tcpdump: {messages}")),
        }
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
