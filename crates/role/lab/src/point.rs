//! One run of a point, in a process of its own: it makes namespaces and gives its privileges up,
//! which no process takes back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{
    Descendants, NodeLimits, Signals, Stopwatch, SystemClock, ask_to_end, end_with_parent, fork,
    wait_for, wait_to_read,
};
use lineside_path::emulate::{
    NodeLink, NodeOutcome, NodePlan, Nodes, Taken, Taking, Trouble, Wanted, node_end,
};
use lineside_path::settings::wires;
use lineside_run::{DropInSettings, Run};
use lineside_time::Clock;
use lineside_trace::{State, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::elsewhere::{self, Words};
use crate::facts::{FACTS, Facts, FactsReader, Running};
use crate::node;
use crate::record::{folder_of, keep};
use crate::sweep::point_text;
use crate::words::filled;
use crate::{Ended, Experiment, From, LabError, Metric, Node, Planned, PointRun, Source};

/// Memory of the links of a point.
const BUDGET_BYTES: usize = 256 << 20;
/// Lines of a node that an error shows.
const LINES: usize = 5;
/// The most bytes of a node's output that metrics look at.
const OUTPUT_MAX: u64 = 64 << 20;

/// Finds a figure, in the words of assertions, of the trace in a folder.
pub type Figure = dyn Fn(&Path, &str) -> Result<f64, String>;

/// What all runs of a lab have in common.
pub(crate) struct Setting<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) folder: &'a Path,
    /// Where commands begin.
    pub(crate) home: &'a Path,
    /// What finds figures of what a tap captured.
    pub(crate) figure: &'a Figure,
    /// What starts a program on another machine.
    pub(crate) rsh: &'a str,
    pub(crate) signals: &'a Signals,
    pub(crate) descendants: Descendants,
    /// The facts of the lab, and what reads them again.
    pub(crate) facts: Facts,
    pub(crate) reader: FactsReader,
}

/// What a point's process found.
#[derive(Debug, Serialize, Deserialize)]
struct Ran {
    nodes: Vec<Ended>,
    not_started: Vec<Option<i32>>,
    /// What was wrong with which node.
    trouble: Option<(String, usize)>,
    state: State,
    reasons: Vec<String>,
    /// The signal that ended it.
    signal: Option<u8>,
}

/// How a run of a point went.
pub(crate) enum Went {
    Measured(PointRun),
    Interrupted,
}

/// Runs a point once.
pub(crate) fn run(lab: &Setting<'_>, planned: Planned, attempts: u32) -> Result<Went, LabError> {
    let began_ns = SystemClock::default().now();
    let since = Stopwatch::start();
    let folder = folder_of(lab.folder, planned);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(LabError::file(&folder, "cannot be replaced"))?;
    }
    let above = folder.parent().unwrap_or(lab.folder);
    std::fs::create_dir_all(above).map_err(LabError::file(above, "cannot be made"))?;
    // The point's own process gives up what it would take to read them.
    let running = Running::begin(&lab.reader);
    let ran = in_process(lab, planned, &folder)?;
    if ran.signal.is_some() {
        return Ok(Went::Interrupted);
    }
    let experiment = lab.experiment;
    let place = Place {
        experiment,
        planned,
        folder: &folder,
    };
    for node in &experiment.nodes {
        // One that nobody used.
        let _ = std::fs::remove_dir(files_of(&folder, node));
    }
    place.check(&ran)?;
    let metrics = place.metrics(&ran, lab.figure)?;
    keep(&folder, FACTS, &running.end(&lab.reader, &lab.facts))?;
    let names = experiment.nodes.iter().map(|node| node.name.clone());
    let awaited = experiment.nodes.iter().zip(&ran.nodes);
    let awaited = awaited.filter(|(node, _)| node.is_awaited);
    let longest_ns = awaited.filter_map(|(_, ended)| ended.elapsed_ns).max();
    let elapsed_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Went::Measured(PointRun {
        point: planned.point,
        repeat: planned.repeat,
        axes: experiment.values(planned.point),
        seed: experiment.seed_of(planned),
        attempts,
        verdict: ran.state,
        reasons: ran.reasons,
        began_ns,
        elapsed_ns,
        beside_ns: elapsed_ns.saturating_sub(longest_ns.unwrap_or_default()),
        nodes: names.zip(ran.nodes).collect(),
        metrics,
    }))
}

