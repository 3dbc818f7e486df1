//! `lineside emulate`: the entrance, and frames of a capture through an emulated link.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, anyhow};
use lineside_account::Budget;
use lineside_capture::Filtered;
use lineside_frame::Burst;
use lineside_host::Signals;
use lineside_path::emulate::note_steps;
use lineside_path::settings::CAPTURE_SIDES;
use lineside_path::{DirectionFinder, PathMonitors, Virtual};
use lineside_port::{CaptureWriter, Port, Receive, Rotation, WriterConfig};
use lineside_run::{
    Consumer, DROP_INS_NEED_MORE, Evidence, Moment, Pace, PartRotation, Step, check_capture_file,
    inputs_facts, keep_file_capabilities, not_confined, receive_all, sandbox_facts,
    with_capture_file,
};
use lineside_store::RunFolder;

use super::flags::Arguments;
use super::notes::Notes;
use super::print::{lines, side_warnings};
use crate::config::{ConfigError, refuse_two_on_standard_output};
use crate::confine;
use crate::exit::Exit;
use crate::inputs::open;
use crate::link::section::{Mode, Prepared};
use crate::print::{print, print_json, print_styled, talk, warn};

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    let arguments = Arguments {
        keys: given.keys.resolved(given.config.as_deref())?,
        ..given.clone()
    };
    let Some(mode) = arguments.keys.mode() else {
        return Err(ConfigError::usage(
            "the source of frames is missing: name a capture (FILE), two interfaces (--between \
            IF1,IF2), an interface of this host (--on IF), or a command whose traffic passes the \
            link (-- CMD)",
        )
        .into());
    };
    arguments.keys.refuse_flags_of_others(mode)?;
    let Prepared {
        context,
        path,
        spec,
        budget,
        filter,
        inside,
    } = arguments.keys.prepare()?;
    let inputs = arguments.keys.inputs();
    match mode {
        Mode::Commands => return arguments.run_commands(path, (spec, context), &budget),
        Mode::Between | Mode::On => return arguments.run_between(path, (spec, context), &budget),
        Mode::Capture | Mode::Explain => {}
    }
    let out = arguments.keys.write_pcap.as_deref();
    let force = arguments.keys.force == Some(true);
    refuse_two_on_standard_output(out, arguments.json)?;
    if let Some(out) = out {
        check_capture_file(out, false, inputs, force)?;
    }
    let words = arguments.keys.monitors()?;
    let drop_ins = arguments.keys.drop_ins()?;
    let mut notes = Notes::begin(&arguments, &inputs)?;
    arguments.confine(&mut notes.run)?;
    let files = open(inputs, &budget)?;
    let signals = Signals::register().context("cannot handle signals")?;
    let mut emulation = Virtual::new(path, DirectionFinder::new(inside));
    let measuring = notes.measuring(&words, &drop_ins, Pace::File, &PartRotation::FILES, &budget);
    let measuring = measuring.map(RefCell::new).map(Rc::new);
    if let Some(measuring) = &measuring {
        let stopped = arguments.keys.stopped_monitors()?;
        measuring.borrow_mut().stop(&stopped);
        measuring.borrow_mut().start();
        let monitors = PathMonitors::new(measuring, emulation.path(), &CAPTURE_SIDES)?;
        emulation.path_mut().add_observer(Box::new(monitors));
    }

    let mut run = Run {
        emulation,
        out,
        budget: &budget,
        has_frames: false,
        has_begun: false,
        writer: None,
        left: Burst::new(),
        signal: None,
    };
    let mut port = Filtered::new(files, filter);
    let mut failure = run
        .pass(
            &mut port,
            arguments.keys.frames_max.map_or(u64::MAX, NonZeroU64::get),
            &signals,
            &notes,
        )
        .err();
    let written = run.writer.take().map_or(Ok(()), CaptureWriter::finish);
    if let Some(error) = failure.take_if(|_| !run.has_begun) {
        // Without frames there is nothing to certify.
        return Err(error);
    }

    let mut certificate = run.emulation.certificate();
    run.emulation.path_mut().drop_observers();
    let measuring = measuring.and_then(Rc::into_inner).map(RefCell::into_inner);
    let measuring = measuring.map(|mut measuring| {
        note_steps(&mut measuring, &certificate);
        measuring
    });
    let measured = notes.run.end_measuring(measuring, &mut warn);
    let cut = { port.facts().into_iter() }.flat_map(|facts| facts.warnings.clone());
    let failures = cut
        .chain(failure.as_ref().map(|error| format!("{error:#}")))
        .chain(written.as_ref().err().map(ToString::to_string))
        .chain(measured.as_ref().err().cloned());
    certificate.judge(Evidence {
        failures: failures.collect(),
        signal: run.signal,
        ..Evidence::default()
    });
    let json = serde_json::to_value(&certificate)?;
    let (closing, kept) = notes.end(inputs_facts(&port.facts()), &certificate, &json);
    let warnings = port
        .facts()
        .into_iter()
        .flat_map(|facts| facts.warnings.clone());
    for warning in warnings.chain(side_warnings(run.emulation.finder())) {
        warn(&warning);
    }
    if arguments.json {
        print_json(&certificate)?;
    } else if !arguments.quiet {
        match (arguments.certificate, arguments.writes_to_standard_output()) {
            (true, true) => talk(&lines(&certificate)),
            (true, false) => print(&lines(&certificate))?,
            (false, true) => talk(&closing),
            (false, false) => print_styled(&closing)?,
        }
    }
    failure.map_or(Ok(()), Err)?;
    kept?;
    written?;
    measured.map_err(|why| anyhow!(why))?;
    let held = arguments.held(&certificate);
    Ok(run.signal.map_or(held, Exit::Signal))
}

