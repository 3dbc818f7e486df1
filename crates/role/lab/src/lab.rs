//! A lab in its folder: what is not there yet is run.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lineside_host::{Descendants, Ender, Signals, Stopwatch};

use crate::facts::{self, FACTS, FactsReader};
use crate::point::{Figure, Setting, Went, last_lines, run};
use crate::record::{POINT, folder_of, keep, run_in};
use crate::results::{EXPERIMENT, is_spared};
use crate::{Experiment, LabError, Planned, PointRun};

/// A lab that runs.
pub struct Lab<'a> {
    of: Setting<'a>,
    _lock: File,
}

/// What happens meanwhile.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A run of a point begins.
    Begins {
        /// Which one.
        planned: Planned,
        /// Runs that are done.
        done: usize,
        /// Runs in all.
        all: usize,
    },
    /// It was measured.
    Measured(&'a PointRun),
    /// Its links were disturbed: it is run again.
    Again(&'a PointRun),
}

/// How long a lab waits for the end of another one in its folder.
const LOCK: Duration = Duration::from_secs(2);

/// What the folder of a lab holds beside its points.
const FILES: [&str; 6] = [
    EXPERIMENT,
    FACTS,
    "about.json",
    "lab.json",
    "points",
    INSTALLED,
];

/// What a step of install printed.
const INSTALLED: &str = "install.log";

impl<'a> Lab<'a> {
    /// Makes the folder, or goes on in one of the same experiment (`resumes`). `replaces` empties
    /// one of any lab. `rsh` starts a program on another machine. To be called before there is
    /// another thread.
    pub fn begin(
        experiment: &'a Experiment,
        (folder, home, rsh): (&'a Path, &'a Path, &'a str),
        (resumes, replaces): (bool, bool),
        figure: &'a Figure,
        signals: &'a Signals,
    ) -> Result<Self, LabError> {
        let descendants = Descendants::adopt(Ender::default());
        let descendants = descendants.map_err(LabError::system("cannot adopt processes"))?;
        fs::create_dir_all(folder).map_err(LabError::file(folder, "cannot be made"))?;
        let file = folder.join(EXPERIMENT);
        let is_there = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if is_there && replaces {
            empty(folder)?;
        } else if is_there {
            let known = fs::read_to_string(&file).ok();
            let name = folder.display();
            let refused = |why: &str| Err(LabError::Usage(format!("{name} {why}")));
            match known {
                None => return refused("exists and is no lab: give another folder with -o"),
                Some(_) if !resumes => {
                    return refused(
                        "exists: --resume runs what is missing, --force replaces it, -o names \
                         another folder",
                    );
                }
                Some(known) if known != experiment.text => {
                    return refused(
                        "is of another file, or of this one before it was changed: give another \
                         folder with -o, or --force to replace it",
                    );
                }
                Some(_) => {}
            }
        }
        if !file.exists() {
            let written = fs::write(&file, &experiment.text);
            written.map_err(LabError::file(&file, "cannot be written"))?;
        }
        let lock = File::open(&file).map_err(LabError::file(&file, "cannot be read"))?;
        // The point of one that was killed ends a moment after it.
        let since = Stopwatch::start();
        while lock.try_lock().is_err() && since.elapsed() < LOCK {
            since.wait_until(since.elapsed() + LOCK / 100);
        }
        if lock.try_lock().is_err() {
            let why = format!(
                "{}: another lab runs in it: wait for its end",
                folder.display()
            );
            return Err(LabError::Usage(why));
        }
        let reader = FactsReader::of(experiment, home);
        if !folder.join(FACTS).exists() {
            keep(folder, FACTS, &reader.read())?;
        }
        let of = Setting {
            experiment,
            folder,
            home,
            rsh,
            figure,
            signals,
            descendants,
            facts: facts::facts_in(folder),
            reader,
        };
        Ok(Self { of, _lock: lock })
    }

    /// Runs what nodes ask for first, as this process's user and with the machine's network. `on`
    /// is given each command before it runs. The signal that ended it, if one did.
    pub fn install(&self, on: &mut dyn FnMut(&str)) -> Result<Option<u8>, LabError> {
        let path = self.of.folder.join(INSTALLED);
        for step in self.of.experiment.installs() {
            on(step);
            let log = File::create(&path).map_err(LabError::file(&path, "cannot be made"))?;
            let error = log
                .try_clone()
                .map_err(LabError::file(&path, "cannot be made"))?;
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", step]).current_dir(self.of.home);
            let status = shell
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(error)
                .status();
            let status = status.map_err(LabError::system("cannot start a step of install"))?;
            if let Some(signal) = self.of.signals.stop() {
                return Ok(Some(signal));
            }
            if !status.success() {
                let lines = last_lines(&path);
                return Err(LabError::Point(format!(
                    "install: '{step}': {status}{lines}"
                )));
            }
        }
        Ok(None)
    }

    /// Runs what is missing. The signal that ended it, if one did.
    pub fn run(&self, on: &mut dyn FnMut(Progress<'_>)) -> Result<Option<u8>, LabError> {
        let order = self.of.experiment.order();
        let all = order.len();
        let is_missing = |planned: &Planned| run_in(&folder_of(self.of.folder, *planned)).is_none();
        let missing: Vec<_> = order.into_iter().filter(is_missing).collect();
        let before = all - missing.len();
        for (number, planned) in missing.into_iter().enumerate() {
            if is_spared(self.of.experiment, planned, &|point| self.runs_of(point)) {
                continue;
            }
            let done = before + number;
            on(Progress::Begins { planned, done, all });
            for attempt in 1.. {
                if let Some(signal) = self.of.signals.stop() {
                    return Ok(Some(signal));
                }
                let ran = match run(&self.of, planned, attempt)? {
                    Went::Measured(ran) => ran,
                    Went::Interrupted => return Ok(self.of.signals.stop()),
                };
                if ran.is_disturbed() && attempt <= self.of.experiment.retries {
                    on(Progress::Again(&ran));
                    continue;
                }
                self.keep(planned, &ran)?;
                on(Progress::Measured(&ran));
                break;
            }
        }
        Ok(None)
    }

    /// The runs of a point that are there.
    fn runs_of(&self, point: usize) -> Vec<PointRun> {
        let runs = 1..=self.of.experiment.repeats;
        let runs = runs.map(|repeat| folder_of(self.of.folder, Planned { point, repeat }));
        runs.filter_map(|folder| run_in(&folder)).collect()
    }

    /// Writes what was measured, whole or not at all: from then on the run is there.
    fn keep(&self, planned: Planned, ran: &PointRun) -> Result<(), LabError> {
        keep(&folder_of(self.of.folder, planned), POINT, ran)
    }
}

/// Removes what a lab left in its folder; fails if something else is there.
pub fn empty(folder: &Path) -> Result<(), LabError> {
    let read = || LabError::file(folder, "cannot be read");
    let entries = fs::read_dir(folder).map_err(read())?;
    let entries = entries.collect::<Result<Vec<_>, _>>().map_err(read())?;
    let is_ours = |name: &str| FILES.contains(&name) || name.starts_with("point=");
    let foreign = { entries.iter() }.find(|it| !is_ours(&it.file_name().to_string_lossy()));
    if let Some(foreign) = foreign {
        let (name, folder) = (foreign.path(), folder.display());
        return Err(LabError::Usage(format!(
            "{}: it is no part of a lab, so --force does not replace {folder}",
            name.display()
        )));
    }
    for entry in entries {
        let path = entry.path();
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(LabError::file(&path, "cannot be removed"))?;
    }
    Ok(())
}