/// Starts the process and takes what it found.
fn in_process(lab: &Setting<'_>, planned: Planned, folder: &Path) -> Result<Ran, LabError> {
    let system = |what| move |cause| LabError::System { what, cause };
    let (ours, its) = std::io::pipe().map_err(system("cannot make a pipe"))?;
    let mut ours = Some(ours);
    let process = fork(|| {
        ours.take();
        end_with_parent()?;
        let found = found(lab, planned, folder).map_err(|error| error.to_string());
        let text = serde_json::to_vec(&found)?;
        its.try_clone()?.write_all(&text)
    });
    let process = process.map_err(system("cannot start a process"))?;
    drop(its);
    let (mut text, mut is_asked) = (Vec::new(), false);
    if let Some(mut ours) = ours {
        let mut some = [0; 4096];
        loop {
            if !is_asked && lab.signals.stop().is_some() {
                is_asked = true;
                ask_to_end(process);
            }
            if !wait_to_read(&ours, Duration::from_millis(100)) {
                continue;
            }
            match ours.read(&mut some) {
                Ok(0) => break,
                Ok(count) => text.extend(&some[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(system("cannot read what a point found")(error)),
            }
        }
    }
    wait_for(process);
    lab.descendants.reap();
    let place = || place_text(lab.experiment, planned);
    let found: Result<Ran, String> = serde_json::from_slice(&text)
        .map_err(|_| LabError::Point(format!("{}its process broke off", place())))?;
    found.map_err(|why| LabError::Point(format!("{}{why}", place())))
}

/// In the process: runs the nodes.
fn found(lab: &Setting<'_>, planned: Planned, folder: &Path) -> Result<Ran, LabError> {
    let experiment = lab.experiment;
    let values = experiment.values(planned.point);
    let seed = experiment.seed_of(planned);
    let budget = Budget::new(BUDGET_BYTES);
    let path = path(lab, &values, seed, &budget);
    let mut path = path.map_err(LabError::Usage)?;
    let limits = limits(experiment, &values)?;
    path.set_late_limits(experiment.limits);
    let configuration = json!({ "lab": { "point": planned.point, "repeat": planned.repeat,
        "axes": values, "seed": seed } });
    let now_ns = SystemClock::default().now();
    let mut run = Run::begin(Some(folder), false, &planned, configuration, now_ns)?;
    let outputs = outputs(experiment, folder)?;
    let homes = make_folders(experiment, folder, &values, &limits)?;
    let words = words(lab, seed, &values, &homes);
    let plans = words.iter().zip(&outputs).enumerate();
    let plans = plans
        .map(|(node, (words, outputs))| plan((experiment, node), (words, &limits[node]), outputs));
    let sandbox = lineside_run::sandbox(run.folder.as_ref());
    let tapping = taking(experiment, &run, &budget)?.map(Taking::tapping);
    let links = experiment.links.iter().map(|link| NodeLink {
        name: &link.name,
        nodes: link.between.clone(),
    });
    let (ran, taken) = run.drive(Ok(sandbox), |sandbox, record| {
        let nodes = Nodes {
            nodes: plans.collect(),
            links: links.collect(),
            folder: lab.home,
            ready_wait: experiment.ready_wait,
            timeout: experiment.timeout,
            wait: experiment.wait,
            budget: &budget,
            sandbox,
            signals: lab.signals,
        };
        nodes.run(path, tapping, record, &mut |_| {})
    })?;
    let outcome = ran.outcome;
    Taken::note(taken, &mut run, &outcome.certificate, &mut |_| {})
        .map_err(|error| LabError::Point(error.to_string()))?;
    if let Some(failure) = outcome.failure {
        return Err(LabError::Point(failure.to_string()));
    }
    run.manifest.inputs = outcome.inputs;
    run.manifest.certificate = serde_json::to_value(&outcome.certificate).ok();
    let verdict = outcome.certificate.verdict.clone();
    run.end(verdict.clone(), SystemClock::default().now())?;
    Ok(Ran {
        signal: outcome.signal,
        ..of_nodes(experiment, &ran.nodes, ran.trouble, verdict)
    })
}

/// What each node runs at a point.
fn words(
    lab: &Setting<'_>,
    seed: u64,
    values: &BTreeMap<String, String>,
    homes: &[PathBuf],
) -> Vec<Words> {
    let nodes = lab.experiment.nodes.iter().enumerate();
    let words = nodes.map(|(number, node)| {
        let run = filled(&node.run, values);
        let environment = environment(lab, number, seed, values, &homes[number]);
        match &node.host {
            None => Words {
                command: run,
                ready: node.ready(values),
                elsewhere: None,
                environment,
            },
            Some(host) => {
                elsewhere::words((lab.rsh, host), (&run, node.ready(values)), environment)
            }
        }
    });
    words.collect()
}

/// What nodes may use.
fn limits(
    lab: &Experiment,
    values: &BTreeMap<String, String>,
) -> Result<Vec<NodeLimits>, LabError> {
    node::limits(&lab.nodes, values).map_err(|(node, key, why)| {
        let node = &lab.nodes[node];
        LabError::Usage(format!("node.{}.{key}: {why}", node.name))
    })
}

fn plan<'a>(
    (lab, node): (&Experiment, usize),
    (words, limits): (&'a Words, &'a NodeLimits),
    [out, err]: &'a [File; 2],
) -> NodePlan<'a> {
    // Beside other machines a node without a link is in the network of this one.
    let is_linked = lab.links.iter().any(|link| link.between.contains(&node));
    let has_others = lab.nodes.iter().any(|node| node.host.is_some());
    NodePlan {
        command: &words.command,
        environment: words.environment.clone(),
        ready: words.ready.as_ref(),
        elsewhere: words.elsewhere.as_deref(),
        is_outside: has_others && !is_linked,
        is_awaited: lab.nodes[node].is_awaited,
        limits,
        outputs: [out.as_fd(), err.as_fd()],
    }
}

