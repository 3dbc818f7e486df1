//! The verdict of a run: one table of rules, for all roles.
//!
//! A role gathers [`Evidence`], and [`judge`] asks every rule of [`RULES`] in order. A rule that
//! holds adds its sentences to the reasons; the state is the one that weighs most of all rules that
//! hold: `incomplete` less than `limited`, which names a way out, and that less than `disturbed`,
//! of which no time holds. Without any, the run is complete. Rules about one input, or about one
//! direction of a link, are asked together for each of them.
//!
//! The verdict is decided nowhere else: a new condition is a new row here, with its case in the
//! test.

use lineside_account::{Counter, Counters, Kind};
use lineside_port::{Facts, LiveFacts};
use lineside_trace::{State, Verdict};
use lineside_words::{bytes, grouped};

pub use link::{LateLimits, LinkEvidence, borne};
pub use load::{LoadEvidence, Moved};
pub use other::{named, unread};

mod link;
mod load;
mod other;

/// What is known of a run when it is judged; a role leaves empty what it does not have.
#[derive(Debug, Clone, Default)]
pub struct Evidence<'a> {
    /// What a capture counted.
    pub counters: Counters,
    /// What a capture read, or listened to.
    pub inputs: Vec<&'a Facts>,
    /// The directions of an emulated link.
    pub links: Vec<LinkEvidence>,
    /// The capture of what left an emulated link.
    pub tap: Option<TapEvidence>,
    /// A load.
    pub load: Option<LoadEvidence>,
    /// Errors that cut the run short, and inputs that ended too early, a sentence each.
    pub failures: Vec<String>,
    /// The signal that ended the run before its input ended.
    pub signal: Option<u8>,
    /// RPC was looked for: a run that found none has read nothing.
    pub looks_for_rpc: bool,
    /// The filter that frames had to match, as it was written.
    pub filter: Option<&'a str>,
}

/// What the tap of an emulated link took, and what it missed.
#[derive(Debug, Clone, Copy, Default)]
pub struct TapEvidence {
    /// Frames in the trace.
    pub captured: u64,
    /// Frames that found the capture's queue full.
    pub dropped_queue: u64,
    /// Frames for which there was no memory.
    pub dropped_memory: u64,
}

/// Why a verdict is what it is, a sentence.
pub type Reason = String;

/// A condition and what it makes of the verdict.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The state of a run for which the rule holds.
    pub state: State,
    /// When it holds, and the sentences.
    pub check: Check,
}

