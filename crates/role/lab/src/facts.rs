//! Facts of the system under test: the machine, and the first program of each node's command.
//!
//! A lab has them once, in `facts.json`; a run of a point has what differed before and after it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lineside_host::{MachineFacts, StealCounts};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::record::folder_of;
use crate::words::filled;
use crate::{Experiment, Planned, PointRun};

/// Facts by name, as texts.
pub type Facts = BTreeMap<String, String>;

/// A fact that is not the same in two places; `None` where it is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Differing {
    /// Its name.
    pub fact: String,
    /// Here, or before.
    pub one: Option<String>,
    /// There, or after.
    pub other: Option<String>,
}

/// What differed in a run: before it from the lab's facts, and after it from those before it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunFacts {
    /// Before its first program began.
    pub before: Facts,
    /// After its last one had ended. `steal` is that of the run alone.
    pub after: Facts,
}

/// The file of a lab's facts, and of a run's.
pub const FACTS: &str = "facts.json";

/// How the names of programs begin.
const PROGRAM: &str = "program.";
/// What stands for one that is not there.
const NOT_FOUND: &str = "not found";
/// Programs that are looked at.
const PROGRAMS_MAX: usize = 64;
/// What is different from one moment to the next.
const PASSING: [&str; 2] = ["load", "steal"];
/// A load that differs by less is no other state of a machine.
const LOAD_MIN: f64 = 1.0;

