//! Directories whose listing goes in a circle: the same places again and again, and never the end.

use hashbrown::HashMap;
use lineside_rows::Table;
use lineside_words::grouped;
use serde_json::json;

use super::noted::{Noted, What};
use super::scene::Scene;
use crate::model::Finding;
use crate::numbers::{file_name, share};
use crate::read::columns::Word;
use crate::read::names::Paths;

/// A place within a directory that is asked for so many times: a few processes that list it at
/// once, and calls that come again, are no circle.
const AGAIN_MIN: u64 = 10;
/// Of so many of those times the end of the directory came once: programs that stop early now and
/// then are no circle either.
const PER_END_MIN: u64 = 4;

#[derive(Default)]
struct Listing {
    /// By cookie, but for 0, which is the beginning.
    places: HashMap<i64, u64>,
    calls: u64,
    ends: u64,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
}

pub(super) fn findings(noted: &Noted, scene: &mut Scene<'_>) -> Option<Finding> {
    let notes = noted.of(What::Listing);
    if (notes.len() as u64) < AGAIN_MIN {
        return None;
    }
    let cells = noted.cells(scene.trace, Table::Nfs, &[What::Listing], ["cookie", "eof"]);
    let mut all: HashMap<(Word, i64), Listing> = HashMap::new();
    for note in notes.into_iter().filter(|note| !note.failed) {
        let (Some(file), Some([cookie, eof])) = (note.file_id, cells.get(&note.id)) else {
            continue;
        };
        let listing = all.entry((note.client, file)).or_default();
        listing.calls += 1;
        listing.ends += u64::from(eof.number() == Some(1));
        listing.first_ns = listing.first_ns.or(note.call_ns);
        listing.last_ns = listing.last_ns.max(note.reply_ns);
        if let Some(cookie) = cookie.number().filter(|&cookie| cookie != 0) {
            *listing.places.entry(cookie).or_default() += 1;
        }
    }
    let again = |listing: &Listing| listing.places.values().copied().max().unwrap_or(0);
    let is_circle = |listing: &Listing| {
        again(listing) >= AGAIN_MIN && listing.ends * PER_END_MIN <= again(listing)
    };
    let circles = all.iter().filter(|(_, listing)| is_circle(listing));
    let circles: Vec<_> = circles.collect();
    let (&(client, file), worst) = *circles
        .iter()
        .max_by_key(|(key, each)| (each.calls, *key))?;
    let path = Paths::of(scene.trace, [file]).path(file);
    let ends = match worst.ends {
        0 => "the end of the directory never comes".to_owned(),
        ends => format!("the end of the directory comes {} times", grouped(ends)),
    };
    Some(Finding {
        kind: "readdir_loop",
        since_ns: worst.first_ns,
        until_ns: worst.last_ns,
        who: scene.lexica.clients.text(client).to_owned(),
        what: format!(
            "READDIR of {} goes in a circle: the same cookie is asked for up to {} times, and {ends}",
            file_name(&path.unwrap_or_default(), Some(file)),
            grouped(again(worst))
        ),
        evidence: format!(
            "{} calls for {} places; {} such directories",
            grouped(worst.calls),
            grouped(worst.places.len() as u64 + 1),
            grouped(circles.len() as u64)
        ),
        advice: "either the server gives cookies that lead back (see its bugs, and whether the \
            directory changes meanwhile), or a program reads the directory again and again and \
            stops before its end"
            .to_owned(),
        failed: true,
        operations_share: share(worst.calls, scene.report.totals.calls),
        basis: [
            ("calls", json!(worst.calls)),
            ("cookies", json!(worst.places.len())),
            ("same_cookie", json!(again(worst))),
            ("same_cookie_min", json!(AGAIN_MIN)),
            ("ends", json!(worst.ends)),
            ("per_end_min", json!(PER_END_MIN)),
        ]
        .into(),
        ..Finding::default()
    })
}
