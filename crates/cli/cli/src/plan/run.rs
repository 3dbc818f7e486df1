//! From a trace to its plan.

use lineside_analyze::plan;
use lineside_plan::Config;
use lineside_words::grouped;

use super::flags::Arguments;
use super::output::{Output, PLAN};
use crate::confine;
use crate::exit::Exit;
use crate::print::{exit, json_text, print, print_data, say};
use crate::runs;
use crate::tables::Folder;

pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<Exit> {
    runs::choose(&mut arguments.trace);
    let folder = { arguments.output.as_deref() }
        .map(|path| Folder::make(path, &PLAN, arguments.force))
        .transpose()?;
    let named = confine::trace(&arguments.trace);
    let confining = arguments.confining;
    confining.enter_writing_below(named, arguments.output.as_deref())?;
    let config = Config {
        idle_ns: arguments.idle,
        ..Config::default()
    };
    let output = Output::new(folder.as_ref());
    let made = plan(&arguments.trace, config, output);
    let (plan, output) = made.inspect_err(|_| folder.iter().for_each(Folder::empty))?;
    output.finish()?;
    let json = json_text(&plan)?;
    if let Some(folder) = &folder {
        folder.describe(&json)?;
    }
    match arguments.json {
        true => print_data(&json)?,
        false => print(&lineside_render::plan(&plan))?,
    }
    if let Some(path) = &arguments.output {
        let figures = &plan.figures;
        let edges = figures.trigger_edges + figures.window_edges + figures.resource_edges;
        say(&format!(
            "wrote {} calls and {} edges to {}",
            grouped(figures.events()),
            grouped(edges),
            path.display()
        ));
    }
    Ok(exit(&plan.unreadable))
}
