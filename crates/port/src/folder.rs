//! Capture files that are parts of one capture: rotated by tcpdump (`-C`, `-G`, `-W`) or dumpcap
//! (`-b`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use lineside_frame::Burst;

use crate::{CaptureReader, Facts, PoolConfig, Port, PortError, Receive, Received};

/// A file of a folder, opened when its turn comes and closed at its end.
pub struct FolderFile {
    path: PathBuf,
    pool: PoolConfig,
    first_ns: i64,
    reader: Option<CaptureReader>,
    ended: bool,
    pub(crate) is_compressed: bool,
    /// As of when it was listed, then as of its end.
    facts: Facts,
}

/// The capture files of a folder, by the stamps of their first frames, of equal ones by their
/// names, in which 10 comes behind
/// 9. A file that is no capture, or not yet one, is left out and reported with the reason.
pub fn list(folder: &Path, pool: &PoolConfig) -> Result<(Vec<FolderFile>, Vec<String>), PortError> {
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for path in paths(folder)? {
        match FolderFile::look(&path, pool) {
            Ok(file) => files.push(file),
            Err(
                error @ (PortError::Foreign { .. }
                | PortError::HeaderCut { .. }
                | PortError::Empty { .. }
                | PortError::Folder { .. }
                | PortError::NoFile { .. }),
            ) => left_out.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    files.sort_by_cached_key(|file| (file.first_ns, natural(file.path.as_os_str())));
    if files.is_empty() {
        return Err(PortError::NoCaptures {
            name: folder.display().to_string(),
        });
    }
    Ok((files, left_out))
}

pub(crate) fn paths(folder: &Path) -> Result<Vec<PathBuf>, PortError> {
    let entries = std::fs::read_dir(folder);
    let paths = entries.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = paths.map_err(|cause| PortError::Open {
        name: folder.display().to_string(),
        cause,
    })?;
    paths.sort();
    Ok(paths)
}

/// A name in which numbers compare as numbers: text, number, text, number and so on.
pub(crate) fn natural(name: &OsStr) -> Vec<(Vec<u8>, u128)> {
    let mut parts: Vec<(Vec<u8>, u128)> = vec![Default::default()];
    let mut is_number = false;
    for &byte in name.as_encoded_bytes() {
        if is_number && !byte.is_ascii_digit() {
            parts.push(Default::default());
        }
        is_number = byte.is_ascii_digit();
        let Some((text, number)) = parts.last_mut() else {
            continue;
        };
        match is_number {
            true => {
                *number = number
                    .saturating_mul(10)
                    .saturating_add((byte - b'0').into())
            }
            false => text.push(byte),
        }
    }
    parts
}

impl FolderFile {
    /// Reads the first frame.
    pub(crate) fn look(path: &Path, pool: &PoolConfig) -> Result<Self, PortError> {
        // A FIFO that nobody writes would hold up the whole folder, and a device never ends.
        if path
            .metadata()
            .is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
        {
            let name = path.display().to_string();
            return Err(PortError::NoFile { name });
        }
        let mut reader = CaptureReader::open(path, pool)?;
        let mut burst = Burst::new();
        // What is wrong with the file comes again when it is read.
        let _ = reader.receive(&mut burst, 1);
        let first = burst.first().and_then(|frame| frame.descriptor().stamp_ns);
        let facts = reader.own_facts().clone();
        Ok(Self {
            path: path.to_owned(),
            pool: pool.clone(),
            first_ns: first.unwrap_or(i64::MIN),
            reader: None,
            ended: false,
            is_compressed: reader.is_compressed(),
            facts: Facts {
                frames: 0,
                bytes: 0,
                warnings: Vec::new(),
                ..facts
            },
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of its first frame: until the other inputs have come as far, it need not be
    /// opened.
    pub(crate) fn begins_ns(&self) -> i64 {
        self.first_ns
    }
}

impl Port for FolderFile {
    fn facts(&self) -> Vec<&Facts> {
        let reader = self.reader.as_ref();
        vec![reader.map_or(&self.facts, CaptureReader::own_facts)]
    }
}

impl Receive for FolderFile {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.ended {
            return Ok(Received::End);
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self
                .reader
                .insert(CaptureReader::open(&self.path, &self.pool)?),
        };
        let received = reader.receive(burst, max);
        if !matches!(received, Ok(Received::End) | Err(_)) {
            return received;
        }
        self.ended = true;
        self.facts.clone_from(reader.own_facts());
        self.reader = None;
        received
    }

    fn leave(&mut self, ahead: &mut Burst) {
        match &mut self.reader {
            Some(reader) => reader.leave(ahead),
            None => self.facts.take_back(ahead),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_compare_as_numbers() {
        let mut names = ["cap10", "cap", "cap9.pcap", "cap2", "cap1", "cap02x"];
        names.sort_by_key(|name| natural(OsStr::new(name)));
        assert_eq!(
            names,
            ["cap", "cap1", "cap2", "cap02x", "cap9.pcap", "cap10"]
        );
    }
}
