//! The file of a lab, read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lineside_host::ReadyWhen;
use lineside_link::Setting;
use lineside_link::words::LinkWords;
use lineside_path::PORTS_MAX;
use lineside_path::settings::{LinkSpec, Ways};
use lineside_reactor::Wait;
use lineside_run::{LateLimits, of_word};
use lineside_words::parse_duration;

use crate::claim::Known;
use crate::elsewhere;
use crate::keys::{Keys, Text};
use crate::sweep::{self, Axis, Planned, point_text};
use crate::{Claim, LabError, Metric};

/// A lab, as its file describes it.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The text of the file.
    pub text: String,
    /// The seed of all seeds and orders.
    pub seed: u64,
    /// How often each point is run.
    pub repeats: u32,
    /// In which order.
    pub order: Order,
    /// How often a point is run again whose links were disturbed.
    pub retries: u32,
    /// How late frames of a link may leave before a run is disturbed.
    pub limits: LateLimits,
    /// How the loop of the links waits.
    pub wait: Wait,
    /// How long nodes have until they are ready.
    pub ready_wait: Duration,
    /// How long a point may take after that.
    pub timeout: Duration,
    /// The nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// The links.
    pub links: Vec<Link>,
    /// The axes.
    pub sweep: Vec<Axis>,
    /// What must hold.
    pub claims: Vec<Claim>,
}

/// The order of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All points in a new random order for each repeat.
    Random,
    /// Points that differ in the first axis alone one after the other, ABBA.
    Paired,
}

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
    /// `tcp:PORT`, or a command that succeeds, when it is ready.
    pub ready: Option<String>,
    /// Whether a point goes on until it ends.
    pub is_awaited: bool,
    /// What is measured of it.
    pub metrics: Vec<Metric>,
}

/// A link between two nodes, or a switch of more.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its name, and that of its interfaces.
    pub name: String,
    /// The numbers of its nodes.
    pub between: Vec<usize>,
    /// Their names.
    names: Vec<String>,
    /// Whether what passes it is captured into the trace of each run.
    pub has_tap: bool,
    /// The words of its settings.
    words: LinkWords,
    /// Where it stands in the file.
    at: usize,
}

/// The longest name of an interface (IFNAMSIZ, without the zero).
const NAME_MAX: usize = 15;

impl Experiment {
    /// Reads a file, and the words of its links at all points: a wrong one is found before anything
    /// runs.
    pub fn read(file: &Path) -> Result<Self, LabError> {
        let experiment = Self::described(file)?;
        experiment.check_words(Text {
            file,
            text: &experiment.text,
        })?;
        Ok(experiment)
    }

    /// Reads a file, and no other one that words of its links may name.
    pub(crate) fn described(file: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(file).map_err(|cause| LabError::Unread {
            path: file.to_owned(),
            cause,
        })?;
        Self::parse(file, text)
    }

    pub(crate) fn parse(file: &Path, whole: String) -> Result<Self, LabError> {
        let text = Text { file, text: &whole };
        let table = text.parse()?;
        let keys = Keys::of_file(text, &table);
        let keys = keys.only(&["lab", "node", "link", "sweep", "assert"])?;
        let nodes = nodes(&keys, text)?;
        let links = links(&keys, text, &nodes)?;
        let sweep = axes(&keys)?;
        let mut experiment = Self {
            text: String::new(),
            seed: 0,
            repeats: 1,
            order: Order::Random,
            retries: 2,
            limits: LateLimits::default(),
            wait: Wait::default(),
            ready_wait: Duration::from_secs(10),
            timeout: Duration::from_secs(300),
            nodes,
            links,
            sweep,
            claims: Vec::new(),
        };
        if let Some(lab) = keys.table("lab")? {
            experiment.read_lab(&lab.only(&LAB)?)?;
        }
        experiment.await_some();
        experiment.check_sweep(&keys, text)?;
        if let Some(claims) = keys.table("assert")? {
            for (name, _) in claims.names() {
                let metrics = experiment.metrics().map(|metric| metric.name.as_str());
                let known = Known {
                    axes: &experiment.sweep,
                    metrics: metrics.collect(),
                };
                let claim = claims.read(&name, |words| Claim::parse(&name, words, &known))?;
                experiment.claims.extend(claim);
            }
        }
        drop(table);
        experiment.text = whole;
        Ok(experiment)
    }