/// What became of the nodes.
fn of_nodes(
    lab: &Experiment,
    nodes: &[NodeOutcome],
    trouble: Option<Trouble>,
    verdict: Verdict,
) -> Ran {
    let ended = nodes.iter().map(|node| Ended {
        status: node.end.and_then(|end| end.status),
        signal: node.end.and_then(|end| end.signal),
        elapsed_ns: node.end.map(|end| end.elapsed_ns),
        cpu_ns: node.cpu_ns,
    });
    let ended = ended.zip(&lab.nodes).map(|(ended, node)| Ended {
        // That of what connects to another machine says nothing.
        cpu_ns: ended.cpu_ns.filter(|_| node.host.is_none()),
        ..ended
    });
    Ran {
        nodes: ended.collect(),
        not_started: nodes.iter().map(|node| node.not_started).collect(),
        trouble: trouble.map(|trouble| trouble_text(lab, trouble)),
        state: verdict.state,
        reasons: verdict.reasons,
        signal: None,
    }
}

/// What captures the frames of a link, if that is wanted.
fn taking<'a>(
    lab: &Experiment,
    run: &Run,
    budget: &'a Budget,
) -> Result<Option<Taking<'a>>, LabError> {
    let tapped = lab.links.iter().position(|link| link.has_tap);
    let folder = run.folder.as_ref().filter(|_| tapped.is_some());
    let wanted = Wanted {
        words: &[],
        drop_ins: &DropInSettings::default(),
        measuring: None,
        stopped: Vec::new(),
        writer: None,
        trace: folder.map(|folder| (folder.clone(), run.manifest.trace_id.clone())),
        // Several links have two ports each.
        link: tapped
            .filter(|_| lab.links.len() > 1)
            .map(|link| [2 * link, 2 * link + 1]),
    };
    let ports = ports(lab);
    let ports: Vec<_> = ports.iter().map(String::as_str).collect();
    Taking::new(wanted, &ports, budget).map_err(|error| LabError::Point(error.to_string()))
}

