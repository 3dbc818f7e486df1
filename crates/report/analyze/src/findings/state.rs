//! State that client and server share, and disagree about: delegations that are recalled and not
//! returned, one name of two clients, state ids that the server does not know, locks that wait,
//! flags of sessions.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_words::{grouped, percent, time};
use serde_json::json;

use super::noted::{Cell, Note, Noted, What, cells_of};
use super::scene::Scene;
use crate::model::{Finding, Place};
use crate::numbers::{file_name, share, share_at_least};
use crate::read::columns::Word;
use crate::read::names::Paths;

/// A recall, or a lock, that takes longer holds up somebody: people notice a second.
const WAIT_MIN_NS: u64 = 1_000_000_000;
/// A share that stands out.
const SHARE_MIN: f64 = 0.1;

pub(super) fn findings(noted: &Noted, scene: &mut Scene<'_>) -> Vec<Finding> {
    let found = [
        recalls(noted, scene),
        same_name(noted, scene),
        unknown_states(noted, scene),
        locks(noted, scene),
        flags(scene),
    ];
    found.into_iter().flatten().collect()
}

fn name(scene: &Scene<'_>, client: Word) -> String {
    scene.lexica.clients.text(client).to_owned()
}

/// A file, by its path if that is known.
fn file(scene: &mut Scene<'_>, file_id: Option<i64>) -> String {
    let path = file_id.and_then(|id| Paths::of(scene.trace, [id]).path(id));
    file_name(&path.unwrap_or_default(), file_id)
}

/// Recalls of one delegation.
#[derive(Default)]
struct Recalled {
    client: Option<Word>,
    recalls: u64,
    first_ns: Option<i64>,
    returned_ns: Option<i64>,
    /// As the return names it: the recall comes from the server, which has no name of its own.
    file_id: Option<i64>,
}

impl Recalled {
    /// Until it was returned, or the last that was seen.
    fn waited_ns(&self, last_ns: Option<i64>) -> Option<u64> {
        let until = self.returned_ns.or(last_ns)?;
        u64::try_from(until.checked_sub(self.first_ns?)?).ok()
    }
}

/// The recalls of each delegation.
fn recalled(noted: &Noted, scene: &mut Scene<'_>) -> Vec<Recalled> {
    let recalls = noted.of(What::Recall);
    let whats = [What::Recall, What::Return];
    let cells = noted.cells(scene.trace, Table::Nfs4, &whats, ["stateid"]);
    let mut all: HashMap<&Cell, Recalled> = HashMap::new();
    for note in &recalls {
        if let Some([stateid]) = cells.get(&note.id).filter(|[id]| *id != Cell::None) {
            let recalled = all.entry(stateid).or_default();
            // A callback's callee is the client of NFS.
            recalled.client.get_or_insert(note.server);
            recalled.recalls += 1;
            recalled.first_ns = recalled.first_ns.or(note.call_ns);
        }
    }
    for note in noted.of(What::Return) {
        let stateid = cells.get(&note.id).map(|[id]| id);
        if let Some(recalled) = stateid.and_then(|id| all.get_mut(id))
            && !note.failed
            && note.call_ns >= recalled.first_ns
        {
            recalled.returned_ns = recalled.returned_ns.or(note.call_ns);
            recalled.file_id = recalled.file_id.or(note.file_id);
        }
    }
    all.into_values().collect()
}

