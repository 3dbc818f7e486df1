//! Calls that waited for a reply that did not come: by server, and by whether its host was there.
//!
//! ```text
//!  the server's host sent something after the call ──► its process hangs
//!  the same, of a part of the call ─────────────────► it does not take the rest, or that is lost
//!  it sent nothing, over TCP ────────────────────────► path or host is gone
//!  over UDP ─────────────────────────────────────────► nothing shows which
//! ```
//!
//! These are stalls as their calls show them: where no reply ever came, replies show none.

use std::collections::{BTreeMap, BTreeSet};

use lineside_rows::Table;
use lineside_words::{grouped, time};
use serde_json::json;

use super::scene::Scene;
use crate::model::{Finding, Place};
use crate::numbers::share;
use crate::read::batch::Batch;
use crate::read::columns::{Flags, Integers, Texts, Word};
use crate::read::lexica::Lexica;
use crate::read::names::weight;
use crate::read::waits::{HANG_MIN_NS, Wait};

/// Servers, each with what is known of its host: more have no finding.
const SERVERS_MAX: usize = 64;
/// Operations and clients that a sentence names.
const NAMED_MAX: usize = 3;
/// Calls in `basis`, whose rows `slow` shows.
const IDS_MAX: usize = 25;

/// What shows whether the server's host is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Host {
    /// It sent something after the call: at least acknowledgements.
    Answers,
    /// It does too, and of the call a part alone came.
    TakesPart,
    /// It sent nothing after the call.
    Silent,
    /// Over UDP nothing is acknowledged.
    NotKnown,
}

impl Host {
    fn of(wait: &Wait) -> Self {
        match wait.server_last_ns {
            _ if wait.is_udp => Self::NotKnown,
            Some(last) if last > wait.call_end_ns => match wait.is_whole {
                true => Self::Answers,
                false => Self::TakesPart,
            },
            _ => Self::Silent,
        }
    }
}

/// The calls of a server that waited.
#[derive(Debug, Default)]
struct Calls {
    calls: u64,
    by_operation: BTreeMap<Word, u64>,
    clients: BTreeSet<Word>,
    first_ns: Option<i64>,
    until_ns: i64,
    server_last_ns: Option<i64>,
    longest_ns: u64,
    waited_ns: u64,
    /// A call that repeats one of them was answered.
    answered: u64,
    ids: Vec<i64>,
}

/// What the pass over `operations` collects.
#[derive(Debug, Default)]
pub(super) struct NoAnswer {
    of: BTreeMap<(Word, Host), Calls>,
}

impl NoAnswer {
    /// Adds the calls that waited, of the chosen rows of a batch.
    pub(super) fn add(&mut self, batch: &Batch<'_>, rows: &[usize], lexica: &Lexica) {
        if !batch.has_waits() {
            return;
        }
        // Of a compound, the operation counts that says most of what it is for.
        let mut last: Option<(i64, Word, u8)> = None;
        for &row in rows {
            let Some(wait) = batch.wait(row).filter(|wait| wait.is_hang()) else {
                continue;
            };
            let key = (batch.server.get(row), Host::of(wait));
            if self.of.len() >= SERVERS_MAX && !self.of.contains_key(&key) {
                continue;
            }
            let calls = self.of.entry(key).or_default();
            let operation = batch.operation.get(row);
            let weight = weight(lexica.words.text(operation));
            let rpc_id = batch.rpc_of(row).unwrap_or_default();
            match last.filter(|(id, ..)| *id == rpc_id) {
                Some((_, _, most)) if most >= weight => continue,
                Some((_, other, _)) => {
                    calls
                        .by_operation
                        .entry(other)
                        .and_modify(|count| *count -= 1);
                }
                None => {
                    calls.add(wait, batch.client.get(row));
                    if calls.ids.len() < IDS_MAX {
                        calls.ids.extend(batch.operation_id.get(row));
                    }
                }
            }
            last = Some((rpc_id, operation, weight));
            *calls.by_operation.entry(operation).or_default() += 1;
        }
    }

