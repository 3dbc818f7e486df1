//! Real-time priority for a polling loop: SCHED_FIFO of sched(7), which no normal thread
//! interrupts.

use std::io;

use rustix::process::{Resource, getrlimit};

/// A priority of SCHED_FIFO that leaves room above for the kernel's own threads, of which those of
/// interrupts have 50.
pub const LOOP_PRIORITY: u8 = 49;

/// The loop runs at normal priority: why, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("no real-time priority {priority} (SCHED_FIFO): {error}{}", self.remedy())]
pub struct PriorityError {
    /// Asked for.
    pub priority: u8,
    /// The most that this process may have without CAP_SYS_NICE; `None`: no limit.
    pub limit: Option<u64>,
    /// The kernel's error.
    pub error: io::Error,
}

impl PriorityError {
    fn remedy(&self) -> String {
        match (self.error.raw_os_error(), self.limit) {
            (Some(libc::EPERM), Some(limit)) if limit < self.priority.into() => format!(
                "; it takes CAP_SYS_NICE, as root has, or a limit ('ulimit -r') of {}, which is \
                 {limit}: 'rtprio' in limits.conf, LimitRTPRIO= of systemd",
                self.priority
            ),
            (Some(libc::EPERM), _) => {
                "; its control group has no time for real-time tasks (cpu.rt_runtime_us), or a \
                 filter of system calls is at work"
                    .to_owned()
            }
            (Some(libc::EINVAL), _) => "; priorities are 1 to 99".to_owned(),
            _ => String::new(),
        }
    }
}

/// Gives the calling thread a priority of SCHED_FIFO, 1 to 99. Threads and programs that it starts
/// do not inherit it.
///
/// The kernel still gives normal tasks about 50 ms of each second on that core (the fair server, or
/// `sched_rt_runtime_us` of sched(7)): a loop that never rests stands still meanwhile.
pub fn set_real_time_priority(priority: u8) -> Result<(), PriorityError> {
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    set(policy, priority.into()).map_err(|error| PriorityError {
        priority,
        limit: getrlimit(Resource::Rtprio).current,
        error,
    })
}

/// Makes the calling thread one as all others are (SCHED_OTHER).
pub fn set_normal_priority() -> io::Result<()> {
    set(libc::SCHED_OTHER, 0)
}

fn set(policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
        #[cfg(any(target_env = "musl", target_env = "ohos"))]
        sched_ss_low_priority: 0,
        #[cfg(any(target_env = "musl", target_env = "ohos"))]
        sched_ss_repl_period: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        #[cfg(any(target_env = "musl", target_env = "ohos"))]
        sched_ss_init_budget: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        #[cfg(any(target_env = "musl", target_env = "ohos"))]
        sched_ss_max_repl: 0,
    };
    // SAFETY: the kernel reads the priority, the structure's first field; 0 is the calling thread.
    // JUSTIFICATION: rustix has no such call, and musl's own does nothing.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            policy,
            &raw const parameters,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Field 41 of proc_pid_stat(5).
    fn policy() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("proc");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let mut fields = fields.split_whitespace();
        fields
            .nth(41 - 3)
            .and_then(|field| field.parse().ok())
            .expect("a number")
    }

    #[test]
    fn a_loop_has_priority_and_its_helpers_have_none() {
        let of_loop = thread::spawn(|| match set_real_time_priority(LOOP_PRIORITY) {
            Ok(()) => {
                let inherited = thread::spawn(policy).join().expect("runs");
                let own = policy();
                set_normal_priority().expect("less is always allowed");
                (own, inherited, policy())
            }
            Err(error) => {
                // An ordinary user, or a container: named with a way out.
                let text = error.to_string();
                assert!(
                    text.starts_with("no real-time priority 49 (SCHED_FIFO): "),
                    "{text}"
                );
                assert!(text.contains("; "), "{text}");
                (libc::SCHED_FIFO, policy(), policy())
            }
        });
        assert_eq!(
            of_loop.join().expect("runs"),
            (libc::SCHED_FIFO, libc::SCHED_OTHER, libc::SCHED_OTHER)
        );
    }

    #[test]
    fn a_refused_priority_comes_with_a_way_out() {
        let refused = |error, limit| PriorityError {
            priority: 49,
            limit,
            error: io::Error::from_raw_os_error(error),
        };
        let error = refused(libc::EPERM, Some(0)).to_string();
        assert!(
            error.contains("CAP_SYS_NICE") && error.contains("of 49, which is 0"),
            "{error}"
        );
        let error = refused(libc::EPERM, None).to_string();
        assert!(error.contains("control group"), "{error}");
        let error = set_real_time_priority(100).expect_err("there is none");
        assert!(
            error.to_string().ends_with("priorities are 1 to 99"),
            "{error}"
        );
    }
}
