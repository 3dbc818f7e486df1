//! Before a run: the export is mounted, and its files are found or made, so that the client knows
//! their handles.
//!
//! A preparation is a load of its own, of one connection at a time, over the transport of the run
//! that follows: the kernel's sockets, or our own TCP where the host has no way to the server.
//!
//! ```text
//!  portmap: GETPORT ─► MOUNT: MNT ─► NFS: FSINFO ─► READDIRPLUS, LOOKUP …            found
//!                                              └─► MKDIR, LOOKUP, CREATE, WRITE, COMMIT … made
//! ```

use std::sync::{Arc, PoisonError};

use lineside_host::RunClock;

use super::preparation::{DIRECTORIES_MAX, FILES_MAX, Files, Handover, Preparation, PrepareError};
use super::preparer::Preparer;
use super::tree::Tree;
use crate::application::End;
use crate::outcome::Observer;
use crate::run::{Part, run_each};
use crate::settings::Settings;
use crate::worker::Load;

/// What mounts an export and finds or makes its files, without a transport.
pub fn preparing(preparation: Preparation, target: End) -> impl Load {
    Preparer::new(preparation, target, None, Handover::default())
}

/// Mounts the export of the first of `settings.targets`, whose port is NFS's, and finds or makes
/// its files, over the transport of `settings`.
pub fn prepare(
    settings: &Settings,
    preparation: &Preparation,
    clock: RunClock,
    observer: &mut dyn Observer,
) -> Result<Tree, PrepareError> {
    if let Files::Made {
        files, directories, ..
    } = preparation.files
        && !((1..=FILES_MAX).contains(&files)
            && (1..=DIRECTORIES_MAX.min(files)).contains(&directories))
    {
        return Err(PrepareError::Count { files, directories });
    }
    let mut settings = settings.clone();
    settings.workers = 1;
    settings.pins = false;
    settings.real_time = false;
    settings.targets.truncate(1);
    settings.plan.connections = 1;
    settings.plan.opens_on_arrival = false;
    settings.timing.duration_ns = None;
    let handover = Handover::default();
    let preparer = |part: Part| {
        let (target, locals) = (part.targets[0], part.locals);
        Preparer::new(preparation.clone(), target, locals, Arc::clone(&handover))
    };
    let ran = run_each(&settings, &preparer, clock, observer);
    let outcome = handover
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match outcome {
        Some(outcome) => outcome,
        None => {
            ran?;
            let doing = "opening a connection".to_owned();
            Err(PrepareError::Stopped { doing })
        }
    }
}
