//! What shows that a folder on disk is of our own making.

use std::io::{self, Read};
use std::path::PathBuf;

use lineside_host::Place;
use lineside_rows::Table;
use lineside_store::TraceFiles;
use lineside_trace::Manifest;
use lineside_trace::read::part_metadata;

/// The writer, as `trace.json` names it.
pub(crate) const TOOL: &str = "lineside";

/// What the name of a run's folder begins with.
pub(crate) const PREFIX: &str = "run=";

/// Whether a folder holds a trace that lineside wrote and nothing else: `trace.json` names it as
/// its writer, each folder is that of a table, and each part names the same trace.
pub(crate) fn is_trace(files: &TraceFiles) -> Result<(), PathBuf> {
    let path = files.place.path();
    let manifest = { manifest_in(&files.place).ok() }
        .filter(|manifest| manifest.tool.name == TOOL && !manifest.trace_id.is_empty())
        .ok_or_else(|| path.join("trace.json"))?;
    if let Some(folder) = files.folders.iter().find(|folder| !is_table_name(folder)) {
        return Err(path.join(folder));
    }
    for (table, part) in &files.parts {
        let opened = { files.place.child(table).ok() }.and_then(|it| it.open_file(part).ok());
        let id = opened.and_then(|part| part_metadata(&part, "lineside.trace_id").ok()?);
        if id.as_ref() != Some(&manifest.trace_id) {
            return Err(path.join(table).join(part));
        }
    }
    Ok(())
}

/// What `trace.json` of a folder says.
pub(crate) fn manifest_in(place: &Place) -> io::Result<Manifest> {
    let mut text = String::new();
    let file = place.open_file("trace.json")?;
    file.take(64 << 20).read_to_string(&mut text)?;
    Manifest::from_json(&text).map_err(io::Error::other)
}

/// Whether a folder of this name is a table's.
pub(crate) fn is_table_name(name: &str) -> bool {
    // A drop-in's table has a name of its own; its parts name the trace too.
    Table::ALL.iter().any(|table| table.name() == name) || name.starts_with("monitor_")
}
