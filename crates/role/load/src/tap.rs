//! `--write-pcap`: copies of the frames of our own TCP, written by a thread beside the loops.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use lineside_port::{CaptureWriter, Live, Merge, PortError};
use lineside_reactor::{TapCounts, TapPort};
use lineside_run::{RunError, frame_file, why_frames_miss, write_frames};

use crate::settings::{Settings, Transport};

/// The capture file and where the taps of all workers come from.
pub struct Tapping {
    path: PathBuf,
    writer: CaptureWriter,
    taps: Receiver<Vec<TapPort>>,
    /// Reports to the thread that no taps come.
    none: Sender<Vec<TapPort>>,
}

impl Tapping {
    /// Writes the frames of a load over an interface to `path`: the load gets taps.
    ///
    /// # Errors
    ///
    /// If the load has the kernel's sockets, or the file cannot be made.
    pub fn new(path: &Path, force: bool, settings: &mut Settings) -> Result<Self, RunError> {
        let Transport::Stack(stack) = &mut settings.transport else {
            return Err(RunError::Usage(
                "--write-pcap is for this program's own TCP: name its interface with -i; \
                 'lineside capture -i IF --write-pcap OUT' writes what kernels send"
                    .to_owned(),
            ));
        };
        // Each worker is an input.
        let names = vec![stack.interface.clone(); settings.workers as usize];
        let comment = "a load's: stamps are when frames came and left";
        let writer = frame_file(path, &names, comment, force, &settings.budget)?;
        let (none, taps) = channel();
        stack.taps = Some(none.clone());
        Ok(Self {
            path: path.to_owned(),
            writer,
            taps,
            none,
        })
    }

    /// The file.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.writer.file()
    }
}

/// Runs a load while its frames are written. The second is why some are missing in the file.
pub fn beside<T>(
    tapping: Option<Tapping>,
    load: impl FnOnce() -> T,
) -> io::Result<(T, Option<String>)> {
    let Some(tapping) = tapping else {
        return Ok((load(), None));
    };
    let Tapping {
        path,
        writer,
        taps,
        none,
    } = tapping;
    thread::scope(|scope| {
        let written = thread::Builder::new()
            .name("write-pcap".to_owned())
            .spawn_scoped(scope, move || write(writer, &taps))?;
        let outcome = load();
        let _ = none.send(Vec::new());
        let written = written.join();
        let written = written.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let why = why_frames_miss(&path, written);
        Ok((outcome, why))
    })
}

/// Writes what taps copy, of one run after the other, until there are none; returns how many frames
/// are missing.
fn write(mut writer: CaptureWriter, runs: &Receiver<Vec<TapPort>>) -> Result<u64, PortError> {
    let mut missing = 0;
    // That of NFS prepares the export by a run before the load's.
    for taps in runs.iter().take_while(|taps| !taps.is_empty()) {
        let counts: Vec<TapCounts> = taps.iter().map(TapPort::counts).collect();
        let taps = { taps.into_iter() }.map(|tap| Box::new(tap) as Box<dyn Live>);
        let mut merged = Merge::new(taps);
        write_frames(&mut writer, &mut merged)?;
        missing += counts.iter().map(TapCounts::missed).sum::<u64>();
    }
    writer.finish()?;
    Ok(missing)
}