/// What went wrong, and with which node.
fn trouble_text(lab: &Experiment, trouble: Trouble) -> (String, usize) {
    match trouble {
        Trouble::Unreached(node) => {
            let host = lab.nodes[node].host.as_deref().unwrap_or_default();
            let wait = lineside_words::time(lab.ready_wait.as_nanos() as u64);
            let text = format!("was not reached at {host} within {wait}, lab.ready_wait");
            (text, node)
        }
        Trouble::NeverReady(node) => {
            let ready = lab.nodes[node].ready.as_deref().unwrap_or_default();
            let wait = lineside_words::time(lab.ready_wait.as_nanos() as u64);
            let text = format!("was not ready ({ready}) within {wait}, lab.ready_wait");
            (text, node)
        }
        Trouble::EndedEarly(node) => ("ended early".to_owned(), node),
        Trouble::TimedOut(node) => {
            let timeout = lineside_words::time(lab.timeout.as_nanos() as u64);
            (format!("had not ended after {timeout}, lab.timeout"), node)
        }
    }
}

/// The links at a point.
fn path(
    lab: &Setting<'_>,
    values: &BTreeMap<String, String>,
    seed: u64,
    budget: &Budget,
) -> Result<lineside_path::Path, String> {
    let (lab, home) = (lab.experiment, lab.home);
    let specs = lab.links.iter().map(|link| link.spec(values, home));
    let specs = specs.collect::<Result<Vec<_>, _>>()?;
    let path = match (&specs[..], &lab.links[..]) {
        ([spec], [link]) if link.between.len() > 2 => spec.path(seed, budget),
        _ => wires(&specs, ports(lab), seed, budget),
    };
    let path = path.map_err(|error| error.to_string())?;
    path.ok_or_else(|| "there is no memory for the links".to_owned())
}

/// The names of the ports: their node's, with the link's where it has several.
fn ports(lab: &Experiment) -> Vec<String> {
    let all = lab.links.iter().flat_map(|link| &link.between);
    let links_of = |node: usize| all.clone().filter(|other| **other == node).count();
    let name = |node: usize, link: &str| {
        let name = &lab.nodes[node].name;
        match links_of(node) {
            1 => name.clone(),
            _ => format!("{name} ({link})"),
        }
    };
    let ports = lab.links.iter().flat_map(|link| {
        let nodes = link.between.iter();
        nodes.map(|node| name(*node, &link.name))
    });
    ports.collect()
}

/// Files for what nodes print.
fn outputs(lab: &Experiment, folder: &Path) -> Result<Vec<[File; 2]>, LabError> {
    let file = |node: &Node, end: &str| {
        let path = folder.join(format!("{}.{end}", node.name));
        File::create(&path).map_err(LabError::file(&path, "cannot be made"))
    };
    let nodes = lab.nodes.iter();
    nodes
        .map(|node| Ok([file(node, "out")?, file(node, "err")?]))
        .collect()
}

/// The folder of a node in that of a run.
fn files_of(folder: &Path, node: &Node) -> PathBuf {
    folder.join(format!("{}.files", node.name))
}

/// Makes the folders of all nodes.
fn make_folders(
    lab: &Experiment,
    folder: &Path,
    values: &BTreeMap<String, String>,
    limits: &[NodeLimits],
) -> Result<Vec<PathBuf>, LabError> {
    let nodes = lab.nodes.iter().zip(limits);
    let made = nodes.map(|(node, limits)| make_folder(node, folder, values, limits.user));
    made.collect()
}

