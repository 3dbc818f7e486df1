//! The verdict of a capture.

use lineside_account::{Counter, Counters, Kind};
use lineside_analyze::{bytes, grouped};
use lineside_port::{Facts, PortError};
use lineside_trace::{State, Verdict};

use super::live;
use super::watch::Stop;
use crate::print::unread;

pub(super) fn verdict(
    inputs: &[&Facts],
    counters: &Counters,
    errors: &[PortError],
    stop: &Stop,
    is_endless: bool,
) -> Verdict {
    let mut verdict = Verdict {
        state: State::Complete,
        ..Verdict::default()
    };
    let mut incomplete = |reason: String| {
        verdict.state = State::Incomplete;
        verdict.reasons.push(reason);
    };
    let value = |counter| counters.value(counter);
    let lost = value(Counter::StreamLost);
    if lost > 0 {
        let share = lost as f64 / value(Counter::StreamBytes) as f64;
        incomplete(format!(
            "{} of the TCP payload ({:.3} %) never came: {} holes not seen by the tap, {} cut by the snap length, {} given up",
            bytes(lost),
            share * 100.0,
            grouped(value(Counter::HolesNotSeen)),
            grouped(value(Counter::HolesSnapLength)),
            grouped(value(Counter::HolesGivenUp)),
        ));
        verdict.shares.insert("stream_bytes_lost".to_owned(), share);
    }
    let mut incomplete = |reason: String| {
        verdict.state = State::Incomplete;
        verdict.reasons.push(reason);
    };
    for (counter, what) in [
        (
            Counter::DatagramsIncomplete,
            "fragmented packets lack some of their fragments",
        ),
        (
            Counter::DatagramsChecksumWrong,
            "fragmented datagrams do not match their checksum and were not read",
        ),
        (
            Counter::ConnectionsReusedUnseen,
            "connections began again, or went on elsewhere, without a SYN: the tap missed more than a hole",
        ),
    ] {
        if value(counter) > 0 {
            incomplete(format!("{} {what}", grouped(value(counter))));
        }
    }
    // A capture may begin between a call and its reply, now and then.
    let (orphans, replies) = (value(Counter::RepliesWithoutCall), value(Counter::Replies));
    if inputs.len() > 1 && orphans > replies / 100 {
        incomplete(format!(
            "{} of {} replies have no call: the inputs' clocks differ by more than --late-window, or one lacks what another has",
            grouped(orphans),
            grouped(replies)
        ));
    }
    if let Some(unread) = unread(counters) {
        incomplete(format!("not read: {unread}"));
    }
    let (mut arrived, mut dropped_live) = (0, 0);
    for facts in inputs {
        let dropped: u64 = facts
            .interfaces
            .iter()
            .filter_map(|interface| interface.dropped.max(interface.dropped_by_system))
            .sum();
        if dropped > 0 {
            incomplete(format!(
                "{}: its recorder says that {} frames were dropped",
                facts.name,
                grouped(dropped)
            ));
        }
        if let Some(live) = &facts.live {
            live::drop_reason(&facts.name, live)
                .into_iter()
                .for_each(&mut incomplete);
            arrived += live.arrived + live.dropped_interface;
            dropped_live += live::dropped(live).iter().sum::<u64>();
        }
        for warning in &facts.warnings {
            incomplete(warning.clone());
        }
    }
    for error in errors {
        incomplete(error.to_string());
    }
    match stop {
        Stop::End => {}
        Stop::Signal(_) if is_endless => {}
        Stop::Signal(signal) => incomplete(format!(
            "ended by signal {signal} before the end of the input"
        )),
        Stop::Output(error) => incomplete(error.clone()),
    }
    if dropped_live > 0 {
        let share = dropped_live as f64 / arrived as f64;
        verdict.shares.insert("frames_dropped".to_owned(), share);
    }
    for (counter, value) in counters
        .iter()
        .filter(|(counter, value)| counter.kind() == Kind::Limit && *value > 0)
    {
        verdict.state = State::Limited;
        verdict.reasons.push(format!(
            "{}: {} {}",
            counter.name(),
            grouped(value),
            counter.meaning()
        ));
    }
    verdict
}
