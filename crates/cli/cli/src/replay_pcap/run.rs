//! `lineside replay-pcap`: a capture's frames onto an interface.

use std::num::NonZeroU64;

use anyhow::Context;
use lineside_account::Budget;
use lineside_capture::Filtered;
use lineside_filter::Filter;
use lineside_frame::Burst;
use lineside_host::{Capability, Privileges, Sandbox, Signals, Stopwatch};
use lineside_port::Port;
use lineside_port::live::{Interface, open_to_send};
use lineside_run::{Intake, Sources};
use lineside_workload::{Speed, Timing};

use super::flags::Arguments;
use super::print::print_account;
use super::sender::{Ready, Sender};
use crate::config::ConfigError;
use crate::confine;
use crate::exit::Exit;
use crate::print::warn;

/// Memory for frames that were read but not yet sent.
const MEMORY_BYTES: usize = 64 << 20;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let filter = arguments.filter.as_deref().map(Filter::parse).transpose();
    let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
    Privileges::read()?.require(&[Capability::NetRaw])?;
    let interface = Interface::named(&arguments.interface)?;
    let mut port = open_to_send(&interface)?;
    let budget = Budget::new(MEMORY_BYTES);
    let files = Sources::find(&arguments.files)?;
    if arguments.loops > 1 && arguments.files.iter().any(|file| file.as_os_str() == "-") {
        return Err(ConfigError::usage("--loop: standard input can be read only once").into());
    }
    let mut loops_left = arguments.loops - 1;
    // What must be open is. A thread that decompresses a file starts after this.
    match files.capability() {
        Some(capability) => lineside_host::drop_privileges_but(capability)?,
        None => lineside_host::drop_privileges(None, &[])?,
    };
    let sandbox = Sandbox::new().may_ask_about_links();
    let sandbox = files.opened_later().fold(sandbox, Sandbox::may_read);
    if let Some(sandbox) = arguments.confining.applied(sandbox) {
        confine::note(&sandbox.enter()?);
    }
    let files = files.look(&budget)?;
    for why in &files.left_out {
        warn(&format!("left out: {why}"));
    }
    let open = || -> anyhow::Result<_> { Ok(Filtered::new(files.merge()?, filter.clone())) };
    let mut source = open()?;
    let signals = Signals::register().context("cannot handle signals")?;

    let mut sender = Sender {
        ready: Ready::new(timing(arguments)),
        intake: Intake::new(arguments.frames_max.map_or(u64::MAX, NonZeroU64::get)),
        stopwatch: Stopwatch::start(),
        due: Burst::new(),
        stalls: 0,
        refused_since: None,
        ended: false,
        error: None,
    };
    let mut signal = None;
    let mut failure = None;
    while signal.is_none() && failure.is_none() {
        signal = signals.stop();
        match sender.turn(&mut source, &mut *port, &interface.name) {
            Ok(true) if sender.ended && loops_left > 0 && sender.error.is_none() => {
                loops_left -= 1;
                source = open()?;
                sender.begin_again();
            }
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => failure = Some(error),
        }
    }
    let departures = sender.ready.replay.departures();
    if !arguments.quiet {
        print_account(arguments, &sender, &departures)?;
    }
    for warning in source.facts().iter().flat_map(|facts| &facts.warnings) {
        warn(warning);
    }
    match (failure.or(sender.error), signal) {
        (Some(error), _) => Err(error),
        (None, Some(signal)) => Ok(Exit::Signal(signal)),
        (None, None) => Ok(Exit::Done),
    }
}

/// When each frame is due.
fn timing(arguments: &Arguments) -> Timing {
    match (arguments.speed, arguments.rate) {
        _ if arguments.fast => Timing::Fast,
        (_, Some(rate)) => Timing::Constant(rate),
        (speed, None) => Timing::Own(speed.unwrap_or(Speed::ORIGINAL)),
    }
}
