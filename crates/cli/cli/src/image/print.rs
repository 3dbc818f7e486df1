//! An image in a few lines.

use std::fmt::Write;

use lineside_image::RepairKind;
use lineside_words::{escape, grouped};

use super::figures::Figures;

pub(super) fn text(figures: &Figures) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<12} {text}");
    };
    line("trace", escape(&figures.trace));
    line("calls", grouped(figures.calls));
    let mut parts = Vec::new();
    for (count, what) in [
        (figures.files, "files"),
        (figures.directories, "directories"),
        (figures.symbolic_links, "symbolic links"),
        (figures.others, "devices, sockets or FIFOs"),
        (figures.hard_links, "further names of files"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    }
    if parts.is_empty() {
        parts.push("nothing but the directory that was mounted".to_owned());
    }
    line("was there", parts.join(", "));
    let made = format!(
        "{} objects, which are not in the image",
        grouped(figures.made_by_trace)
    );
    line("made later", made);
    let known = format!(
        "{} of {} bytes were read before they were changed; the rest is holes",
        grouped(figures.known_bytes),
        grouped(figures.file_bytes)
    );
    line("content", known);
    let all: u64 = figures.repairs.values().sum();
    line("repairs", grouped(all));
    for kind in RepairKind::ALL {
        if let Some(count) = figures.repairs.get(kind.name()) {
            let _ = writeln!(out, "  {:>10}  {}", grouped(*count), meaning(kind));
        }
    }
    for (count, what) in [
        (figures.left_out.calls_not_seen, "replies without a call"),
        (figures.left_out.replies_not_seen, "calls without a reply"),
        (
            figures.left_out.reads_incomplete,
            "READs of which data was not seen",
        ),
        (
            figures.left_out.blocks_without_room,
            "blocks beyond what memory is for",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(out, "{:<12} {} {what}", "not used", grouped(count));
        }
    }
    if !figures.lacks.is_empty() {
        let _ = writeln!(out, "{:<12} {}", "lacks", figures.lacks.join(", "));
    }
    out
}

fn meaning(kind: RepairKind) -> &'static str {
    match kind {
        RepairKind::Name => "named by file_id: no call shows the name",
        RepairKind::NameReplaced => "given another name: no file can have theirs",
        RepairKind::Type => "taken for files: no call shows what they were",
        RepairKind::Mode => "modes not seen, or only after a change",
        RepairKind::Owner => "owners not seen, only after a change, or by name alone",
        RepairKind::Size => "sizes not seen, or only after a change",
        RepairKind::Target => "targets of links not seen",
        RepairKind::Time => "times not seen, or only after a change",
        RepairKind::NotMade => "made otherwise where the image is",
    }
}
