//! Network and user namespaces of the process's own, and why there can be none. What is put into a
//! namespace is made by `netlink` and `programs`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities,
    configure_capability_in_ambient_set, move_into_link_name_space, set_capabilities,
    unshare_unsafe,
};

use crate::ports_in_use::ports_in_use;

/// Why there is no namespace of one's own: what was tried, and the setting that forbids it with the
/// way out.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {why}")]
pub struct NamespaceError {
    action: &'static str,
    why: String,
}

impl NamespaceError {
    fn new(action: &'static str, error: Errno) -> Self {
        let setting = |name: &str| {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let is_filtered = status
            .lines()
            .any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
        Self {
            action,
            why: reason(error, &setting, is_filtered),
        }
    }
}

/// What stands in the way, from the settings of sysctl(8) and whether a system call filter is at
/// work.
fn reason(error: Errno, setting: &dyn Fn(&str) -> Option<String>, is_filtered: bool) -> String {
    let settings = [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("user.max_user_namespaces", "0", "10000"),
        ("user.max_net_namespaces", "0", "10000"),
    ];
    for (name, forbidding, allowing) in settings {
        if setting(name).is_some_and(|value| value == forbidding) {
            return format!(
                "{name} is {forbidding}: 'sudo sysctl {name}={allowing}' allows it until the next \
                start, or run this as root"
            );
        }
    }
    let hint = match error {
        Errno::NOSPC | Errno::USERS => {
            ": all that user.max_user_namespaces and user.max_net_namespaces allow are in use"
        }
        Errno::PERM | Errno::ACCESS if is_filtered => {
            ": a filter of system calls is at work, as containers have one; such a container \
            needs --security-opt seccomp=unconfined, \
             or what of it your runtime has, or run this as root outside"
        }
        Errno::PERM | Errno::ACCESS => {
            ": something forbids it that sysctl does not show, such as a security module; run this \
            as root"
        }
        Errno::INVAL | Errno::NOSYS => ": the kernel was built without namespaces",
        _ => "",
    };
    format!("{}{hint}", io::Error::from(error))
}

/// Gains the rights that [`NetNamespace::new`] needs: those of root in a user namespace of this
/// process's own, in which it stays the user that it is. Returns whether it took one; a process
/// that has the privileges already, as root has, keeps the first namespace.
///
/// To be called before there is a second thread.
pub fn enter_user_namespace() -> Result<bool, NamespaceError> {
    let failed = |error| NamespaceError::new("make a user namespace", error);
    if may_make_network_namespaces() {
        return Ok(false);
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: no table of descriptors is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(failed)?;
    // A file with capabilities, or one that only root may read, makes its process's maps root's.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let write = |path: &str, text: String| {
        crate::kernel::set(path, text)
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::PERM)))
    };
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    // user_namespaces(7): without this no process may map groups.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

/// Whether this process has the rights that [`NetNamespace::new`] needs already, as root has.
pub fn may_make_network_namespaces() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    capabilities(None).is_ok_and(|held| held.effective.contains(needed))
}

/// Has programs that are started from now on open raw sockets and low ports, in this user
/// namespace: they would lose these rights otherwise, as they are not root.
pub fn hand_down_network_rights() -> io::Result<()> {
    let rights = CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE;
    let mut sets = capabilities(None)?;
    sets.inheritable |= rights;
    set_capabilities(None, sets)?;
    for right in rights.iter() {
        configure_capability_in_ambient_set(right, true)?;
    }
    Ok(())
}

/// A network namespace of one's own. It lives as long as this, or a process or device in it.
#[derive(Debug)]
pub struct NetNamespace(OwnedFd);

impl NetNamespace {
    /// Makes one, with nothing but a loopback interface that is down, and enters it with the
    /// calling thread.
    pub fn new() -> Result<Self, NamespaceError> {
        let failed = |error| NamespaceError::new("make a network namespace", error);
        // SAFETY: no table of descriptors is unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(failed)?;
        Self::current()
    }

    /// That of the calling thread.
    pub fn current() -> Result<Self, NamespaceError> {
        let failed = |error| NamespaceError::new("open a network namespace", error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty());
        file.map(Self).map_err(failed)
    }

    /// Enters it with the calling thread, and with what that thread starts.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| NamespaceError::new("enter a network namespace", error))
    }
}

impl AsFd for NetNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether a program waits for connections or datagrams in the network namespace of the calling
/// thread.
pub fn something_listens() -> bool {
    ports_in_use().iter().any(|it| it.listens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_is_named() {
        let why = |error, name: &str, value: &str, is_filtered| {
            let setting = |asked: &str| (asked == name).then(|| value.to_owned());
            reason(error, &setting, is_filtered)
        };
        for (name, value) in [
            ("kernel.unprivileged_userns_clone", "0"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1"),
            ("user.max_user_namespaces", "0"),
        ] {
            let text = why(Errno::PERM, name, value, false);
            assert!(
                text.starts_with(&format!("{name} is {value}: 'sudo sysctl {name}=")),
                "{text}"
            );
        }
        let text = why(Errno::NOSPC, "user.max_user_namespaces", "5", false);
        assert!(text.contains("are in use"), "{text}");
        let text = why(Errno::PERM, "kernel.unprivileged_userns_clone", "1", true);
        assert!(text.contains("a filter of system calls"), "{text}");
    }
}
