//! What the process may do of what live ports need, and dropping it for good. Namespaces, which
//! grant privileges of their own, are in `namespaces`.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, accessat, fchown, fstat};
use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getgroups, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::folder_error::FolderError;

/// The user `nobody`, which owns nothing, and its group.
const NOBODY: u32 = 65_534;

/// The user that the package makes for this program alone. As `nobody`, a process could send
/// signals to, and trace, whatever else runs as that.
const OWN_USER: &str = "lineside";

/// What a live port may need of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// AF_PACKET and AF_XDP sockets.
    NetRaw,
    /// Attaching an XDP program.
    NetAdmin,
    /// Loading a program and making its maps.
    Bpf,
    /// Locking more memory than the limit allows.
    IpcLock,
    /// Reading files and folders of others.
    DacReadSearch,
    /// Writing into folders of others.
    DacOverride,
    /// Giving files away.
    Chown,
    /// Ending processes of others.
    Kill,
    /// Listening at ports below 1,024.
    NetBindService,
    /// Running before all normal threads.
    SysNice,
}

impl Capability {
    /// Such as `CAP_NET_RAW`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetRaw => "CAP_NET_RAW",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::Bpf => "CAP_BPF",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::Chown => "CAP_CHOWN",
            Self::Kill => "CAP_KILL",
            Self::NetBindService => "CAP_NET_BIND_SERVICE",
            Self::SysNice => "CAP_SYS_NICE",
        }
    }

    fn set(self) -> CapabilitySet {
        match self {
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::Bpf => CapabilitySet::BPF,
            Self::IpcLock => CapabilitySet::IPC_LOCK,
            Self::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Self::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Self::Chown => CapabilitySet::CHOWN,
            Self::Kill => CapabilitySet::KILL,
            Self::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Self::SysNice => CapabilitySet::SYS_NICE,
        }
    }

    /// Held in another user namespace, the kernel does not count these.
    fn is_of_first_namespace(self) -> bool {
        matches!(self, Self::Bpf | Self::IpcLock)
    }
}

/// Why something may not be done, or privileges not dropped. Each has the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivilegeError {
    /// The file lacks them, and giving them to it helps.
    #[error(
        "no {}: run it as root, or give '{}' what it needs, once:\n  {}",
        names(missing), program.display(), setcap_line(wanted, program)
    )]
    Missing {
        /// What is not held.
        missing: Vec<Capability>,
        /// All that is needed: a file is given everything at once.
        wanted: Vec<Capability>,
        /// The file that runs.
        program: PathBuf,
    },
    /// Held or not, they do not count here.
    #[error(
        "no {}: in a user namespace that does not count, also for its root; \
         AF_PACKET with classic filters works here",
        names(missing)
    )]
    Namespace {
        /// What is not held.
        missing: Vec<Capability>,
    },
    /// Neither root nor a file's capabilities would help.
    #[error(
        "no {}, and this process may not gain it ({why}): start it where it may; \
         a container, for instance, with --cap-add",
        names(missing)
    )]
    Barred {
        /// What is not held.
        missing: Vec<Capability>,
        /// What stands in the way.
        why: &'static str,
    },
    /// Only the calling thread's privileges could be dropped.
    #[error("{count} threads run already: their privileges would stay")]
    Threads {
        /// Including the caller's.
        count: usize,
    },
    /// The run folder cannot be given to the user that the process becomes.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The operating system refused.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The error of the system call.
        error: io::Error,
    },
}

fn names(capabilities: &[Capability]) -> String {
    let names: Vec<_> = capabilities.iter().map(|each| each.name()).collect();
    names.join(", ")
}

/// A line for a shell.
fn setcap_line(wanted: &[Capability], program: &Path) -> String {
    let names: Vec<_> = { wanted.iter() }
        .map(|capability| capability.name().to_lowercase())
        .collect();
    let program = program.display().to_string().replace('\'', r"'\''");
    format!("sudo setcap {}=ep '{program}'", names.join(","))
}

/// What this process may do.
#[derive(Debug, Clone)]
pub struct Privileges {
    effective: CapabilitySet,
    in_first_namespace: bool,
}

