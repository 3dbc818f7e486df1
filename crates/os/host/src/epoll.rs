//! Readiness of many descriptors at once: epoll(7), without the sharp edges of its call.
//!
//! A descriptor is known by a token of the caller's, which each event carries. The events of one
//! wait lie in a buffer that is allocated once; what finds no room there comes with the next wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::clock::Stopwatch;

/// What a descriptor is watched for. Errors and a peer that hung up are reported in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(EventFlags);

impl Interest {
    /// Nothing but errors and hang-ups.
    pub const NONE: Self = Self(EventFlags::empty());
    /// Bytes to read, a connection to accept, or the peer's end of its bytes.
    pub const READ: Self = Self(EventFlags::IN.union(EventFlags::RDHUP));
    /// Room to write; for a socket that connects, that it has.
    pub const WRITE: Self = Self(EventFlags::OUT);
    /// Both.
    pub const READ_WRITE: Self = Self(Self::READ.0.union(Self::WRITE.0));

    /// Reported when it becomes so, and not again while it stays so: the code that takes an event
    /// reads or writes until `WouldBlock`.
    #[must_use]
    pub const fn on_edge(self) -> Self {
        Self(self.0.union(EventFlags::ET))
    }

    /// Reported once; then [`Epoll::modify`] arms it anew.
    #[must_use]
    pub const fn once(self) -> Self {
        Self(self.0.union(EventFlags::ONESHOT))
    }
}

/// The events of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// As it was given with the descriptor.
    pub token: u64,
    /// A read does not block: there are bytes, the peer's end of them, or an error.
    pub is_readable: bool,
    /// A write does not block: there is room, or an error.
    pub is_writable: bool,
    /// The peer sends no more.
    pub has_peer_closed: bool,
    /// There is an error to take, or both directions are shut.
    pub has_failed: bool,
}

impl Ready {
    fn new(event: &epoll::Event) -> Self {
        // The structure is packed: its fields are copied out.
        let (flags, data) = (event.flags, event.data);
        let has_failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let has_peer_closed = flags.intersects(EventFlags::RDHUP | EventFlags::HUP);
        Self {
            token: data.u64(),
            is_readable: flags.contains(EventFlags::IN) || has_peer_closed || has_failed,
            is_writable: flags.contains(EventFlags::OUT) || has_failed,
            has_peer_closed,
            has_failed,
        }
    }
}

/// Watches descriptors.
pub struct Epoll {
    epoll: OwnedFd,
    /// Its capacity is never exceeded.
    events: Vec<epoll::Event>,
}

