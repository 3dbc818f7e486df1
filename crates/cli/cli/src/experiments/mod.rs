//! What labs found, as `lab`, `report` and `compare` print it.

pub(crate) mod figures;
mod info;
pub(crate) mod print;
pub(crate) mod reproduced;

use std::path::Path;

use lineside_lab::Results;

pub(crate) use info::info;

use crate::exit::Exit;
use crate::print::{print, print_json};
use figures::{Figures, THRESHOLD};

/// Prints what the folder of a lab holds.
pub(crate) fn report(folder: &Path, target: Option<&str>, is_json: bool) -> anyhow::Result<Exit> {
    let results = Results::read(folder)?;
    if let Some(target) = target {
        let sentences = lineside_lab::reach(&results, target)?;
        print(&(sentences.join("\n") + "\n"))?;
        return Ok(Exit::Done);
    }
    let figures = Figures::of(&results, None).with_facts(folder);
    match is_json {
        true => print_json(&figures)?,
        false => print(&print::text(&figures, folder))?,
    }
    Ok(Exit::Done)
}

/// Prints what differs between the labs of two folders; with a threshold, what is worse fails.
pub(crate) fn compare(
    (a, b): (&Path, &Path),
    control: Option<&Path>,
    threshold: Option<f64>,
    is_json: bool,
) -> anyhow::Result<Exit> {
    let (one, other) = (Results::read(a)?, Results::read(b)?);
    let control = control.map(Results::read).transpose()?;
    let control = control.as_ref().map(|control| (&one, control));
    let least = threshold.unwrap_or(THRESHOLD);
    let compared = lineside_lab::compare(&one, &other, control, least)?;
    match is_json {
        true => print_json(&compared)?,
        false => print(&print::compared(&compared, &one.lab))?,
    }
    Ok(match threshold.is_some() && !compared.passes() {
        true => Exit::Assertion,
        false => Exit::Done,
    })
}
