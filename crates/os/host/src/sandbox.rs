//! What a run can no longer do once it reads foreign bytes: files that nobody named, networks,
//! other programs, and most of the kernel's system calls. For good, also for its threads.
//!
//! ```text
//!  everything is open ─► capabilities dropped ─► Landlock: files, TCP, signals ─► seccomp: a list
//!                                                                      ─► threads, foreign bytes
//! ```
//!
//! Landlock (Linux 5.13 and later, landlock(7)) and seccomp (seccomp(2)) need no privilege. Where
//! the kernel lacks a part, the rest holds, and a warning names the missing one.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::kernel::{LANDLOCK_DENIED, landlock};
use crate::place::Place;
use crate::system_calls::{self, Further};

/// Why there is no sandbox although one is wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// Only the calling thread would be in it.
    #[error("{count} threads run already: they would be outside the sandbox")]
    Threads {
        /// Including the caller's.
        count: usize,
    },
    /// What is to be within reach cannot be opened.
    #[error(
        "the sandbox cannot be entered: {}: {error}; name another path, or --sandbox off does \
         without it", path.display()
    )]
    Unreachable {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        error: Arc<io::Error>,
    },
    /// The kernel has it and refuses.
    #[error("the sandbox cannot be entered ({what}): {why}; --sandbox off does without it")]
    Refused {
        /// Which part.
        what: &'static str,
        /// The kernel's error.
        why: String,
    },
    /// The kernel has it, and a policy denies a call on the way in.
    #[error("no Landlock: {}", LANDLOCK_DENIED)]
    Denied,
    /// A part is missing, and a whole one is required.
    #[error("{why}; --sandbox on does with what there is")]
    NotWhole {
        /// What is missing.
        why: String,
    },
}

impl From<RulesetError> for SandboxError {
    fn from(error: RulesetError) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(each) = cause {
            let number = each
                .downcast_ref::<io::Error>()
                .and_then(io::Error::raw_os_error);
            if matches!(number, Some(libc::EPERM | libc::ENOSYS)) {
                return Self::Denied;
            }
            cause = each.source();
        }
        refused(error)
    }
}

/// Whether a run is in a sandbox.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Confined {
    /// What holds, such as `landlock`, `seccomp`.
    pub holds: Vec<&'static str>,
    /// What does not, with the reason.
    pub missing: Vec<String>,
    /// What this run may do beside, since it has to.
    pub allowed: Vec<&'static str>,
}

impl Confined {
    /// A sentence for the user, if the sandbox is not whole.
    pub fn shortfall(&self) -> Option<String> {
        let missing = self.missing.join("; ");
        (!missing.is_empty()).then(|| format!("the sandbox is not whole: {missing}"))
    }
}

/// A sandbox that is being described. What may be written is open when it is named: whoever drops
/// privileges before entering may no longer look its path up. What may be read, which may be
/// thousands of files, is looked up on entering: by a user who may read it.
#[derive(Debug, Default, Clone)]
pub struct Sandbox {
    read: Vec<PathBuf>,
    read_below: Vec<PathBuf>,
    write: Vec<(Arc<OwnedFd>, BitFlags<AccessFs>)>,
    /// What could not be opened.
    unreachable: Option<(PathBuf, Arc<io::Error>)>,
    connect_to: Ports,
    listen_at: Ports,
    further: Further,
    is_required: bool,
}

/// Ports of TCP.
#[derive(Debug, Clone)]
enum Ports {
    These(Vec<u16>),
    All,
}

impl Default for Ports {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

impl Ports {
    fn add(&mut self, port: u16) {
        if let Self::These(ports) = self {
            ports.push(port);
        }
    }

    fn limited(&self) -> Option<&[u16]> {
        match self {
            Self::These(ports) => Some(ports),
            Self::All => None,
        }
    }
}

/// The latest that this program knows; an older kernel enforces what it has of it.
const KNOWN: ABI = ABI::V6;

/// Read whoever runs it: facts about the machine and this process, and time zones. Of `/proc` and
/// `/sys` nothing else: what the kernel's symbols are, and what belongs to other processes, is for
/// nobody who took over a parser.
const READ_ALWAYS: [&str; 13] = [
    OWN_FACTS,
    "/proc/cpuinfo",
    "/proc/locks",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/clocksource",
    "/sys/devices/system/cpu",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/null",
];
const OWN_FACTS: &str = "/proc/self";

impl Sandbox {
    /// One in which nothing can be opened but facts about the machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// A file may be read, or everything below a folder, and what links in it lead to.
    pub fn may_read(mut self, path: &Path) -> Self {
        self.read.push(path.to_owned());
        self
    }

