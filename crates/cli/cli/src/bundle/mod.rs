//! `lineside bundle`: what a report of a fault needs, in one file that has no name, address, path
//! or handle unless asked for.

mod tables;

use std::fs::{self, File};
use std::io::{BufWriter, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use lineside_lab::tar;
use lineside_run::doctor::Doctor;
use lineside_trace::{manifest_text, open_file};
use serde_json::{Value, json};

use crate::archive::scrub::Scrub;
use crate::archive::{end_of, must_be_new, of_trace, replaced, text_of, write_new};
use crate::confine::{self, Confining};
use crate::exit::Exit;
use crate::print::print;
use crate::runs;

/// The folder in the archive.
const TOP: &str = "lineside-bundle";

/// Flags of `bundle`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Write this archive; an existing file is never replaced
    #[arg(
        short = 'o',
        long = "output",
        alias = "out",
        value_name = "FILE.tar",
        default_value = "lineside-bundle.tar"
    )]
    out: PathBuf,
    /// Keep names, addresses and paths
    #[arg(long)]
    with_names: bool,
    /// Add the tables, with every address, user, file name and handle that the run saw
    #[arg(long)]
    with_tables: bool,
    #[command(flatten)]
    confining: Confining,
}

/// `tool` is what other verbs say of this program and this machine: `version`, and `doctor`.
pub(crate) fn run(mut arguments: Arguments, tool: (String, Doctor)) -> anyhow::Result<Exit> {
    let named = confine::trace(&arguments.run);
    must_be_new(&arguments.out)?;
    arguments.confining.enter(named, Some(&arguments.out))?;
    runs::choose(&mut arguments.run);
    let arguments = &arguments;
    let path = &arguments.run;
    let json = path.join("trace.json");
    let text = manifest_text(&json).with_context(|| {
        format!(
            "{}: cannot be read: give the folder that a run left ('-o' of capture, emulate, load)",
            json.display()
        )
    })?;
    let manifest: Value = serde_json::from_str(&text)
        .with_context(|| format!("{}: damaged; send what there is of it", json.display()))?;
    let mut scrub = Scrub::default();
    let files = gathered(arguments, tool, &manifest, &mut scrub);
    let bytes = write_new(&arguments.out, |file| write(file, &files, arguments))?;
    print(&summary(arguments, &scrub, files.len(), bytes))?;
    Ok(Exit::Done)
}

/// The files that are made here, by name.
fn gathered(
    arguments: &Arguments,
    (version, examined): (String, Doctor),
    manifest: &Value,
    scrub: &mut Scrub,
) -> Vec<(String, Vec<u8>)> {
    let mut examined = serde_json::to_value(examined).expect("every key is a text");
    let mut trace = manifest.clone();
    let mut tables = tables::described(&arguments.run);
    let mut logs = logs(&arguments.run);
    if !arguments.with_names {
        trace = of_trace(manifest, scrub);
        tables = scrub.json(&tables);
        of_doctor(&mut examined, scrub);
        for (_, log) in &mut logs {
            let lines: Vec<String> = log.lines().map(|line| scrub.text(line)).collect();
            *log = lines.join("\n");
        }
    }
    let about = json!({
        "version": "1.0",
        "names_kept": arguments.with_names,
        "tables_added": arguments.with_tables,
        "replaced": scrub.counts(),
    });
    let mut files = vec![
        ("about.json".to_owned(), text_of(&about)),
        ("version.txt".to_owned(), version.into_bytes()),
        ("trace.json".to_owned(), text_of(&trace)),
        ("tables.json".to_owned(), text_of(&tables)),
        ("doctor.json".to_owned(), text_of(&examined)),
    ];
    files.extend(logs.into_iter().map(|(name, log)| (name, log.into_bytes())));
    files
}

/// `what`, `state`, `effect` and figures are ours. What was found holds names of interfaces; the
/// remedies hold the path of the program.
fn of_doctor(examined: &mut Value, scrub: &mut Scrub) {
    examined["facts"] = scrub.json(&examined["facts"]);
    let findings = examined["findings"].as_array_mut();
    for finding in findings.into_iter().flatten() {
        let found = finding["found"].as_str().unwrap_or_default();
        finding["found"] = scrub.text(found).into();
        if let Some(finding) = finding.as_object_mut() {
            finding.remove("remedy");
        }
    }
}

/// The ends of the logs in the folder of the run, named by number.
fn logs(run: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = { entries.map(|entry| entry.path()) }
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .collect();
    paths.sort();
    let ends = paths.iter().filter_map(|path| end_of(path).ok());
    ends.enumerate()
        .map(|(at, end)| (format!("log-{}.txt", at + 1), end))
        .collect()
}

/// Writes the archive; its length.
fn write(file: File, files: &[(String, Vec<u8>)], arguments: &Arguments) -> anyhow::Result<u64> {
    let mut out = BufWriter::new(file);
    for (name, content) in files {
        tar::append(&mut out, &format!("{TOP}/{name}"), content)?;
    }
    if arguments.with_tables {
        for (name, path) in tables::parts(&arguments.run) {
            let name = format!("{TOP}/{name}");
            if name.len() > tar::NAME_MAX {
                bail!("{}: its name is too long for the archive", path.display());
            }
            let mut content = Vec::new();
            let read = open_file(&path).and_then(|mut part| part.read_to_end(&mut content));
            read.with_context(|| format!("{}: cannot be read", path.display()))?;
            tar::append(&mut out, &name, &content)?;
        }
    }
    tar::finish(&mut out)?;
    Ok(out.into_inner()?.metadata()?.len())
}

fn summary(arguments: &Arguments, scrub: &Scrub, count: usize, bytes: u64) -> String {
    let mut out = format!(
        "{}: {count} files, {}\n",
        arguments.out.display(),
        lineside_words::bytes(bytes)
    );
    out += &replaced(arguments.with_names, scrub);
    out += match arguments.with_tables {
        true => {
            "added        the tables: they hold every address, user, file name and handle that the \
             run saw\n"
        }
        false => "left out     the rows of all tables (--with-tables adds them)\n",
    };
    out
}
