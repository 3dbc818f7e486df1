//! A lab in one file, made for others: a tar archive of its experiment, its facts and its runs.
//!
//! ```text
//!  lineside-lab/about.json         the version of this form, and what was replaced
//!               lab.toml           the experiment
//!               facts.json         of the system it ran on
//!               point=N/repeat=R/  point.json, trace.json, facts.json, NODE.out, NODE.err
//! ```
//!
//! Unpacked, it is the folder of a lab. Who reads one does not know who made it: names are those of
//! this list and no others, each once; a run is that of its place; lengths are bounded.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::facts::FACTS;
use crate::record::{POINT, folder_of};
use crate::results::EXPERIMENT;
use crate::{Experiment, Facts, Planned, PointRun, tar};

/// The version of this form.
pub const BUNDLE_VERSION: &str = "1.0";
/// The folder in the archive.
pub const BUNDLE_TOP: &str = "lineside-lab";
/// What a bundle says of itself: its first file.
pub const ABOUT: &str = "about.json";
/// The certificate of a run's links.
pub const TRACE: &str = "trace.json";

/// Bytes of an experiment.
const EXPERIMENT_MAX: usize = 64 << 10;
/// Bytes of any other file.
const FILE_MAX: usize = 16 << 20;
/// Runs of a lab.
const RUNS_MAX: usize = 1_000_000;

/// What a bundle says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct About {
    /// [`BUNDLE_VERSION`]; one with another first number is another form.
    pub bundle_version: String,
    /// The version of the program that made it.
    pub lineside: String,
    /// Runs in it.
    pub runs: usize,
    /// Whether names, addresses and paths stand as they were.
    pub names_kept: bool,
}

/// A bundle that was read.
#[derive(Debug)]
pub struct Bundle {
    /// What it says of itself.
    pub about: About,
    /// Its experiment.
    pub experiment: Experiment,
    /// The facts of the system that it ran on.
    pub facts: Facts,
}

/// Names of the files of a run in a lab's folder, without those of tables.
pub fn run_files(lab: &Experiment) -> Vec<String> {
    let fixed = [POINT, TRACE, FACTS].map(str::to_owned);
    let outputs = { lab.nodes.iter() }
        .flat_map(|node| ["out", "err"].map(|end| format!("{}.{end}", node.name)));
    fixed.into_iter().chain(outputs).collect()
}

/// The folder of a run within that of its lab.
pub fn run_folder(planned: Planned) -> String {
    folder_of(Path::new(""), planned).display().to_string()
}

impl Bundle {
    /// Reads a bundle, and passes each of its files on once it has been found right. The error says
    /// what is wrong, in words.
    pub fn read(
        input: impl Read,
        mut on_file: impl FnMut(&str, &[u8]) -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut reading = Reading::default();
        tar::read(input, FILE_MAX, |name, content| {
            let shown = || lineside_words::escape(name);
            let name = name
                .strip_prefix(BUNDLE_TOP)
                .and_then(|it| it.strip_prefix('/'));
            let name = name.ok_or_else(|| format!("{} is not of a bundle of a lab", shown()))?;
            if !reading.names.insert(name.to_owned()) {
                return Err(format!("{} is there twice", shown()));
            }
            let taken = reading.take(name, content);
            taken.map_err(|why| format!("{}: {why}", shown()))?;
            on_file(name, content)
        })?;
        reading.end()
    }
}

/// A bundle of which some files were read.
#[derive(Default)]
struct Reading {
    names: BTreeSet<String>,
    about: Option<About>,
    experiment: Option<Experiment>,
    facts: Option<Facts>,
    runs: usize,
}

impl Reading {
    fn take(&mut self, name: &str, content: &[u8]) -> Result<(), String> {
        let Some(_) = &self.about else {
            self.about = Some(about(name, content)?);
            return Ok(());
        };
        let Some(experiment) = &self.experiment else {
            self.experiment = Some(experiment(name, content)?);
            return Ok(());
        };
        if name == FACTS {
            self.facts = Some(json(content)?);
            return Ok(());
        }
        let run = name.rsplit_once('/').and_then(|(folder, file)| {
            let planned = planned(folder)?;
            let is_of =
                experiment.has(planned) && run_files(experiment).iter().any(|it| it == file);
            is_of.then_some((planned, file))
        });
        match run {
            None => Err("no file of this lab has such a name".to_owned()),
            Some((planned, POINT)) => {
                self.runs += 1;
                json(content).and_then(|run| check(experiment, planned, &run))
            }
            Some(_) => Ok(()),
        }
    }