    /// Everything below a folder may be read, but not what links in it lead to: whoever made the
    /// folder may have made these too.
    pub fn may_read_below(mut self, folder: &Path) -> Self {
        self.read_below.push(folder.to_owned());
        self
    }

    /// Everything below a folder may be read, made, written and removed.
    pub fn may_write_below(self, folder: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = openat(CWD, folder, flags, Mode::empty());
        self.with(folder, opened.map_err(io::Error::from), may_write())
    }

    /// The same of a folder that is open.
    pub fn may_write_in(self, place: &Place) -> Self {
        self.with_folder(place, may_write())
    }

    /// A file that is there may be written. What is not there cannot be made, and a folder, named
    /// by mistake, is none.
    pub fn may_write(self, file: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = openat(CWD, file, flags, Mode::empty()).map_err(io::Error::from);
        let facts = opened.as_ref().ok().and_then(|file| fstat(file).ok());
        if facts.is_some_and(|facts| FileType::from_raw_mode(facts.st_mode).is_dir()) {
            return self;
        }
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
        self.with(file, opened, access)
    }

    /// Files in an open folder may be removed: for a process that does nothing else.
    pub(crate) fn may_remove_files_in(self, place: &Place) -> Self {
        self.with_folder(place, AccessFs::RemoveFile.into())
    }

    /// The same of folders that are empty.
    pub(crate) fn may_remove_folders_in(self, place: &Place) -> Self {
        self.with_folder(place, AccessFs::RemoveDir.into())
    }

    /// What is in an open folder may be read.
    pub(crate) fn may_read_in(self, place: &Place) -> Self {
        self.with_folder(place, AccessFs::ReadFile | AccessFs::ReadDir)
    }

    fn with_folder(self, place: &Place, access: BitFlags<AccessFs>) -> Self {
        let folder = place.file().try_clone().map(OwnedFd::from);
        self.with(place.path(), folder, access)
    }

    fn with(
        mut self,
        path: &Path,
        opened: io::Result<OwnedFd>,
        access: BitFlags<AccessFs>,
    ) -> Self {
        match opened {
            // Of `/dev/fd/63` there is nothing to allow, if that is a pipe.
            Ok(folder) if is_by_descriptor(path) && !takes_rules(&folder) => {}
            Ok(folder) => self.write.push((Arc::new(folder), access)),
            // What is not there cannot be opened anyway.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let unreachable = || (path.to_owned(), Arc::new(error));
                self.unreachable.get_or_insert_with(unreachable);
            }
        }
        self
    }

    /// Symbolic links, FIFOs and sockets may be made where files may, and times set of files that
    /// are open.
    pub fn may_make_trees(mut self) -> Self {
        self.further.trees = true;
        self
    }

    /// Processes may be looked up and ended, by descriptors: for a process that does nothing else.
    pub(crate) fn may_end_processes(mut self) -> Self {
        self.further.signals = true;
        self.may_read(Path::new("/proc"))
    }

    /// Files that can be opened may be given away: for a process that does nothing else.
    pub(crate) fn may_give_files(mut self) -> Self {
        self.further.giving = true;
        self
    }

    /// Maps of BPF that are open may be read and written. Nothing can be loaded.
    pub fn may_use_open_maps(mut self) -> Self {
        self.further.maps = true;
        self
    }

    /// What becomes of links may be asked of the kernel, by rtnetlink.
    pub fn may_ask_about_links(mut self) -> Self {
        self.further.links = true;
        self
    }

    /// Connections to sockets in the file system may be opened, for which Landlock has no rules:
    /// for a process that does nothing else.
    pub fn may_connect_to_files(mut self) -> Self {
        self.further.files = true;
        self
    }

