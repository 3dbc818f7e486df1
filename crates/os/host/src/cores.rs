//! Which cores there are for a polling loop, putting the loop on one of them, and keeping the
//! threads beside it away from that.
//!
//! A thread inherits the affinity of the thread that starts it: a helper that a pinned loop starts
//! would take turns with it on its core. [`Threads`] starts helpers on all cores, at normal
//! priority.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::priority::set_normal_priority;

/// Cores that the kernel gives no work of its own accord (`isolcpus` on its command line).
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

/// A thread was not put on a core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The process may not use it, or there is none.
    #[error(
        "core {core} is not among those that this process may use: {}; 'taskset' and the cpuset of \
         a container choose them",
        list(.allowed)
    )]
    NotAllowed {
        /// Asked for.
        core: usize,
        /// In ascending order.
        allowed: Vec<usize>,
    },
    /// The kernel refused.
    #[error("cannot run on core {core} alone: {error}")]
    Kernel {
        /// Asked for.
        core: usize,
        /// Its error.
        error: io::Error,
    },
}

/// The cores that a process may use, as they were before any of its threads was put on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    allowed: Vec<usize>,
    isolated: Vec<usize>,
}

impl Cores {
    /// Those of the calling thread: to be read before it is pinned.
    pub fn read() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let isolated = fs::read_to_string(ISOLATED).unwrap_or_default();
        Ok(Self {
            allowed: (0..CpuSet::MAX_CPU)
                .filter(|&core| allowed.is_set(core))
                .collect(),
            isolated: parse_list(&isolated),
        })
    }

    /// In ascending order. Isolated cores are among them where `taskset`, say, named them.
    pub fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// Cores that the kernel gives no work of its own accord: the best ones for a loop. The
    /// process may have to be started with them (`taskset -c 0,3`) to be allowed to use them.
    pub fn isolated(&self) -> &[usize] {
        &self.isolated
    }

    /// The first `count` cores for loops: isolated ones before others, and of the others the last
    /// ones first, since the kernel's own work gathers on the first. `None` if there are fewer.
    pub fn for_loops(&self, count: usize) -> Option<Vec<usize>> {
        let is_isolated = |core: &&usize| self.isolated.contains(core);
        let others = self.allowed.iter().rev().filter(|core| !is_isolated(core));
        let chosen = self.allowed.iter().filter(is_isolated).chain(others);
        let chosen: Vec<usize> = chosen.take(count).copied().collect();
        (chosen.len() == count).then_some(chosen)
    }

    /// Keeps the calling thread on one core, until what this returns is dropped.
    pub fn pin(&self, core: usize) -> Result<Pinned, CoreError> {
        if !self.allowed.contains(&core) {
            return Err(CoreError::NotAllowed {
                core,
                allowed: self.allowed.clone(),
            });
        }
        let failed = |error: rustix::io::Errno| CoreError::Kernel {
            core,
            error: error.into(),
        };
        let before = sched_getaffinity(None).map_err(failed)?;
        sched_setaffinity(None, &set_of(&[core])).map_err(failed)?;
        Ok(Pinned {
            before,
            of_thread: PhantomData,
        })
    }
}

/// The calling thread is kept on one core.
#[derive(Debug)]
#[must_use = "when this is dropped, the thread may run on the cores of before"]
pub struct Pinned {
    before: CpuSet,
    /// It is about the thread that made it: it goes to no other.
    of_thread: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The cores of before were allowed; if they have been taken away since, it stays here.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Starts threads that are no loops: they run on all the process's cores at normal priority,
/// whatever the thread that starts them does.
#[derive(Debug, Clone)]
pub struct Threads {
    all: CpuSet,
}

impl Threads {
    /// On these cores.
    pub fn on(cores: &Cores) -> Self {
        Self {
            all: set_of(&cores.allowed),
        }
    }

    /// Puts the calling thread onto all the cores, at normal priority: the first thing that a
    /// thread does which other code has started. Best effort, as nothing depends on it but time.
    pub fn join(&self) {
        let _ = sched_setaffinity(None, &self.all);
        let _ = set_normal_priority();
    }

    /// Starts a thread of this name, of at most 15 bytes.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let this = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            this.join();
            run()
        })
    }

    /// The same within a scope.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        name: &str,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let this = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn_scoped(scope, move || {
            this.join();
            run()
        })
    }
}

pub(crate) fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &core in cores.iter().filter(|&&core| core < CpuSet::MAX_CPU) {
        set.set(core);
    }
    set
}

/// A list as the kernel writes it: `0-2,5`.
fn parse_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..=last.min(CpuSet::MAX_CPU))
    });
    ranges.flatten().collect()
}

/// Ascending numbers as the kernel writes them.
fn list(cores: &[usize]) -> String {
    let mut text = String::new();
    for run in cores.chunk_by(|one, next| one + 1 == *next) {
        if !text.is_empty() {
            text.push(',');
        }
        text += &run[0].to_string();
        if let [_, .., last] = run {
            text += &format!("-{last}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Vec<usize> {
        Cores::read().expect("affinity").allowed
    }

    #[test]
    fn a_pinned_thread_starts_helpers_on_all_cores() {
        let cores = Cores::read().expect("affinity");
        let last = *cores.allowed.last().expect("at least one");
        let pinned = cores.pin(last).expect("allowed");
        assert_eq!(now(), [last]);
        assert_eq!(thread::spawn(now).join().expect("runs"), [last]);
        let threads = Threads::on(&cores);
        let helper = threads.spawn("helper", now).expect("started");
        assert_eq!(helper.join().expect("runs"), cores.allowed);
        let of_scope = thread::scope(|scope| {
            let helper = threads.spawn_scoped(scope, "helper", now);
            helper.expect("started").join().expect("runs")
        });
        assert_eq!(of_scope, cores.allowed);
        assert_eq!(now(), [last]);
        drop(pinned);
        assert_eq!(now(), cores.allowed);
    }

    #[test]
    fn a_core_that_is_not_allowed_is_refused_with_the_list() {
        let cores = Cores {
            allowed: vec![0, 1, 2, 5, 7, 8],
            isolated: vec![2, 3],
        };
        let error = cores.pin(3).expect_err("not allowed");
        assert!(
            error
                .to_string()
                .starts_with("core 3 is not among those that this process may use: 0-2,5,7-8; "),
            "{error}"
        );
        assert_eq!(cores.for_loops(3), Some(vec![2, 8, 7]));
        assert_eq!(cores.for_loops(7), None);
    }

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert!(parse_list("\n").is_empty());
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("7,x,1-"), [7]);
        assert!(parse_list("0-18446744073709551615").len() <= CpuSet::MAX_CPU + 1);
        assert_eq!(list(&[0, 1, 2, 5]), "0-2,5");
    }
}
