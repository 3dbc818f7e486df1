//! The file of a lab, read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lineside_link::Setting;
use lineside_reactor::Wait;
use lineside_run::{LateLimits, of_word};
use lineside_words::{nearest, parse_duration};

use crate::claim::Known;
use crate::keys::{Keys, Text};
use crate::link::{self, Link};
use crate::node::{self, Node};
use crate::sweep::{self, Axis, Given, Plan, Planned, point_text};
use crate::words::check_word;
use crate::{Claim, LabError, Metric, Source};

/// A lab, as its file describes it.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The text of the file.
    pub text: String,
    /// The seed of all seeds and orders.
    pub seed: u64,
    /// How often each point is run at most.
    pub repeats: u32,
    /// How often at least.
    pub repeats_least: u32,
    /// When a point has been run often enough before that.
    pub width: Option<Width>,
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
    /// The points that are run, as numbers of those that the axes span.
    chosen: Vec<usize>,
    /// What must hold.
    pub claims: Vec<Claim>,
}

/// How close to each other runs of a point have to be, that there are enough of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Width {
    /// The interval of a median, as a share of it.
    pub share: f64,
    /// Of this metric; otherwise of all.
    pub metric: Option<String>,
}

/// The order of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All points in a new random order for each repeat.
    Random,
    /// Points that differ in the first axis alone one after the other, ABBA.
    Paired,
}

impl Experiment {
    /// Reads a file, and the words of its links at all points: a wrong one is found before anything
    /// runs. Files that words name are beside it.
    pub fn read(file: &Path) -> Result<Self, LabError> {
        Self::read_for(file, home(file))
    }