impl Epoll {
    /// Watches nothing yet; one wait returns at most `events_max` events.
    ///
    /// Fails with `Unsupported` before Linux 5.11, which has no timeouts of nanoseconds.
    pub fn new(events_max: usize) -> io::Result<Self> {
        let mut this = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(events_max.max(1)),
        };
        let probe = this.wait(Some(0)).map(drop);
        match probe {
            Ok(()) => Ok(this),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel has no epoll_pwait2: Linux 5.11 or later has, \
                 and a container's filter of system calls must allow it",
            )),
            Err(error) => Err(error),
        }
    }

    /// Watches one more descriptor. It is forgotten when it is closed and was never duplicated.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, descriptor, data, interest.0)?)
    }

    /// Watches it for something else, or under another token. An edge that is there already is
    /// reported again.
    pub fn modify(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, descriptor, data, interest.0)?)
    }

    /// Watches it no longer. Events of it that the last wait returned may still be in the caller's
    /// hands.
    pub fn delete(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until something is ready, for at most this many nanoseconds; `Some(0)` looks and does
    /// not wait, `None` waits for ever. A signal ends it early, with no events.
    ///
    /// The kernel's timer adds up to the thread's timer slack, 50 us by default (prctl(2)), unless
    /// the thread is of SCHED_FIFO.
    pub fn wait(
        &mut self,
        timeout_ns: Option<u64>,
    ) -> io::Result<impl ExactSizeIterator<Item = Ready> + '_> {
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        self.events.clear();
        let events = spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.iter().map(Ready::new)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Ready when something that it watches is: it may be watched in turn.
impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Waits until something can be read of one file, or it is over, for this long at most; whether it
/// is.
pub fn wait_to_read(file: impl AsFd, at_most: Duration) -> bool {
    wait_for(file, PollFlags::IN, at_most)
}

/// Waits until a socket takes more, or a pipe PIPE_BUF (4,096) bytes, without blocking, or an error
/// is due, for this long at most; whether it does.
pub fn wait_to_write(file: impl AsFd, at_most: Duration) -> bool {
    wait_for(file, PollFlags::OUT, at_most)
}

fn wait_for(file: impl AsFd, what: PollFlags, at_most: Duration) -> bool {
    let watch = Stopwatch::start();
    let mut one = [PollFd::new(&file, what)];
    loop {
        let left = at_most.saturating_sub(watch.elapsed());
        match poll(&mut one, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return false,
            Err(Errno::INTR) if !left.is_zero() => {}
            // What is wrong is found by reading or writing.
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{read, write};

    use super::*;

    fn event() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor")
    }

    fn tokens(epoll: &mut Epoll) -> Vec<u64> {
        let ready = epoll.wait(Some(0)).expect("waited");
        let mut tokens: Vec<u64> = ready.map(|ready| ready.token).collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn a_level_is_reported_until_it_ends_an_edge_once() {
        let mut epoll = Epoll::new(8).expect("Linux 5.11");
        let (level, edge) = (event(), event());
        epoll.add(&level, 1, Interest::READ).expect("added");
        let on_edge = Interest::READ.on_edge();
        epoll.add(&edge, u64::MAX, on_edge).expect("added");
        assert!(tokens(&mut epoll).is_empty());
        for descriptor in [&level, &edge] {
            write(descriptor, &1_u64.to_ne_bytes()).expect("counted");
        }
        assert_eq!(tokens(&mut epoll), [1, u64::MAX]);
        assert_eq!(tokens(&mut epoll), [1]);
        read(&level, &mut [0; 8]).expect("there is a count");
        assert!(tokens(&mut epoll).is_empty());
        // Armed anew, and under another token.
        epoll.modify(&edge, 7, on_edge).expect("modified");
        assert_eq!(tokens(&mut epoll), [7]);
        epoll.delete(&edge).expect("deleted");
        write(&edge, &1_u64.to_ne_bytes()).expect("counted");
        assert!(tokens(&mut epoll).is_empty());
    }

    #[test]
    fn events_beyond_the_buffer_come_with_the_next_wait() {
        let mut epoll = Epoll::new(2).expect("Linux 5.11");
        let all: Vec<OwnedFd> = (0..5).map(|_| event()).collect();
        for (token, descriptor) in (0..).zip(&all) {
            let interest = Interest::WRITE.once();
            epoll.add(descriptor, token, interest).expect("added");
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let ready = epoll.wait(Some(0)).expect("waited");
            assert!(ready.len() <= 2);
            seen.extend(ready.map(|ready| (ready.token, ready.is_writable, ready.is_readable)));
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4].map(|token| (token, true, false)));
        assert!(tokens(&mut epoll).is_empty());
    }
}

#[cfg(test)]
mod wall {
    use super::*;
    use crate::monotonic_ns;

    #[test]
    fn a_wait_of_a_microsecond_does_not_become_a_millisecond() {
        let mut epoll = Epoll::new(1).expect("Linux 5.11");
        // The least of many: a busy machine makes some of them long.
        let least_ns = (0..200)
            .map(|_| {
                let before_ns = monotonic_ns();
                assert_eq!(epoll.wait(Some(1_000)).expect("waited").len(), 0);
                monotonic_ns() - before_ns
            })
            .min();
        assert!(least_ns.is_some_and(|ns| (1_000..900_000).contains(&ns)));
    }
}
