//! The tables of a run: their columns and sizes, and the parts on disk.

use std::fs;
use std::path::{Path, PathBuf};

use lineside_trace::open_file;
use lineside_trace::read::PartReader;
use serde_json::{Map, Value, json};

/// Each table: its columns, rows, bytes and parts, and how many parts cannot be read.
pub(super) fn described(run: &Path) -> Value {
    let mut out = Map::new();
    for (name, parts) in of_folders(run) {
        let (mut rows, mut bytes, mut unreadable) = (0, 0, 0);
        let mut columns: Vec<String> = Vec::new();
        for part in &parts {
            let opened = open_file(part).map(|file| {
                bytes += file.metadata().map_or(0, |facts| facts.len());
                PartReader::open(file)
            });
            let Ok(Ok(part)) = opened else {
                unreadable += 1;
                continue;
            };
            rows += part.row_count();
            if columns.is_empty() {
                columns = part.column_names().map(str::to_owned).collect();
            }
        }
        let table = json!({
            "rows": rows,
            "bytes": bytes,
            "parts": parts.len(),
            "unreadable_parts": unreadable,
            "columns": columns,
        });
        out.insert(name, table);
    }
    Value::Object(out)
}

/// The parts of all tables, named as in the folder.
pub(super) fn parts(run: &Path) -> Vec<(String, PathBuf)> {
    let tables = of_folders(run).into_iter();
    let named = tables.flat_map(|(table, parts)| {
        parts.into_iter().map(move |path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            (format!("tables/{table}/{file}"), path)
        })
    });
    named.collect()
}

/// Folders that hold parts, in the order of their names.
fn of_folders(run: &Path) -> Vec<(String, Vec<PathBuf>)> {
    let within = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let is_part = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "parquet");
    let folders = within(run).into_iter().filter(|path| path.is_dir());
    let tables = folders.map(|folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let parts = within(&folder).into_iter().filter(is_part).collect();
        (name.into_owned(), parts)
    });
    tables
        .filter(|(_, parts): &(_, Vec<_>)| !parts.is_empty())
        .collect()
}
