//! `lineside bundle`: what a report of a fault needs, in one file that has no name, address, path
//! or handle unless asked for.

pub(crate) mod scrub;
mod tables;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use lineside_lab::tar;
use lineside_run::doctor::Doctor;
use lineside_trace::{manifest_text, open_file};
use serde_json::{Value, json};

use crate::confine::{self, Confining};
use crate::exit::Exit;
use crate::print::print;
use crate::runs;
use scrub::Scrub;

/// The folder in the archive.
const TOP: &str = "lineside-bundle";
/// Of the end of a log.
const LOG_BYTES: u64 = 64 << 10;

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

/// Has an archive written that was made when the sandbox was entered; its length.
pub(crate) fn write_new(
    out: &Path,
    write: impl FnOnce(File) -> anyhow::Result<u64>,
) -> anyhow::Result<u64> {
    let opened = OpenOptions::new().write(true).open(out);
    // It was made for this, unless it could not be.
    let file = opened.or_else(|_| File::create_new(out));
    let file =
        file.map_err(|error| anyhow::anyhow!("{}: cannot be made: {error}", out.display()))?;
    let half = file.try_clone()?;
    let written = write(file);
    if written.is_err() {
        // Half of an archive is none, and goes when it is empty; the error of writing is the one to
        // report.
        let _ = half.set_len(0);
    }
    written.with_context(|| format!("{}: not written", out.display()))
}

/// Fails if an archive is there already.
pub(crate) fn must_be_new(out: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        out.symlink_metadata().is_err(),
        "{}: exists already and is not replaced: name another with -o",
        out.display()
    );
    Ok(())
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

pub(crate) fn text_of(value: &Value) -> Vec<u8> {
    let text = serde_json::to_string_pretty(value).expect("every key is a text");
    (text + "\n").into_bytes()
}

/// `trace.json` without what must not stand. Versions have points, which texts may not have.
pub(crate) fn of_trace(manifest: &Value, scrub: &mut Scrub) -> Value {
    let mut out = scrub.json(manifest);
    let places = [
        ("/tool/version", false),
        ("/schema_version", false),
        ("/machine/kernel", true),
    ];
    for (place, is_begin) in places {
        let was = manifest.pointer(place).and_then(Value::as_str);
        if let (Some(was), Some(now)) = (was, out.pointer_mut(place)) {
            // Of a kernel the distributor's part stays out.
            let was = match is_begin {
                true => was.split(['-', '+']).next().unwrap_or_default(),
                false => was,
            };
            *now = scrub::version(was).into();
        }
    }
    out
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

pub(crate) fn end_of(path: &Path) -> io::Result<String> {
    let mut file = open_file(path)?;
    let len = file.metadata()?.len();
    let begin = len.saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end).into_owned();
    // The first line is not whole.
    Ok(match begin {
        0 => end,
        _ => end.split_once('\n').map_or("", |(_, rest)| rest).to_owned(),
    })
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

/// What was replaced, in a line.
pub(crate) fn replaced(are_kept: bool, scrub: &Scrub) -> String {
    let counts = scrub.counts();
    let replaced: Vec<String> = { counts.iter() }
        .map(|(kind, count)| match (*kind, *count) {
            (kind, 1) => format!("1 {kind}"),
            ("address", count) => format!("{count} different addresses"),
            (kind, count) => format!("{count} different {kind}s"),
        })
        .collect();
    match (are_kept, replaced.is_empty()) {
        (true, _) => "kept         every name, address and path (--with-names)\n".to_owned(),
        (false, true) => "replaced     nothing: there was nothing to replace\n".to_owned(),
        (false, false) => format!("replaced     {}\n", replaced.join(", ")),
    }
}
