//! What an image comes to.

use std::collections::BTreeMap;

use lineside_analyze::{ImageLeftOut, ImageOfTrace};
use lineside_image::{Image, Kind, RepairKind};
use serde::Serialize;

/// What `--json` prints, and `image.json` holds.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Figures {
    /// The form of this and of the table.
    pub(super) image_version: u32,
    /// The folder of the trace, as it was given.
    pub(super) trace: String,
    /// Its id.
    pub(super) trace_id: Option<String>,
    /// When its first call was made.
    pub(super) first_ns: Option<i64>,
    /// Calls of NFS and MOUNT that the image was made of.
    pub(super) calls: u64,
    /// Files.
    pub(super) files: u64,
    /// Directories.
    pub(super) directories: u64,
    /// Symbolic links.
    pub(super) symbolic_links: u64,
    /// Devices, sockets, FIFOs.
    pub(super) others: u64,
    /// Names of files beside their first.
    pub(super) hard_links: u64,
    /// Bytes of all files, holes too.
    pub(super) file_bytes: u64,
    /// Bytes of blocks that READs showed before anything changed them.
    pub(super) known_bytes: u64,
    /// Objects that calls of the trace made: they are not in the image.
    pub(super) made_by_trace: u64,
    /// Repairs by kind.
    pub(super) repairs: BTreeMap<&'static str, u64>,
    /// What of the trace is not in it.
    pub(super) left_out: ImageLeftOut,
    /// Columns that an older lineside did not write.
    pub(super) lacks: Vec<String>,
    /// What of the trace could not be read.
    pub(super) unreadable: Vec<String>,
}

impl Figures {
    pub(super) fn new(trace: String, made: &ImageOfTrace) -> Self {
        let mut figures = Self {
            image_version: 1,
            trace,
            trace_id: made.trace_id.clone(),
            first_ns: made.first_ns,
            calls: made.calls,
            made_by_trace: made.image.made_count(),
            left_out: made.left_out.clone(),
            ..Self::default()
        };
        figures.count(&made.image);
        figures
    }

    fn count(&mut self, image: &Image) {
        for at in 0..image.len() {
            let entry = image.entry(at);
            let count = match (entry.link_of, entry.kind) {
                _ if entry.is_added => continue,
                (Some(_), _) => &mut self.hard_links,
                (None, Kind::File) => {
                    self.file_bytes = self.file_bytes.saturating_add(entry.size);
                    &mut self.files
                }
                (None, Kind::Directory) => &mut self.directories,
                (None, Kind::Link) => &mut self.symbolic_links,
                _ => &mut self.others,
            };
            *count += 1;
        }
    }

    pub(super) fn repaired(&mut self, kind: RepairKind) {
        *self.repairs.entry(kind.name()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_of_an_image_is_that_of_the_code() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Figures>();
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../docs/schema/image.schema.json"
        );
        let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
        if std::env::var_os("LINESIDE_STORE").is_some() {
            std::fs::write(path, &text).expect("stored");
        }
        let known = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text == known, "{path}: run with LINESIDE_STORE=1");
    }
}
