//! From a trace to its image.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};
use lineside_analyze::{ImageOfTrace, image};
use lineside_host::{Owners, Place, user};
use lineside_image::{BLOCK_BYTES, RepairKind};
use lineside_image_writer::{FolderTarget, NfsTarget, Note, Target, Url, WriteError, Writer};
use lineside_words::grouped;

use super::figures::Figures;
use super::flags::Arguments;
use super::print::text;
use super::repairs::{REPAIRS, Table};
use crate::confine;
use crate::exit::Exit;
use crate::print::{exit, json_text, print, print_data, say};
use crate::runs;
use crate::tables::Folder;

/// Where the image is written.
enum Goal {
    Nowhere,
    Folder(Place),
    Server(Url, SocketAddr),
}

pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<Exit> {
    runs::choose(&mut arguments.trace);
    let goal = Goal::of(&arguments)?;
    let repairs = { arguments.repairs.as_deref() }
        .map(|path| Folder::make(path, &REPAIRS, false))
        .transpose()?;
    let named = confine::trace(&arguments.trace);
    let named = match &goal {
        Goal::Nowhere => named,
        Goal::Folder(place) => named.may_write_in(place).may_make_trees(),
        Goal::Server(..) => named.may_connect_everywhere(),
    };
    let named = { arguments.repairs.iter() }.fold(named, |named, it| named.may_write_below(it));
    let owners = goal.owners()?;
    let writes = [arguments.output.as_deref(), arguments.repairs.as_deref()];
    let confining = arguments.confining;
    confining.enter_with(named, writes.into_iter().flatten())?;
    { image(&arguments.trace).map_err(anyhow::Error::from) }
        .and_then(|made| write(&arguments, goal, owners, made, repairs.as_ref()))
        .inspect_err(|_| repairs.iter().for_each(Folder::empty))
}

impl Goal {
    fn of(arguments: &Arguments) -> anyhow::Result<Self> {
        if let Some(path) = &arguments.output {
            return Ok(Self::Folder(empty_folder(path)?));
        }
        let Some(url) = &arguments.to else {
            return Ok(Self::Nowhere);
        };
        let server = url.resolve().with_context(|| {
            format!(
                "{}: its server has no address: give one, or mend its name",
                url.shown()
            )
        })?;
        Ok(Self::Server(url.clone(), server))
    }

    /// What gives files to their owners: of root alone.
    fn owners(&self) -> anyhow::Result<Option<Owners>> {
        match self {
            Self::Folder(place) if user() == 0 => {
                let owners = Owners::start(place);
                owners
                    .map(Some)
                    .context("cannot start the process that gives files to their owners")
            }
            _ => Ok(None),
        }
    }
}

/// A new folder, or one in which there is nothing.
fn empty_folder(path: &Path) -> anyhow::Result<Place> {
    let (place, is_new) = Place::make(path)?;
    let is_empty = || Ok::<_, anyhow::Error>(place.names()?.is_empty());
    if !is_new && !is_empty()? {
        bail!(
            "{} exists already: an image overwrites nothing; give a new folder, or an empty one",
            path.display()
        );
    }
    Ok(place)
}

fn write(
    arguments: &Arguments,
    goal: Goal,
    owners: Option<Owners>,
    mut made: ImageOfTrace,
    repairs: Option<&Folder>,
) -> anyhow::Result<Exit> {
    let mut figures = Figures::new(arguments.trace.display().to_string(), &made);
    let place = match &goal {
        Goal::Nowhere => None,
        Goal::Folder(place) => Some(place.path().display().to_string()),
        Goal::Server(url, _) => Some(url.shown()),
    };
    let (blocks, notes) = match goal {
        Goal::Nowhere => {
            let contents = made.contents(|_, _, _, _| Ok::<(), WriteError>(()))?;
            (contents.blocks, Vec::new())
        }
        Goal::Folder(place) => to(FolderTarget::new(place, owners), &mut made)?,
        Goal::Server(url, server) => {
            let target = NfsTarget::open(&url, server).map_err(WriteError::from)?;
            to(target, &mut made)?
        }
    };
    figures.known_bytes = blocks * BLOCK_BYTES;
    let mut table = Table::new(repairs);
    for at in 0..made.image.len() {
        for repair in made.image.repairs_of(at) {
            figures.repaired(repair.kind);
            table.push(&made.image, at, (repair.kind, repair.is_guess, ""))?;
        }
    }
    for note in &notes {
        figures.repaired(RepairKind::NotMade);
        let row = (RepairKind::NotMade, false, note.what);
        table.push(&made.image, note.entry, row)?;
    }
    table.finish()?;
    figures.lacks = made.lacks();
    figures.unreadable = made.unreadable().to_vec();
    let json = json_text(&figures)?;
    if let Some(repairs) = repairs {
        repairs.describe(&json)?;
    }
    match arguments.json {
        true => print_data(&json)?,
        false => print(&text(&figures))?,
    }
    if let Some(place) = place {
        let entries = u64::from(made.image.len()) - 1;
        say(&format!("made {} entries in {place}", grouped(entries)));
    }
    Ok(exit(&figures.unreadable))
}

/// Writes an image; the blocks that the trace shows, and what is otherwise than it was.
fn to<T: Target>(target: T, made: &mut ImageOfTrace) -> anyhow::Result<(u64, Vec<Note>)> {
    let mut writer = Writer::begin(target, &made.image)?;
    let contents =
        made.contents(|image, entry, block, sum| writer.block(image, entry, block, sum))?;
    let (_, notes) = writer.finish(&made.image)?;
    Ok((contents.blocks, notes))
}
