//! `lineside lab rerun`: the lab of a bundle, run here, and what of it is reproduced.

use std::fs::{self, File};
use std::io::{BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use lineside_host::Signals;
use lineside_lab::{
    Bundle, EXPERIMENT, Experiment, Lab, Progress, Reproduced, Results, facts_in, missing_programs,
};

use super::figures;
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::experiments::figures::Figures;
use crate::experiments::reproduced;
use crate::print::{json_text, print, print_json, say, talk};

/// Flags of `lab rerun`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The bundle, of 'lineside lab bundle'
    #[arg(value_name = "FILE.tar")]
    file: PathBuf,
    /// Leave the runs from there and from here in this folder; by default it has the name of the
    /// bundle, without .tar
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Run the commands of the bundle without asking
    #[arg(short, long)]
    yes: bool,
    /// By how much a metric that is reproduced may differ
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    threshold: f64,
    /// Run what is missing in RUN: one that was interrupted goes on
    #[arg(long)]
    resume: bool,
    /// Replace RUN if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Print JSON (docs/schema/rerun_lab.schema.json)
    #[arg(long)]
    json: bool,
    /// Command that starts a program on the other machine of a node's 'host'
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "ssh",
        allow_hyphen_values = true
    )]
    rsh: String,
    /// Say nothing while it runs
    #[arg(short, long)]
    quiet: bool,
}

fn share(word: &str) -> Result<f64, String> {
    let share = lineside_words::parse_share(word).filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| format!("'{word}' is no share: write 10% or 0.1"))
}

impl Arguments {
    fn folder(&self) -> PathBuf {
        let of_file = || {
            let name = self.file.with_extension("");
            PathBuf::from(name.file_name().unwrap_or(name.as_os_str()))
        };
        self.output.clone().unwrap_or_else(of_file)
    }

    fn read(
        &self,
        on_file: impl FnMut(&str, &[u8]) -> Result<(), String>,
    ) -> anyhow::Result<Bundle> {
        let name = self.file.display();
        let file = File::open(&self.file).with_context(|| format!("{name}: cannot be read"))?;
        Bundle::read(BufReader::new(file), on_file).map_err(|why| anyhow::anyhow!("{name}: {why}"))
    }
}

/// Leaves what a lab found in its folder.
type Keep = fn(&Results, &Figures, &Path) -> anyhow::Result<()>;

pub(super) fn run(
    arguments: &Arguments,
    keep: Keep,
    on_progress: fn(&Experiment, &Progress<'_>),
) -> anyhow::Result<Exit> {
    // All of it is looked at before anything of it is written or run.
    let bundle = arguments.read(|_, _| Ok(()))?;
    let home = lineside_lab::home(&arguments.file);
    must_have_programs(&bundle, home)?;
    if !arguments.yes && !is_agreed(&bundle.experiment, home)? {
        say("nothing was run");
        return Ok(Exit::Failure);
    }
    let folder = arguments.folder();
    let [there, here] = ["there", "here"].map(|name| folder.join(name));
    unpack(arguments, &there)?;
    // The words of links may name files, which are looked at now.
    let experiment = Experiment::read_for(&there.join(EXPERIMENT), home)?;
    let signals = Signals::register().context("cannot handle signals")?;
    let kept = (arguments.resume, arguments.force);
    let lab = Lab::begin(
        &experiment,
        (&here, home, &arguments.rsh),
        kept,
        &figures::of,
        &signals,
    )?;
    let ran = lab.run(&mut |progress| {
        if !arguments.quiet {
            on_progress(&experiment, &progress);
        }
    });
    drop(lab);
    let [of_there, of_here] = [Results::read(&there)?, Results::read(&here)?];
    let figures = Figures::of(&of_here, None).with_facts(&here);
    keep(&of_here, &figures, &here)?;
    let facts = [facts_in(&there), facts_in(&here)];
    let (there, here) = ((&of_there, &facts[0]), (&of_here, &facts[1]));
    let found = Reproduced::of(there, here, arguments.threshold)?;
    let document = folder.join("rerun.json");
    let written = fs::write(&document, json_text(&found)?);
    written.with_context(|| format!("{}: cannot be written", document.display()))?;
    match arguments.json {
        true => print_json(&found)?,
        false => print(&reproduced::text(&found, &experiment))?,
    }
    let resuming = || {
        let (file, folder) = (arguments.file.display(), folder.display());
        say(&format!(
            "all runs so far stand; 'lineside lab rerun {file} -o {folder} --resume' runs the \
             others"
        ));
    };
    let signal = ran.inspect_err(|_| resuming())?;
    if let Some(signal) = signal {
        resuming();
        return Ok(Exit::Signal(signal));
    }
    Ok(match found.holds() {
        true => Exit::Done,
        false => Exit::Assertion,
    })
}

fn must_have_programs(bundle: &Bundle, home: &Path) -> anyhow::Result<()> {
    let missing = missing_programs(&bundle.experiment, home, &bundle.facts);
    if missing.is_empty() {
        return Ok(());
    }
    let (missing, home) = (missing.join(", "), home.display());
    bail!(
        "programs of the bundle are not found here: {missing}; install them, or put those with a \
         path below {home}"
    )
}

/// Shows what the bundle would run, and asks.
fn is_agreed(experiment: &Experiment, home: &Path) -> anyhow::Result<bool> {
    let mut out = String::from("The experiment of the bundle:\n\n");
    for line in experiment.text.lines() {
        out += &format!("  {line}\n");
    }
    out += &format!(
        "\nIts commands are a stranger's. They would run as you, in {}, {} times each.\n",
        home.display(),
        experiment.order().len()
    );
    talk(&out);
    if !std::io::stdin().is_terminal() {
        let why = "standard input is no terminal to ask: read the commands, and add --yes";
        return Err(ConfigError::usage(why).into());
    }
    talk("Run them? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Leaves the runs of the bundle in a new folder, or finds them there.
fn unpack(arguments: &Arguments, there: &Path) -> anyhow::Result<()> {
    let above = there.parent().unwrap_or(there);
    let name = above.display();
    let is_empty = |folder: &Path| fs::read_dir(folder).map_or(true, |mut it| it.next().is_none());
    if !is_empty(above) {
        let is_ours = there.join(EXPERIMENT).is_file();
        match (arguments.resume, arguments.force) {
            (false, false) => {
                let why = format!(
                    "{name} exists: --resume runs what is missing, --force replaces it, -o names \
                     another folder"
                );
                return Err(ConfigError::usage(&why).into());
            }
            _ if !is_ours => bail!("{name} is not of a bundle: give another folder with -o"),
            _ => lineside_lab::empty(there)?,
        }
    }
    fs::create_dir_all(there).with_context(|| format!("{name}: cannot be made"))?;
    arguments.read(|name, content| {
        // A bundle has none but names of its list, so that none leads out.
        let path = there.join(name);
        let folder = path.parent().unwrap_or(there);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, content));
        written.map_err(|error| format!("{}: {error}", path.display()))
    })?;
    Ok(())
}