/// How a rule looks for its reasons.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// A counter is not 0: the sentence is its value and these words.
    Counted(Counter, &'static str),
    /// Of the whole run.
    Run(fn(&Evidence<'_>) -> Vec<Reason>),
    /// Of each input.
    Input(fn(&Facts) -> Vec<Reason>),
    /// Of each direction of a link.
    Link(fn(&LinkEvidence) -> Vec<Reason>),
    /// Of a load.
    Load(fn(&LoadEvidence) -> Vec<Reason>),
}

use Check::{Counted, Input, Link, Load, Run};
use State::{Disturbed, Incomplete, Limited};

/// All rules, in the order of their reasons.
pub const RULES: [Rule; 50] = [
    rule(Incomplete, Run(other::tls_of_rpc)),
    rule(Incomplete, Run(other::sealed)),
    rule(Incomplete, Run(other::rdma)),
    rule(Incomplete, Run(other::not_understood)),
    rule(Incomplete, Run(nothing_read)),
    rule(Incomplete, Run(stream_lost)),
    rule(
        Incomplete,
        Counted(
            Counter::DatagramsIncomplete,
            "fragmented packets lack some of their fragments",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::DatagramsChecksumWrong,
            "fragmented datagrams do not match their checksum and were not read",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::ConnectionsReusedUnseen,
            "connections began again, or went on elsewhere, without a SYN: the tap missed more \
            than a hole",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::StampsBack,
            "frames are stamped before the frame before them: a clock was set, a stamp is wrong, \
            or files were joined out of order, and times and holes do not hold",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::SegmentsAfterAcknowledgement,
            "segments came after they were acknowledged: stamps of the two directions do not \
            agree, or the tap missed a first copy, and their times do not hold",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::AcknowledgedAtLast,
            "streams end with an acknowledgement of bytes that never came: the capture ended too \
            early, or the tap missed the last bytes",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::AcknowledgementsBack,
            "directions were acknowledged behind what had been acknowledged, after a silence: the \
            tap may have missed nearly 2^32 bytes of them, and what follows was not read",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::OverlapConflicts,
            "bytes came twice with different values: copies of the same segment differ",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::RepliesWithoutCallBegun,
            "replies have no call, although the beginning of their connection was captured",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::RepliesAmbiguous,
            "replies may be those of another call with the same xid",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::RepliesWithoutCallCut,
            "replies have no call, because the snap length cut the calls: capture whole frames \
            (-s 0)",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::ConnectionsUnpaired,
            "connections were seen in both directions and have more calls without reply and \
            replies without call than pairs of both",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::RepliesContradicting,
            "replies contradict their calls: more bytes than were sent or asked for, another slot \
            or sequence, or results that do not fit the status",
        ),
    ),
    rule(Incomplete, Run(replies_without_calls)),
    rule(Incomplete, Run(replies_without_calls_udp)),
    rule(Incomplete, Run(calls_without_replies_udp)),
    rule(
        Incomplete,
        Counted(
            Counter::CallsTcpUnanswered,
            "calls over TCP have no reply after 1 s or longer: the server gave none, or the tap \
            missed it",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::OperationsUdpIncomplete,
            "operations over UDP lack a part: a snap length cut it, fragments were lost, or it is \
            malformed",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::RepliesShort,
            "replies end before their last field, although they were seen whole: their server \
            ends them early, and the report names it",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::FramesDamagedNotTcp,
            "damaged frames were not read, and nothing shows whether they came again",
        ),
    ),
    rule(
        Incomplete,
        Counted(
            Counter::ChecksumsWrongRead,
            "packets were read whose checksum turned out to be wrong",
        ),
    ),
    rule(Incomplete, Run(other::not_read)),
    rule(Incomplete, Input(dropped_by_recorder)),
    rule(Incomplete, Input(dropped_live)),
    rule(Incomplete, Input(|facts| facts.warnings.clone())),
    rule(Incomplete, Run(dropped_by_tap)),
    rule(Limited, Link(link::derived_limit)),
    rule(Limited, Link(link::memory_full)),
    rule(Disturbed, Link(link::late)),
    rule(Incomplete, Load(load::failed)),
    // Before what follows from them.
    rule(Disturbed, Load(load::stalled)),
    rule(Disturbed, Load(load::stolen)),
    rule(Disturbed, Load(load::rate_missed)),
    rule(Disturbed, Load(load::waited)),
    rule(Disturbed, Load(load::late)),
    rule(Disturbed, Load(load::saturated)),
    rule(Disturbed, Load(load::frames_dropped)),
    rule(Disturbed, Load(load::without_local)),
    rule(Disturbed, Load(load::drifted)),
    rule(Disturbed, Load(load::contradicts)),
    rule(Incomplete, Load(load::rows_dropped)),
    rule(Incomplete, Run(|evidence| evidence.failures.clone())),
    rule(Incomplete, Run(ended_by_signal)),
    rule(Limited, Run(limits)),
];

/// A share of 0 to 1 of what a run should have seen; `None` where there is nothing to compare.
type Share = fn(&Evidence<'_>) -> Option<f64>;

/// The shares of a verdict: their names, and how each follows from the evidence.
const SHARES: [(&str, Share); 3] = [
    ("stream_bytes_lost", stream_bytes_lost),
    ("calls_given_up", calls_given_up),
    ("frames_dropped", frames_dropped),
];

const fn rule(state: State, check: Check) -> Rule {
    Rule { state, check }
}

/// Judges a run that has ended.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut verdict = Verdict {
        state: State::Complete,
        ..Verdict::default()
    };
    let mut hold = |rule: &Rule, reasons: Vec<Reason>| {
        if !reasons.is_empty() {
            verdict.state = std::cmp::max_by_key(verdict.state, rule.state, weight);
            verdict.reasons.extend(reasons);
        }
    };
    let is_of_same = |one: &Rule, other: &Rule| {
        std::mem::discriminant(&one.check) == std::mem::discriminant(&other.check)
    };
    for rules in RULES.chunk_by(is_of_same) {
        match rules[0].check {
            Counted(..) | Run(_) => {
                for rule in rules {
                    hold(rule, rule.check.of_run(evidence));
                }
            }
            Input(_) => {
                for facts in &evidence.inputs {
                    rules
                        .iter()
                        .for_each(|rule| hold(rule, rule.check.of_input(facts)));
                }
            }
            Link(_) => {
                for link in &evidence.links {
                    rules
                        .iter()
                        .for_each(|rule| hold(rule, rule.check.of_link(link)));
                }
            }
            Load(_) => {
                if let Some(load) = &evidence.load {
                    rules
                        .iter()
                        .for_each(|rule| hold(rule, rule.check.of_load(load)));
                }
            }
        }
    }
    let shares = SHARES.iter();
    let shares = shares.filter_map(|(name, of)| Some(((*name).to_owned(), of(evidence)?)));
    verdict.shares.extend(shares);
    verdict
}

/// What a state weighs among those of the rules that hold.
fn weight(state: &State) -> u8 {
    match state {
        State::Complete | State::Unfinished => 0,
        Incomplete => 1,
        Limited => 2,
        Disturbed => 3,
    }
}

impl Check {
    fn of_run(&self, evidence: &Evidence<'_>) -> Vec<Reason> {
        match self {
            Counted(counter, what) => {
                let reason = counted(&[(*counter, what)], &evidence.counters);
                reason.into_iter().collect()
            }
            Run(find) => find(evidence),
            Input(_) | Link(_) | Load(_) => Vec::new(),
        }
    }

    fn of_input(&self, facts: &Facts) -> Vec<Reason> {
        match self {
            Input(find) => find(facts),
            _ => Vec::new(),
        }
    }

    fn of_link(&self, link: &LinkEvidence) -> Vec<Reason> {
        match self {
            Link(find) => find(link),
            _ => Vec::new(),
        }
    }

    fn of_load(&self, load: &LoadEvidence) -> Vec<Reason> {
        match self {
            Load(find) => find(load),
            _ => Vec::new(),
        }
    }
}

fn stream_bytes_lost(evidence: &Evidence<'_>) -> Option<f64> {
    let value = |counter| evidence.counters.value(counter);
    let lost = value(Counter::StreamLost);
    (lost > 0).then(|| lost as f64 / value(Counter::StreamBytes) as f64)
}

fn calls_given_up(evidence: &Evidence<'_>) -> Option<f64> {
    let value = |counter| evidence.counters.value(counter);
    let given_up = value(Counter::OutstandingLimit);
    (given_up > 0).then(|| given_up as f64 / value(Counter::RpcCalls).max(1) as f64)
}

fn stream_lost(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let Some(share) = stream_bytes_lost(evidence) else {
        return Vec::new();
    };
    vec![format!(
        "{} of the TCP payload ({:.3} %) never came: {} holes not seen by the tap, {} cut by the \
        snap length, {} given up{}",
        bytes(value(Counter::StreamLost)),
        share * 100.0,
        grouped(value(Counter::HolesNotSeen)),
        grouped(value(Counter::HolesSnapLength)),
        grouped(value(Counter::HolesGivenUp)),
        {
            [
                (Counter::HolesLost, "lost on the way"),
                (Counter::HolesDamaged, "damaged"),
            ]
        }
        .iter()
        .filter(|(counter, _)| value(*counter) > 0)
        .map(|(counter, what)| format!(", {} {what}", grouped(value(*counter))))
        .collect::<String>(),
    )]
}

/// A capture may begin between a call and its reply, now and then.
const ORPHANS_SHARE: u64 = 100;

/// A run that looked for RPC and found none: says what is there instead.
fn nothing_read(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    if !evidence.looks_for_rpc || value(Counter::RpcCalls) + value(Counter::Replies) > 0 {
        return Vec::new();
    }
    let (frames, filtered) = (
        value(Counter::FramesReceived),
        value(Counter::FramesFiltered),
    );
    if frames > filtered {
        return vec![other::no_rpc(evidence, frames - filtered)];
    }
    let Some(filter) = evidence.filter else {
        return vec!["no frame came".to_owned()];
    };
    let tagged = value(Counter::FramesFilteredTagged);
    vec![match (frames, tagged) {
        (0, _) => format!("no frame came that matches the filter '{filter}'"),
        (_, 0) => format!(
            "none of {} frames matches the filter '{filter}'",
            grouped(frames)
        ),
        _ => format!(
            "none of {} frames matches the filter '{filter}', and {} of them are tagged: \
            'vlan and {filter}'",
            grouped(frames),
            grouped(tagged)
        ),
    }]
}

/// Over UDP, calls cut off by a capture's beginning and end, or never answered by a server, look
/// like frames that the tap missed. Above this share, one in twenty, a reason is reported.
const UDP_SHARE: u64 = 20;

fn replies_without_calls_udp(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let orphans = value(Counter::RepliesWithoutCallUdp);
    let calls = value(Counter::CallsUdp);
    if orphans <= calls / UDP_SHARE {
        return Vec::new();
    }
    let cut = match value(Counter::FramesCut) {
        0 => String::new(),
        cut => format!(
            ", or the snap length cut them ({} frames are cut)",
            grouped(cut)
        ),
    };
    vec![format!(
        "{} replies over UDP have no call, beside {} calls: the tap missed them, or sees one \
        direction only{cut}",
        grouped(orphans),
        grouped(calls)
    )]
}

fn calls_without_replies_udp(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let unanswered = value(Counter::CallsUdpUnanswered);
    let calls = value(Counter::CallsUdp);
    if unanswered <= calls / UDP_SHARE {
        return Vec::new();
    }
    vec![format!(
        "{} of {} calls over UDP have no reply: the server gave none, or the tap missed it",
        grouped(unanswered),
        grouped(calls)
    )]
}

fn replies_without_calls(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let (orphans, replies) = (value(Counter::RepliesWithoutCall), value(Counter::Replies));
    let orphans = orphans.saturating_sub(value(Counter::RepliesWithoutCallCut));
    if evidence.inputs.len() < 2 || orphans <= replies / ORPHANS_SHARE {
        return Vec::new();
    }
    vec![format!(
        "{} of {} replies have no call: the inputs' clocks differ by more than --late-window, or \
        one lacks what another has",
        grouped(orphans),
        grouped(replies)
    )]
}

/// The counters that are not 0, each with its words; `None` if all are 0.
pub fn counted(named: &[(Counter, &str)], counters: &Counters) -> Option<String> {
    let there = named.iter().filter_map(|&(counter, what)| {
        let value = counters.value(counter);
        (value > 0).then(|| format!("{} {what}", grouped(value)))
    });
    let there: Vec<_> = there.collect();
    (!there.is_empty()).then(|| there.join(", "))
}

fn dropped_by_recorder(facts: &Facts) -> Vec<Reason> {
    let interfaces = facts.interfaces.iter();
    let dropped: u64 = interfaces
        .filter_map(|interface| interface.dropped.max(interface.dropped_by_system))
        .sum();
    if dropped == 0 {
        return Vec::new();
    }
    vec![format!(
        "{}: its recorder says that {} frames were dropped",
        facts.name,
        grouped(dropped)
    )]
}

/// Frames that a live input dropped: by the adapter, before the ring, and for want of memory.
pub fn drops(live: &LiveFacts) -> [u64; 3] {
    [live.dropped_interface, live.dropped_ring, live.dropped_pool]
}

/// Frames that came as far as a live input's adapter.
fn arrived(live: &LiveFacts) -> u64 {
    live.arrived + live.dropped_interface
}

fn dropped_live(facts: &Facts) -> Vec<Reason> {
    let causes = [
        "by the adapter or its driver",
        "because the ring was full",
        "because no memory was free",
    ];
    let Some(live) = &facts.live else {
        return Vec::new();
    };
    let sum: u64 = drops(live).iter().sum();
    if sum == 0 {
        return Vec::new();
    }
    let causes = causes.iter().zip(drops(live));
    let causes: Vec<_> = causes
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| format!("{} {cause}", grouped(count)))
        .collect();
    vec![format!(
        "{}: {} frames ({:.3} %) were dropped: {}",
        facts.name,
        grouped(sum),
        sum as f64 / arrived(live) as f64 * 100.0,
        causes.join(", ")
    )]
}

