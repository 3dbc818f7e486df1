//! How many descriptors this process may open: each kernel socket takes one.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for what a run opens beside its connections: parts of tables, sockets, epoll, pipes.
const SPARE: u64 = 64;

/// The limits of this process (getrlimit(2), `RLIMIT_NOFILE`), and what of them is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// How many it may open now; `u64::MAX` without a limit.
    pub limit: u64,
    /// How far an ordinary user may raise that.
    pub limit_max: u64,
    /// How many are open.
    pub open: u64,
}

/// More descriptors are needed than may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needed} connections need as many descriptors, and {fit} fit: this process may open \
     {limit_max} ('ulimit -Hn'); -c {fit}, more processes, or a higher limit (LimitNOFILE= of \
     systemd, 'nofile' in limits.conf, --ulimit nofile= of a container)"
)]
pub struct DescriptorError {
    /// Asked for.
    pub needed: u64,
    /// Possible.
    pub fit: u64,
    /// The hard limit.
    pub limit_max: u64,
}

impl Descriptors {
    /// Reads them.
    pub fn read() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        // Its folder is itself open while it is read.
        let open = fs::read_dir("/proc/self/fd").map_or(0, |folder| folder.count() as u64 - 1);
        Self {
            limit: current.unwrap_or(u64::MAX),
            limit_max: maximum.unwrap_or(u64::MAX),
            open,
        }
    }

    /// Raises the limit as far as any user may, and reads what came of it. Programs that this
    /// process starts inherit it: those that use select(2) fail beyond 1,024 descriptors.
    pub fn raise() -> Self {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Refused only by a filter of system calls: the limit that is read then is the old one.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
        Self::read()
    }

    /// How many connections fit beside what else the process opens.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.open).saturating_sub(SPARE)
    }

    /// That this many connections fit.
    pub fn require(&self, needed: u64) -> Result<(), DescriptorError> {
        let fit = self.room();
        match needed <= fit {
            true => Ok(()),
            false => Err(DescriptorError {
                needed,
                fit,
                limit_max: self.limit_max,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let raised = Descriptors::raise();
        assert_eq!(raised.limit, raised.limit_max);
        assert!(raised.open >= 3 && raised.room() < raised.limit);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null")).collect();
        // Other tests of this process open and close some.
        assert!(Descriptors::read().open > 50);
        drop(files);
    }

    #[test]
    fn too_many_connections_are_refused_with_what_fits() {
        let descriptors = Descriptors {
            limit: 1_024,
            limit_max: 20_000,
            open: 10,
        };
        assert_eq!(descriptors.room(), 950);
        assert_eq!(descriptors.require(950), Ok(()));
        let error = descriptors.require(951).expect_err("one too many");
        assert!(
            error
                .to_string()
                .starts_with("951 connections need as many descriptors, and 950 fit")
        );
    }
}
