//! Where and when operations and connections passed the tap: what it takes to find their frames in
//! the captures.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_trace::read::Value;

use crate::read::selection::unknown;
use crate::read::trace::{Trace, TraceError};

/// The frames between two ends in a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// `operation 272891904`, `connection 262144`
    pub what: String,
    /// Client and server.
    pub ends: [SocketAddr; 2],
    /// TCP, else UDP.
    pub is_tcp: bool,
    /// The first frame's time, nanoseconds since the Unix epoch.
    pub from_ns: i64,
    /// The last frame's.
    pub until_ns: i64,
    /// Frames that must be there.
    pub marks: Vec<Mark>,
}

/// A frame that the trace names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The input: its place in the list `inputs` of `trace.json`, from 0.
    pub input: usize,
    /// Its number within that input, from 1.
    pub frame: u64,
    /// When it arrived.
    pub time_ns: i64,
}

const COLUMNS: [&str; 15] = [
    "operation_id",
    "connection_id",
    "client_address",
    "client_port",
    "server_address",
    "server_port",
    "transport",
    "call_time_ns",
    "call_end_ns",
    "reply_time_ns",
    "reply_end_ns",
    "call_frame",
    "reply_frame",
    "call_input",
    "reply_input",
];

/// Finds operations and connections by their ids. An operation that does not occur, or has no time,
/// is an error.
pub fn spans(
    trace: &mut Trace,
    operations: &[i64],
    connections: &[i64],
) -> Result<Vec<Span>, TraceError> {
    let mut found: HashMap<i64, Span> = HashMap::new();
    // Of each connection the first operation with a time: its frames show whose capture it is.
    let mut marks: HashMap<i64, Vec<Mark>> = HashMap::new();
    let mut near: HashMap<i64, i64> = HashMap::new();
    let wanted: HashSet<i64> = operations.iter().copied().collect();
    trace.rows(Table::Operations, &COLUMNS, |row| {
        let id = row[0].integer().unwrap_or_default();
        if wanted.contains(&id) {
            found.extend(span_of(row).map(|span| (id, span)));
        }
        for &asked in operations.iter().filter(|_| found.len() < wanted.len()) {
            let near = near.entry(asked).or_insert(id);
            if id.abs_diff(asked) < near.abs_diff(asked) {
                *near = id;
            }
        }
        if let Some(connection) = row[1].integer().filter(|id| connections.contains(id))
            && !marks.contains_key(&connection)
            && let Some(span) = span_of(row)
        {
            marks.insert(connection, span.marks);
        }
    });
    let mut spans = Vec::new();
    for id in operations {
        let nearest = near.get(id).map(i64::to_string);
        let missing = || unknown("operation", &id.to_string(), nearest, &trace.warnings);
        spans.push(found.get(id).cloned().ok_or_else(missing)?);
    }
    spans.extend(of_connections(trace, connections, marks)?);
    Ok(spans)
}

fn span_of(row: &[Value]) -> Option<Span> {
    let id = row[0].integer()?;
    let times = [7, 8, 9, 10].map(|at| row[at].integer());
    let mark = |end: usize, frame: usize, input: usize| {
        Some(Mark {
            input: usize::try_from(row[input].integer()?).ok()?,
            frame: u64::try_from(row[frame].integer()?).ok()?,
            time_ns: row[end].integer()?,
        })
    };
    Some(Span {
        what: format!("operation {id}"),
        ends: [end(&row[2], &row[3])?, end(&row[4], &row[5])?],
        is_tcp: row[6].text() == Some("tcp"),
        from_ns: times.into_iter().flatten().min()?,
        until_ns: times.into_iter().flatten().max()?,
        marks: { [mark(8, 11, 13), mark(10, 12, 14)].into_iter() }
            .flatten()
            .collect(),
    })
}

fn end(address: &Value, port: &Value) -> Option<SocketAddr> {
    let address: IpAddr = address.text()?.parse().ok()?;
    let port = u16::try_from(port.integer()?).ok()?;
    Some(SocketAddr::new(address, port))
}

/// The times of a connection are those of its intervals: it may begin and end within them.
fn of_connections(
    trace: &mut Trace,
    connections: &[i64],
    mut marks: HashMap<i64, Vec<Mark>>,
) -> Result<Vec<Span>, TraceError> {
    if connections.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: HashMap<i64, Span> = HashMap::new();
    let mut near: HashMap<i64, i64> = HashMap::new();
    let columns = [
        "connection_id",
        "interval_start_ns",
        "client_address",
        "client_port",
        "server_address",
        "server_port",
        "transport",
        "interval_ns",
    ];
    trace.rows(Table::Connections, &columns, |row| {
        let id = row[0].integer().unwrap_or_default();
        for &asked in connections {
            let near = near.entry(asked).or_insert(id);
            if id.abs_diff(asked) < near.abs_diff(asked) {
                *near = id;
            }
        }
        let (Some(start), Some(length)) = (row[1].integer(), row[7].integer()) else {
            return;
        };
        let ends = end(&row[2], &row[3]).zip(end(&row[4], &row[5]));
        let Some((client, server)) = ends.filter(|_| connections.contains(&id)) else {
            return;
        };
        let span = found.entry(id).or_insert_with(|| Span {
            what: format!("connection {id}"),
            ends: [client, server],
            is_tcp: row[6].text() == Some("tcp"),
            from_ns: start,
            until_ns: start,
            marks: marks.remove(&id).unwrap_or_default(),
        });
        span.from_ns = span.from_ns.min(start);
        span.until_ns = span.until_ns.max(start.saturating_add(length));
    });
    let one = |id: &i64| {
        let nearest = near.get(id).map(i64::to_string);
        let missing = || unknown("connection", &id.to_string(), nearest, &trace.warnings);
        found.get(id).cloned().ok_or_else(missing)
    };
    connections.iter().map(one).collect()
}

/// The inputs of a trace as files: `name` as it was given, or beside the trace. `None` where there
/// is no such file.
pub fn input_file(trace: &Path, name: &str) -> Option<std::path::PathBuf> {
    let given = Path::new(name);
    let beside = trace.parent().map(|folder| folder.join(given));
    let by_name = { trace.parent().zip(given.file_name()) }.map(|(folder, name)| folder.join(name));
    let mut places = [Some(given.to_owned()), beside, by_name]
        .into_iter()
        .flatten();
    places.find(|path| path.is_file())
}