    /// TCP connections to this port may be opened.
    pub fn may_connect(mut self, port: u16) -> Self {
        self.further.streams = true;
        self.connect_to.add(port);
        // A socket that only its address was chosen for.
        self.listen_at.add(0);
        self
    }

    /// TCP connections to all ports may be opened: which they are, only a server says.
    pub fn may_connect_everywhere(mut self) -> Self {
        self.further.streams = true;
        self.connect_to = Ports::All;
        self.listen_at.add(0);
        self
    }

    /// TCP connections to this port of ours may be accepted; 0 is one that the kernel chooses.
    pub fn may_listen(mut self, port: u16) -> Self {
        (self.further.streams, self.further.listens) = (true, true);
        match port {
            0 => self.listen_at = Ports::All,
            port => self.listen_at.add(port),
        }
        self
    }

    /// To enter it fails unless all of it holds.
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// UDP sockets may be opened. Landlock has no rule for what they reach.
    pub fn may_use_datagrams(mut self) -> Self {
        self.further.datagrams = true;
        self
    }

    /// From now on this process is in it, with all threads that it will have. It must have none but
    /// the caller's.
    pub fn enter(self) -> Result<Confined, SandboxError> {
        let count = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if count != 1 {
            return Err(SandboxError::Threads { count });
        }
        keep_own_facts();
        let mut confined = Confined::default();
        match self.restrict() {
            Ok(RulesetStatus::FullyEnforced) => confined.holds.push("landlock"),
            Ok(RulesetStatus::PartiallyEnforced) => {
                confined.holds.push("landlock");
                let why = "this kernel's Landlock is older than 6.12: not all of it is enforced";
                confined.missing.push(why.to_owned());
            }
            Err(denied @ SandboxError::Denied) => confined.missing.push(denied.to_string()),
            Err(other) => return Err(other),
            Ok(RulesetStatus::NotEnforced) => {
                let why = landlock().err().unwrap_or("it is not enforced");
                confined.missing.push(format!("no Landlock: {why}"));
            }
        }
        match system_calls::restrict(&self.further) {
            Ok(()) => confined.holds.push("seccomp"),
            Err(why) => confined.missing.push(format!("no seccomp: {why}")),
        }
        confined.allowed = self.further.words();
        match confined.shortfall().filter(|_| self.is_required) {
            Some(why) => Err(SandboxError::NotWhole { why }),
            None => Ok(confined),
        }
    }

    /// The rules for files, each made when its turn comes: a capture names thousands of files, and
    /// each takes a descriptor until its rule is added.
    fn rules(&self) -> impl Iterator<Item = Result<PathBeneath<OwnedFd>, SandboxError>> {
        // Of facts about the machine, what cannot be opened is not read either.
        let always = { READ_ALWAYS.iter() }.filter_map(|path| rule(Path::new(path)).ok()?);
        let read = self.read.iter().map(|path| (path, true));
        let read = read.chain(self.read_below.iter().map(|path| (path, false)));
        let write = self.write.iter().map(|(folder, access)| {
            let folder = folder.try_clone().map_err(refused)?;
            Ok(PathBeneath::new(folder, *access))
        });
        { always.map(|(rule, _)| Ok(rule)) }
            .chain(read.flat_map(|(path, with_links)| readable(path, with_links)))
            .chain(write)
    }

    fn restrict(&self) -> Result<RulesetStatus, SandboxError> {
        if let Some((path, error)) = &self.unreachable {
            return Err(unreachable(path, Arc::clone(error)));
        }
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?;
        let of_network = self.of_network();
        for (access, _) in &of_network {
            ruleset = ruleset.handle_access(*access)?;
        }
        let scope = match self.further.signals {
            true => Scope::from_all(KNOWN) & !Scope::Signal,
            false => Scope::from_all(KNOWN),
        };
        let ports = of_network.into_iter().flat_map(|(access, ports)| {
            let rules = ports.iter().map(move |&port| NetPort::new(port, access));
            rules.map(Ok::<_, RulesetError>)
        });
        let created = ruleset.scope(scope)?.create()?.add_rules(self.rules())?;
        Ok(created.add_rules(ports)?.restrict_self()?.ruleset)
    }