impl Privileges {
    /// Asks the kernel about the calling thread.
    pub fn read() -> Result<Self, PrivilegeError> {
        let sets = capabilities(None).map_err(cannot("read the capabilities"))?;
        let namespace = fs::read_link("/proc/self/ns/user");
        Ok(Self {
            effective: sets.effective,
            // PROC_USER_INIT_INO of include/linux/proc_ns.h. Without a /proc, assume the best.
            in_first_namespace: namespace
                .map_or(true, |link| link.as_os_str() == "user:[4026531837]"),
        })
    }

    /// Whether the capability is effective, and counts in the user namespace of this process.
    pub fn holds(&self, capability: Capability) -> bool {
        self.effective.contains(capability.set())
            && (self.in_first_namespace || !capability.is_of_first_namespace())
    }

    /// Whether this is the user namespace that the machine started with.
    pub fn in_first_namespace(&self) -> bool {
        self.in_first_namespace
    }

    /// Reports what of `wanted` is missing, and how to come by it.
    pub fn require(&self, wanted: &[Capability]) -> Result<(), PrivilegeError> {
        let missing: Vec<_> = { wanted.iter().copied() }
            .filter(|&capability| !self.holds(capability))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        if !self.in_first_namespace && missing.iter().any(|each| each.is_of_first_namespace()) {
            return Err(PrivilegeError::Namespace { missing });
        }
        let is_bounded = |&capability: &Capability| {
            !capability_is_in_bounding_set(capability.set()).unwrap_or(true)
        };
        if missing.iter().any(is_bounded) {
            let why = "not in its bounding set";
            return Err(PrivilegeError::Barred { missing, why });
        }
        if no_new_privs().unwrap_or(false) {
            let why = "no_new_privs is set";
            return Err(PrivilegeError::Barred { missing, why });
        }
        Err(PrivilegeError::Missing {
            missing,
            wanted: wanted.to_vec(),
            program: std::env::current_exe().unwrap_or_else(|_| "lineside".into()),
        })
    }
}

/// The user that this process acts as.
pub fn user() -> u32 {
    geteuid().as_raw()
}

/// Whether this process may read the file at `path`, as far as its permissions say: opening it may
/// fail all the same.
pub fn may_read(path: &Path) -> bool {
    accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_ok()
}

/// What [`drop_privileges`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The user that the process is from now on.
    pub user: u32,
    /// It is root of a user namespace in which no other user exists, and stays that, without
    /// capabilities.
    pub is_namespace_root: bool,
}

/// A folder that goes to the user that root becomes.
pub trait Heirloom {
    /// Makes a user its owner. With `is_lent` not for good.
    fn give_to(&self, to: (Uid, Gid), is_lent: bool) -> Result<(), FolderError>;
}