    fn end(self) -> Result<Bundle, String> {
        let missing = |name: &str| format!("{name} is missing");
        let about = self.about.ok_or_else(|| missing(ABOUT))?;
        if about.runs != self.runs {
            let (all, found) = (about.runs, self.runs);
            return Err(format!("{found} runs are in it, and it was made of {all}"));
        }
        Ok(Bundle {
            about,
            experiment: self.experiment.ok_or_else(|| missing(EXPERIMENT))?,
            facts: self.facts.ok_or_else(|| missing(FACTS))?,
        })
    }
}

fn json<T: serde::de::DeserializeOwned>(content: &[u8]) -> Result<T, String> {
    serde_json::from_slice(content).map_err(|error| error.to_string())
}

fn about(name: &str, content: &[u8]) -> Result<About, String> {
    if name != ABOUT {
        return Err(format!("{ABOUT} is the first file of a bundle"));
    }
    let value: serde_json::Value = json(content)?;
    let version = value["bundle_version"].as_str().unwrap_or_default();
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(version) != major(BUNDLE_VERSION) {
        let (version, by) = (
            lineside_words::escape(version),
            lineside_words::escape(value["lineside"].as_str().unwrap_or("?")),
        );
        return Err(format!(
            "its form is '{version}', of lineside {by}, and this program reads {BUNDLE_VERSION}: \
             take a newer lineside"
        ));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn experiment(name: &str, content: &[u8]) -> Result<Experiment, String> {
    if name != EXPERIMENT {
        return Err(format!("{EXPERIMENT} is the second file of a bundle"));
    }
    if content.len() > EXPERIMENT_MAX {
        return Err(format!("longer than {EXPERIMENT_MAX} bytes"));
    }
    let text = String::from_utf8(content.to_vec()).map_err(|_| "no text".to_owned())?;
    let lab = Experiment::parse(Path::new(EXPERIMENT), text).map_err(|error| error.to_string())?;
    match lab.points().checked_mul(lab.repeats as usize) {
        Some(1..=RUNS_MAX) => Ok(lab),
        _ => Err(format!("it has more than {RUNS_MAX} runs")),
    }
}

/// The run whose folder has this name, written as it is written here.
fn planned(folder: &str) -> Option<Planned> {
    let (point, repeat) = folder.split_once('/')?;
    let planned = Planned {
        point: point.strip_prefix("point=")?.parse().ok()?,
        repeat: repeat.strip_prefix("repeat=")?.parse().ok()?,
    };
    (run_folder(planned) == folder).then_some(planned)
}

/// Whether what a run says of itself is of its place.
fn check(lab: &Experiment, planned: Planned, run: &PointRun) -> Result<(), String> {
    let is_its = (run.point, run.repeat) == (planned.point, planned.repeat)
        && run.axes == lab.values(planned.point)
        && run.seed == lab.seed_of(planned);
    if !is_its {
        return Err("it is of another point, repeat or seed".to_owned());
    }
    let known = |name: &String| lab.metrics().any(|metric| metric.name == *name);
    match run.metrics.keys().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "no metric is called {}",
            lineside_words::escape(name)
        )),
        None => Ok(()),
    }
}