/// Makes the folder of a node, with its files, for the user that it runs as.
fn make_folder(
    node: &Node,
    folder: &Path,
    values: &BTreeMap<String, String>,
    user: Option<(u32, u32)>,
) -> Result<PathBuf, LabError> {
    let home = files_of(folder, node);
    let home = std::path::absolute(&home).unwrap_or(home);
    let mut made = vec![home.clone()];
    std::fs::create_dir(&home).map_err(LabError::file(&home, "cannot be made"))?;
    for (name, text) in &node.files {
        let file = home.join(name);
        let folders = { file.ancestors().skip(1) }.take_while(|above| *above != home);
        for folder in folders.collect::<Vec<_>>().into_iter().rev() {
            if !folder.exists() {
                std::fs::create_dir(folder).map_err(LabError::file(folder, "cannot be made"))?;
                made.push(folder.to_owned());
            }
        }
        let written = std::fs::write(&file, filled(text, values));
        written.map_err(LabError::file(&file, "cannot be written"))?;
        made.push(file);
    }
    if let Some((user, group)) = user {
        for path in made {
            let given = std::os::unix::fs::chown(&path, Some(user), Some(group));
            given.map_err(LabError::file(&path, "cannot be given to its user"))?;
        }
    }
    Ok(home)
}

/// What a node finds in its environment.
fn environment(
    lab: &Setting<'_>,
    node: usize,
    seed: u64,
    values: &BTreeMap<String, String>,
    home: &Path,
) -> Vec<(String, String)> {
    let experiment = lab.experiment;
    let mut all = Vec::new();
    let mut add = |name: String, value: String| {
        // The first link of several counts.
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, value));
        }
    };
    for (number, link) in experiment.links.iter().enumerate() {
        let Some(own) = link.between.iter().position(|other| *other == node) else {
            continue;
        };
        let end = node_end(number, own);
        add("LINESIDE_ADDRESS".to_owned(), end.v4.to_string());
        add("LINESIDE_ADDRESS6".to_owned(), end.v6.to_string());
        let link_name = link.name.to_uppercase();
        add(format!("LINESIDE_ADDRESS_{link_name}"), end.v4.to_string());
        let others = link.between.iter().enumerate();
        for (place, other) in others.filter(|(place, _)| *place != own) {
            let (name, end) = (
                experiment.nodes[*other].name.to_uppercase(),
                node_end(number, place),
            );
            add(format!("LINESIDE_PEER_{name}"), end.v4.to_string());
            add(
                format!("LINESIDE_PEER_{name}_{link_name}"),
                end.v4.to_string(),
            );
            add(format!("LINESIDE_PEER6_{name}"), end.v6.to_string());
        }
    }
    for (number, other) in experiment.nodes.iter().enumerate() {
        let Some(host) = other.host.as_deref().map(elsewhere::machine) else {
            continue;
        };
        match number == node {
            true => add("LINESIDE_ADDRESS".to_owned(), host.to_owned()),
            false => {
                let name = other.name.to_uppercase();
                add(format!("LINESIDE_PEER_{name}"), host.to_owned());
            }
        }
    }
    add("LINESIDE_SEED".to_owned(), seed.to_string());
    // Another machine has its own.
    if experiment.nodes[node].host.is_none() {
        add("LINESIDE_FILES".to_owned(), home.display().to_string());
    }
    // This program, if nothing else has its name.
    let own = std::env::current_exe().ok();
    let own = own.filter(|_| experiment.nodes[node].host.is_none());
    if let Some(folder) = own.as_deref().and_then(Path::parent) {
        let path = std::env::var("PATH").unwrap_or_default();
        add("PATH".to_owned(), format!("{path}:{}", folder.display()));
    }
    for (name, value) in &experiment.nodes[node].env {
        all.retain(|(known, _)| known != name);
        all.push((name.clone(), filled(value, values)));
    }
    all
}

/// Where an error happened.
fn place_text(lab: &Experiment, planned: Planned) -> String {
    let words = point_text(&lab.values(planned.point));
    let words = if words.is_empty() {
        words
    } else {
        format!(" ({words})")
    };
    format!(
        "point {}{words}, repeat {}: ",
        planned.point, planned.repeat
    )
}