/// Gives up every privilege for good: all sets of capabilities, and what the execution of another
/// program could gain. Root becomes the user that called sudo, without other groups; `folder` with
/// what is in it, and those of `files` that are files, are given to that user first. Root that
/// nobody called becomes `lineside`, the package's user, or where that is not there `nobody`:
/// `files` stay root's, and so does `folder`, which is that user's while the run writes it.
///
/// To be called when everything is open and before there is another thread. The bounding set is
/// left where it may not be changed; without new privileges it means nothing.
pub fn drop_privileges(
    folder: Option<&dyn Heirloom>,
    files: &[BorrowedFd<'_>],
) -> Result<Dropped, PrivilegeError> {
    drop_all_but(&[], folder, files)
}

/// As [`drop_privileges`], without a folder, and keeps one capability as far as it is held: for a
/// process whose sandbox says what that reaches.
pub fn drop_privileges_but(kept: Capability) -> Result<Dropped, PrivilegeError> {
    drop_all_but(&[kept], None, &[])
}

fn drop_all_but(
    kept: &[Capability],
    folder: Option<&dyn Heirloom>,
    files: &[BorrowedFd<'_>],
) -> Result<Dropped, PrivilegeError> {
    refuse_threads()?;
    let held = capabilities(None).map_err(cannot("read the capabilities"))?;
    let kept = { kept.iter() }.fold(CapabilitySet::empty(), |all, each| all | each.set());
    let kept = kept & held.permitted;
    let heir = heir();
    let is_lent = heir.is_some_and(|heir| stand_ins().contains(&heir));
    empty_bounding_set()?;
    // Ends with the first program that this process executes, as `no_new_privs` has it anyway.
    set_keep_capabilities(!kept.is_empty()).map_err(cannot("keep a capability"))?;
    if let Some((user, group)) = heir {
        if let Some(folder) = folder {
            folder.give_to((user, group), is_lent)?;
        }
        for file in files.iter().filter(|_| !is_lent) {
            give(*file, user, group).map_err(cannot("give a file to the user"))?;
        }
        set_thread_groups(&[]).map_err(cannot("leave the groups"))?;
        set_thread_res_gid(group, group, group).map_err(cannot("change the group"))?;
        set_thread_res_uid(user, user, user).map_err(cannot("change the user"))?;
    }
    clear_ambient_capability_set().map_err(cannot("clear the ambient capabilities"))?;
    let left = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, left).map_err(cannot("drop the capabilities"))?;
    set_no_new_privs(true).map_err(cannot("renounce new privileges"))?;
    assert_eq!(capabilities(None), Ok(left), "no other capability is left");
    if let Some((user, group)) = heir {
        assert_eq!((geteuid(), getegid()), (user, group), "no longer root");
    }
    Ok(Dropped {
        user: getuid().as_raw(),
        is_namespace_root: geteuid().is_root(),
    })
}

/// Does something with the permissions that are left after [`drop_privileges`], and takes the
/// others back. To be called before there is another thread.
pub fn without_privileges<T>(work: impl FnOnce() -> T) -> Result<T, PrivilegeError> {
    refuse_threads()?;
    let held = capabilities(None).map_err(cannot("read the capabilities"))?;
    let (user, group) = (geteuid(), getegid());
    let groups = getgroups().map_err(cannot("read the groups"))?;
    let heir = heir();
    if let Some((user, group)) = heir {
        set_thread_groups(&[]).map_err(cannot("leave the groups"))?;
        set_thread_res_gid(None, group, None).map_err(cannot("change the group"))?;
        set_thread_res_uid(None, user, None).map_err(cannot("change the user"))?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        ..held
    };
    set_capabilities(None, none).map_err(cannot("leave the capabilities"))?;
    let done = work();
    if heir.is_some() {
        // As root's again, the capabilities are effective.
        set_thread_res_uid(None, user, None).map_err(cannot("be the user again"))?;
    }
    set_capabilities(None, held).map_err(cannot("take the capabilities back"))?;
    if heir.is_some() {
        set_thread_res_gid(None, group, None).map_err(cannot("be the group again"))?;
        set_thread_groups(&groups).map_err(cannot("join the groups again"))?;
    }
    Ok(done)
}

/// Gives up every capability but `kept`, for good, and what the execution of another program could
/// gain; the user stays. To be called before there is another thread.
pub fn keep_capabilities(kept: &[Capability]) -> Result<(), PrivilegeError> {
    keep_as(None, kept)
}

/// The same as the user that called sudo, to whom belongs what is made from now on.
pub fn keep_capabilities_of_caller(kept: &[Capability]) -> Result<(), PrivilegeError> {
    keep_as(caller_of_sudo(), kept)
}

fn keep_as(caller: Option<(Uid, Gid)>, kept: &[Capability]) -> Result<(), PrivilegeError> {
    refuse_threads()?;
    let held = capabilities(None).map_err(cannot("read the capabilities"))?;
    empty_bounding_set()?;
    if let Some((user, group)) = caller {
        // Ends with the first program that this process executes, as `no_new_privs` has it anyway.
        set_keep_capabilities(true).map_err(cannot("keep a capability"))?;
        set_thread_groups(&[]).map_err(cannot("leave the groups"))?;
        set_thread_res_gid(group, group, group).map_err(cannot("change the group"))?;
        set_thread_res_uid(user, user, user).map_err(cannot("change the user"))?;
    }
    clear_ambient_capability_set().map_err(cannot("clear the ambient capabilities"))?;
    let kept = { kept.iter() }.fold(CapabilitySet::empty(), |all, each| all | each.set());
    let sets = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(cannot("drop the capabilities"))?;
    set_no_new_privs(true).map_err(cannot("renounce new privileges"))
}

pub(crate) fn refuse_threads() -> Result<(), PrivilegeError> {
    let threads = fs::read_dir("/proc/self/task").map_err(|error| PrivilegeError::Io {
        action: "count the threads",
        error,
    })?;
    match threads.count() {
        1 => Ok(()),
        count => Err(PrivilegeError::Threads { count }),
    }
}

/// Where it may.
fn empty_bounding_set() -> Result<(), PrivilegeError> {
    let held = capabilities(None).map_err(cannot("read the capabilities"))?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        // The first number that the kernel does not know is the end.
        let all = (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number));
        for capability in all.take_while(|&all| capability_is_in_bounding_set(all).is_ok()) {
            let removed = remove_capability_from_bounding_set(capability);
            removed.map_err(cannot("empty the bounding set"))?;
        }
    }
    Ok(())
}

