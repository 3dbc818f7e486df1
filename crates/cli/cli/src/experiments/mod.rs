//! What labs and predictions found, as `lab`, `report` and `compare` print and draw it.

pub(crate) mod figures;
mod info;
mod markdown;
mod points;
pub(crate) mod predicted;
pub(crate) mod print;
pub(crate) mod reproduced;
mod traffic;

use std::path::Path;

use anyhow::Context;
use lineside_analyze::Assertion;
use lineside_lab::Results;

pub(crate) use info::info;

use crate::exit::Exit;
use crate::print::{print, print_data, print_json, print_styled, say};
use figures::{Figures, THRESHOLD};

/// Prints what the folder of a lab holds.
pub(crate) fn report(folder: &Path, target: Option<&str>, is_json: bool) -> anyhow::Result<()> {
    let results = Results::read(folder)?;
    if let Some(target) = target {
        let sentences = lineside_lab::reach(&results, target)?;
        return print(&(sentences.join("\n") + "\n"));
    }
    let figures = Figures::of(&results, None).with_facts(folder);
    match is_json {
        true => print_json(&figures),
        false => print_styled(&print::text(&figures, folder)),
    }
}

/// Prints a prediction.
pub(crate) fn report_predicted(folder: &Path) -> anyhow::Result<()> {
    print_styled(&print::points(&predicted::read(folder)?))
}

/// The page of a lab, or of a prediction, for a file.
pub(crate) fn page(folder: &Path, target: Option<&str>, file: &Path) -> anyhow::Result<String> {
    if predicted::is_there(folder) {
        let points = predicted::read(folder)?;
        return Ok(lineside_render::html::points(&points, "lineside predict"));
    }
    let results = Results::read(folder)?;
    let figures = Figures::of(&results, None);
    let beside = points::beside(file, folder);
    let mut points = points::with_runs(&figures, &results, folder, &beside)?;
    if let Some(target) = target {
        points
            .sentences
            .extend(lineside_lab::reach(&results, target)?);
    }
    // Of many points each of these takes as much as the page.
    drop((results, figures));
    Ok(lineside_render::html::points(&points, "lineside lab"))
}

/// How two labs are compared.
pub(crate) struct Comparing<'a> {
    pub(crate) folders: [&'a Path; 2],
    pub(crate) control: Option<&'a Path>,
    pub(crate) threshold: Option<f64>,
    pub(crate) is_json: bool,
    /// Where the Markdown goes.
    pub(crate) markdown: Option<&'a Path>,
}

/// Prints what differs between two labs; with a threshold, what is worse fails. Returns also what
/// came of each metric at each point, as an assertion.
pub(crate) fn compare(asked: &Comparing<'_>) -> anyhow::Result<(Exit, Vec<Assertion>)> {
    let [one, other] = asked.folders.map(Results::read);
    let (one, other) = (one?, other?);
    let control = asked.control.map(Results::read).transpose()?;
    let control = control.as_ref().map(|control| (&one, control));
    let least = asked.threshold.unwrap_or(THRESHOLD);
    let compared = lineside_lab::compare(&one, &other, control, least)?;
    if let Some(file) = asked.markdown {
        let text = markdown::compared(&compared, &one.lab, asked.folders);
        write_text(&text, file)?;
    }
    let is_printed = asked.markdown.is_none_or(|file| file.as_os_str() != "-");
    match asked.is_json {
        true => print_json(&compared)?,
        false if is_printed => print(&print::compared(&compared, &one.lab))?,
        false => (),
    }
    let state = match asked.threshold.is_some() && !compared.passes() {
        true => Exit::Assertion,
        false => Exit::Done,
    };
    Ok((state, print::cases(&compared, &one.lab)))
}

/// Writes a text to a file, or prints it.
pub(crate) fn write_text(text: &str, path: &Path) -> anyhow::Result<()> {
    if path.as_os_str() == "-" {
        return print_data(text);
    }
    std::fs::write(path, text).with_context(|| format!("{}: cannot write it", path.display()))?;
    say(&format!("wrote {}", path.display()));
    Ok(())
}
