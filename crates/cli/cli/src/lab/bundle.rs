//! `lineside lab bundle`: a lab in one file, for others to run again.

use std::io::{self, BufWriter, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use lineside_lab::{
    ABOUT, About, BUNDLE_TOP, BUNDLE_VERSION, EXPERIMENT, FACTS, Facts, Planned, PointRun, Results,
    RunFacts, TRACE, facts_in, published, run_files, run_folder, tar,
};
use lineside_trace::open_file;
use serde_json::Value;

use super::names::Names;
use crate::archive::scrub::Scrub;
use crate::archive::{end_of, must_be_new, of_trace, replaced, text_of, write_new};
use crate::config::ConfigError;
use crate::confine::{self, Confining};
use crate::exit::Exit;
use crate::print::print;

/// Bytes of a document of a run.
const DOCUMENT_MAX: u64 = 16 << 20;

/// Flags of `lab bundle`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder of a lab
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Write this archive; an existing file is never replaced
    #[arg(
        short,
        long,
        value_name = "FILE.tar",
        default_value = "lineside-lab.tar"
    )]
    output: PathBuf,
    /// Keep names, addresses and paths
    #[arg(long)]
    with_names: bool,
    #[command(flatten)]
    confining: Confining,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    must_be_new(&arguments.output)?;
    let names = Names::of_this_machine();
    let named = confine::trace(&arguments.run);
    arguments.confining.enter(named, Some(&arguments.output))?;
    let run = &arguments.run;
    if !Results::is_there(run) {
        bail!(
            "{} is no lab: give the folder that 'lineside lab' left",
            run.display()
        );
    }
    let results = Results::read(run)?;
    let text = &results.lab.text;
    let found = names.in_text(text).filter(|_| !arguments.with_names);
    if let Some((line, what)) = found {
        let file = run.join(EXPERIMENT);
        return Err(ConfigError::usage(&format!(
            "{}:{line} names {what}, and others run the experiment as it stands: write it \
             without, or keep all names, --with-names",
            file.display()
        ))
        .into());
    }
    let far = results.lab.nodes.iter().find(|node| node.host.is_some());
    if let Some(far) = far.filter(|_| !arguments.with_names) {
        return Err(ConfigError::usage(&format!(
            "node.{}.host names another machine: keep all names, --with-names",
            far.name
        ))
        .into());
    }
    let mut packing = Packing {
        results: &results,
        folder: run,
        scrub: (!arguments.with_names).then(|| Scrub::beside(text)),
    };
    let mut count = 0;
    let bytes = write_new(&arguments.output, |file| {
        let mut out = BufWriter::new(file);
        packing.pack(&mut |name, content| {
            count += 1;
            tar::append(&mut out, &format!("{BUNDLE_TOP}/{name}"), content)
        })?;
        tar::finish(&mut out)?;
        Ok(out.into_inner()?.metadata()?.len())
    })?;
    let mut out = format!(
        "{}: {} of {} runs, {count} files, {}\n",
        arguments.output.display(),
        results.runs.len(),
        results.planned(),
        lineside_words::bytes(bytes)
    );
    let scrub = packing.scrub.unwrap_or_default();
    out += &replaced(arguments.with_names, &scrub);
    print(&out)?;
    Ok(Exit::Done)
}

/// A lab that is packed.
struct Packing<'a> {
    results: &'a Results,
    folder: &'a Path,
    /// `None` if names are kept.
    scrub: Option<Scrub>,
}

impl Packing<'_> {
    /// Passes all files on, by name and in their order.
    fn pack(
        &mut self,
        append: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let about = About {
            bundle_version: BUNDLE_VERSION.to_owned(),
            lineside: env!("CARGO_PKG_VERSION").to_owned(),
            runs: self.results.runs.len(),
            names_kept: self.scrub.is_none(),
        };
        append(ABOUT, &text_of(&serde_json::to_value(about)?))?;
        append(EXPERIMENT, self.results.lab.text.as_bytes())?;
        let facts = self.facts(&facts_in(self.folder));
        append(FACTS, &text_of(&serde_json::to_value(facts)?))?;
        let files = run_files(&self.results.lab);
        for run in &self.results.runs {
            let name = run_folder(Planned {
                point: run.point,
                repeat: run.repeat,
            });
            for file in &files {
                let path = self.folder.join(&name).join(file);
                if let Some(content) = self.file(&path, file, run)? {
                    append(&format!("{name}/{file}"), &content)?;
                }
            }
        }
        Ok(())
    }

    /// A file of a run; `None` if it is not there.
    fn file(&mut self, path: &Path, name: &str, run: &PointRun) -> anyhow::Result<Option<Vec<u8>>> {
        if !path.exists() {
            return Ok(None);
        }
        let unread = || format!("{}: cannot be read", path.display());
        let content = match name {
            "point.json" => {
                let mut run = run.clone();
                if let Some(scrub) = &mut self.scrub {
                    run.reasons = run.reasons.iter().map(|why| scrub.text(why)).collect();
                }
                text_of(&serde_json::to_value(run)?)
            }
            TRACE => {
                let mut trace: Value = document(path).with_context(unread)?;
                // They stand in the facts of the lab and of the run.
                if let Some(machine) = trace["machine"].as_object_mut() {
                    machine.remove("settings");
                }
                match &mut self.scrub {
                    Some(scrub) => text_of(&of_trace(&trace, scrub)),
                    None => text_of(&trace),
                }
            }
            FACTS => {
                let facts: RunFacts = document(path).with_context(unread)?;
                let facts = RunFacts {
                    before: self.facts(&facts.before),
                    after: self.facts(&facts.after),
                };
                text_of(&serde_json::to_value(facts)?)
            }
            _ => {
                let log = end_of(path).with_context(unread)?;
                self.log(&log).into_bytes()
            }
        };
        Ok(Some(content))
    }

    fn facts(&self, facts: &Facts) -> Facts {
        match &self.scrub {
            Some(_) => published(facts),
            None => facts.clone(),
        }
    }

    /// What a node printed.
    fn log(&mut self, log: &str) -> String {
        let Some(scrub) = &mut self.scrub else {
            return log.to_owned();
        };
        let lines = log.lines().map(|line| scrub.text(line) + "\n");
        lines.collect()
    }
}

fn document<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let mut text = String::new();
    open_file(path)?
        .take(DOCUMENT_MAX)
        .read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}
