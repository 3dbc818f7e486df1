//! Memory that stays in memory: a loop that must not wait for a page locks all of it.

use std::fs;
use std::io;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};

use crate::machine::kib_field;
use crate::{Capability, Privileges};

/// Memory was not locked: why, and what helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// It would not fit the limit, and the first allocation beyond that would fail.
    #[error(
        "memory is not locked: up to {} MiB would be, and the limit is {} MiB ('ulimit -l'); it \
         takes CAP_IPC_LOCK, as root has, or a higher limit: 'memlock' in limits.conf, \
         LimitMEMLOCK= of systemd, --ulimit memlock= of a container",
        .needed_bytes >> 20,
        .limit_bytes >> 20
    )]
    Limit {
        /// What the process has mapped, and what it is going to.
        needed_bytes: u64,
        /// `RLIMIT_MEMLOCK`.
        limit_bytes: u64,
    },
    /// The kernel refused.
    #[error("memory is not locked: {0}; free memory, or fewer connections")]
    Kernel(io::Error),
}

/// Locks the memory that the process has and will have (mlockall(2)), up to `more_bytes` beyond
/// what it has mapped now.
///
/// All of that is touched at once, also what was reserved for later: to be called when the tables
/// of a run have their size. The kernel moves no locked page to the disk; threads that start later
/// have their whole stacks locked.
pub fn lock_memory(more_bytes: u64) -> Result<(), LockError> {
    let needed_bytes = mapped_bytes().saturating_add(more_bytes);
    if let Some(limit_bytes) = getrlimit(Resource::Memlock).current
        && limit_bytes < needed_bytes
        && !may_exceed()
    {
        return Err(LockError::Limit {
            needed_bytes,
            limit_bytes,
        });
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| LockError::Kernel(error.into()))
}

/// Takes [`lock_memory`] back.
pub fn unlock_memory() {
    // Nothing that it could report.
    let _ = munlockall();
}

/// A capability of a user namespace lifts no limit.
fn may_exceed() -> bool {
    Privileges::read().is_ok_and(|held| held.require(&[Capability::IpcLock]).is_ok())
}

/// What counts against the limit: all mappings.
fn mapped_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib_field(&status, "VmSize").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryUse;

    fn locked_bytes() -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("proc");
        kib_field(&status, "VmLck").expect("Linux reports it")
    }

    #[test]
    fn memory_is_locked_or_the_limit_is_named() {
        match lock_memory(1 << 20) {
            Ok(()) => {
                assert!(locked_bytes() > 0);
                let before = MemoryUse::read().anonymous_bytes.expect("known");
                let later: Vec<u8> = Vec::with_capacity(8 << 20);
                let after = MemoryUse::read().anonymous_bytes.expect("known");
                assert!(
                    after >= before + (7 << 20),
                    "{before} {after}: resident untouched"
                );
                drop(later);
                unlock_memory();
                assert_eq!(locked_bytes(), 0);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("'ulimit -l'"), "{text}");
            }
        }
    }
}
