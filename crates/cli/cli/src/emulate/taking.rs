//! What is wanted of copies of a live run's frames, from flags.

use lineside_account::Budget;
use lineside_frame::LinkType;
use lineside_host::FileMaker;
use lineside_path::emulate::{Taking, Wanted, places};
use lineside_port::{CaptureWriter, Interface, WriterConfig};
use lineside_run::{Pace, PartRotation, check_capture_file};

use super::flags::Arguments;
use super::notes::Notes;
use crate::link::section::Section;

impl Arguments {
    /// What takes frames of sides with these names; `None` if nobody wants frames.
    pub(super) fn taking<'a>(
        &self,
        notes: &Notes,
        sides: &[&str],
        budget: &'a Budget,
    ) -> anyhow::Result<Option<Taking<'a>>> {
        let keys = &self.keys;
        let words = keys.monitors()?;
        let drop_ins = keys.drop_ins()?;
        let measuring = notes.measuring(&words, &drop_ins, Pace::Live, &PartRotation::LIVE, budget);
        let folder = notes.run.folder.clone().filter(|_| keys.tap == Some(true));
        let wanted = Wanted {
            words: &words,
            drop_ins: &drop_ins,
            measuring,
            stopped: keys.stopped_monitors()?,
            writer: writer(keys, sides, budget)?,
            trace: folder.map(|folder| (folder, notes.run.manifest.trace_id.clone())),
            link: None,
        };
        Ok(Taking::new(wanted, sides, budget)?)
    }
}

/// The capture file of `--write-pcap`, whose interfaces are ports and points.
fn writer(
    keys: &Section,
    sides: &[&str],
    budget: &Budget,
) -> anyhow::Result<Option<CaptureWriter>> {
    let Some(file) = keys.capture_file()? else {
        return Ok(None);
    };
    let force = keys.force == Some(true);
    check_capture_file(&file.path, file.is_series, &[], force)?;
    let config = WriterConfig {
        budget: budget.clone(),
        interfaces: places(sides)
            .map(|(_, place)| Interface {
                name: Some(place.name()),
                link_type: LinkType::ETHERNET,
                ..Interface::default()
            })
            .collect(),
        application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
        comment: Some("emulated: stamps are when frames came, left and were dropped".to_owned()),
        rotation: file.rotation,
        replaces: force,
    };
    let is_series = config.rotation.turns() && file.path.as_os_str() != "-";
    let maker = is_series.then(|| FileMaker::start(&file.path, force, config.rotation.kept()));
    let writer = CaptureWriter::create_by(&file.path, config, None, maker.transpose()?)?;
    Ok(Some(writer))
}
