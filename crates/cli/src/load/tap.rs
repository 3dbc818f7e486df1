//! `--write-pcap`: copies of the frames of our own TCP, written by a thread beside the loops.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use lineside_frame::{Burst, LinkType};
use lineside_load::run::Transport;
use lineside_port::{
    CaptureWriter, Interface, Live, Merge, PortError, Receive, Received, Rotation, WriterConfig,
};
use lineside_reactor::{TapCounts, TapPort};
use lineside_run::check_capture_file;

use super::flags::Section;
use super::settings::Prepared;
use crate::config::ConfigError;

/// Frames that are written at once.
const BURST_MAX: usize = 1_024;

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
        let force = keys.force == Some(true);
        check_capture_file(path, false, &[], force)?;
        let interface = Interface {
            name: Some(stack.interface.clone()),
            link_type: LinkType::ETHERNET,
            ..Interface::default()
        };
        let config = WriterConfig {
            budget: prepared.settings.budget.clone(),
            // Each worker is an input.
            interfaces: vec![interface; prepared.settings.workers as usize],
            application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
            comment: Some("a load's: stamps are when frames came and left".to_owned()),
            rotation: Rotation::default(),
            replaces: force,
        };
        let (none, taps) = channel();
        stack.taps = Some(none.clone());
        Ok(Some(Self {
            path: path.clone(),
            writer: CaptureWriter::create(path, config, None)?,
            taps,
            none,
        }))
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
        let why = match written {
            Err(error) => Some(error.to_string()),
            Ok(0) => None,
            Ok(missing) => Some(format!(
                "{missing} frames are missing in {}, for which there was no room: raise --memory, \
                 or lower the rate",
                path.display()
            )),
        };
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
        let mut burst = Burst::new();
        let mut received = Received::Frames(0);
        while received != Received::End {
            received = merged.receive(&mut burst, BURST_MAX)?;
            writer.write(&burst)?;
            burst.clear();
        }
        for counts in counts {
            let facts = counts.facts();
            missing += facts.dropped_queue + facts.dropped_memory;
        }
    }
    writer.finish()?;
    Ok(missing)
}