/// A run that has ended.
struct Place<'a> {
    experiment: &'a Experiment,
    planned: Planned,
    folder: &'a Path,
}

impl Place<'_> {
    /// Fails if a node did not do what it should.
    fn check(&self, ran: &Ran) -> Result<(), LabError> {
        if let Some((text, node)) = &ran.trouble {
            let how = match (ran.not_started[*node], &ran.nodes[*node]) {
                (Some(error), _) if error > 0 => {
                    let error = std::io::Error::from_raw_os_error(error);
                    format!("could not be started: {error}")
                }
                (_, ended) if ended.elapsed_ns.is_some() => format!("{text}: {}", how(ended)),
                _ => text.clone(),
            };
            return Err(self.wrong(*node, &how));
        }
        for (number, (node, ended)) in self.experiment.nodes.iter().zip(&ran.nodes).enumerate() {
            let is_measured =
                { node.metrics.iter() }.any(|metric| matches!(metric.source, Source::Exit));
            if node.is_awaited && !is_measured && ended.status != Some(0) {
                return Err(self.wrong(number, &format!("failed: {}", how(ended))));
            }
        }
        Ok(())
    }

    fn metrics(&self, ran: &Ran, figure: &Figure) -> Result<BTreeMap<String, f64>, LabError> {
        let mut values = BTreeMap::new();
        for (number, (node, ended)) in self.experiment.nodes.iter().zip(&ran.nodes).enumerate() {
            for metric in &node.metrics {
                let Metric { name, .. } = metric;
                let text = |from: &From| self.text(node, from);
                let figure = |words: &str| figure(self.folder, words);
                let value = metric.value(ended, text, figure);
                let value =
                    value.map_err(|why| self.wrong(number, &format!("metric {name}: {why}")));
                values.insert(name.clone(), value?);
            }
        }
        Ok(values)
    }

    /// What a metric reads.
    fn text(&self, node: &Node, from: &From) -> Result<String, String> {
        let name = match from {
            From::Out => return Ok(self.output(node, "out")),
            From::Err => return Ok(self.output(node, "err")),
            From::File(name) => name,
        };
        let path = files_of(self.folder, node).join(name);
        let is_file = path.symlink_metadata().map(|it| it.is_file());
        match is_file.and_then(|is_file| is_file.then(|| read(&path)).transpose()) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(format!("{name} in $LINESIDE_FILES is no file")),
            Err(error) => Err(format!("{name} in $LINESIDE_FILES cannot be read: {error}")),
        }
    }

    fn output(&self, node: &Node, end: &str) -> String {
        // One that is not there is empty.
        read(&self.folder.join(format!("{}.{end}", node.name))).unwrap_or_default()
    }

    /// An error of a node, with its last lines.
    fn wrong(&self, node: usize, why: &str) -> LabError {
        let node = &self.experiment.nodes[node];
        let mut text = place_text(self.experiment, self.planned);
        text += &format!("node {} {why}", node.name);
        for end in ["err", "out"] {
            let lines = last_lines(&self.folder.join(format!("{}.{end}", node.name)));
            text += &lines;
            if !lines.is_empty() {
                break;
            }
        }
        LabError::Point(text)
    }
}

/// The end of a file, as a part of an error.
pub(crate) fn last_lines(file: &Path) -> String {
    let output = read(file).unwrap_or_default();
    let lines: Vec<_> = { output.lines() }
        .filter(|line| !line.trim().is_empty())
        .collect();
    let lines = &lines[lines.len().saturating_sub(LINES)..];
    let mut text = match lines.is_empty() {
        true => String::new(),
        false => format!("; the last lines of {}:", file.display()),
    };
    for line in lines {
        text += &format!("\n  {}", lineside_words::escape(line));
    }
    text
}

/// A file that a node wrote.
fn read(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn how(ended: &Ended) -> String {
    match (ended.status, ended.signal) {
        (Some(127), _) => "exit status 127, a command was not found".to_owned(),
        (Some(status), _) => format!("exit status {status}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "it had not ended".to_owned(),
    }
}
