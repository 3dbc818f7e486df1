//! What a service says to the service manager that started it: sd_notify(3), a datagram of lines
//! `NAME=value` to the socket that `NOTIFY_SOCKET` names.
//!
//! Without one nothing is sent. The socket is connected once, while it can be reached: later a
//! sandbox may be in the way. A manager that does not read does not block the run.

use std::cell::Cell;
use std::env;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};

/// The service manager, if one asked for notifications.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<OwnedFd>,
    /// Half of the time within which it wants a sign of life.
    beat_every: Option<Duration>,
    next_beat: Cell<Duration>,
    next_status: Cell<Duration>,
}

impl ServiceManager {
    /// The one that the environment names.
    pub fn from_environment() -> Self {
        let text = |name| env::var(name).ok();
        let number = |name| text(name)?.parse::<u64>().ok();
        // It may be meant for the process that started this one.
        let is_ours = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
        let watchdog_us = number("WATCHDOG_USEC").filter(|&us| us > 0 && is_ours);
        Self {
            socket: text("NOTIFY_SOCKET").as_deref().and_then(connected),
            beat_every: watchdog_us.map(|us| Duration::from_micros(us / 2)),
            ..Self::default()
        }
    }

    /// All is open: what this service is for has begun.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// It is about to end, of itself or since it was asked to.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// How it goes, in a line.
    pub fn status(&self, line: &str) {
        if self.socket.is_some() {
            let line = line.lines().next().unwrap_or_default();
            self.send(&format!("STATUS={line}"));
        }
    }

    /// A sign of life, if it is time for one: to be called from the loop that must not stand still,
    /// with the time since it began.
    pub fn beat(&self, elapsed: Duration) {
        if let Some(every) = self.beat_every
            && elapsed >= self.next_beat.get()
        {
            self.next_beat.set(elapsed + every);
            self.send("WATCHDOG=1");
        }
    }

    /// The same, and how it goes once a second.
    pub fn beat_with_status(&self, elapsed: Duration, line: impl FnOnce() -> String) {
        self.beat(elapsed);
        if self.socket.is_some() && elapsed >= self.next_status.get() {
            self.next_status.set(elapsed + Duration::from_secs(1));
            self.status(&line());
        }
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // A sign that is lost is repeated; one that is refused will be.
            let _ = send(socket, text.as_bytes(), flags);
        }
    }
}

/// A socket at a path, or with `@` at an abstract name; others are of machines, not services.
fn connected(name: &str) -> Option<OwnedFd> {
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddrUnix::new_abstract_name(abstract_name.as_bytes()).ok()?,
        None if name.starts_with('/') => SocketAddrUnix::new(name).ok()?,
        None => return None,
    };
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::DGRAM, flags, None).ok()?;
    connect(&socket, &address).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use super::*;

    fn received(listener: &UnixDatagram) -> String {
        let mut room = [0; 256];
        let len = listener.recv(&mut room).expect("a datagram was sent");
        String::from_utf8_lossy(&room[..len]).into_owned()
    }

    #[test]
    fn a_service_manager_hears_signs_of_life() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("bound");
        listener.set_nonblocking(true).expect("set");
        let manager = ServiceManager {
            socket: connected(path.to_str().expect("text")),
            beat_every: Some(Duration::from_secs(1)),
            ..ServiceManager::default()
        };
        manager.ready();
        manager.status("one\nREADY=0");
        assert_eq!(received(&listener), "READY=1");
        assert_eq!(received(&listener), "STATUS=one");
        for ms in [0, 500, 999, 1000, 1001] {
            manager.beat(Duration::from_millis(ms));
        }
        assert_eq!(received(&listener), "WATCHDOG=1");
        assert_eq!(received(&listener), "WATCHDOG=1");
        assert!(listener.recv(&mut [0; 8]).is_err(), "too many beats");
        for ms in [1000, 1999, 2000, 2001] {
            manager.beat_with_status(Duration::from_millis(ms), || ms.to_string());
        }
        assert_eq!(received(&listener), "STATUS=1000");
        assert_eq!(received(&listener), "WATCHDOG=1");
        assert_eq!(received(&listener), "STATUS=2000");
        assert!(listener.recv(&mut [0; 8]).is_err(), "too many lines");
        // One that went away holds nobody up.
        drop(listener);
        manager.stopping();
    }

    #[test]
    fn abstract_sockets_are_found() {
        let name = format!("lineside-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("bound");
        listener.set_nonblocking(true).expect("set");
        let manager = ServiceManager {
            socket: connected(&format!("@{name}")),
            ..ServiceManager::default()
        };
        manager.stopping();
        assert_eq!(received(&listener), "STOPPING=1");
        assert!(connected("vsock:2:1").is_none() && connected("/nowhere/notify").is_none());
    }
}