impl Experiment {
    /// Whether a run is of this lab.
    fn has(&self, planned: Planned) -> bool {
        let (point, repeat) = (planned.point, planned.repeat);
        (1..=self.points()).contains(&point) && (1..=self.repeats).contains(&repeat)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lineside_trace::State;
    use serde_json::json;

    use super::*;

    const LAB: &str = "lab = { seed = 3, repeats = 2 }\n\
        node.a = { run = \"serve\" }\n\
        node.b = { run = \"ask {n}\", metric.rate = { regex = \"([0-9]+)\" } }\n\
        link.l = { between = [\"a\", \"b\"] }\nsweep = { n = [1, 2] }\n";

    fn point(planned: Planned) -> PointRun {
        let lab = crate::experiment::tests::parse(LAB).expect("it is right");
        PointRun {
            point: planned.point,
            repeat: planned.repeat,
            axes: lab.values(planned.point),
            seed: lab.seed_of(planned),
            attempts: 1,
            verdict: State::Complete,
            reasons: Vec::new(),
            began_ns: 0,
            elapsed_ns: 0,
            beside_ns: 0,
            nodes: BTreeMap::new(),
            metrics: BTreeMap::from([("rate".to_owned(), 7.0)]),
        }
    }

    /// The files of a bundle, in their order.
    fn files() -> Vec<(String, Vec<u8>)> {
        let about = json!({ "bundle_version": "1.0", "lineside": "0.1.0", "runs": 1,
            "names_kept": false });
        let planned = Planned {
            point: 2,
            repeat: 1,
        };
        let run = serde_json::to_vec(&point(planned)).expect("JSON");
        let file = |name: &str, content: &[u8]| (name.to_owned(), content.to_vec());
        vec![
            file("lineside-lab/about.json", about.to_string().as_bytes()),
            file("lineside-lab/lab.toml", LAB.as_bytes()),
            file("lineside-lab/facts.json", b"{\"cores\": \"2\"}"),
            file("lineside-lab/point=2/repeat=1/point.json", &run),
            file("lineside-lab/point=2/repeat=1/b.out", b"7"),
        ]
    }

    fn read(files: &[(String, Vec<u8>)]) -> Result<Bundle, String> {
        let mut archive = Vec::new();
        for (name, content) in files {
            tar::append(&mut archive, name, content).expect("memory");
        }
        tar::finish(&mut archive).expect("memory");
        Bundle::read(&archive[..], |_, _| Ok(()))
    }

    #[test]
    fn a_bundle_is_read_and_what_is_none_is_refused() {
        let bundle = read(&files()).expect("it is right");
        assert_eq!(bundle.facts["cores"], "2");
        assert_eq!(bundle.experiment.text, LAB);
        let named = |name: &str| {
            let mut files = files();
            files[4].0 = format!("lineside-lab/{name}");
            files
        };
        for name in [
            "../b.out",
            "point=2/repeat=1/../../../b.out",
            "/etc/b.out",
            "point=3/repeat=1/b.out",
            "point=2/repeat=3/b.out",
            "point=02/repeat=1/b.out",
            "point=+2/repeat=1/b.out",
            "point=2/repeat=1/c.out",
            "point=2/repeat=1/b.log",
            "point=2/repeat=1//b.out",
            "",
        ] {
            let error = read(&named(name)).expect_err(name);
            assert!(
                error.contains("no file of this lab has such a name"),
                "{error}"
            );
        }
        let mut outside = files();
        outside[4].0 = "/etc/passwd".to_owned();
        let error = read(&outside).expect_err("outside");
        assert!(error.contains("is not of a bundle"), "{error}");
        let error = read(&named("point=2/repeat=1/point.json")).expect_err("twice");
        assert!(error.contains("is there twice"), "{error}");
    }

    #[test]
    fn a_bundle_that_is_not_what_it_says_is_refused() {
        for (at, from, to, expected) in [
            (0, "\"1.0\"", "\"2.0\"", "take a newer lineside"),
            (0, "\"1.0\"", "\"\\u001b[2J\"", "\\u{1b}[2J"),
            (
                0,
                "\"runs\":1",
                "\"runs\":2",
                "1 runs are in it, and it was made of 2",
            ),
            (1, "node.b", "nod.b", "unknown key nod"),
            (
                1,
                "repeats = 2",
                "repeats = 4000000000",
                "more than 1000000 runs",
            ),
            (2, "{", "[", "facts.json: "),
            (
                3,
                "\"point\":2",
                "\"point\":1",
                "another point, repeat or seed",
            ),
            (
                3,
                "\"n\":\"2\"",
                "\"n\":\"1\"",
                "another point, repeat or seed",
            ),
            (3, "\"seed\":", "\"seed\":1", "point.json: "),
            (3, "\"rate\"", "\"rates\"", "no metric is called rates"),
        ] {
            let mut files = files();
            let text = String::from_utf8(files[at].1.clone()).expect("text");
            assert!(text.contains(from), "{from}: {text}");
            files[at].1 = text.replace(from, to).into_bytes();
            let error = read(&files).expect_err(to);
            assert!(error.contains(expected), "{to}: {error}");
        }
        // A newer one of the same form has more to say.
        let mut newer = files();
        newer[0].1 = String::from_utf8(newer[0].1.clone())
            .expect("text")
            .replace("\"1.0\"", "\"1.7\",\"more\":1")
            .into_bytes();
        assert!(read(&newer).is_ok());
        for at in 0..3 {
            let mut without = files();
            without.remove(at);
            assert!(read(&without).is_err(), "{at}");
        }
    }
}
