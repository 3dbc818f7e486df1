//! Why a mount fails, and what a server's replies lack: ports that are not registered, reasons of
//! refused credentials, versions that a server has, replies that end early.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use lineside_rows::Table;
use lineside_words::grouped;
use serde_json::json;

use super::noted::{Cell, Noted, What};
use super::scene::Scene;
use crate::model::{Finding, Place};
use crate::numbers::share;
use crate::read::columns::Word;

pub(super) fn findings(noted: &Noted, scene: &mut Scene<'_>) -> Vec<Finding> {
    let mut found = not_registered(noted, scene);
    found.extend(short_replies(noted, scene));
    found
}

/// Programs without which a mount, or a lock, fails.
fn program_name(number: i64) -> Option<&'static str> {
    Some(match number {
        100_003 => "nfs",
        100_005 => "mount",
        100_021 => "nlockmgr",
        100_024 => "status",
        _ => return None,
    })
}

/// Questions for a port: those answered with none, and those with one.
#[derive(Default)]
struct Asked {
    without: u64,
    with: u64,
    client: Word,
    first_ns: Option<i64>,
}

/// A version, and its transport.
type Service = (i64, String);
/// By server and program.
type Registered = BTreeMap<(Word, i64), BTreeMap<Service, Asked>>;

/// What rpcbind was asked for.
fn registered(noted: &Noted, scene: &mut Scene<'_>) -> Registered {
    let columns = [
        "target_program",
        "target_version",
        "target_protocol",
        "netid",
        "target_port",
        "target_address",
    ];
    let cells = noted.cells(scene.trace, Table::Services, &[What::Port], columns);
    let mut all = Registered::new();
    for note in noted.of(What::Port).into_iter().filter(|note| !note.failed) {
        let Some([program, version, protocol, netid, port, address]) = cells.get(&note.id) else {
            continue;
        };
        let is_none = match (port, address) {
            (Cell::Number(port), _) => *port == 0,
            (_, Cell::Text(address)) => address.is_empty(),
            _ => continue,
        };
        // Without a reply these are the words of the call.
        let Some(program) = program.number().filter(|_| note.reply_ns.is_some()) else {
            continue;
        };
        let transport = match protocol.number() {
            Some(6) => "tcp".to_owned(),
            Some(17) => "udp".to_owned(),
            _ => netid.text().unwrap_or_default(),
        };
        let service = (version.number().unwrap_or(0), transport);
        let asked = all.entry((note.server, program)).or_default();
        let asked = asked.entry(service).or_default();
        asked.client = note.client;
        if is_none {
            asked.without += 1;
            asked.first_ns = asked.first_ns.or(note.call_ns);
        } else {
            asked.with += 1;
        }
    }
    all
}

/// Programs of which rpcbind knows no port. One that it knows in another version, or by another
/// transport, is no finding: clients try them in turn.
fn not_registered(noted: &Noted, scene: &mut Scene<'_>) -> Vec<Finding> {
    let all = registered(noted, scene);
    let mut found = Vec::new();
    for ((server, program), services) in all {
        let Some(name) = program_name(program) else {
            continue;
        };
        let has_other = |version: &Service| {
            { services.iter() }.any(|(other, asked)| other != version && asked.with > 0)
        };
        for (service, asked) in &services {
            if asked.without == 0 || has_other(service) {
                continue;
            }
            let server = scene.lexica.servers.text(server);
            let (version, transport) = service;
            found.push(Finding {
                kind: "not_registered",
                place: Some(Place::Server),
                since_ns: asked.first_ns,
                who: scene.lexica.clients.text(asked.client).to_owned(),
                what: format!(
                    "rpcbind of {server} has no port for {name} version {version} over \
                    {transport}: not registered, {} of {} times",
                    grouped(asked.without),
                    grouped(asked.without + asked.with)
                ),
                evidence: "GETPORT or GETADDR answered with port 0 or no address".to_owned(),
                advice: "'rpcinfo -p SERVER' lists what runs there: start the service, enable \
                    that version, or mount with another one (vers=, proto=)"
                    .to_owned(),
                failed: true,
                operations_share: share(asked.without, scene.report.totals.calls),
                basis: [
                    ("program", json!(program)),
                    ("version", json!(version)),
                    ("without_port", json!(asked.without)),
                    ("with_port", json!(asked.with)),
                ]
                .into(),
                ..Finding::default()
            });
        }
    }
    found
}

/// Replies that end before their last field, where the capture counted that it is their server.
fn short_replies(noted: &Noted, scene: &Scene<'_>) -> Option<Finding> {
    let manifest = scene.trace.manifest.as_ref()?;
    let counted = manifest.counters.get("rpc.replies_short")?.value;
    if counted == 0 || noted.short_replies == 0 {
        return None;
    }
    // Rows do not show what the snap length cut: where it did, they are too many.
    let is_cut = { manifest.counters.get("frames.cut") }.is_some_and(|frames| frames.value > 0);
    let are_all = noted.short_replies <= counted && scene.chosen.are_all();
    let servers = match is_cut && !are_all {
        true => String::new(),
        false => noted.short.names(&scene.lexica.servers),
    };
    let of = match servers.is_empty() {
        true => String::new(),
        false => format!(" of server {servers}"),
    };
    Some(Finding {
        kind: "short_replies",
        place: Some(Place::Server),
        who: servers.clone(),
        what: format!(
            "{} replies{of} end before their last field, although they were seen whole",
            grouped(counted)
        ),
        evidence: "reply_incomplete in the table operations; tshark calls them malformed"
            .to_owned(),
        advice: "it is a fault of that server: clients may refuse such replies, and fields behind \
            their end are null"
            .to_owned(),
        failed: true,
        operations_share: share(noted.short_replies, scene.report.totals.operations),
        basis: [
            ("replies_short", json!(counted)),
            ("reply_incomplete", json!(noted.short_replies)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// Adds to what RPC refused the reasons and the versions that its replies have.
pub(super) fn add_reasons(found: &mut [Finding], noted: &Noted, scene: &mut Scene<'_>) {
    let columns = ["auth_error", "version_min", "version_max"];
    let cells = noted.cells(scene.trace, Table::Services, &[What::Refused], columns);
    let mut reasons: HashMap<&str, BTreeMap<String, u64>> = HashMap::new();
    for note in noted.of(What::Refused) {
        let Some([reason, low, high]) = cells.get(&note.id) else {
            continue;
        };
        let words = match (reason.text(), low.number(), high.number()) {
            (Some(reason), ..) => reason,
            (_, Some(low), Some(high)) if low == high => format!("the server has version {low}"),
            (_, Some(low), Some(high)) => format!("the server has versions {low} to {high}"),
            _ => continue,
        };
        let status = scene.lexica.words.text(note.status);
        *{ reasons.entry(status).or_default() }
            .entry(words)
            .or_default() += 1;
    }
    for finding in found.iter_mut().filter(|finding| finding.kind == "errors") {
        let status = finding
            .basis
            .get("status")
            .and_then(|status| status.as_str());
        let Some(reasons) = status.and_then(|status| reasons.get(status)) else {
            continue;
        };
        let words: Vec<String> = { reasons.iter() }
            .map(|(reason, count)| format!("{reason} ({})", grouped(*count)))
            .collect();
        finding.what = format!("{}: {}", finding.what, words.join(", "));
    }
}
