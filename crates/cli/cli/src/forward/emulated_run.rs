//! The emulated adapter between two commands, each in a network of its own.

use std::time::Duration;

use anyhow::Context;
use lineside_account::Budget;
use lineside_host::{Sandbox, Signals};
use lineside_link::Settings;
use lineside_path::emulate::{Commands, Event, Tapping, Way};
use lineside_path::{Direction, Forwarder, Path};
use lineside_payload::Parameters;
use lineside_reactor::{TapPort, Wait};
use lineside_render::adapter::flow_text;
use lineside_run::Record;

use crate::confine;
use crate::exit::Exit;
use crate::print::{print_json, say, talk, warn};

/// Memory of the run: its ports, the path and the adapter.
const MEMORY_BYTES: usize = 256 << 20;
/// How long the client waits until the server listens.
const SERVER_WAIT: Duration = Duration::from_secs(10);
const NO_MEMORY: &str = "the memory does not suffice for the adapter: give a smaller --cache";

/// What takes the frames of a tap: there is none.
type NoTap = fn(TapPort, Vec<u16>);

/// Runs both commands with the adapter between them, and reports what it did to standard error: the
/// standard output is the client's.
pub(super) fn run_commands(
    parameters: &Parameters,
    (server, client): (&str, &[String]),
    sandbox: Option<Sandbox>,
    seed: u64,
    json: bool,
) -> anyhow::Result<Exit> {
    let budget = Budget::new(MEMORY_BYTES);
    let signals = Signals::register().context("cannot handle signals")?;
    let settings = [Settings::default(), Settings::default()];
    let mut path = Path::new(settings, seed, MEMORY_BYTES / 4, &budget).context(NO_MEMORY)?;
    let forwarder = Forwarder::new(parameters.clone(), &budget).context(NO_MEMORY)?;
    for (side, direction) in Direction::BOTH.into_iter().enumerate() {
        path.add_element(direction, forwarder.element(side));
    }
    let commands = Commands {
        server: Some(server),
        client,
        server_wait: SERVER_WAIT,
        wait: Wait::default(),
        outside: Way::Closed,
        passes_loopback: false,
        is_bare: false,
        budget: &budget,
        sandbox,
        signals: &signals,
    };
    let no_tap = None::<Tapping<NoTap>>;
    let (outcome, status, _) =
        commands.run(path, None, no_tap, &mut Record::default(), &mut |event| {
            print_event(&event)
        })?;
    let (counters, cache) = forwarder.counters();
    match json {
        true => print_json(&serde_json::json!({
            "parameters": parameters,
            "counters": counters,
            "cache": cache,
            "certificate": outcome.certificate,
        }))?,
        false => talk(&flow_text(parameters, &counters)),
    }
    outcome.failure.map_or(Ok(()), Err)?;
    Ok(match (outcome.signal, status) {
        (_, Some(status)) if status.success() => Exit::Done,
        (Some(signal), _) => Exit::Signal(signal),
        (None, status) => match status.and_then(|status| status.code()) {
            Some(code) => Exit::Program(code as u8),
            None => Exit::Failure,
        },
    })
}

fn print_event(event: &Event<'_>) {
    match event {
        Event::Warning(text) => warn(text),
        Event::Advice(text) | Event::Note(text) => say(text),
        Event::Confined(confined) => confine::note(confined),
        Event::ServerEnded(status) => {
            warn(&format!("the server ended before the client: {status}"))
        }
        _ => {}
    }
}
