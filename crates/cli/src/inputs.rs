//! Inputs of all verbs: capture files as one port, and what is reported of an input.

use std::fs::File;
use std::path::PathBuf;

use lineside_account::Budget;
use lineside_port::{
    CaptureReader, Facts, FolderFile, Followed, LiveFacts, Merge, MergeInput, Method, PoolConfig,
    Port, PortError,
};
use lineside_trace::{InputFacts, LiveInput};

use crate::config::ConfigError;

/// Opens the inputs as one port.
pub(crate) fn open(inputs: &[PathBuf], budget: &Budget) -> anyhow::Result<Merge> {
    open_as(inputs, false, budget)
}

/// The same; if it `follows`, the one file, or the last one of the one folder, is still growing.
pub(crate) fn open_as(inputs: &[PathBuf], follows: bool, budget: &Budget) -> anyhow::Result<Merge> {
    check_inputs(inputs)?;
    // Where one file of a folder follows another, both are open for a moment.
    let open_max = inputs
        .iter()
        .map(|input| 1 + usize::from(input.is_dir()))
        .sum();
    let pool = pool(budget, open_max);
    let mut ports: Vec<MergeInput> = Vec::with_capacity(inputs.len());
    for path in inputs {
        if !path.is_dir() {
            ports.push(match follows {
                true => Followed::file(path, &pool)?.into(),
                false => CaptureReader::open(path, &pool)?.into(),
            });
            continue;
        }
        let (mut files, left_out) = match lineside_port::list(path, &pool) {
            // The first one may be about to come.
            Err(PortError::NoCaptures { .. }) if follows => (Vec::new(), Vec::new()),
            listed => listed?,
        };
        for why in left_out {
            eprintln!("lineside: warning: left out: {why}");
        }
        let followed = match files.pop() {
            last if follows => {
                let last = last.as_ref().map(FolderFile::path);
                Some(Followed::folder(path, last, &pool)?)
            }
            last => {
                files.extend(last);
                None
            }
        };
        ports.extend(files.into_iter().map(MergeInput::from));
        ports.extend(followed.map(MergeInput::from));
    }
    if ports.len() > usize::from(u16::MAX) {
        return Err(ConfigError::usage("more than 65,535 files: merge some of them first").into());
    }
    Ok(Merge::new(ports))
}

/// Opens files, each with its name, and reads nothing yet.
pub(crate) fn open_files(inputs: &[PathBuf]) -> anyhow::Result<Vec<(String, File)>> {
    check_inputs(inputs)?;
    let open = |path: &PathBuf| Ok((path.display().to_string(), CaptureReader::open_file(path)?));
    inputs.iter().map(open).collect()
}

/// Reads open files as one port.
pub(crate) fn read(files: Vec<(String, File)>, budget: &Budget) -> anyhow::Result<Merge> {
    let pool = pool(budget, files.len());
    let mut readers = Vec::with_capacity(files.len());
    for (name, file) in files {
        readers.push(CaptureReader::of_file(file, &name, &pool)?);
    }
    Ok(Merge::new(readers))
}

/// A quarter of the budget is for blocks of frames in flight; the rest is for what is held, and for rows.
fn pool(budget: &Budget, files: usize) -> PoolConfig {
    PoolConfig {
        budget: budget.clone(),
        bytes_max: budget.limit_bytes() / 4 / files,
    }
}

fn check_inputs(inputs: &[PathBuf]) -> Result<(), ConfigError> {
    if inputs.is_empty() {
        return Err(ConfigError::usage(
            "nothing to capture: name a FILE, - for standard input, or an interface with -i",
        ));
    }
    let is_standard = |input: &&PathBuf| input.as_os_str() == "-";
    if inputs.iter().filter(is_standard).count() > 1 {
        return Err(ConfigError::usage(
            "standard input (-) can be read only once",
        ));
    }
    if inputs.len() > usize::from(u16::MAX) {
        return Err(ConfigError::usage(
            "more than 65,535 inputs: merge some of them first",
        ));
    }
    Ok(())
}

/// What `trace.json` and `info` say of each input.
pub(crate) fn inputs(port: &impl Port) -> Vec<InputFacts> {
    port.facts().into_iter().map(input).collect()
}

/// The same of one.
pub(crate) fn input(facts: &Facts) -> InputFacts {
    InputFacts {
        name: facts.name.clone(),
        format: match facts.compression {
            Some(compression) => format!("{}, {compression}", facts.format),
            None => facts.format.clone(),
        },
        link_types: facts
            .link_types
            .iter()
            .map(|link_type| link_type.0)
            .collect(),
        frames: facts.frames,
        bytes: facts.bytes,
        warnings: facts.warnings.clone(),
        live: facts.live.as_ref().map(live_facts),
    }
}

/// The words of `--method`.
pub(crate) const METHODS: [(&str, Option<Method>); 4] = [
    ("auto", None),
    ("af_packet", Some(Method::AfPacket)),
    ("af_xdp", Some(Method::AfXdpNative)),
    ("af_xdp_generic", Some(Method::AfXdpGeneric)),
];

/// What `trace.json` says of a live input.
fn live_facts(live: &LiveFacts) -> LiveInput {
    LiveInput {
        method: live.method.to_string(),
        reason: live.reason.clone(),
        queue: live.queue,
        mtu_bytes: live.mtu,
        arrived: live.arrived,
        filtered: live.filtered,
        dropped_interface: live.dropped_interface,
        dropped_ring: live.dropped_ring,
        dropped_pool: live.dropped_pool,
        unread: live.unread,
        clock_steps: live.clock_steps,
    }
}

/// Says which interfaces are listened at, how and why so; empty if none.
pub(crate) fn listening_lines(inputs: &[&Facts]) -> String {
    inputs
        .iter()
        .filter_map(|facts| {
            let live = facts.live.as_ref()?;
            let Facts { name, .. } = facts;
            Some(format!(
                "lineside: listening at {name} by {}: {}\n",
                live.method, live.reason
            ))
        })
        .collect()
}