    fn read_lab(&mut self, keys: &Keys<'_>) -> Result<(), LabError> {
        let number = |word: &str| word.parse::<u64>().map_err(|_| whole(word));
        let count = |word: &str| word.parse::<u32>().map_err(|_| whole(word));
        self.seed = keys.read("seed", number)?.unwrap_or(0);
        self.repeats = keys.read("repeats", count)?.unwrap_or(1);
        if self.repeats == 0 {
            return Err(keys.wrong("repeats", "give 1 or more"));
        }
        self.retries = keys.read("retries", count)?.unwrap_or(self.retries);
        let order = keys.read("order", |word| match word {
            "random" => Ok(Order::Random),
            "paired" => Ok(Order::Paired),
            other => Err(format!("'{other}' is unknown: write random or paired")),
        })?;
        self.order = order.unwrap_or(self.order);
        let wait = keys.read("wait", |word| {
            of_word("wait", word, &Wait::WORDS).map_err(|error| error.to_string())
        })?;
        self.wait = wait.unwrap_or(self.wait);
        let time = |word: &str| {
            { parse_duration(word).map(Duration::from_nanos) }.map_err(|error| error.to_string())
        };
        self.timeout = keys.read("timeout", time)?.unwrap_or(self.timeout);
        self.ready_wait = keys.read("ready_wait", time)?.unwrap_or(self.ready_wait);
        if let Some(limits) = keys.table("limits")? {
            let limits = limits.only(&["late", "lateness_max"])?;
            let share = |word: &str| {
                let share = lineside_words::parse_share(word);
                share.ok_or_else(|| format!("'{word}' is no share: write 1% or 0.01"))
            };
            self.limits.late = limits.read("late", share)?.unwrap_or(self.limits.late);
            let most = limits.read("lateness_max", time)?;
            self.limits.lateness_max_ns = most.map(|most| most.as_nanos() as u64);
        }
        Ok(())
    }

    /// A point that names no node to wait for waits for those that are measured, or else for all
    /// that are not servers.
    fn await_some(&mut self) {
        let any = |nodes: &[Node], is: fn(&Node) -> bool| nodes.iter().any(is);
        if any(&self.nodes, |node| node.is_awaited) {
            return;
        }
        let is_client = |node: &Node| node.ready.is_none();
        let is_measured = |node: &Node| node.ready.is_none() && !node.metrics.is_empty();
        let chosen: fn(&Node) -> bool = match () {
            () if any(&self.nodes, is_measured) => is_measured,
            () if any(&self.nodes, is_client) => is_client,
            () => |_| true,
        };
        for node in &mut self.nodes {
            node.is_awaited = chosen(node);
        }
    }

    fn check_sweep(&self, keys: &Keys<'_>, text: Text<'_>) -> Result<(), LabError> {
        let Some(table) = keys.table("sweep")? else {
            return Ok(());
        };
        if sweep::count(&self.sweep).is_none() {
            return Err(text.wrong(
                keys.place("sweep"),
                "sweep: it spans more than 100,000 points",
            ));
        }
        for axis in &self.sweep {
            let placeholder = format!("{{{}}}", axis.name);
            let mut words = self.all_words();
            if !words.any(|word| word.contains(&placeholder)) {
                let why = format!("nothing uses it: write {placeholder} where its values belong");
                return Err(table.wrong(&axis.name, &why));
            }
        }
        Ok(())
    }

    /// All words in which axes may stand.
    fn all_words(&self) -> impl Iterator<Item = &str> {
        let nodes = self.nodes.iter().flat_map(|node| {
            let env = node.env.iter().map(|(_, value)| value.as_str());
            [node.run.as_str()]
                .into_iter()
                .chain(node.ready.as_deref())
                .chain(env)
        });
        let links = self.links.iter().flat_map(|link| {
            let settings = Setting::ALL.into_iter();
            settings
                .flat_map(|setting| link.words.of(setting))
                .map(String::as_str)
        });
        nodes.chain(links)
    }

