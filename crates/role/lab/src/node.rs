//! Nodes: what they run, what they find, and what they may use.

use std::collections::BTreeMap;

use lineside_host::{Cores, NodeLimits, ReadyWhen};
use lineside_words::parse_size;

use crate::elsewhere;
use crate::keys::{Keys, Text};
use crate::words::{check_name, check_word, filled, is_below};
use crate::{LabError, Metric};

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its command, for a shell.
    pub run: String,
    /// The other machine on which it runs: `MACHINE` or `USER@MACHINE`.
    pub host: Option<String>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
    /// Files that it finds in its folder, and their texts.
    pub files: Vec<(String, String)>,
    /// `tcp:PORT`, or a command that succeeds, when it is ready.
    pub ready: Option<String>,
    /// Whether a point goes on until it ends.
    pub is_awaited: bool,
    /// What has to be there before it can run, as commands.
    pub install: Vec<String>,
    /// What is measured of it.
    pub metrics: Vec<Metric>,
    /// What it may use.
    limits: BTreeMap<&'static str, (String, usize)>,
}

const KEYS: [&str; 11] = [
    "run", "host", "env", "files", "ready", "wait", "install", "metric", CPUS, MEMORY, USER,
];
const CPUS: &str = "cpus";
const MEMORY: &str = "memory";
const USER: &str = "user";

/// A shell does not begin in less.
const MEMORY_MIN: u64 = 1 << 20;

/// A limit that cannot be: of which node, which one, and why.
type Wrong = (usize, &'static str, String);

pub(crate) fn nodes(keys: &Keys<'_>, text: Text<'_>) -> Result<Vec<Node>, LabError> {
    let mut nodes = Vec::<Node>::new();
    for (name, table) in keys.tables("node")? {
        check_name(&name).map_err(|why| table.wrong("", &why))?;
        nodes.push(node(name, table, text, &nodes)?);
    }
    match nodes.is_empty() {
        true => Err(keys.missing("node", "a lab has nodes: node.NAME = { run = \"COMMAND\" }")),
        false => Ok(nodes),
    }
}

fn node(name: String, table: Keys<'_>, text: Text<'_>, others: &[Node]) -> Result<Node, LabError> {
    let table = table.only(&KEYS)?;
    let run = table.text("run")?;
    let (run, _) = run.ok_or_else(|| table.missing("run", "the node's command"))?;
    let install = table.texts("install")?;
    let mut node = Node {
        run,
        host: table.read("host", elsewhere::host)?,
        env: Vec::new(),
        files: Vec::new(),
        ready: table.read("ready", ready)?,
        is_awaited: table.truth("wait")?.unwrap_or_default(),
        install: install.map(|(steps, _)| steps).unwrap_or_default(),
        metrics: Vec::new(),
        limits: BTreeMap::new(),
        name,
    };
    for (key, into) in [("env", &mut node.env), ("files", &mut node.files)] {
        let Some(texts) = table.table(key)? else {
            continue;
        };
        for (name, _) in texts.names() {
            let is_odd = key == "files" && !is_below(&name);
            if is_odd {
                return Err(
                    texts.wrong(&name, "a file's name leads nowhere else: no / first, no ..")
                );
            }
            let text = texts.text(&name)?.map(|(text, _)| text);
            into.push((name, text.unwrap_or_default()));
        }
    }
    for key in [CPUS, MEMORY, USER] {
        let limit = match key == CPUS && table.is_list(key) {
            // A list of one is no count.
            true => table
                .texts(key)?
                .map(|(cpus, at)| (cpus.join(",") + ",", at)),
            false => table.text(key)?,
        };
        node.limits.extend(limit.map(|limit| (key, limit)));
    }
    let here = ["files", "install", CPUS, MEMORY, USER].into_iter();
    if let Some(key) = here
        .filter(|_| node.host.is_some())
        .find(|key| table.has(key))
    {
        return Err(table.wrong(key, "it is of this machine, and the node has a host"));
    }
    for (name, keys) in table.tables("metric")? {
        let mut all = { others.iter().flat_map(|node| &node.metrics) }.chain(&node.metrics);
        if all.any(|metric| metric.name == name) {
            let why = "another metric has this name: give each its own";
            return Err(keys.wrong("", why));
        }
        check_word(&name).map_err(|why| keys.wrong("", &why))?;
        node.metrics.push(Metric::read(name, keys, text)?);
    }
    Ok(node)
}

fn ready(words: &str) -> Result<String, String> {
    let port = words.strip_prefix("tcp:").map(str::trim);
    let is_port = port.is_none_or(|port| port.contains('{') || port.parse::<u16>().is_ok());
    let kind = words.split_once(':').map(|(kind, _)| kind);
    match (is_port, kind) {
        (false, _) => Err(format!(
            "'{words}': write tcp:PORT, or a command that succeeds"
        )),
        (_, Some("udp")) => Err("a port of UDP shows nothing: give a command".to_owned()),
        _ => Ok(words.to_owned()),
    }
}

impl Node {
    /// All words in which axes may stand.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let pairs = self.env.iter().chain(&self.files);
        let limits = self.limits.values().map(|(words, _)| words);
        let texts = pairs.map(|(_, text)| text).chain(limits);
        [&self.run]
            .into_iter()
            .chain(&self.ready)
            .chain(texts)
            .map(String::as_str)
    }

    /// When it is ready, at a point.
    pub(crate) fn ready(&self, values: &BTreeMap<String, String>) -> Option<ReadyWhen> {
        let words = filled(self.ready.as_deref()?, values);
        let port = words.strip_prefix("tcp:").map(str::trim);
        Some(match port.and_then(|port| port.parse().ok()) {
            Some(port) => ReadyWhen::Listens(port),
            None => ReadyWhen::Succeeds(words),
        })
    }

    /// The place of a limit in the file.
    pub(crate) fn at(&self, limit: &str) -> usize {
        self.limits.get(limit).map_or(0, |(_, at)| *at)
    }

    /// The words of a limit, at a point.
    fn limit(&self, limit: &str, values: &BTreeMap<String, String>) -> Option<String> {
        let (words, _) = self.limits.get(limit)?;
        Some(filled(words, values))
    }
}