/// Delegations that were not returned within a second.
fn recalls(noted: &Noted, scene: &mut Scene<'_>) -> Option<Finding> {
    let all = recalled(noted, scene);
    let recalls: u64 = all.iter().map(|each| each.recalls).sum();
    let waited = |each: &Recalled| each.waited_ns(noted.last_ns);
    let late = all.iter().filter(|each| waited(each) >= Some(WAIT_MIN_NS));
    let late: Vec<&Recalled> = late.collect();
    let worst = *late
        .iter()
        .max_by_key(|each| (waited(each), each.first_ns, each.recalls))?;
    let never = late
        .iter()
        .filter(|each| each.returned_ns.is_none())
        .count() as u64;
    let waited_ns = waited(worst).unwrap_or(0);
    let client = worst
        .client
        .map_or("", |word| scene.lexica.servers.text(word))
        .to_owned();
    let fate = match worst.returned_ns {
        Some(_) => format!("returned after {}", time(waited_ns)),
        None => format!("not returned within {}", time(waited_ns)),
    };
    let file = worst
        .file_id
        .map_or_else(String::new, |id| format!(" of {}", file(scene, Some(id))));
    Some(Finding {
        kind: "recall",
        place: Some(Place::Client),
        since_ns: worst.first_ns,
        until_ns: worst.returned_ns,
        who: client,
        what: format!(
            "a delegation{file} was recalled {} times and {fate}: others get DELAY meanwhile",
            grouped(worst.recalls)
        ),
        evidence: format!(
            "{} of {} recalled delegations took a second or more, {} were never returned",
            grouped(late.len() as u64),
            grouped(all.len() as u64),
            grouped(never)
        ),
        advice: "look at that client: whether it writes back much before it returns a delegation, \
            or hangs; without delegations on the server nobody waits"
            .to_owned(),
        failed: true,
        lost_ns: waited_ns,
        operations_share: share(recalls, scene.report.totals.calls),
        basis: [
            ("recalls", json!(recalls)),
            ("delegations", json!(all.len())),
            ("late", json!(late.len())),
            ("never_returned", json!(never)),
            ("waited_ns", json!(waited_ns)),
            ("wait_min_ns", json!(WAIT_MIN_NS)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// A client's name, with its verifier and id.
type Named<'a> = (&'a Note, &'a Cell, &'a Cell);

/// Two clients with one name: each ends the other's state when it comes.
fn same_name(noted: &Noted, scene: &mut Scene<'_>) -> Option<Finding> {
    let notes = noted.of(What::Client);
    let columns = ["client_name", "client_verifier", "client_id"];
    let cells = noted.cells(scene.trace, Table::Nfs4, &[What::Client], columns);
    let mut by_name: BTreeMap<(Word, Vec<u8>), Vec<Named<'_>>> = BTreeMap::new();
    for note in notes.into_iter().filter(|note| !note.failed) {
        if let Some([Cell::Text(name), verifier, id]) = cells.get(&note.id) {
            let uses = by_name.entry((note.server, name.clone())).or_default();
            uses.push((note, verifier, id));
        }
    }
    let taken = |uses: &[Named<'_>]| {
        // Another address with another verifier and another id takes the name over; a client with
        // two addresses has one verifier, and one that moved does not come back.
        let is_taken = |pair: &[Named<'_>]| {
            let (one, other) = (&pair[0], &pair[1]);
            one.0.client != other.0.client && one.1 != other.1 && one.2 != other.2
        };
        uses.windows(2).filter(|pair| is_taken(pair)).count() as u64
    };
    let worst = by_name.iter().max_by_key(|(_, uses)| taken(uses))?;
    let ((server, name_bytes), uses) = worst;
    let times = taken(uses);
    if times < 2 {
        return None;
    }
    let clients: HashSet<Word> = uses.iter().map(|(note, ..)| note.client).collect();
    let mut addresses: Vec<String> = clients.iter().map(|&word| name(scene, word)).collect();
    addresses.sort();
    let shown: String = String::from_utf8_lossy(name_bytes)
        .chars()
        .take(60)
        .collect();
    Some(Finding {
        kind: "same_client_name",
        place: Some(Place::Client),
        since_ns: uses.first().and_then(|(note, ..)| note.call_ns),
        who: addresses
            .iter()
            .take(3)
            .cloned()
            .collect::<Vec<_>>()
            .join(", "),
        what: format!(
            "two clients have one name: {} addresses take it from each other {} times, and each \
            loses its sessions, open files and locks",
            clients.len(),
            grouped(times)
        ),
        evidence: format!(
            "EXCHANGE_ID or SETCLIENTID as '{shown}' with different verifiers; server {}",
            scene.lexica.servers.text(*server)
        ),
        advice: "clones have the same host name or nfs4_unique_id: give each its own, and mount \
            again; the server did not restart"
            .to_owned(),
        severe: true,
        failed: true,
        operations_share: share(uses.len() as u64, scene.report.totals.calls),
        basis: [
            ("clients", json!(clients.len())),
            ("taken_over", json!(times)),
            ("taken_over_min", json!(2)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// TEST_STATEID is OK as a whole: what it says of each state id is in the list.
fn unknown_states(noted: &Noted, scene: &mut Scene<'_>) -> Option<Finding> {
    let notes = noted.of(What::TestStateId);
    let whats = [What::TestStateId];
    let cells = noted.cells(scene.trace, Table::Nfs4, &whats, ["stateid_statuses"]);
    let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
    let (mut tested, mut first_ns, mut last_ns, mut client) = (0, None, None, None);
    for note in &notes {
        let list = cells.get(&note.id).and_then(|[list]| list.text());
        for status in list.iter().flat_map(|list| list.split(',')) {
            tested += 1;
            if status != "NFS4_OK" {
                *statuses.entry(status.to_owned()).or_default() += 1;
                first_ns = first_ns.or(note.call_ns);
                last_ns = last_ns.max(note.call_ns);
                client = client.or(Some(note.client));
            }
        }
    }
    let unknown: u64 = statuses.values().sum();
    if share_at_least(unknown, tested) <= SHARE_MIN {
        return None;
    }
    let (most, _) = statuses.iter().max_by_key(|(_, count)| **count)?;
    Some(Finding {
        kind: "unknown_states",
        since_ns: first_ns,
        until_ns: last_ns,
        who: client.map_or_else(String::new, |client| name(scene, client)),
        what: format!(
            "the server does not hold {} of {} state ids that TEST_STATEID asks about: {}",
            grouped(unknown),
            grouped(tested),
            most.strip_prefix("NFS4ERR_").unwrap_or(most)
        ),
        evidence: { statuses.iter() }
            .map(|(status, count)| format!("{status} {}", grouped(*count)))
            .collect::<Vec<_>>()
            .join(", "),
        advice: "the client finds out which opens, locks and delegations it lost, and asks for \
            them anew; one that tests the same ones again and again hangs in its recovery: \
            update it, or mount again"
            .to_owned(),
        failed: true,
        operations_share: share(notes.len() as u64, scene.report.totals.calls),
        basis: [
            ("tested", json!(tested)),
            ("unknown", json!(unknown)),
            ("status", json!(most)),
            ("share_at_least_min", json!(SHARE_MIN)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// A client that waits for locks on a file.
#[derive(Default)]
struct Waiting {
    refused: u64,
    since_ns: Option<i64>,
    longest_ns: u64,
    first_ns: Option<i64>,
    until_ns: Option<i64>,
    /// The process that asks, and its owner, as NLM names them.
    asker: Option<[Cell; 2]>,
}

impl Waiting {
    fn end(&mut self, at_ns: Option<i64>, is_end: bool) {
        let since = self.since_ns.take();
        let waited = since.zip(at_ns).and_then(|(from, to)| to.checked_sub(from));
        let waited = waited.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        if waited > self.longest_ns {
            self.longest_ns = waited;
            self.first_ns = since;
            self.until_ns = at_ns.filter(|_| !is_end);
        }
    }
}

/// Locks of each client on each file.
fn waiting(noted: &Noted, scene: &mut Scene<'_>) -> HashMap<(Word, Option<i64>), Waiting> {
    let whats = [What::Lock, What::Granted];
    let askers = noted.cells(scene.trace, Table::Services, &whats, ["svid", "owner"]);
    let mut all: HashMap<(Word, Option<i64>), Waiting> = HashMap::new();
    let mut steps = noted.of(What::Lock);
    steps.extend(noted.of(What::Granted));
    steps.sort_by_key(|note| (note.call_ns, note.id));
    for note in steps {
        if note.what == What::Granted {
            // The server calls the client that waited, and names who asked. Which file it is, the
            // handle shows to the client alone.
            let client = scene.lexica.servers.text(note.server);
            let client = scene.lexica.clients.find(client);
            let asker = askers.get(&note.id);
            let granted = all.iter_mut().filter(|((word, _), waiting)| {
                let is_its = asker.is_none() || waiting.asker.as_ref() == asker;
                Some(*word) == client && is_its
            });
            granted.for_each(|(_, waiting)| waiting.end(note.call_ns, false));
            continue;
        }
        let status = scene.lexica.words.text(note.status);
        let waiting = all.entry((note.client, note.file_id)).or_default();
        if status.ends_with("_BLOCKED") || status.ends_with("_DENIED") {
            waiting.refused += 1;
            waiting.asker = askers.get(&note.id).cloned();
            waiting.since_ns = waiting.since_ns.or(note.call_ns);
        } else if !note.failed {
            waiting.end(note.reply_ns, false);
        }
    }
    for waiting in all
        .values_mut()
        .filter(|waiting| waiting.since_ns.is_some())
    {
        waiting.end(noted.last_ns, true);
    }
    all
}

/// Locks that are asked for, and come a second later or never.
fn locks(noted: &Noted, scene: &mut Scene<'_>) -> Option<Finding> {
    let all = waiting(noted, scene);
    let late = all
        .iter()
        .filter(|(_, waiting)| waiting.longest_ns >= WAIT_MIN_NS);
    let late: Vec<_> = late.collect();
    let ((client, file_id), worst) =
        *{ late.iter() }.max_by_key(|(key, each)| (each.longest_ns, *key))?;
    let end = match worst.until_ns {
        Some(_) => "until it is granted",
        None => "and it is not granted",
    };
    let file = file(scene, *file_id);
    Some(Finding {
        kind: "lock_wait",
        since_ns: worst.first_ns,
        until_ns: worst.until_ns,
        who: name(scene, *client),
        what: format!(
            "waits {} for a lock on {file}, {end}",
            time(worst.longest_ns)
        ),
        evidence: format!(
            "asked {} times in vain; {} files and clients waited a second or more",
            grouped(worst.refused),
            grouped(late.len() as u64)
        ),
        advice: "find who holds it: the columns holder_ of the table services, or the locks on \
            the server (/proc/locks, nfsd's clients); a client that is gone holds its locks until \
            its lease ends, in NFSv3 until it is cleared"
            .to_owned(),
        failed: true,
        lost_ns: late.iter().map(|(_, waiting)| waiting.longest_ns).sum(),
        operations_share: share(worst.refused, scene.report.totals.calls),
        basis: [
            ("waited_ns", json!(worst.longest_ns)),
            ("refused", json!(worst.refused)),
            ("waiting", json!(late.len())),
            ("wait_min_ns", json!(WAIT_MIN_NS)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// Flags of SEQUENCE (RFC 8881, section 18.46.3): what the server reports of the client's state;
/// whether the first one stands out, or only a share.
const FLAGS: [(i64, &str, bool); 11] = [
    (0x1, "CB_PATH_DOWN", false),
    (0x4, "CB_GSS_CONTEXTS_EXPIRED", false),
    (0x8, "EXPIRED_ALL_STATE_REVOKED", true),
    (0x10, "EXPIRED_SOME_STATE_REVOKED", true),
    (0x20, "ADMIN_STATE_REVOKED", true),
    (0x40, "RECALLABLE_STATE_REVOKED", true),
    (0x80, "LEASE_MOVED", false),
    (0x100, "RESTART_RECLAIM_NEEDED", false),
    (0x200, "CB_PATH_DOWN_SESSION", false),
    (0x400, "BACKCHANNEL_FAULT", false),
    (0x2, "CB_GSS_CONTEXTS_EXPIRING", false),
];

/// Replies by which the client of a flag is known: the first ones.
const FLAGGED_MAX: usize = 1 << 12;

/// The clients of these operations.
fn clients_of(scene: &mut Scene<'_>, ids: &[i64]) -> BTreeSet<String> {
    let ids = ids.iter().copied().collect();
    let cells = cells_of(scene.trace, Table::Operations, &ids, ["client_address"]);
    { cells.values() }
        .filter_map(|[client]| client.text())
        .collect()
}

fn flags(scene: &mut Scene<'_>) -> Option<Finding> {
    let has_sessions = { scene.report.operations.iter() }.any(|each| each.operation == "SEQUENCE");
    let columns = ["slot", "reply_flags", "operation_id"];
    if !has_sessions || !scene.trace.has_columns(Table::Nfs4, &columns) {
        return None;
    }
    let (mut sequences, mut counts) = (0, [0u64; FLAGS.len()]);
    let mut ids: [Vec<i64>; FLAGS.len()] = Default::default();
    scene.trace.batches(Table::Nfs4, &columns, |batch| {
        for row in 0..batch[0].len() {
            let of = |at: usize| Cell::of(&batch[at], row).number();
            let (Some(_), Some(flags)) = (of(0), of(1)) else {
                continue;
            };
            sequences += 1;
            for (at, _) in { FLAGS.iter().enumerate() }.filter(|(_, (bit, ..))| flags & bit != 0) {
                counts[at] += 1;
                if ids[at].len() < FLAGGED_MAX {
                    ids[at].extend(of(2));
                }
            }
        }
        Ok(())
    });
    let set: Vec<_> = { counts.iter().zip(FLAGS).zip(ids) }
        .filter(|&((&count, (_, _, is_first)), _)| {
            share_at_least(count, sequences) > SHARE_MIN || (is_first && count > 0)
        })
        .map(|((&count, (_, name, _)), ids)| (name, count, ids))
        .collect();
    let (most, count, ids) = set.iter().max_by_key(|(_, count, _)| *count)?;
    let (most, count) = (*most, *count);
    let clients = clients_of(scene, ids);
    let is_path = most.starts_with("CB_") || most == "BACKCHANNEL_FAULT";
    Some(Finding {
        kind: "session_flags",
        who: match clients.len() {
            1 => clients.into_iter().next().unwrap_or_default(),
            _ => String::new(),
        },
        what: format!(
            "{} of {} replies to SEQUENCE say {most}, {}",
            grouped(count),
            grouped(sequences),
            percent(share(count, sequences))
        ),
        evidence: { set.iter() }
            .map(|(name, count, _)| format!("{name} {}", grouped(*count)))
            .collect::<Vec<_>>()
            .join(", "),
        advice: match is_path {
            true => {
                "the server cannot call the client back, so recalls do not come: the client has \
                to bind a connection for it (BIND_CONN_TO_SESSION); look for what cuts it off"
            }
            false => {
                "the server took state back, or waits for it to be reclaimed: opens and locks may \
                be lost; look why the client was not heard of, or at what the server restarted for"
            }
        }
        .to_owned(),
        failed: true,
        operations_share: share(count, scene.report.totals.calls),
        basis: [
            ("flag", json!(most)),
            ("sequences", json!(sequences)),
            ("set", json!(count)),
            ("share_at_least_min", json!(SHARE_MIN)),
        ]
        .into(),
        ..Finding::default()
    })
}