    /// The same; files that words name are in a folder.
    pub fn read_for(file: &Path, home: &Path) -> Result<Self, LabError> {
        let experiment = Self::described(file)?;
        let text = &experiment.text;
        experiment.check_words(Text { file, text }, home)?;
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
        let keys = keys.only(&["lab", "node", "link", "sweep", "points", "except", "assert"])?;
        let nodes = node::nodes(&keys, text)?;
        let links = link::links(&keys, text, &nodes)?;
        let (sweep, chosen) = points(&keys, text)?;
        let mut experiment = Self {
            text: String::new(),
            seed: 0,
            repeats: 1,
            repeats_least: 1,
            width: None,
            order: Order::Random,
            retries: 2,
            limits: LateLimits::default(),
            wait: Wait::default(),
            ready_wait: Duration::from_secs(10),
            timeout: Duration::from_secs(300),
            nodes,
            links,
            sweep,
            chosen,
            claims: Vec::new(),
        };
        if let Some(lab) = keys.table("lab")? {
            experiment.read_lab(&lab.only(&LAB)?)?;
        }
        experiment.await_some();
        experiment.check_sweep(&keys)?;
        if let Some(claims) = keys.table("assert")? {
            for (name, _) in claims.names() {
                let metrics = experiment.metrics().map(|metric| metric.name.as_str());
                let known = Known {
                    axes: &experiment.sweep,
                    metrics: metrics.collect(),
                };
                let claim = claims.read(&name, |words| {
                    let claim = Claim::parse(&name, words, &known)?;
                    match claim.points(experiment.plan()).is_empty() {
                        true => Err(format!("'{words}' names points that are not run")),
                        false => Ok(claim),
                    }
                })?;
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
        let range = |words: &str| match words.split_once("..") {
            Some((least, most)) => Ok((count(least.trim())?, count(most.trim())?)),
            None => count(words).map(|count| (count, count)),
        };
        if let Some((least, most)) = keys.read("repeats", range)? {
            if least == 0 || most < least {
                return Err(keys.wrong("repeats", "give 1 or more, or LEAST..MOST"));
            }
            (self.repeats_least, self.repeats) = (least, most);
        }
        let metrics: Vec<&str> = self.metrics().map(|metric| metric.name.as_str()).collect();
        self.width = keys.read("width", |words| Width::parse(words, &metrics))?;
        if self.width.is_some() != (self.repeats_least < self.repeats) {
            let why = "it goes with repeats = \"LEAST..MOST\", and that with it: width = \"5%\"";
            return Err(keys.wrong("width", why));
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

    fn check_sweep(&self, keys: &Keys<'_>) -> Result<(), LabError> {
        for axis in &self.sweep {
            let placeholder = format!("{{{}}}", axis.name);
            let mut words = self.all_words();
            if !words.any(|word| word.contains(&placeholder)) {
                let why = format!("nothing uses it: write {placeholder} where its values belong");
                return Err(
                    match keys.table("sweep")?.filter(|table| table.has(&axis.name)) {
                        Some(table) => table.wrong(&axis.name, &why),
                        None => keys.wrong("points", &format!("{}: {why}", axis.name)),
                    },
                );
            }
        }
        Ok(())
    }

    /// All words in which axes may stand.
    fn all_words(&self) -> impl Iterator<Item = &str> {
        let nodes = self.nodes.iter().flat_map(Node::words);
        let links = self.links.iter().flat_map(|link| {
            let settings = Setting::ALL.into_iter();
            settings
                .flat_map(|setting| link.texts(setting))
                .map(String::as_str)
        });
        nodes.chain(links)
    }

    fn check_words(&self, text: Text<'_>, home: &Path) -> Result<(), LabError> {
        for point in 1..=self.points() {
            let values = self.values(point);
            let at = match point_text(&values) {
                at if at.is_empty() => at,
                at => format!(", {at}"),
            };
            for link in &self.links {
                let spec = link.spec(&values, home);
                spec.map_err(|why| text.wrong(link.at, format!("link.{}{at}: {why}", link.name)))?;
            }
            let limits = node::limits(&self.nodes, &values);
            limits.map_err(|(node, key, why)| {
                let node = &self.nodes[node];
                text.wrong(node.at(key), format!("node.{}.{key}{at}: {why}", node.name))
            })?;
        }
        Ok(())
    }

    /// Fails, with its place in the file, for a figure of whose words `check` says what is wrong.
    pub fn check_figures(
        &self,
        file: &Path,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<(), LabError> {
        let has_tap = self.links.iter().any(|link| link.has_tap);
        for metric in self.metrics() {
            let Source::Tap(words, at) = &metric.source else {
                continue;
            };
            let checked = match has_tap {
                true => check(words),
                false => Err("no link has tap = true".to_owned()),
            };
            let text = Text {
                file,
                text: &self.text,
            };
            let name = &metric.name;
            checked.map_err(|why| text.wrong(*at, format!("metric {name}: {why}")))?;
        }
        Ok(())
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        self.chosen.len()
    }

    /// The values of the axes at a point, which are numbered from 1.
    pub fn values(&self, point: usize) -> BTreeMap<String, String> {
        self.plan().values(point)
    }

    /// The point at these values, which are those of all axes, if it is run.
    pub(crate) fn point_at(&self, values: &BTreeMap<String, String>) -> Option<usize> {
        self.plan().point_at(values)
    }

    pub(crate) fn plan(&self) -> Plan<'_> {
        Plan {
            axes: &self.sweep,
            chosen: &self.chosen,
        }
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
            Order::Paired => sweep::paired(&self.sweep, &self.chosen, repeats, self.seed),
        }
    }

    /// A point, and those that run back to back with it.
    pub(crate) fn beside(&self, point: usize) -> Vec<usize> {
        let Some(first) = self.sweep.first().filter(|_| self.order == Order::Paired) else {
            return vec![point];
        };
        let mut values = self.values(point);
        let points = first.values.iter().filter_map(|value| {
            values.insert(first.name.clone(), value.clone());
            self.point_at(&values)
        });
        points.collect()
    }

    /// What nodes ask for first, each command once.
    pub fn installs(&self) -> Vec<&str> {
        let mut steps = Vec::<&str>::new();
        for step in self.nodes.iter().flat_map(|node| &node.install) {
            if !steps.contains(&step.as_str()) {
                steps.push(step);
            }
        }
        steps
    }

    /// All metrics, in the order of the file.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> + Clone {
        self.nodes.iter().flat_map(|node| &node.metrics)
    }
}

impl Width {
    fn parse(words: &str, metrics: &[&str]) -> Result<Self, String> {
        let (share, metric) = match words.split_once(" of ") {
            Some((share, metric)) => (share, Some(metric.trim())),
            None => (words, None),
        };
        if let Some(metric) = metric.filter(|metric| !metrics.contains(metric)) {
            let nearest = nearest(metric, metrics.iter().copied());
            return Err(format!("no metric {metric}; the nearest one is {nearest}"));
        }
        let read = lineside_words::parse_share(share.trim()).filter(|share| *share > 0.0);
        Ok(Self {
            share: read.ok_or_else(|| {
                format!("'{share}' is no share above 0: write 5%, or 5% of METRIC")
            })?,
            metric: metric.map(str::to_owned),
        })
    }

    /// Whether it is asked of a metric.
    pub(crate) fn is_of(&self, metric: &str) -> bool {
        self.metric.as_deref().is_none_or(|of| of == metric)
    }
}

/// Where commands begin, and files that words name are looked for: beside the file.
pub fn home(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

const LAB: [&str; 9] = [
    "seed",
    "repeats",
    "width",
    "order",
    "retries",
    "timeout",
    "ready_wait",
    "limits",
    "wait",
];

fn whole(word: &str) -> String {
    format!("'{word}' is no whole number")
}

/// The axes, and the points that are run.
fn points(keys: &Keys<'_>, text: Text<'_>) -> Result<(Vec<Axis>, Vec<usize>), LabError> {
    let mut axes = Vec::new();
    if let Some(table) = keys.table("sweep")? {
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
    }
    let of_sweep = axes.len();
    let points = given(keys, "points", &mut axes, of_sweep)?;
    // What is left out has no axes of its own.
    let all = axes.len();
    let except = given(keys, "except", &mut axes, all)?;
    let chosen = sweep::chosen(&axes, &points, &except).ok_or_else(|| {
        text.wrong(
            keys.place("sweep"),
            "sweep: it spans more than 100,000 points",
        )
    })?;
    match chosen.is_empty() {
        true => Err(text.wrong(keys.place("except"), "except: it leaves no point")),
        false => Ok((axes, chosen)),
    }
}

/// Values of axes: those of the sweep, or else those that each of these tables has.
fn given(
    keys: &Keys<'_>,
    key: &str,
    axes: &mut Vec<Axis>,
    of_sweep: usize,
) -> Result<Vec<Given>, LabError> {
    let mut all = Vec::new();
    for table in keys.list(key)? {
        let mut given = Given::new();
        for (name, _) in table.names() {
            check_word(&name).map_err(|why| table.wrong(&name, &why))?;
            let (value, _) = table.text(&name)?.unwrap_or_default();
            let place = axes.iter().position(|axis| axis.name == name);
            let (place, is_new) = match place {
                Some(place) => (place, false),
                None if key == "points" && all.is_empty() => {
                    let values = Vec::new();
                    axes.push(Axis {
                        name: name.clone(),
                        values,
                    });
                    (axes.len() - 1, true)
                }
                None => {
                    let nearest = nearest(&name, axes.iter().map(|axis| axis.name.as_str()));
                    let why = format!("no axis of the others; the nearest one is {nearest}");
                    return Err(table.wrong(&name, &why));
                }
            };
            let values = &mut axes[place].values;
            match (values.contains(&value), place < of_sweep) {
                (true, _) => {}
                (false, false) if is_new || key == "points" => values.push(value.clone()),
                (false, _) => {
                    let why = format!("'{value}' is none of its values: {}", values.join(", "));
                    return Err(table.wrong(&name, &why));
                }
            }
            given.insert(name, value);
        }
        let own = axes.iter().skip(of_sweep);
        if let Some(axis) = own.clone().find(|axis| !given.contains_key(&axis.name)) {
            return Err(table.missing(&axis.name, "each point has a value of it"));
        }
        all.push(given);
    }
    Ok(all)
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
        let file = Path::new("some/lab.toml");
        let experiment = Experiment::parse(file, text.to_owned())?;
        experiment.check_words(Text { file, text }, home(file))?;
        Ok(experiment)
    }

    #[test]
    fn points_are_those_that_are_chosen() {
        let chosen = |words: &str| {
            let text = WHOLE.replace("sweep = {", &format!("{words}\nsweep = {{"));
            let lab = parse(&text).expect(words);
            let points = (1..=lab.points()).map(|point| point_text(&lab.values(point)));
            (points.collect::<Vec<_>>(), lab)
        };
        let (points, lab) = chosen("points = [{ delay = \"25us\" }, { connections = 4 }]");
        let expected = [
            "connections=4 delay=0",
            "connections=1 delay=25us",
            "connections=4 delay=25us",
        ];
        assert_eq!(points, expected);
        for point in 1..=3 {
            assert_eq!(lab.point_at(&lab.values(point)), Some(point));
        }
        // The claim is asked where both of its points are run.
        assert_eq!(lab.claims[0].points(lab.plan()).len(), 1);
        assert_eq!(lab.beside(1), [1, 3]);
        assert_eq!(
            chosen("except = [{ delay = 0, connections = 1 }]").0,
            points
        );
        let alone = WHOLE.replace(
            "sweep = { delay = [\"0\", \"25us\"], connections = [1, 4] }",
            "",
        );
        let tables =
            "points = [{ delay = 0, connections = 4 }, { connections = 9, delay = \"25us\" }]";
        let alone =
            alone
                .replace("; \n", "")
                .replacen("lab = {", &format!("{tables}\nlab = {{"), 1);
        let without_claim = alone.lines().filter(|line| !line.starts_with("assert"));
        let lab = parse(&without_claim.collect::<Vec<_>>().join("\n")).expect("its own axes");
        let points = (1..=lab.points()).map(|point| point_text(&lab.values(point)));
        let expected = ["connections=4 delay=0", "connections=9 delay=25us"];
        assert_eq!(points.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_file_is_an_experiment() {
        let lab = parse(WHOLE).expect("it is right");
        assert_eq!((lab.points(), lab.repeats, lab.order().len()), (4, 2, 8));
        let names: Vec<_> = lab.sweep.iter().map(|axis| axis.name.as_str()).collect();
        assert_eq!(names, ["delay", "connections"], "in the order of the file");
        let awaited: Vec<_> = lab.nodes.iter().map(|node| node.is_awaited).collect();
        assert_eq!(awaited, [false, true], "the measured one");
    }

    /// What is changed in the file, into what, and what the error says.
    const WRONG: [(&str, &str, &str); 31] = [
        (
            "repeats",
            "repeat",
            "some/lab.toml:2:19: unknown key lab.repeat; the nearest known one is repeats",
        ),
        (
            "ready = ",
            "redy = ",
            "some/lab.toml:3:32: unknown key node.server.redy; the nearest known one is ready",
        ),
        (
            "\"paired\"",
            "\"pared\"",
            "some/lab.toml:2:40: lab.order: 'pared' is unknown",
        ),
        (
            "delay = \"{delay}\"",
            "delay = \"1ms\"",
            "some/lab.toml:6:11: sweep.delay: nothing uses it",
        ),
        (
            "[\"client\"",
            "[\"cleint\"",
            "no node 'cleint'; the nearest one is client",
        ),
        ("\"25us\"]", "\"25us\", \"1uz\"]", "some/lab.toml:5:"),
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
        ("run = \"serve\", ", "", "some/lab.toml:3:"),
        ("[1, 4]", "[1, 1]", "give different values"),
        ("sweep = {", "sweep = ", "some/lab.toml:6:"),
        (
            "json = \"/a\", ",
            "",
            "give one of json, regex, hdr, tap, exit, elapsed and cpu",
        ),
        (
            "repeats = 2",
            "repeats = \"2..9\"",
            "lab.width: it goes with repeats",
        ),
        (
            "repeats = 2",
            "repeats = 2, width = \"5%\"",
            "some/lab.toml:2:32: lab.width: it goes with",
        ),
        (
            "repeats = 2",
            "repeats = \"9..2\", width = \"5%\"",
            "some/lab.toml:2:19: lab.repeats: give 1 or more, or LEAST..MOST",
        ),
        (
            "repeats = 2",
            "repeats = \"2..9\", width = \"0%\"",
            "some/lab.toml:2:45: lab.width: '0%' is no share above 0",
        ),
        (
            "repeats = 2",
            "repeats = \"2..9\", width = \"5% of answred\"",
            "lab.width: no metric answred; the nearest one is answered",
        ),
        (
            "sweep = {",
            "points = [{ delay = \"1s\" }]\nsweep = {",
            "some/lab.toml:6:13: points.delay: '1s' is none of its values: 0, 25us",
        ),
        (
            "sweep = {",
            "points = [{ delay = \"25us\" }]\nsweep = {",
            "assert.near: 'answered(delay=\"25us\") >= 0.5 * answered(delay=\"0\")' names points \
         that are not run",
        ),
        (
            "sweep = {",
            "except = [{}]\nsweep = {",
            "some/lab.toml:6:1: except: it leaves no point",
        ),
        (
            "sweep = {",
            "except = [{ dely = 0 }]\nsweep = {",
            "some/lab.toml:6:13: except.dely: no axis of the others; the nearest one is delay",
        ),
        (
            "sweep = {",
            "points = \"all\"\nsweep = {",
            "points: write a list of tables",
        ),
        (
            "sweep = {",
            "points = [{ mtu = 1 }, { mtu = 2 }]\nsweep = {",
            "some/lab.toml:6:1: points: mtu: nothing uses it",
        ),
        (
            "run = \"serve\"",
            "run = \"serve\", files = { \"../x\" = \"\" }",
            "some/lab.toml:3:42: node.server.files.../x: a file's name leads nowhere else",
        ),
        (
            "run = \"serve\"",
            "run = \"serve\", cpus = [99999]",
            "some/lab.toml:3:39: node.server.cpus, connections=1 delay=0: no CPU 99999: there are",
        ),
        (
            "run = \"serve\"",
            "run = \"serve\", cpus = 99999",
            "node.server.cpus, connections=1 delay=0: 99999 CPUs for it alone",
        ),
        (
            "run = \"serve\"",
            "run = \"serve\", memory = \"1K\"",
            "some/lab.toml:3:41: node.server.memory, connections=1 delay=0: 1K is too little",
        ),
        (
            "run = \"serve\"",
            "run = \"serve\", user = \"nobody-at-all\"",
            "some/lab.toml:3:39: node.server.user, connections=1 delay=0: ",
        ),
        (
            "json = \"/a\"",
            "json = \"/a\", from = \"/etc/passwd\"",
            "write out, err, or a file in $LINESIDE_FILES",
        ),
        (
            "json = \"/a\"",
            "hdr = \"99\"",
            "some/lab.toml:4:73: node.client.metric.answered.hdr: '99' is no quantile",
        ),
        (
            "rate = [\"out: 1gbit\"]",
            "path = \"no-such-file\"",
            "some/lab.toml:5:6: link.wire, connections=1 delay=0: path: some/no-such-file: cannot",
        ),
    ];

    #[test]
    fn what_is_wrong_is_named_by_line_and_column() {
        let changed = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            let error = parse(&WHOLE.replace(from, to)).expect_err(to);
            assert!(error.is_usage());
            error.to_string()
        };
        for (from, to, expected) in WRONG {
            let error = changed(from, to);
            assert!(error.contains(expected), "{error}");
        }
    }
}
