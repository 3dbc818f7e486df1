//! Actors: state without locks on every core.
//!
//! ```text
//!                    Address<M>           ┌───────── scheduler 0 ─────────┐
//!  thread ─ Handle ──send(M)──► mailbox ─►│ run queue ─► actor: on_message │──send──► mailbox ─► …
//!                                         └───────────────▲───────────────┘
//!                                                 steals, or rings from other cores
//! ```
//!
//! * An [`Actor`] owns its state and has one mailbox, for messages of one type: another type does
//!   not compile. It is runnable only while a message is pending, and then handles at most
//!   [`Config::messages_per_activation_max`] messages, each to completion.
//! * A message is moved from sender to receiver. Let it carry a batch: a message costs tens of
//!   nanoseconds, and a hundred where it crosses cores. Nodes for messages are recycled; nothing is
//!   allocated per message after start.
//! * An actor may send to itself, create actors, set timers, and [replace](Context::replace)
//!   itself.
//! * The same actors run under each [`Schedule`]: pinned without sharing, stealing, or simulated
//!   from a seed on one thread in virtual time.
//! * Mailboxes are not bounded and no send blocks. What bounds a system is what its messages carry:
//!   let whoever brings work in take it from a fixed pool (of frames, of batches) that comes back
//!   when the work is done, and drop and count, or wait, where the pool is empty: at the entrance.
//!
//! This is the actor model of Chronicle's Libtask (FAST 2015, section 4); its Process is our
//! [`Actor`]. It is not a framework of supervisors: a failure ends the run, in order.
//!
//! ```
//! use lineside_actor::{Actor, Config, Context, Outcome, Schedule, System};
//!
//! struct Sum(u64);
//!
//! impl Actor for Sum {
//!     type Message = Vec<u64>;
//!
//!     fn on_message(&mut self, batch: Vec<u64>, _: &mut Context<'_, Vec<u64>>) -> Outcome {
//!         self.0 += batch.iter().sum::<u64>();
//!         Ok(())
//!     }
//!
//!     fn on_stop(&mut self, _: &mut Context<'_, Vec<u64>>) -> Outcome {
//!         assert_eq!(self.0, 6);
//!         Ok(())
//!     }
//! }
//!
//! let mut system = System::new(Config::new(Schedule::stealing(1))).unwrap();
//! let sum = system.spawn("sum", Sum(0));
//! system.handle().send(&sum, vec![1, 2, 3]).unwrap();
//! let report = system.run().unwrap();
//! assert_eq!(report.actors[0].messages, 1);
//! ```
//!
//! A message of another type does not compile:
//!
//! ```compile_fail,E0308
//! # use lineside_actor::{Actor, Config, Context, Outcome, Schedule, System};
//! # struct Sum(u64);
//! # impl Actor for Sum {
//! #     type Message = Vec<u64>;
//! #     fn on_message(&mut self, _: Vec<u64>, _: &mut Context<'_, Vec<u64>>) -> Outcome { Ok(()) }
//! # }
//! let mut system = System::new(Config::new(Schedule::stealing(1))).unwrap();
//! let sum = system.spawn("sum", Sum(0));
//! system.handle().send(&sum, "six").unwrap();
//! ```

mod actor;
mod cell;
mod mailbox;
mod placement;
mod pool;
mod report;
mod ring;
mod scheduler;
mod seats;
mod shared;
mod sharing;
mod sim;
mod sync;
mod system;
mod topology;
mod waker;

pub use actor::{Actor, Address, Context, Outcome};
pub use placement::place;
pub use report::{ActorReport, Cause, Report, RunError, SchedulerReport, Traffic};
pub use system::{
    Config, ConfigError, Guest, Handle, MESSAGES_PER_ACTIVATION_MAX, Pin, SCHEDULERS_MAX, Schedule,
    Stopped, System,
};
pub use topology::{Cpu, Topology};
pub use waker::Waker;
