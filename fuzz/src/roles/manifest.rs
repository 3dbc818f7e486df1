//! Any `trace.json`: what is read of it is written again, and reads the same; its report is drawn.

use lineside_trace::Manifest;

/// The text as it stands.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(manifest) = Manifest::from_json(text) else {
        return;
    };
    let written = manifest.to_json();
    let Ok(again) = Manifest::from_json(&written) else {
        // Of another version: what this one does not know is not written.
        return;
    };
    assert_eq!(again.to_json(), written);
    let report = lineside_analyze::closing("a", &manifest);
    let _ = lineside_render::terminal::summary(&report, &lineside_render::Style::default());
}
