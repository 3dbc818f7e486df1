//! The output of `capture`: its summary, its progress, interfaces.

use std::fmt::Write;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use lineside_account::{Counter, Counters};
use lineside_capture::Outcome;
use lineside_host::MemoryUse;
use lineside_port::Facts;
use lineside_port::live::Interface;
use lineside_render::verdict_lines;
use lineside_run::Progress;
use lineside_trace::Runtime;
use lineside_words::{bytes, escape, grouped};

use super::flags::Arguments;
use super::keys::Section;
use crate::charset;
use crate::inputs::listening_lines;
use crate::print::{
    counter_lines, filter_line, input_lines, print, print_json, say, seconds, table_lines, talk,
    tally_lines, traffic_lines, warn,
};

pub(super) fn print_summary(
    arguments: &Arguments,
    section: &Section,
    outcome: &Outcome,
) -> anyhow::Result<()> {
    let Outcome {
        manifest,
        tally,
        counters,
        elapsed,
        ..
    } = outcome;
    let elapsed_ns = elapsed.as_nanos() as i64;
    let output = section
        .output
        .as_ref()
        .map(|output| output.display().to_string());
    if arguments.json {
        let summary = serde_json::json!({
            "trace": output,
            "frames": counters.value(Counter::FramesReceived),
            "elapsed_ns": elapsed_ns,
            "summary": tally,
            "verdict": manifest.verdict,
            "inputs": manifest.inputs,
            "tables": manifest.tables,
        });
        print_json(&summary)?;
        return Ok(());
    }
    let mut out = String::new();
    input_lines(&manifest.inputs, &mut out);
    filter_line(manifest, &mut out);
    if output.is_some() {
        traffic_lines(counters, &manifest.inputs, &mut out);
        tally_lines(tally, &mut out);
        table_lines(&manifest.tables, &mut out);
    }
    verdict_lines(&manifest.verdict, &mut out);
    if section
        .write_pcap
        .as_ref()
        .is_some_and(|path| path.as_os_str() == "-")
    {
        talk(&out);
    } else {
        print(&out)?;
    }
    if arguments.verbose {
        let memory = MemoryUse::read();
        talk(&counter_lines(counters));
        talk(&format!(
            "took {}, peak memory {}\n",
            seconds(elapsed_ns),
            bytes(memory.peak_bytes.unwrap_or(0))
        ));
    }
    Ok(())
}

/// The reports of a running capture, on standard error.
pub(super) struct Terminal {
    quiet: bool,
    bar: ProgressBar,
}

impl Terminal {
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            bar: ProgressBar::hidden(),
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Terminal {
    fn begin(&mut self, inputs: &[&Facts]) {
        if !self.quiet {
            talk(&listening_lines(inputs));
            self.bar = progress_bar(inputs);
        }
    }

    fn note(&mut self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    fn warn(&mut self, text: &str) {
        warn(text);
    }

    fn set_position(&mut self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    fn set_line(&mut self, line: &str) {
        self.bar
            .set_message(charset::shown(&escape(line)).into_owned());
        self.bar.tick();
    }

    fn end_line(&mut self, line: &str) {
        self.bar.finish_and_clear();
        if !self.quiet {
            say(line);
        }
    }

    fn counters(&mut self, line: Option<&str>, counters: &Counters) {
        if let Some(line) = line {
            talk(&format!("{line}\n"));
        }
        talk(&counter_lines(counters));
    }
}

fn progress_bar(facts: &[&Facts]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    if facts.iter().any(|facts| facts.live.is_some()) {
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is a constant");
        return ProgressBar::new_spinner().with_style(style);
    }
    let total: Option<u64> = facts.iter().map(|facts| facts.bytes_total).sum();
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {bytes} {binary_bytes_per_sec}",
        ),
    };
    let mut style = ProgressStyle::with_template(template).expect("the template is a constant");
    if charset::is_ascii() {
        style = style.progress_chars("#> ").tick_chars("|/-\\ ");
    }
    bar.with_style(style)
}

/// The lines of `--stats`.
pub(super) fn actor_lines(runtime: &Runtime) -> String {
    let mut out = String::new();
    let wall = seconds(runtime.wall_ns as i64);
    let _ = writeln!(out, "actors       {} for {wall}", runtime.scheduler);
    let _ = writeln!(
        out,
        "  {:<20}{:>12}{:>13}{:>10}{:>10}{:>11}{:>8}{:>8}",
        "core", "messages", "activations", "steals", "remote", "queue max", "sleeps", "idle"
    );
    for (core, each) in runtime.schedulers.iter().enumerate() {
        let idle = 100.0 * each.idle_ns as f64 / each.total_ns.max(1) as f64;
        let _ = writeln!(
            out,
            "  {core:<20}{:>12}{:>13}{:>10}{:>10}{:>11}{:>8}{idle:>7.1}%",
            grouped(each.messages),
            grouped(each.activations),
            grouped(each.steals),
            grouped(each.remote_sends),
            grouped(each.queue_max),
            grouped(each.parks),
        );
    }
    let _ = writeln!(
        out,
        "  {:<20}{:>12}{:>13}{:>31}",
        "actor", "batches", "activations", "queue max"
    );
    for each in &runtime.actors {
        let _ = writeln!(
            out,
            "  {:<20}{:>12}{:>13}{:>31}",
            each.name,
            grouped(each.messages),
            grouped(each.activations),
            grouped(each.queue_max),
        );
    }
    out
}

/// `--list-interfaces`: the interfaces, and how each would be captured from.
pub(super) fn list_interfaces(as_json: bool) -> anyhow::Result<()> {
    let interfaces = Interface::all()?;
    if as_json {
        let list: Vec<_> = interfaces
            .iter()
            .map(|each| {
                let (method, reason) = lineside_port::live::choice(each);
                serde_json::json!({
                    "name": each.name,
                    "kind": each.kind,
                    "is_up": each.is_up,
                    "is_running": each.is_running,
                    "mtu_bytes": each.mtu,
                    "queues": each.receive_queues,
                    "master": each.master,
                    "addresses": each.addresses,
                    "link_type": each.link_type.map(|link_type| link_type.0),
                    "method": method.to_string(),
                    "reason": reason,
                })
            })
            .collect();
        print_json(&list)?;
        return Ok(());
    }
    let width = interfaces.iter().map(|each| each.name.len()).max();
    let width = width.unwrap_or(0).max(9);
    let mut out = format!(
        "{:<width$}  {:<8}{:<10}{:>6}{:>8}  how it would be captured\n",
        "interface", "state", "kind", "mtu", "queues"
    );
    for each in &interfaces {
        let state = match (each.is_up, each.is_running) {
            (false, _) => "down",
            (true, false) => "no link",
            (true, true) => "up",
        };
        let (method, reason) = lineside_port::live::choice(each);
        let how = match each.link_type {
            Some(_) => format!("{method}: {reason}"),
            None => "not: neither Ethernet nor plain IP".to_owned(),
        };
        let kind = each.kind.as_deref().unwrap_or(match each.is_loopback {
            true => "loopback",
            false => "hardware",
        });
        let _ = writeln!(
            out,
            "{:<width$}  {state:<8}{kind:<10}{:>6}{:>8}  {how}",
            each.name, each.mtu, each.receive_queues
        );
    }
    print(&out)?;
    Ok(())
}
