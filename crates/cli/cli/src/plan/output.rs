//! The tables of a plan, `calls` and `edges`.

use lineside_analyze::PlanOutput;
use lineside_plan::{Edge, Event, PlanSink, PlannedCall};
use lineside_trace::{GivenCell, GivenKind, GivenPart, GivenTable};

use crate::tables::{Folder, Kind, push, table};

const CALLS: [(&str, GivenKind); 16] = [
    ("call_id", GivenKind::Integer),
    ("time_ns", GivenKind::Integer),
    ("event", GivenKind::Text),
    ("operation_id", GivenKind::Integer),
    ("connection_id", GivenKind::Integer),
    ("client_address", GivenKind::Text),
    ("server_address", GivenKind::Text),
    ("user_id", GivenKind::Integer),
    ("operation", GivenKind::Text),
    ("thread", GivenKind::Integer),
    ("cause", GivenKind::Text),
    ("trigger", GivenKind::Integer),
    ("think_ns", GivenKind::Integer),
    ("run", GivenKind::Integer),
    ("depth", GivenKind::Integer),
    ("depth_is_bound", GivenKind::Boolean),
];
const EDGES: [(&str, GivenKind); 3] = [
    ("from_call", GivenKind::Integer),
    ("to_call", GivenKind::Integer),
    ("kind", GivenKind::Text),
];
const TABLES: [&str; 2] = ["calls", "edges"];
/// The folder of a plan.
pub(super) const PLAN: Kind = Kind {
    name: "plan",
    tables: &TABLES,
    facts: "plan.json",
    instead: "give another folder, or --force to replace a plan",
};

/// Takes a plan, and writes it if it has a folder.
pub(super) struct Output<'a> {
    folder: Option<&'a Folder>,
    calls: GivenTable,
    edges: GivenTable,
    texts: Vec<String>,
    error: Option<anyhow::Error>,
}

impl<'a> Output<'a> {
    pub(super) fn new(folder: Option<&'a Folder>) -> Self {
        Self {
            folder,
            calls: table(&CALLS),
            edges: table(&EDGES),
            texts: Vec::new(),
            error: None,
        }
    }

    /// Writes the last parts.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let Some(folder) = self.folder else {
            return Ok(());
        };
        for (name, table) in TABLES.into_iter().zip([self.calls, self.edges]) {
            folder.keep(name, table.finish()?.0)?;
        }
        Ok(())
    }

    fn took(&mut self, table: &str, part: std::io::Result<Option<GivenPart>>) {
        let written = part.map_err(anyhow::Error::from).and_then(|part| {
            self.folder
                .map_or(Ok(()), |folder| folder.keep(table, part))
        });
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    fn is_wanted(&self) -> bool {
        self.folder.is_some() && self.error.is_none()
    }
}

impl PlanSink for Output<'_> {
    fn call(&mut self, call: &PlannedCall) {
        if !self.is_wanted() {
            return;
        }
        let (of, integer) = (&call.observed, |value: i64| GivenCell::Integer(value));
        let maybe = |value: Option<i64>| value.map_or(GivenCell::Null, GivenCell::Integer);
        let number = |value: Option<u64>| maybe(value.map(u64::cast_signed));
        let text = |at: u32| match self.texts.get(at as usize) {
            Some(text) if !text.is_empty() => GivenCell::Bytes(text.as_bytes()),
            _ => GivenCell::Null,
        };
        let (event, is_call) = match of.event {
            Event::Call => ("call", true),
            Event::Timer => ("timer", true),
            Event::Open => ("open", false),
        };
        let cells = [
            integer(call.number.cast_signed()),
            integer(of.call_ns),
            GivenCell::Bytes(event.as_bytes()),
            maybe(is_call.then_some(of.id)),
            integer(of.connection),
            text(of.client),
            text(of.server),
            maybe(of.user),
            text(of.operation),
            integer(call.thread.into()),
            GivenCell::Bytes(call.cause.name().as_bytes()),
            number(call.trigger),
            maybe(call.think_ns),
            number(call.run),
            maybe(call.depth.map(i64::from)),
            call.is_bound.map_or(GivenCell::Null, GivenCell::Boolean),
        ];
        let part = push(&mut self.calls, &cells);
        self.took(TABLES[0], part);
    }

    fn edge(&mut self, edge: Edge) {
        if !self.is_wanted() {
            return;
        }
        let cells = [
            GivenCell::Integer(edge.from.cast_signed()),
            GivenCell::Integer(edge.to.cast_signed()),
            GivenCell::Bytes(edge.kind.name().as_bytes()),
        ];
        let part = push(&mut self.edges, &cells);
        self.took(TABLES[1], part);
    }
}

impl PlanOutput for Output<'_> {
    fn text(&mut self, number: u32, text: &str) {
        let at = number as usize;
        self.texts
            .resize(self.texts.len().max(at + 1), String::new());
        text.clone_into(&mut self.texts[at]);
    }
}
