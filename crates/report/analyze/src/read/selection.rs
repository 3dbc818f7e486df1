//! What a filter chooses by names that stand in tables of their own: files by their paths,
//! connections by their ends. And what to offer instead of a name that does not occur.

use hashbrown::HashSet;
use lineside_rows::Table;

use crate::limits::FILES_MAX;
use crate::read::columns::{Integers, Shorts, Texts};
use crate::read::glob::Glob;
use crate::read::names::Paths;
use crate::read::trace::{Trace, TraceError};

/// Connections that a filter may choose, and files' paths that are looked at to offer the nearest.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Files whose path fits a pattern.
#[derive(Debug)]
pub(crate) struct ChosenFiles {
    ids: HashSet<i64>,
    glob: Glob,
    paths: Paths,
}

impl ChosenFiles {
    pub(crate) fn of(trace: &mut Trace, pattern: &str) -> Result<Self, TraceError> {
        let all = file_ids(trace);
        let glob = Glob::new(pattern);
        if let Ok(id) = pattern.parse::<i64>()
            && all.contains(&id)
        {
            return Ok(Self {
                ids: HashSet::from_iter([id]),
                glob,
                paths: Paths::default(),
            });
        }
        let paths = Paths::of(trace, all.iter().copied());
        let fits = |id: &i64| paths.path(*id).is_some_and(|path| glob.fits(&path));
        let ids: HashSet<i64> = all.iter().copied().filter(fits).collect();
        if ids.is_empty() {
            let known: Vec<String> = all.iter().filter_map(|&id| paths.path(id)).collect();
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            let near = nearest(pattern, known);
            return Err(unknown("file", pattern, near, &trace.warnings));
        }
        Ok(Self { ids, glob, paths })
    }

    pub(crate) fn has(&self, file_id: i64) -> bool {
        self.ids.contains(&file_id)
    }

    /// Whether an operation with `name` in the directory `file_id` is about one of them.
    pub(crate) fn has_name(&self, file_id: Option<i64>, name: &str) -> bool {
        if !self.glob.is_of_path() {
            return self.glob.fits(name);
        }
        let directory = file_id.and_then(|id| self.paths.path(id));
        let directory = directory.as_deref().unwrap_or("…");
        self.glob
            .fits(&format!("{}/{name}", directory.trim_end_matches('/')))
    }
}

/// The files of a trace, [`FILES_MAX`] at most: a warning says if there are more.
fn file_ids(trace: &mut Trace) -> HashSet<i64> {
    let mut all = HashSet::new();
    let mut is_full = false;
    trace.batches(Table::Files, &["file_id"], |columns| {
        let [column] = columns else { return Ok(()) };
        let ids = Integers::of("file_id", column)?;
        for id in (0..column.len()).filter_map(|row| ids.get(row)) {
            if all.len() < FILES_MAX {
                all.insert(id);
            } else {
                is_full |= !all.contains(&id);
            }
        }
        Ok(())
    });
    if is_full {
        trace.warn(format!(
            "more than {FILES_MAX} files: a name is looked for in the first of them"
        ));
    }
    all
}

/// Connections by id or by an end.
#[derive(Debug)]
pub(crate) struct ChosenConnections(HashSet<i64>);

impl ChosenConnections {
    pub(crate) fn of(trace: &mut Trace, asked: &str) -> Result<Self, TraceError> {
        let wanted: Option<i64> = asked.parse().ok();
        let is_one = trace.run_count() == 1;
        let wanted: Vec<i64> = { wanted.iter() }.flat_map(|&id| trace.ids(id)).collect();
        let mut ids = HashSet::new();
        let mut known: HashSet<String> = HashSet::new();
        each_connection(trace, |id, ends| {
            let ends = ends();
            if (wanted.contains(&id) || ends.iter().any(|end| end == asked))
                && ids.len() < CONNECTIONS_MAX
            {
                ids.insert(id);
            } else if known.len() < CONNECTIONS_MAX {
                known.extend(ends);
                known.extend(is_one.then(|| id.to_string()));
            }
        });
        if ids.is_empty() {
            // Of the same address, if there is one.
            let common = |text: &str| {
                let same = text
                    .bytes()
                    .zip(asked.bytes())
                    .take_while(|(one, other)| one == other);
                same.count()
            };
            let most = known.iter().map(|text| common(text)).max();
            let known: Vec<_> = { known.iter() }
                .filter(|text| Some(common(text)) == most)
                .map(String::as_str)
                .collect();
            let near = nearest(asked, known);
            return Err(unknown("connection", asked, near, &trace.warnings));
        }
        Ok(Self(ids))
    }

    pub(crate) fn has(&self, connection_id: i64) -> bool {
        self.0.contains(&connection_id)
    }
}

/// Each row of `connections`: its id, and what names the client's end and the server's.
pub(crate) fn each_connection(
    trace: &mut Trace,
    mut each: impl FnMut(i64, &dyn Fn() -> [String; 2]),
) {
    let columns = [
        "connection_id",
        "client_address",
        "client_port",
        "server_address",
        "server_port",
    ];
    trace.batches(Table::Connections, &columns, |batch| {
        let [id, client, client_port, server, server_port] = batch else {
            return Ok(());
        };
        let rows = id.len();
        let id = Integers::of("connection_id", id)?;
        let ends = [
            (
                Texts::of("client_address", client)?,
                Shorts::of("client_port", client_port)?,
            ),
            (
                Texts::of("server_address", server)?,
                Shorts::of("server_port", server_port)?,
            ),
        ];
        for row in 0..rows {
            let Some(id) = id.get(row) else { continue };
            each(id, &|| {
                ends.each_ref().map(|(address, port)| {
                    end_name(address.get(row).unwrap_or_default(), port.get(row))
                })
            });
        }
        Ok(())
    });
}

/// `192.0.2.2:700`, `[2001:db8::2]:700`
pub fn end_name(address: &str, port: Option<i32>) -> String {
    match port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.to_owned(),
    }
}

/// The known text that is most like the one asked for, of several the first of the alphabet.
pub(crate) fn nearest(asked: &str, mut known: Vec<&str>) -> Option<String> {
    known.sort_unstable_by(|one, other| other.cmp(one));
    (!known.is_empty()).then(|| lineside_words::nearest(asked, known).to_owned())
}

pub(crate) fn unknown(
    what: &'static str,
    asked: &str,
    nearest: Option<String>,
    unreadable: &[String],
) -> TraceError {
    let mut offer = nearest.map_or_else(
        || format!("it has no {what}s at all"),
        |nearest| format!("the nearest that does is {nearest}"),
    );
    // It may be in what is damaged.
    for warning in unreadable {
        offer += "; ";
        offer += warning;
    }
    TraceError::Unknown {
        what,
        asked: asked.to_owned(),
        offer,
    }
}
