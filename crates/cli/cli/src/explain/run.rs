//! `lineside explain`: where a frame's delay comes from.

use lineside_capture::Filtered;
use lineside_path::Direction;
use lineside_path::explain::{of_frame, of_settings};
use lineside_render::explained_lines;
use lineside_run::request::{Done, ForwardDone, ForwardRequest, Request};

use super::flags::{Arguments, SIZE};
use crate::config::ConfigError;
use crate::confine::{self, Confining};
use crate::exit::Exit;
use crate::inputs::open;
use crate::link::ask::Asked;
use crate::link::section::Mode;
use crate::print::{json_text, print, print_data};

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if let Some(flow) = &arguments.flow {
        return explain_flow(flow, arguments);
    }
    // Of a file, only the settings of the link matter here, not its source of frames.
    arguments.keys.refuse_flags_of_others(Mode::Explain)?;
    let keys = arguments.keys.resolved(arguments.config.as_deref())?;
    let inputs = match arguments.frame {
        None if arguments.keys.inputs().is_empty() => &[],
        _ => keys.inputs(),
    };
    let of_settings_only = [
        ("--frame-size", arguments.size.is_some()),
        ("--load", arguments.load.is_some()),
    ];
    let given = of_settings_only.iter().find(|(_, is_given)| *is_given);
    if let (Some((flag, _)), [_, ..]) = (given, inputs) {
        return Err(ConfigError::usage(&format!(
            "{flag} is for settings alone, and the frames of a capture have their own: leave it out"
        ))
        .into());
    }
    let prepared = keys.prepare()?;
    if arguments.frame.is_some() && !inputs.is_empty() {
        let confining = Confining::new(keys.sandbox.unwrap_or_default());
        confining.enter(confine::captures(inputs), None)?;
    }
    let explained = match (arguments.frame, inputs) {
        (Some(number), [_, ..]) => {
            let files = open(inputs, &prepared.budget)?;
            let mut port = Filtered::new(files, prepared.filter);
            vec![of_frame(&mut port, prepared.path, prepared.inside, number)?]
        }
        (None, [_, ..]) => {
            return Err(
                ConfigError::usage("the number of the frame is missing: add --frame N").into(),
            );
        }
        (Some(_), []) => {
            return Err(ConfigError::usage("--frame needs a capture: add -r FILE").into());
        }
        (None, []) => {
            let size = arguments.size.unwrap_or(SIZE);
            let load = arguments.load.as_deref().map_or(Ok(0.0), load)?;
            let explain = |direction| {
                let link = prepared.path.link(direction);
                of_settings(direction, link.settings(), link, size, load)
            };
            Direction::BOTH.map(explain).into()
        }
    };
    let text = if arguments.json {
        json_text(&explained)?
    } else {
        explained.iter().map(explained_lines).collect()
    };
    print(&text)?;
    Ok(Exit::Done)
}

/// Asks a running forwarder to which node a connection goes.
fn explain_flow(flow: &str, arguments: &Arguments) -> anyhow::Result<Exit> {
    let [run] = arguments.keys.inputs() else {
        return Err(ConfigError::usage(
            "--flow needs the folder of one running forwarder: explain RUN --flow A:P-B:P",
        )
        .into());
    };
    let ends = flow.split_once('-');
    let ends =
        ends.and_then(|(client, service)| Some((client.parse().ok()?, service.parse().ok()?)));
    let (client, service) = ends.ok_or_else(|| {
        ConfigError::usage(&format!(
            "flow: '{flow}' is not a connection: write 10.9.1.7:40000-10.9.1.100:80"
        ))
    })?;
    let request = Request::Forward(ForwardRequest::Flow { client, service });
    let confining = Confining::new(arguments.keys.sandbox.unwrap_or_default());
    match Asked::new(run, confining)?.done(&request)? {
        Done::Forward(ForwardDone::Explained { explanation, .. }) if arguments.json => {
            print_data(&json_text(&explanation)?)?;
        }
        Done::Forward(ForwardDone::Explained { text, .. }) => print(&format!("{text}\n"))?,
        _ => anyhow::bail!("{}: the run answers something else", run.display()),
    }
    Ok(Exit::Done)
}

fn load(text: &str) -> Result<f64, ConfigError> {
    let number = { text.strip_suffix('%') }.and_then(|number| number.parse::<f64>().ok());
    let percent = number.filter(|percent| (0.0..100.0).contains(percent));
    let percent = percent.ok_or_else(|| {
        ConfigError::usage(&format!(
            "load: '{text}' is not a share from 0% to less than 100%, at which the queue grows for \
            ever"
        ))
    })?;
    Ok(percent / 100.0)
}