fn frames_dropped(evidence: &Evidence<'_>) -> Option<f64> {
    let live = || {
        evidence
            .inputs
            .iter()
            .filter_map(|facts| facts.live.as_ref())
    };
    let dropped: u64 = live().flat_map(drops).sum();
    let arrived: u64 = live().map(arrived).sum();
    (dropped > 0).then(|| dropped as f64 / arrived as f64)
}

/// Frames that the tap drops make the trace incomplete, though not the emulation: rules about the
/// link weigh more.
fn dropped_by_tap(evidence: &Evidence<'_>) -> Vec<Reason> {
    let tap = evidence.tap.unwrap_or_default();
    let dropped = tap.dropped_queue + tap.dropped_memory;
    if dropped == 0 {
        return Vec::new();
    }
    vec![format!(
        "tap: {} of {} frames were neither captured nor measured: {} found the queue full, \
        {} no memory",
        grouped(dropped),
        grouped(tap.captured + dropped),
        grouped(tap.dropped_queue),
        grouped(tap.dropped_memory)
    )]
}

fn ended_by_signal(evidence: &Evidence<'_>) -> Vec<Reason> {
    let signal = evidence.signal.into_iter();
    signal
        .map(|signal| format!("ended by signal {signal} before the end of the input"))
        .collect()
}

