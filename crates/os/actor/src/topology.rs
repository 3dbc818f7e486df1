//! Which CPUs this process may use, and where they lie.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Never empty.
    pub cpus: Vec<Cpu>,
}

/// A logical CPU and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its number, as `taskset` and `/proc/cpuinfo` say.
    pub number: usize,
    /// Its package (socket); 0 where the kernel does not say.
    pub package: usize,
    /// Its NUMA node; 0 where the kernel does not say.
    pub node: usize,
}

impl Topology {
    /// Of the calling thread, from its affinity and `/sys/devices/system/cpu`.
    pub fn read() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let cpus = (0..CpuSet::MAX_CPU)
            .filter(|&number| allowed.is_set(number))
            .map(|number| {
                let folder = format!("/sys/devices/system/cpu/cpu{number}");
                let package = fs::read_to_string(format!("{folder}/topology/physical_package_id"));
                let package = package.ok().and_then(|text| text.trim().parse().ok());
                Cpu {
                    number,
                    package: package.unwrap_or_default(),
                    node: node(&folder).unwrap_or_default(),
                }
            })
            .collect();
        Ok(Self { cpus })
    }

    /// The CPU of this number, if this process may use it.
    pub fn cpu(&self, number: usize) -> Option<Cpu> {
        self.cpus.iter().copied().find(|cpu| cpu.number == number)
    }
}

/// The folder of a CPU holds a link `nodeN` to its NUMA node.
fn node(folder: &str) -> Option<usize> {
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    })
}

/// Binds the calling thread to these CPUs.
pub(crate) fn bind(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_sees_its_cpu_alone() {
        let all = Topology::read().expect("affinity");
        let last = all.cpus[all.cpus.len() - 1];
        bind(&[last.number]).expect("an allowed cpu");
        assert_eq!(Topology::read().expect("affinity").cpus, [last]);
        assert_eq!(all.cpu(usize::MAX), None);
    }
}
