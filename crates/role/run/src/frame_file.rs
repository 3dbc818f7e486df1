//! `--write-pcap` of a polling loop: copies of its frames, written by a thread beside it.

use std::path::Path;

use lineside_account::Budget;
use lineside_frame::{Burst, LinkType};
use lineside_port::{
    CaptureWriter, Interface, PortError, Receive, Received, Rotation, WriterConfig,
};

use crate::{RunError, check_capture_file};

/// Frames that are written at once.
const BURST_MAX: usize = 1_024;

/// A capture file for the frames of interfaces with these names; `replaces` one that is there.
/// Starts no thread yet.
pub fn frame_file(
    path: &Path,
    names: &[String],
    comment: &str,
    replaces: bool,
    budget: &Budget,
) -> Result<CaptureWriter, RunError> {
    check_capture_file(path, false, &[], replaces)?;
    let interface = |name: &String| Interface {
        name: Some(name.clone()),
        link_type: LinkType::ETHERNET,
        ..Interface::default()
    };
    let config = WriterConfig {
        budget: budget.clone(),
        interfaces: names.iter().map(interface).collect(),
        application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
        comment: Some(comment.to_owned()),
        rotation: Rotation::default(),
        replaces,
    };
    Ok(CaptureWriter::create(path, config, None)?)
}

/// Writes all frames of `port`, until its end.
pub fn write_frames(writer: &mut CaptureWriter, port: &mut impl Receive) -> Result<(), PortError> {
    let mut burst = Burst::new();
    let mut received = Received::Frames(0);
    while received != Received::End {
        received = port.receive(&mut burst, BURST_MAX)?;
        writer.write(&burst)?;
        burst.clear();
    }
    Ok(())
}

/// Why a file lacks frames; `None` if it does not.
pub fn why_frames_miss(path: &Path, missing: Result<u64, PortError>) -> Option<String> {
    match missing {
        Err(error) => Some(error.to_string()),
        Ok(0) => None,
        Ok(missing) => Some(format!(
            "{missing} frames are missing in {}, for which there was no room: raise --memory, or \
             lower the rate",
            path.display()
        )),
    }
}