/// What a child does between fork and exec to have no privilege: it gives up what
/// [`drop_privileges`] does, as far as the process that started it has not. Only system calls are
/// made then: all else is found out before.
pub(crate) fn renounce() -> impl Fn() -> io::Result<()> + Send + Sync {
    let heir = heir();
    move || {
        if let Some((user, group)) = heir {
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
        }
        clear_ambient_capability_set()?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none)?;
        // Without new privileges, root of a user namespace gains none by exec either.
        Ok(set_no_new_privs(true)?)
    }
}

/// What a process does to keep one privilege alone, for good, as the user that
/// [`drop_privileges`] makes of root.
pub(crate) fn keep_only(capability: Capability) -> impl Fn() -> io::Result<()> {
    let heir = heir();
    move || {
        if let Some((user, group)) = heir {
            set_keep_capabilities(true)?;
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
        }
        clear_ambient_capability_set()?;
        let one = CapabilitySets {
            effective: capability.set(),
            permitted: capability.set(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, one)?;
        Ok(set_no_new_privs(true)?)
    }
}

fn cannot(action: &'static str) -> impl Fn(rustix::io::Errno) -> PrivilegeError {
    move |error| PrivilegeError::Io {
        action,
        error: error.into(),
    }
}

/// The user that root becomes; `None` for a process that is not root, and where that user does not
/// exist.
pub fn heir() -> Option<(Uid, Gid)> {
    if !geteuid().is_root() {
        return None;
    }
    caller_of_sudo().or_else(|| stand_ins().into_iter().find(is_mapped))
}

/// The user for whom this process is root: that of sudo, or of a set-user-ID file. `None` for a
/// process that is not root, or whose own root is.
pub fn caller_of_sudo() -> Option<(Uid, Gid)> {
    if !geteuid().is_root() {
        return None;
    }
    let id = |name| -> Option<u32> {
        let id = std::env::var(name).ok()?.parse().ok()?;
        (id != 0 && id != u32::MAX).then_some(id)
    };
    // Of a set-user-ID file its user goes on, whatever the environment holds.
    let own = (!getuid().is_root()).then(|| (getuid(), getgid()));
    let sudo = { id("SUDO_UID").zip(id("SUDO_GID")) }
        .map(|(user, group)| (Uid::from_raw(user), Gid::from_raw(group)));
    own.or(sudo).filter(is_mapped)
}

/// The user of this name, and its group, that processes of root can be.
pub fn other_user(name: &str) -> Result<(u32, u32), String> {
    if !geteuid().is_root() {
        return Err("root alone runs programs as another user: sudo, or leave it out".to_owned());
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = user_named(&users, name)
        .ok_or_else(|| format!("/etc/passwd has no user '{name}', or it is root"))?;
    match is_mapped(&(Uid::from_raw(user.0), Gid::from_raw(user.1))) {
        true => Ok(user),
        false => Err(format!("this user namespace has no user '{name}'")),
    }
}

/// The users that root becomes if nobody called it, the first that there is.
fn stand_ins() -> Vec<(Uid, Gid)> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let own = user_named(&users, OWN_USER);
    { own.into_iter().chain([(NOBODY, NOBODY)]) }
        .map(|(user, group)| (Uid::from_raw(user), Gid::from_raw(group)))
        .collect()
}

/// Whether files of this user are lent to a run of root's.
pub(crate) fn is_stand_in(user: u32) -> bool {
    stand_ins()
        .iter()
        .any(|(stand_in, _)| stand_in.as_raw() == user)
}

/// User and group of a line of passwd(5), which are never root's.
fn user_named(users: &str, name: &str) -> Option<(u32, u32)> {
    let mut lines = users.lines().map(|line| line.split(':'));
    let mut fields =
        lines.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    fields.next()?;
    let mut id = || {
        fields
            .next()?
            .parse::<u32>()
            .ok()
            .filter(|&id| id != 0 && id != u32::MAX)
    };
    id().zip(id())
}

fn is_mapped(&(user, group): &(Uid, Gid)) -> bool {
    let exists = |map: &str, id| fs::read_to_string(map).map_or(true, |map| maps(&map, id));
    exists("/proc/self/uid_map", user.as_raw()) && exists("/proc/self/gid_map", group.as_raw())
}

/// Whether a map of user_namespaces(7), lines of `inside outside count`, has an id.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(inside)), Some(_), Some(Ok(count))) => {
                id.checked_sub(inside).is_some_and(|offset| offset < count)
            }
            _ => false,
        }
    })
}

