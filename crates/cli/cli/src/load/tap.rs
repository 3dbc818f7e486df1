//! `--write-pcap`: copies of the frames of our own TCP, written by a thread beside the loops.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use lineside_load::run::Transport;
use lineside_port::{CaptureWriter, Live, Merge, PortError};
use lineside_reactor::{TapCounts, TapPort};

use super::flags::Section;
use super::settings::Prepared;
use crate::config::ConfigError;
use crate::write_frames::{frame_file, missed, why_missing, write_all};

/// The capture file and where the taps of all workers come from.
pub(super) struct Tapping {
    path: PathBuf,
    writer: CaptureWriter,
    taps: Receiver<Vec<TapPort>>,
    /// Tells the thread that no taps come.
    none: Sender<Vec<TapPort>>,
}

impl Tapping {
    /// As the flags have it: the run gets taps.
    pub(super) fn new(keys: &Section, prepared: &mut Prepared) -> anyhow::Result<Option<Self>> {
        let Some(path) = &keys.write_pcap else {
            return Ok(None);
        };
        let Transport::Stack(stack) = &mut prepared.settings.transport else {
            return Err(ConfigError::usage(
                "--write-pcap is for this program's own TCP: name its interface with -i; \
                 'lineside capture -i IF --write-pcap OUT' writes what kernels send",
            )
            .into());
        };
        if keys.hosts.is_some() || path.as_os_str() == "-" {
            return Err(ConfigError::usage(
                "--write-pcap is for a file of a load by one host: leave out --hosts, name a file",
            )
            .into());
        }
        // Each worker is an input.
        let names = vec![stack.interface.clone(); prepared.settings.workers as usize];
        let comment = "a load's: stamps are when frames came and left";
        let force = keys.force == Some(true);
        let writer = frame_file(path, &names, comment, force, &prepared.settings.budget)?;
        let (none, taps) = channel();
        stack.taps = Some(none.clone());
        Ok(Some(Self {
            path: path.clone(),
            writer,
            taps,
            none,
        }))
    }

    /// The file.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.writer.file()
    }
}

/// Runs a load while its frames are written. The second is why some are missing in the file.
pub(super) fn beside<T>(
    tapping: Option<Tapping>,
    load: impl FnOnce() -> T,
) -> anyhow::Result<(T, Option<String>)> {
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
        let why = why_missing(&path, written);
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
        write_all(&mut writer, &mut merged)?;
        missing += missed(&counts);
    }
    writer.finish()?;
    Ok(missing)
}