/// What each node may use at a point.
pub(crate) fn limits(
    nodes: &[Node],
    values: &BTreeMap<String, String>,
) -> Result<Vec<NodeLimits>, Wrong> {
    let mut all = vec![NodeLimits::default(); nodes.len()];
    let (mut free, mut counts) = (Vec::new(), Vec::new());
    if nodes.iter().any(|node| node.limits.contains_key(CPUS)) {
        let cores = Cores::read().map_err(|error| (0, CPUS, error.to_string()))?;
        free = cores.allowed().to_vec();
    }
    let allowed = free.clone();
    for (at, node) in nodes.iter().enumerate() {
        let limits = &mut all[at];
        let wrong = |limit| move |why| (at, limit, why);
        if let Some(words) = node.limit(CPUS, values) {
            match words.parse::<usize>() {
                Ok(count) => counts.push((at, count)),
                Err(_) => limits.cpus = cpus(&words, &allowed).map_err(wrong(CPUS))?,
            }
            free.retain(|cpu| !limits.cpus.contains(cpu));
        }
        if let Some(words) = node.limit(MEMORY, values) {
            limits.memory = Some(memory(&words).map_err(wrong(MEMORY))?);
        }
        if let Some(words) = node.limit(USER, values) {
            limits.user = Some(lineside_host::other_user(&words).map_err(wrong(USER))?);
        }
    }
    // Those that only count have CPUs of their own.
    for (at, count) in counts {
        if count == 0 || count > free.len() {
            let why = format!(
                "{count} CPUs for it alone: of {}, {} are left",
                allowed.len(),
                free.len()
            );
            return Err((at, CPUS, why));
        }
        all[at].cpus = free.drain(..count).collect();
    }
    Ok(all)
}

/// The CPUs of a list such as `0-2,5`.
fn cpus(words: &str, allowed: &[usize]) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in words
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first
            .trim()
            .parse::<usize>()
            .ok()
            .zip(last.trim().parse().ok());
        let Some((first, last)) = bounds.filter(|(first, last)| first <= last) else {
            return Err(format!(
                "'{part}': write a count, or CPUs: [0, 1] or \"0-3\""
            ));
        };
        let absent = (first..=last).find(|cpu| !allowed.contains(cpu));
        if let Some(cpu) = absent {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            return Err(format!("no CPU {cpu}: there are {}", allowed.join(", ")));
        }
        cpus.extend(first..=last);
    }
    match cpus.is_empty() {
        true => Err("write a count, or CPUs: [0, 1] or \"0-3\"".to_owned()),
        false => Ok(cpus),
    }
}

fn memory(words: &str) -> Result<u64, String> {
    match parse_size(words)? as u64 {
        bytes @ MEMORY_MIN.. => Ok(bytes),
        _ => Err(format!(
            "{words} is too little to begin with: give 1MiB or more"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_those_there_are() {
        let there = [0, 1, 2, 5];
        assert_eq!(cpus("0-2,5", &there), Ok(vec![0, 1, 2, 5]));
        assert_eq!(cpus("1,", &there), Ok(vec![1]));
        for (words, expected) in [
            ("0-3", "no CPU 3: there are 0, 1, 2, 5"),
            ("2-1", "write a count, or CPUs"),
            ("x", "write a count, or CPUs"),
            (",", "write a count, or CPUs"),
            ("0-99999999999999999999", "write a count, or CPUs"),
        ] {
            let error = cpus(words, &there).expect_err(words);
            assert!(error.contains(expected), "{words}: {error}");
        }
        assert!(memory("64MiB").is_ok() && memory("1K").is_err() && memory("much").is_err());
    }
}