    /// A finding for each server and what is known of its host.
    pub(super) fn findings(self, scene: &mut Scene<'_>) -> Vec<Finding> {
        if self.of.is_empty() {
            return Vec::new();
        }
        let spans: Vec<(String, [i64; 2])> = { self.of.iter() }
            .map(|((server, _), calls)| {
                let name = scene.lexica.servers.text(*server).to_owned();
                (name, [calls.first_ns.unwrap_or(0), calls.until_ns])
            })
            .collect();
        let replies = replies(scene, &spans);
        { self.of.iter().zip(replies) }
            .map(|(((server, host), calls), replies)| {
                calls.finding(scene.lexica.servers.text(*server), *host, replies, scene)
            })
            .collect()
    }
}

impl Calls {
    fn add(&mut self, wait: &Wait, client: Word) {
        self.calls += 1;
        self.clients.insert(client);
        self.first_ns = Some(
            self.first_ns
                .map_or(wait.call_ns, |at| at.min(wait.call_ns)),
        );
        self.until_ns = match self.calls {
            1 => wait.until_ns,
            _ => self.until_ns.max(wait.until_ns),
        };
        self.server_last_ns = self.server_last_ns.max(wait.server_last_ns);
        self.longest_ns = self.longest_ns.max(wait.ns());
        self.waited_ns = self.waited_ns.saturating_add(wait.ns());
        self.answered += u64::from(!wait.is_bound);
    }

    fn finding(&self, server: &str, host: Host, replies: u64, scene: &Scene<'_>) -> Finding {
        let is_over = self.answered == self.calls;
        let clients: Vec<&str> = { self.clients.iter() }
            .map(|client| scene.lexica.clients.text(*client))
            .collect();
        let who = match clients.as_slice() {
            [only] => format!("{only} to {server}"),
            several => format!("{} clients of {server}", grouped(several.len() as u64)),
        };
        Finding {
            kind: "no_answer",
            place: Some(match host {
                Host::Answers => Place::Server,
                Host::Silent => Place::Network,
                Host::TakesPart | Host::NotKnown => Place::CannotTell,
            }),
            since_ns: self.first_ns,
            until_ns: is_over.then_some(self.until_ns),
            who,
            what: self.what(host, is_over, replies > 0, scene),
            evidence: self.evidence(replies),
            advice: advice(host).to_owned(),
            lost_ns: self.waited_ns,
            severe: true,
            failed: true,
            operations_share: share(self.calls, scene.report.totals.operations),
            basis: [
                ("calls", json!(self.calls)),
                ("clients", json!(clients.len())),
                ("wait_max_ns", json!(self.longest_ns)),
                ("wait_min_ns", json!(HANG_MIN_NS)),
                ("until_ns", json!(self.until_ns)),
                ("answered_when_repeated", json!(self.answered)),
                ("server_last_packet_ns", json!(self.server_last_ns)),
                ("replies_meanwhile", json!(replies)),
                ("operation_ids_first", json!(self.ids)),
            ]
            .into(),
        }
    }