    fn check_words(&self, text: Text<'_>) -> Result<(), LabError> {
        for link in &self.links {
            for point in 1..=self.points() {
                let values = self.values(point);
                if let Err(error) = link.spec(&values) {
                    let name = &link.name;
                    let at = point_text(&values);
                    let why = match at.is_empty() {
                        true => format!("link.{name}: {error}"),
                        false => format!("link.{name}, {at}: {error}"),
                    };
                    return Err(text.wrong(link.at, why));
                }
            }
        }
        Ok(())
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        sweep::count(&self.sweep).unwrap_or_default()
    }

    /// The values of the axes at a point, which are numbered from 1.
    pub fn values(&self, point: usize) -> BTreeMap<String, String> {
        sweep::values(&self.sweep, point)
    }

    /// The seed of a run.
    pub fn seed_of(&self, planned: Planned) -> u64 {
        sweep::seed(self.seed, &self.values(planned.point), planned.repeat)
    }

    /// All runs in their order.
    pub fn order(&self) -> Vec<Planned> {
        let (points, repeats) = (self.points(), self.repeats);
        match self.order {
            Order::Random => sweep::random(points, repeats, self.seed),
            Order::Paired => sweep::paired(&self.sweep, points, repeats, self.seed),
        }
    }

    /// All metrics, in the order of the file.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> + Clone {
        self.nodes.iter().flat_map(|node| &node.metrics)
    }
}

impl Node {
    /// When it is ready, at a point.
    pub(crate) fn ready(&self, values: &BTreeMap<String, String>) -> Option<ReadyWhen> {
        let words = filled(self.ready.as_deref()?, values);
        let port = words.strip_prefix("tcp:").map(str::trim);
        Some(match port.and_then(|port| port.parse().ok()) {
            Some(port) => ReadyWhen::Listens(port),
            None => ReadyWhen::Succeeds(words),
        })
    }
}

impl Link {
    /// The words of a setting, as they stand in the file.
    pub(crate) fn texts(&self, setting: Setting) -> &[String] {
        self.words.of(setting)
    }

    /// Its settings at a point. A switch's ports are its nodes.
    pub(crate) fn spec(&self, values: &BTreeMap<String, String>) -> Result<LinkSpec, String> {
        let mut words = LinkWords::default();
        for setting in Setting::ALL {
            for text in self.words.of(setting) {
                words.add(setting, filled(text, values));
            }
        }
        let ports = (self.names.len() > 2).then_some(&self.names[..]);
        let ways = Ways::between(ports).map_err(|error| error.to_string())?;
        LinkSpec::read(&words, ways, &[]).map_err(|error| error.to_string())
    }
}

/// A text with the values of axes in place of their names in braces.
pub(crate) fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

const LAB: [&str; 8] = [
    "seed",
    "repeats",
    "order",
    "retries",
    "timeout",
    "ready_wait",
    "limits",
    "wait",
];
const NODE: [&str; 6] = ["run", "host", "env", "ready", "wait", "metric"];
fn whole(word: &str) -> String {
    format!("'{word}' is no whole number")
}