/// The facts of a lab's folder; none where it has none.
pub fn facts_in(folder: &Path) -> Facts {
    let text = fs::read_to_string(folder.join(FACTS)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The facts of a run in a lab's folder.
pub fn facts_of_run(folder: &Path, run: &PointRun) -> RunFacts {
    let planned = Planned {
        point: run.point,
        repeat: run.repeat,
    };
    let text = fs::read_to_string(folder_of(folder, planned).join(FACTS)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Which facts are not the same. A load that is nearly the same is; adapters are compared by what
/// they are, whatever they are called.
pub fn differing(one: &Facts, other: &Facts) -> Vec<Differing> {
    let [one, other] = [one, other].map(published);
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differs = |name: &&&String| {
        let (one, other) = (one.get(**name), other.get(**name));
        let load = |of: Option<&String>| of.and_then(|text| text.parse::<f64>().ok());
        match name.as_str() {
            "steal" => false,
            "load" => match (load(one), load(other)) {
                (Some(one), Some(other)) => (one - other).abs() >= LOAD_MIN,
                (one, other) => one.is_some() != other.is_some(),
            },
            _ => one != other,
        }
    };
    let names = names.iter().filter(differs);
    let found = names.map(|name| Differing {
        fact: (*name).clone(),
        one: one.get(*name).cloned(),
        other: other.get(*name).cloned(),
    });
    found.collect()
}

/// Facts as others may have them: adapters have numbers for names, in the order of what they are,
/// and a kernel is named without what its builder called it.
pub fn published(facts: &Facts) -> Facts {
    let is_adapter = |name: &str| name.starts_with(lineside_host::ADAPTER);
    let (adapters, mut rest): (Facts, Facts) =
        { facts.clone().into_iter() }.partition(|(name, _)| is_adapter(name));
    let mut adapters: Vec<String> = adapters.into_values().collect();
    adapters.sort();
    for (number, what) in adapters.into_iter().enumerate() {
        let name = format!("{}{}", lineside_host::ADAPTER, number + 1);
        rest.insert(name, what);
    }
    if let Some(kernel) = rest.get_mut("kernel") {
        *kernel = released(kernel);
    }
    rest
}

/// What distributions put into the release of a kernel; other words are of who built it.
const KERNELS: [&str; 17] = [
    "amd64",
    "arm64",
    "aws",
    "azure",
    "cloud",
    "default",
    "gcp",
    "generic",
    "kvm",
    "lowlatency",
    "lts",
    "microsoft",
    "oracle",
    "rpi",
    "rt",
    "virtual",
    "x86_64",
];

fn released(kernel: &str) -> String {
    let is_known = |part: &&str| {
        let is_number = part
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_number || KERNELS.contains(part)
    };
    let parts = kernel.split(['-', '+']);
    let parts = parts.map(|part| if is_known(&part) { part } else { "x" });
    parts.collect::<Vec<_>>().join("-")
}

/// What of `now` is not as it was `before`; a fact that is gone is empty.
fn changed(before: &Facts, now: &Facts) -> Facts {
    let mut changed: Facts = { now.iter() }
        .filter(|(name, value)| before.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    changed.extend(gone.map(|name| (name.clone(), String::new())));
    changed
}

/// Reads facts of a lab again and again: programs whose files are as they were are not read twice.
#[derive(Debug)]
pub(crate) struct FactsReader {
    /// The words of programs, and the files that they were found in.
    programs: BTreeMap<String, Option<PathBuf>>,
    known: RefCell<HashMap<PathBuf, (Stamp, String)>>,
}

/// What of a file changes when another one takes its place.
type Stamp = (u64, u64, i64, i64);

impl FactsReader {
    pub(crate) fn of(lab: &Experiment, home: &Path) -> Self {
        Self {
            programs: programs(lab, home),
            known: RefCell::default(),
        }
    }

    /// The facts as they are now.
    pub(crate) fn read(&self) -> Facts {
        let mut facts = MachineFacts::ask().by_name();
        // Links are made by this program.
        let own = std::env::current_exe().ok();
        let own = own.and_then(|file| self.program(&file));
        let own = own.map_or_else(String::new, |what| format!(", {what}"));
        let version = env!("CARGO_PKG_VERSION");
        facts.insert("lineside".to_owned(), format!("{version}{own}"));
        for (word, file) in &self.programs {
            let what = file.as_deref().and_then(|file| self.program(file));
            let what = what.unwrap_or_else(|| NOT_FOUND.to_owned());
            facts.insert(format!("{PROGRAM}{word}"), what);
        }
        facts
    }

    fn program(&self, file: &Path) -> Option<String> {
        let facts = file.metadata().ok()?;
        let stamp = (facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec());
        let mut known = self.known.borrow_mut();
        if let Some((_, what)) = known.get(file).filter(|(before, _)| *before == stamp) {
            return Some(what.clone());
        }
        let version = package(file).map_or_else(String::new, |package| package + ", ");
        let what = format!("{version}{} bytes, XXH3 {:016x}", facts.len(), hash(file)?);
        known.insert(file.to_owned(), (stamp, what.clone()));
        Some(what)
    }
}

/// The facts of a run, while it goes on.
pub(crate) struct Running {
    before: Facts,
    steal: Option<StealCounts>,
}

impl Running {
    pub(crate) fn begin(reader: &FactsReader) -> Self {
        let (before, steal) = (reader.read(), StealCounts::read());
        Self { before, steal }
    }

    /// What differs, where the lab had these.
    pub(crate) fn end(self, reader: &FactsReader, of_lab: &Facts) -> RunFacts {
        let mut now = reader.read();
        let share = StealCounts::share_since(self.steal);
        let steal = share.map_or_else(String::new, |share| format!("{:.2}%", 100.0 * share));
        now.insert("steal".to_owned(), steal);
        RunFacts {
            before: changed(of_lab, &self.before),
            after: changed(&self.before, &now),
        }
    }
}

impl RunFacts {
    /// Facts of a machine that were not the lab's in this run, or became others in it.
    pub fn moved(&self) -> impl Iterator<Item = &String> {
        let names = self.before.keys().chain(self.after.keys());
        names.filter(|name| !PASSING.contains(&name.as_str()))
    }
}

/// Programs of nodes that were found where the lab has these facts, and are not found here.
pub fn missing_programs(lab: &Experiment, home: &Path, there: &Facts) -> Vec<String> {
    let was_found = |word: &String| {
        let known = there.get(&format!("{PROGRAM}{word}"));
        known.is_some_and(|what| what != NOT_FOUND)
    };
    let programs = programs(lab, home).into_iter();
    let missing = programs.filter_map(|(word, file)| file.is_none().then_some(word));
    missing.filter(was_found).collect()
}

/// The first program of each node's command at each point, and where it is.
fn programs(lab: &Experiment, home: &Path) -> BTreeMap<String, Option<PathBuf>> {
    let mut found = BTreeMap::new();
    // What is on other machines is not looked at.
    for node in lab.nodes.iter().filter(|node| node.host.is_none()) {
        let is_filled = node.run.contains('{');
        let points = if is_filled { lab.points() } else { 1 };
        for point in 1..=points {
            let values = lab.values(point);
            let Some(word) = first_program(&filled(&node.run, &values)) else {
                continue;
            };
            if found.len() < PROGRAMS_MAX && !found.contains_key(&word) {
                let path = { node.env.iter() }.find(|(name, _)| name == "PATH");
                let path = path.map(|(_, value)| filled(value, &values));
                let file = file_of(&word, home, path);
                found.insert(word, file);
            }
        }
    }
    found
}

/// Words after which a command still begins.
const BEFORE: [&str; 14] = [
    "!", "(", "do", "else", "env", "exec", "if", "nice", "setsid", "then", "time", "until",
    "while", "{",
];
/// What a shell does itself.
const BUILT_IN: [&str; 25] = [
    ".", ":", "[", "case", "cd", "done", "echo", "esac", "exit", "export", "false", "fi", "for",
    "kill", "printf", "read", "return", "set", "shift", "test", "trap", "true", "ulimit", "umask",
    "wait",
];

/// The first word of a shell's command that is a program's name, as far as it stands there.
fn first_program(command: &str) -> Option<String> {
    // `2>&1` is no end of a command.
    let command = command.replace(">&", ">");
    let mut simple = command.split(['\n', ';', '&', '|']);
    simple.find_map(|simple| {
        let mut words = simple.split_whitespace().skip_while(|word| {
            let name = word.split_once('=').map(|(name, _)| name);
            let is_variable = name.is_some_and(|name| {
                name.chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            });
            BEFORE.contains(word) || is_variable
        });
        let word = words.next()?.trim_matches(['"', '\'']);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-+/".contains(letter);
        let is_program = !BUILT_IN.contains(&word) && word.chars().all(is_name);
        (is_program && !word.is_empty()).then(|| word.to_owned())
    })
}

/// The file of a program, as a node's shell finds it.
fn file_of(word: &str, home: &Path, path: Option<String>) -> Option<PathBuf> {
    let is_there = |file: &PathBuf| {
        let facts = file.metadata();
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let found = match word.contains('/') {
        true => Some(home.join(word)).filter(is_there),
        false => {
            let path = path
                .or_else(|| std::env::var("PATH").ok())
                .unwrap_or_default();
            let folders = path.split(':').map(PathBuf::from);
            let own = std::env::current_exe().ok();
            let own = own.as_deref().and_then(Path::parent).map(Path::to_owned);
            let files = folders
                .chain(own)
                .map(|folder| home.join(folder).join(word));
            { files }.find(is_there)
        }
    };
    found?.canonicalize().ok()
}

fn hash(file: &Path) -> Option<u64> {
    let mut file = File::open(file).ok()?;
    let (mut hasher, mut some) = (XxHash3_64::default(), vec![0; 1 << 17]);
    loop {
        match file.read(&mut some).ok()? {
            0 => return Some(hasher.finish()),
            count => hasher.write(&some[..count]),
        }
    }
}

/// The package of Debian's that a file is of, and its version.
fn package(file: &Path) -> Option<String> {
    let database = Path::new("/var/lib/dpkg");
    let name = file.to_str()?;
    // A system whose /bin is /usr/bin may have it by either name.
    let names = [name, name.strip_prefix("/usr").unwrap_or(name)];
    let lists = fs::read_dir(database.join("info")).ok()?.flatten();
    let lists = lists.map(|entry| entry.path());
    let mut lists = lists.filter(|path| path.extension().is_some_and(|kind| kind == "list"));
    let list = lists.find(|list| {
        let text = fs::read_to_string(list).unwrap_or_default();
        text.lines().any(|line| names.contains(&line))
    })?;
    let package = list.file_stem()?.to_str()?.split(':').next()?.to_owned();
    let status = fs::read_to_string(database.join("status")).ok()?;
    let begin = format!("Package: {package}\n");
    let mut entries = status.split("\n\n");
    let entry = entries.find(|entry| entry.trim_start().starts_with(&begin))?;
    let version = entry
        .lines()
        .find_map(|line| line.strip_prefix("Version: "))?;
    Some(format!("{package} {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_of_a_command_is_found() {
        for (command, expected) in [
            ("exec memcached -u nobody -t 1", Some("memcached")),
            ("A=1 B='x' exec ./server --port 1", Some("./server")),
            ("cd /srv && exec bin/run", Some("bin/run")),
            (
                "trap '' TERM\nfor i in 1 2; do wget -q x; done",
                Some("wget"),
            ),
            ("env LANG=C nginx -g 'daemon off;'", Some("nginx")),
            ("echo nothing >&2\nexec sort 2>&1", Some("sort")),
            ("echo nothing", None),
            ("exec $PROGRAM", None),
            ("", None),
        ] {
            assert_eq!(first_program(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn a_program_that_changes_is_another_fact() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("serve");
        let put = |text: &str| {
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("ours");
        };
        put("#!/bin/sh\n");
        let lab = crate::experiment::tests::parse(
            "node.a = { run = \"./{build}\" }\nnode.b = { run = \"exec sh -c x\" }\n\
             link.l = { between = [\"a\", \"b\"] }\nsweep = { build = [\"serve\", \"none\"] }",
        );
        let lab = lab.expect("it is right");
        let there = Facts::from([("program../none".to_owned(), "1 bytes".to_owned())]);
        let missing = |there| missing_programs(&lab, folder.path(), there);
        assert_eq!(missing(&there), ["./none"]);
        assert!(missing(&Facts::new()).is_empty());
        let reader = FactsReader::of(&lab, folder.path());
        let facts = reader.read();
        assert_eq!(facts["program../none"], "not found");
        assert!(
            facts["program../serve"].contains("10 bytes, XXH3 "),
            "{facts:?}"
        );
        assert!(facts.contains_key("kernel") && facts.contains_key("program.sh"));
        let running = Running::begin(&reader);
        put("#!/bin/sh\nexit\n");
        let found = running.end(&reader, &facts);
        let moved: Vec<_> = found.moved().collect();
        assert_eq!(moved, ["program../serve"], "{found:?}");
        assert!(!found.before.contains_key("program../serve"));
    }

    #[test]
    fn a_kernel_is_named_without_its_builder() {
        for (kernel, expected) in [
            ("6.1.0-17-cloud-amd64", "6.1.0-17-cloud-amd64"),
            ("6.8.0-45-generic", "6.8.0-45-generic"),
            ("6.9.1-zorkmid", "6.9.1-x"),
            ("6.9.1+zorkmid-2", "6.9.1-x-2"),
        ] {
            assert_eq!(released(kernel), expected);
        }
    }

    #[test]
    fn facts_differ_by_what_they_are() {
        let of = |pairs: &[(&str, &str)]| -> Facts {
            let owned = pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            owned.collect()
        };
        let one = of(&[
            ("adapter.eth0", "x, MTU 1500"),
            ("cores", "2"),
            ("load", "0.5"),
            ("steal", "1%"),
        ]);
        let same = of(&[
            ("adapter.ens3", "x, MTU 1500"),
            ("cores", "2"),
            ("load", "1.2"),
            ("steal", "2%"),
        ]);
        assert_eq!(differing(&one, &same), []);
        let other = of(&[
            ("adapter.eth0", "x, MTU 9000"),
            ("cores", "4"),
            ("governor", "performance"),
            ("load", "3.5"),
        ]);
        let found = differing(&one, &other);
        let names: Vec<_> = found.iter().map(|it| it.fact.as_str()).collect();
        assert_eq!(names, ["adapter.1", "cores", "governor", "load"]);
        assert_eq!(found[2].one, None);
    }
}