    /// `16 calls (WRITE) got no reply for more than 10.0 min: …`
    fn what(&self, host: Host, is_over: bool, answers: bool, scene: &Scene<'_>) -> String {
        let mut operations: Vec<(&Word, &u64)> = self.by_operation.iter().collect();
        operations.retain(|(_, count)| **count > 0);
        operations.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), **word));
        let more = operations.len().saturating_sub(NAMED_MAX);
        let mut names: Vec<String> = { operations.iter().take(NAMED_MAX) }
            .map(|(word, _)| scene.lexica.words.text(**word).to_owned())
            .collect();
        if more > 0 {
            names.push(format!("{} more kinds", grouped(more as u64)));
        }
        let (many, longest) = (
            if self.calls == 1 { "" } else { "s" },
            time(self.longest_ns),
        );
        let how_long = match is_over {
            true => format!("for {longest}, until they were sent again"),
            false => format!("for {longest} or longer"),
        };
        let why = match host {
            Host::Answers if answers => {
                "the server's host acknowledges them, and its server process answers others alone: \
                 a thread that hangs, or calls that it dropped"
            }
            Host::Answers => {
                "the server's host acknowledges them, and its server process answers none: it hangs"
            }
            Host::TakesPart => {
                "the server's host is there, and they do not come whole: it takes no more of them, \
                 or the rest is lost on the way"
            }
            Host::Silent if answers => {
                "nothing acknowledges them, and the server answers others: a path that is gone"
            }
            Host::Silent => "nothing acknowledges them: the path or the server's host is gone",
            Host::NotKnown => "over UDP nothing shows whether they arrived",
        };
        format!(
            "{} call{many} ({}) without reply {how_long}: {why}",
            grouped(self.calls),
            names.join(", ")
        )
    }

    fn evidence(&self, replies: u64) -> String {
        let first_ns = self.first_ns.unwrap_or_default();
        let last = match self.server_last_ns {
            Some(last) if last >= first_ns => format!(
                "the server's last packet on these connections came {} after the first such call",
                time(last.abs_diff(first_ns))
            ),
            Some(last) => format!(
                "the server's last packet on these connections came {} before the first such call",
                time(first_ns.abs_diff(last))
            ),
            None => "no packet of the server was seen on these connections".to_owned(),
        };
        let meanwhile = match replies {
            0 => "it answered no other call meanwhile".to_owned(),
            1 => "it answered 1 other call meanwhile".to_owned(),
            count => format!("it answered {} other calls meanwhile", grouped(count)),
        };
        format!("{last}; {meanwhile}")
    }
}

fn advice(host: Host) -> &'static str {
    match host {
        Host::Answers => {
            "look at the server at this time: its process (is it stopped, does it wait for its \
             disks or for a lock: its log, ps, its stacks), not at the network; 'lineside slow TRACE \
             1s' lists the calls"
        }
        Host::TakesPart => {
            "look at the connection for a window of 0 (the server's process does not read) and for \
             long segments that are sent again and again (an MTU that is too small on the way)"
        }
        Host::Silent => {
            "see whether the server's host is up, and what lies between: a link, a route, a \
             firewall; a capture at the server shows whether the calls arrive there"
        }
        Host::NotKnown => {
            "see whether the service runs (rpcinfo -p) and whether a firewall drops UDP; a capture \
             at the server shows whether the calls arrive there"
        }
    }
}

/// Replies of each of these servers in its time: this reads the table once more, where calls
/// waited.
fn replies(scene: &mut Scene<'_>, spans: &[(String, [i64; 2])]) -> Vec<u64> {
    let mut replies = vec![0; spans.len()];
    let columns = [
        "server_address",
        "reply_time_ns",
        "operation_id",
        "rpc_id",
        "repeat",
    ];
    scene.trace.batches(Table::Operations, &columns, |batch| {
        let [server, reply, id, rpc_id, repeat] = batch else {
            return Ok(());
        };
        let rows = reply.len();
        let server = Texts::of(columns[0], server)?;
        let reply = Integers::of(columns[1], reply)?;
        let id = Integers::of(columns[2], id)?;
        let rpc_id = Integers::of(columns[3], rpc_id)?;
        let repeat = Flags::of(columns[4], repeat)?;
        for row in 0..rows {
            // Of a compound one, and none to a call that came again: it may be one of those.
            let is_other = id.get(row) == rpc_id.get(row) && !repeat.get(row);
            let Some(reply) = reply.get(row).filter(|_| is_other) else {
                continue;
            };
            for ((name, [from, until]), count) in spans.iter().zip(&mut replies) {
                let is_meanwhile = *from < reply && reply < *until;
                *count += u64::from(is_meanwhile && server.get(row) == Some(name));
            }
        }
        Ok(())
    });
    replies
}