fn nodes(keys: &Keys<'_>, text: Text<'_>) -> Result<Vec<Node>, LabError> {
    let mut nodes = Vec::<Node>::new();
    for (name, table) in keys.tables("node")? {
        check_name(&name).map_err(|why| table.wrong("", &why))?;
        let table = table.only(&NODE)?;
        let run = table.text("run")?;
        let (run, _) = run.ok_or_else(|| table.missing("run", "the node's command"))?;
        let mut node = Node {
            run,
            host: table.read("host", elsewhere::host)?,
            env: Vec::new(),
            ready: table.read("ready", ready)?,
            is_awaited: table.truth("wait")?.unwrap_or_default(),
            metrics: Vec::new(),
            name,
        };
        if let Some(env) = table.table("env")? {
            for (name, _) in env.names() {
                let value = env.text(&name)?.map(|(value, _)| value);
                node.env.push((name, value.unwrap_or_default()));
            }
        }
        for (name, keys) in table.tables("metric")? {
            let mut all = nodes
                .iter()
                .flat_map(|node| &node.metrics)
                .chain(&node.metrics);
            if all.any(|metric| metric.name == name) {
                let why = "another metric has this name: give each its own";
                return Err(keys.wrong("", why));
            }
            check_word(&name).map_err(|why| keys.wrong("", &why))?;
            node.metrics.push(Metric::read(name, keys, text)?);
        }
        nodes.push(node);
    }
    match nodes.is_empty() {
        true => Err(keys.missing("node", "a lab has nodes: node.NAME = { run = \"COMMAND\" }")),
        false => Ok(nodes),
    }
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

fn links(keys: &Keys<'_>, text: Text<'_>, nodes: &[Node]) -> Result<Vec<Link>, LabError> {
    let mut links = Vec::new();
    for (name, table) in keys.tables("link")? {
        if let Err(why) = check_name(&name) {
            return Err(table.wrong("", &why));
        }
        let settings = Setting::ALL.map(Setting::name);
        let table = table.only(&[&["between", "tap"], &settings[..]].concat())?;
        let ends = table.texts("between")?;
        let what = "the nodes that it joins: between = [\"client\", \"server\"]";
        let (ends, _) = ends.ok_or_else(|| table.missing("between", what))?;
        let place = |end: &String| {
            let place = nodes.iter().position(|node| node.name == *end);
            let known = nodes.iter().map(|node| node.name.as_str());
            place.ok_or_else(|| {
                let nearest = lineside_words::nearest(end, known);
                table.wrong(
                    "between",
                    &format!("no node '{end}'; the nearest one is {nearest}"),
                )
            })
        };
        let between = ends.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let is_twice = (1..between.len()).any(|at| between[..at].contains(&between[at]));
        let far = between.iter().find(|node| nodes[**node].host.is_some());
        if let Some(far) = far {
            let name = &nodes[*far].name;
            let why = format!("{name} has a host, whose network is the real one: it has no link");
            return Err(table.wrong("between", &why));
        }
        if between.len() < 2 || is_twice || between.len() > PORTS_MAX {
            let why = format!("name 2 to {PORTS_MAX} different nodes");
            return Err(table.wrong("between", &why));
        }
        let mut words = LinkWords::default();
        for setting in Setting::ALL {
            let texts = table.texts(setting.name())?;
            let texts = texts.map(|(texts, _)| texts).unwrap_or_default();
            texts.into_iter().for_each(|text| words.add(setting, text));
        }
        links.push(Link {
            at: table.place(""),
            has_tap: table.truth("tap")?.unwrap_or_default(),
            name,
            between,
            names: ends,
            words,
        });
    }
    if links.is_empty() && nodes.iter().all(|node| node.host.is_none()) {
        let what = "nodes are joined by links: link.NAME = { between = [\"ONE\", \"OTHER\"] }";
        return Err(keys.missing("link", what));
    }
    if links.len() > 1 && links.iter().any(|link: &Link| link.has_tap) {
        let why = "link: tap is for a lab of one link: what passes several is in no one trace";
        return Err(text.wrong(keys.place("link"), why));
    }
    let ports: usize = links.iter().map(|link| link.between.len()).sum();
    let has_switch = links.iter().any(|link| link.between.len() > 2);
    if has_switch && links.len() > 1 || ports > PORTS_MAX {
        let why = format!(
            "link: a lab has one switch of up to {PORTS_MAX} nodes, or up to {} links of two",
            PORTS_MAX / 2
        );
        return Err(text.wrong(keys.place("link"), why));
    }
    Ok(links)
}

fn axes(keys: &Keys<'_>) -> Result<Vec<Axis>, LabError> {
    let Some(table) = keys.table("sweep")? else {
        return Ok(Vec::new());
    };
    let mut axes = Vec::new();
    for (name, _) in table.names() {
        check_word(&name).map_err(|why| table.wrong(&name, &why))?;
        let values = match table.is_list(&name) {
            true => table.texts(&name)?.map(|(values, _)| values),
            false => table.read(&name, sweep::range)?,
        };
        let values = values.unwrap_or_default();
        let is_twice = (1..values.len()).any(|at| values[..at].contains(&values[at]));
        if values.is_empty() || is_twice {
            return Err(table.wrong(&name, "give different values, one at least"));
        }
        axes.push(Axis { name, values });
    }
    Ok(axes)
}

/// A name that an interface or a variable can have.
fn check_name(name: &str) -> Result<(), String> {
    match name.len() <= NAME_MAX {
        true => check_word(name),
        false => Err(format!("'{name}' has more than {NAME_MAX} letters")),
    }
}

fn check_word(name: &str) -> Result<(), String> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    match name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(is_word) {
        true => Ok(()),
        false => Err(format!(
            "'{name}': a name is letters, digits and _, a letter first"
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const WHOLE: &str = r#"
lab = { seed = 7, repeats = 2, order = "paired" }
node.server = { run = "serve", ready = "tcp:80" }
node.client = { run = "ask -c {connections}", metric.answered = { json = "/a", better = "more" } }
link.wire = { between = ["client", "server"], delay = "{delay}", rate = ["out: 1gbit"] }
sweep = { delay = ["0", "25us"], connections = [1, 4] }
assert = { near = 'answered(delay="25us") >= 0.5 * answered(delay="0")' }
"#;

    pub(crate) fn parse(text: &str) -> Result<Experiment, LabError> {
        let file = Path::new("lab.toml");
        let experiment = Experiment::parse(file, text.to_owned())?;
        experiment.check_words(Text { file, text })?;
        Ok(experiment)
    }

    #[test]
    fn a_file_is_an_experiment() {
        let lab = parse(WHOLE).expect("it is right");
        assert_eq!((lab.points(), lab.repeats, lab.order().len()), (4, 2, 8));
        let names: Vec<_> = lab.sweep.iter().map(|axis| axis.name.as_str()).collect();
        assert_eq!(names, ["delay", "connections"], "in the order of the file");
        let awaited: Vec<_> = lab.nodes.iter().map(|node| node.is_awaited).collect();
        assert_eq!(awaited, [false, true], "the measured one");
        assert_eq!(filled("-c {connections} ${x}", &lab.values(2)), "-c 4 ${x}");
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_column() {
        let changed = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            let error = parse(&WHOLE.replace(from, to)).expect_err(to);
            assert!(error.is_usage());
            error.to_string()
        };
        for (from, to, expected) in [
            (
                "repeats",
                "repeat",
                "lab.toml:2:19: unknown key lab.repeat; the nearest known one is repeats",
            ),
            (
                "ready = ",
                "redy = ",
                "lab.toml:3:32: unknown key node.server.redy; the nearest known one is ready",
            ),
            (
                "\"paired\"",
                "\"pared\"",
                "lab.toml:2:40: lab.order: 'pared' is unknown",
            ),
            (
                "delay = \"{delay}\"",
                "delay = \"1ms\"",
                "lab.toml:6:11: sweep.delay: nothing uses it",
            ),
            (
                "[\"client\"",
                "[\"cleint\"",
                "no node 'cleint'; the nearest one is client",
            ),
            ("\"25us\"]", "\"25us\", \"1uz\"]", "lab.toml:5:"),
            (
                "better = \"more\"",
                "better = \"most\"",
                "write more or less",
            ),
            (
                "answered(delay=\"0\")",
                "answred(delay=\"0\")",
                "the nearest one is answered",
            ),
            ("run = \"serve\", ", "", "lab.toml:3:"),
            ("[1, 4]", "[1, 1]", "give different values"),
            ("sweep = {", "sweep = ", "lab.toml:6:"),
            (
                "json = \"/a\", ",
                "",
                "give one of json, regex, exit, elapsed and cpu",
            ),
        ] {
            let error = changed(from, to);
            assert!(error.contains(expected), "{error}");
        }
    }
}