impl Arguments {
    /// Of a capture: before the first byte of it is read.
    fn confine(&self, run: &mut lineside_run::Run) -> anyhow::Result<()> {
        let inputs = self.keys.inputs();
        let sandbox = self.sandbox(run.folder.as_ref());
        let out = self.keys.write_pcap.as_deref();
        let sandbox = sandbox
            .map(|sandbox| with_capture_file(sandbox, out, false))
            .map_or_else(|why| Ok(Err(why)), |made| made.map(Ok))?;
        if sandbox.as_ref().err() != Some(&DROP_INS_NEED_MORE) {
            let writes = run.folder.as_ref().map(RunFolder::path).into_iter();
            keep_file_capabilities(writes.chain(out))?;
        }
        run.manifest.sandbox = Some(match sandbox {
            Err(why) => not_confined(why),
            Ok(sandbox) => {
                let files = inputs.iter().filter(|input| input.as_os_str() != "-");
                let sandbox = files.fold(sandbox, |sandbox, file| sandbox.may_read(file));
                let confined = sandbox.enter()?;
                confine::note(&confined);
                sandbox_facts(&confined)
            }
        });
        Ok(())
    }

    fn writes_to_standard_output(&self) -> bool {
        self.keys
            .write_pcap
            .as_ref()
            .is_some_and(|out| out.as_os_str() == "-")
    }
}

struct Run<'a> {
    emulation: Virtual,
    out: Option<&'a Path>,
    budget: &'a Budget,
    /// Whether a frame came.
    has_frames: bool,
    /// The output is open, and `trace.json` describes the run.
    has_begun: bool,
    /// Made when the first frames have been read: only then a pcapng file's link types are known.
    writer: Option<CaptureWriter>,
    left: Burst,
    signal: Option<u8>,
}

impl Consumer for Run<'_> {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        self.has_frames |= !burst.is_empty();
        self.emulation.on_burst(burst, &mut self.left);
        match self.emulation.path().is_over() {
            true => Step::Stop,
            false => Step::Continue,
        }
    }

    fn on_pool_empty(&mut self) -> Step {
        self.emulation.spill();
        Step::Continue
    }
}

impl Run<'_> {
    /// All frames through the path. Frames that were read before an error still leave.
    fn pass(
        &mut self,
        port: &mut impl Receive,
        frames_max: u64,
        signals: &Signals,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        let mut written = Ok(());
        let errors = receive_all(port, self, frames_max, |port, run, moment| {
            written = run.after_burst(port, notes);
            if moment != Moment::Last {
                run.signal = signals.stop();
            }
            match moment {
                Moment::Failure => Step::Stop,
                _ if written.is_err() || run.signal.is_some() => Step::Stop,
                _ => Step::Continue,
            }
        });
        written?;
        let failure = errors.into_iter().next();
        if failure.is_none() {
            self.open_writer(port)?;
        }
        while self.emulation.drain(&mut self.left) {
            self.write()?;
        }
        self.write()?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Opens the output with the first frame, and writes the frames that have left.
    fn after_burst(&mut self, port: &impl Port, notes: &Notes) -> anyhow::Result<()> {
        if self.has_frames && !self.has_begun {
            self.open_writer(port)?;
            notes.run.keep_room()?;
            notes.run.save()?;
            self.has_begun = true;
        }
        self.write()
    }

    fn open_writer(&mut self, port: &impl Port) -> anyhow::Result<()> {
        let (None, Some(out)) = (&self.writer, self.out) else {
            return Ok(());
        };
        let inputs = port.facts().into_iter();
        let config = WriterConfig {
            budget: self.budget.clone(),
            interfaces: inputs.map(lineside_port::Facts::interface).collect(),
            application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
            comment: Some("emulated: stamps are the instants at which frames left".to_owned()),
            rotation: Rotation::default(),
            replaces: false,
        };
        self.writer = Some(CaptureWriter::create(out, config, None)?);
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.write(&self.left)?;
        }
        self.left.clear();
        Ok(())
    }
}