    /// What is limited of TCP, and to which ports.
    fn of_network(&self) -> Vec<(AccessNet, &[u16])> {
        let connect = (AccessNet::ConnectTcp, self.connect_to.limited());
        let bind = (AccessNet::BindTcp, self.listen_at.limited());
        let limited = |(access, ports): (_, Option<_>)| Some((access, ports?));
        [connect, bind].into_iter().filter_map(limited).collect()
    }
}

/// Keeps what the kernel made of this process's own folder in `/proc`: were it to forget that, for
/// want of memory, and make it anew, the rule would be of the one before.
fn keep_own_facts() {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    if let Ok(folder) = openat(CWD, OWN_FACTS, flags, Mode::empty()) {
        let _ = folder.into_raw_fd();
    }
}

/// What writing below a folder takes: all but making devices, and executing.
fn may_write() -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    AccessFs::from_all(KNOWN) & !AccessFs::Execute & !devices
}

fn unreachable(path: &Path, error: Arc<io::Error>) -> SandboxError {
    SandboxError::Unreachable {
        path: path.to_owned(),
        error,
    }
}

fn refused(error: impl Display) -> SandboxError {
    SandboxError::Refused {
        what: "Landlock",
        why: error.to_string(),
    }
}

/// The rules that a path may be read, and what links in it lead to, if it is a folder. A link that
/// leads to what cannot be opened opens nothing.
fn readable(
    path: &Path,
    with_links: bool,
) -> impl Iterator<Item = Result<PathBeneath<OwnedFd>, SandboxError>> {
    let found = rule(path).map_err(|error| unreachable(path, Arc::new(error.into())));
    let has_links = with_links && matches!(&found, Ok(Some((_, true))));
    let entries = has_links.then(|| fs::read_dir(path).ok()).flatten();
    let links = { entries.into_iter().flatten().flatten() }
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
        .filter_map(|link| rule(&link.path()).ok()?)
        .map(Ok);
    let all = found.transpose().into_iter().chain(links);
    all.map(|found| found.map(|(rule, _)| rule))
}

/// The rule that a path may be read, and whether it is a folder; a file has no rights of one.
/// `None`: it is not there, and cannot be opened anyway.
fn rule(path: &Path) -> Result<Option<(PathBeneath<OwnedFd>, bool)>, Errno> {
    let access = AccessFs::from_read(KNOWN) & !AccessFs::Execute;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    if is_by_descriptor(path) && !takes_rules(&place) {
        return Ok(None);
    }
    let kind = FileType::from_raw_mode(fstat(&place)?.st_mode);
    let of_file = access & AccessFs::from_file(KNOWN);
    Ok(Some(match kind {
        FileType::Directory => (PathBeneath::new(place, access), true),
        _ => (PathBeneath::new(place, of_file), false),
    }))
}

fn is_by_descriptor(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

/// Whether there are rules for a file: pipes, sockets and others without a place in the file system
/// are beyond Landlock, and adding a rule for one is an error.
fn takes_rules(place: &OwnedFd) -> bool {
    let read = AccessFs::ReadFile;
    let tried = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(read)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rule(PathBeneath::new(place, read)));
    tried.is_ok()
}

/// Closes what this process inherited beyond its three standard streams, but for the descriptors
/// that `words` of its command line name (`/dev/fd/63`, which a shell makes of `<(...)`). To be
/// called first of all: nothing is open yet.
pub fn close_inherited(words: impl Iterator<Item = OsString>) {
    let number = |word: OsString| {
        let word = word.into_string().ok()?;
        let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|start| {
            let (_, rest) = word.split_once(start)?;
            rest.split(|char: char| !char.is_ascii_digit()).next()
        });
        number?.parse::<i32>().ok()
    };
    let named: Vec<_> = words.filter_map(number).collect();
    let open = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let open = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for inherited in open.collect::<Vec<_>>() {
        if inherited > 2 && !named.contains(&inherited) {
            // SAFETY: nothing in this process owns a descriptor above 2 yet. The one of the listing
            // is closed already, which is no error that matters.
            unsafe { libc::close(inherited) };
        }
    }
}