fn limits(evidence: &Evidence<'_>) -> Vec<Reason> {
    let counters = evidence.counters.iter();
    let hit = counters.filter(|(counter, value)| counter.kind() == Kind::Limit && *value > 0);
    hit.map(|(counter, value)| limit_reason(counter, value))
        .collect()
}

/// A limit that was hit, how often, and the way out.
fn limit_reason(counter: Counter, value: u64) -> Reason {
    let way_out = key_of(counter).map_or(String::new(), |key| format!(" (give more: {key})"));
    format!(
        "{}: {} {}{way_out}",
        counter.name(),
        grouped(value),
        counter.meaning()
    )
}

/// Puts into a verdict that was given before that a limit was hit, or was hit more often.
pub(crate) fn add_limit(verdict: &mut Verdict, counter: Counter, value: u64) {
    let start = format!("{}: ", counter.name());
    verdict.reasons.retain(|reason| !reason.starts_with(&start));
    verdict.reasons.push(limit_reason(counter, value));
    // What goes on, or was killed, has no verdict yet.
    if verdict.state != State::Unfinished && weight(&verdict.state) < weight(&Limited) {
        verdict.state = Limited;
    }
}

/// The key of the configuration that moves a limit; `None` where nothing does.
fn key_of(limit: Counter) -> Option<&'static str> {
    Some(match limit {
        Counter::FragmentsLimit => "fragments_held_max",
        Counter::DuplicatesLimit | Counter::HeldLimit | Counter::PastLimit => "memory",
        Counter::FlowHeldLimit => "flow_held_max, memory",
        Counter::ConnectionsLimit => "connections_max, memory",
        Counter::OutstandingLimit => "memory, outstanding_max",
        Counter::ReplyLimit => "reply_timeout",
        Counter::MessageLimit => "message_held_max",
        Counter::RecordLimit => "record_max",
        Counter::FactsLimit => "file_facts_max, memory",
        Counter::BlocksLimit => "cores",
        Counter::RowsLimit => "keep",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