/// Terminals, pipes and devices keep their owner.
fn give(file: BorrowedFd<'_>, user: Uid, group: Gid) -> rustix::io::Result<()> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => fchown(file, Some(user), Some(group)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_as_the_kernel_writes_them() {
        let whole = "         0          0 4294967295\n";
        let narrow = "0 1000 1\n65534 65534 1\n";
        assert!(maps(whole, 0) && maps(whole, NOBODY));
        assert!(maps(narrow, 0) && maps(narrow, NOBODY));
        assert!(!maps(narrow, 1) && !maps("0 1000 1\n", NOBODY) && !maps("", 0));
    }

    #[test]
    fn the_packages_user_is_found_and_is_never_root() {
        let users = "root:x:0:0:root:/root:/bin/bash\nlineside2:x:7:7::/:\n\
                     lineside:x:988:987:Lineside:/var/lib/lineside:/usr/sbin/nologin\n";
        assert_eq!(user_named(users, OWN_USER), Some((988, 987)));
        for without in [
            "",
            "nobody:x:65534:65534::/:\n",
            "lineside:x:0:987::/:\n",
            "lineside:x:988:0::/:\n",
            "lineside:x:988\n",
            "lineside\n",
            "lineside:x:-1:5::/:\n",
        ] {
            assert_eq!(user_named(without, OWN_USER), None, "{without}");
        }
    }

    #[test]
    fn missing_things_are_named_with_a_remedy() {
        let privileges = |effective, in_first_namespace| Privileges {
            effective,
            in_first_namespace,
        };
        let all = [Capability::NetRaw, Capability::NetAdmin, Capability::Bpf];
        let root = privileges(CapabilitySet::all(), true);
        assert!(root.require(&all).is_ok());
        let namespaced = privileges(CapabilitySet::all(), false);
        assert!(namespaced.require(&all[..2]).is_ok());
        let error = namespaced.require(&all).expect_err("does not count");
        assert!(
            error
                .to_string()
                .starts_with("no CAP_BPF: in a user namespace")
        );
        let error = PrivilegeError::Missing {
            missing: vec![Capability::Bpf],
            wanted: all.to_vec(),
            program: "/it's/lineside".into(),
        };
        assert_eq!(
            error.to_string(),
            "no CAP_BPF: run it as root, or give '/it's/lineside' what it needs, once:\n  \
             sudo setcap cap_net_raw,cap_net_admin,cap_bpf=ep '/it'\\''s/lineside'"
        );
    }
}
