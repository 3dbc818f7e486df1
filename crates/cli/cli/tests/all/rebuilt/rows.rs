//! The rows of a trace by call, with the handles that it has.

use std::collections::HashMap;

use crate::support::{Record, Trace};
use lineside_trace::read::Value;

pub(super) struct Rows<'t> {
    trace: &'t Trace,
    /// Columns that are looked upon as null.
    without: &'static [&'static str],
    /// Rows of `nfs`, `nfs4` and `services`.
    details: HashMap<(i64, &'static str), &'t Record>,
    handles: HashMap<i64, &'t [u8]>,
    /// The further operations of a compound.
    operations: HashMap<i64, Vec<&'t Record>>,
}

/// A row, with what the other tables have of it.
pub(super) struct Call<'r> {
    pub(super) row: &'r Record,
    rows: &'r Rows<'r>,
}

impl<'t> Rows<'t> {
    pub(super) fn of(trace: &'t Trace, without: &'static [&'static str]) -> Self {
        let mut details = HashMap::new();
        for row in trace.details() {
            let id = row.integer("operation_id").expect("never null");
            details.insert((id, row.table.name()), row);
        }
        let mut handles = HashMap::new();
        for fact in &trace.files {
            if let (Some(id), Value::Bytes(handle)) =
                (fact.integer("file_id"), fact.value("handle"))
            {
                handles.insert(id, handle.as_slice());
            }
        }
        let mut operations: HashMap<i64, Vec<&Record>> = HashMap::new();
        for row in &trace.operations {
            let id = row.integer("rpc_id").expect("never null");
            operations.entry(id).or_default().push(row);
        }
        for rows in operations.values_mut() {
            rows.sort_by_key(|row| row.integer("compound_index"));
        }
        Self {
            trace,
            without,
            details,
            handles,
            operations,
        }
    }

    /// Each call that was seen.
    pub(super) fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        let rows = { self.trace.operations.iter() }.filter(|row| {
            row.integer("rpc_id") == row.integer("operation_id") && !row.is("call_missing")
        });
        rows.map(|row| Call { row, rows: self })
    }
}

impl<'r> Call<'r> {
    /// The operations of a compound, itself the first.
    pub(super) fn operations(&self) -> impl Iterator<Item = Call<'r>> {
        let id = self.row.integer("rpc_id").expect("never null");
        let operations = self.rows.operations[&id].iter();
        operations.map(|row| Call {
            row,
            rows: self.rows,
        })
    }

    fn value(&self, column: &str) -> &'r Value {
        const NULL: &Value = &Value::Null;
        if self.rows.without.contains(&column) {
            return NULL;
        }
        let has = |row: &&Record| row.table.columns().iter().any(|each| each.name == column);
        let id = self.row.integer("operation_id").expect("never null");
        let details = |table| self.rows.details.get(&(id, table)).copied();
        let tables = [
            Some(self.row),
            details("nfs"),
            details("nfs4"),
            details("services"),
        ];
        let mut found = { tables.into_iter().flatten().filter(has) }.map(|row| row.value(column));
        found.find(|value| *value != NULL).unwrap_or(NULL)
    }

    pub(super) fn integer(&self, column: &str) -> Option<i64> {
        self.value(column).integer()
    }

    pub(super) fn text(&self, column: &str) -> Option<&'r str> {
        self.value(column).text()
    }

    pub(super) fn flag(&self, column: &str) -> Option<bool> {
        match self.value(column) {
            Value::Boolean(flag) => Some(*flag),
            _ => None,
        }
    }

    /// What stands in a column of bytes, or of text from the wire.
    pub(super) fn bytes(&self, column: &str) -> Option<Vec<u8>> {
        match self.value(column) {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Text(text) => Some(plain(text)),
            _ => None,
        }
    }

    /// The handle of the file in a column.
    pub(super) fn handle(&self, column: &str) -> Option<Vec<u8>> {
        let id = self.integer(column)?;
        self.rows.handles.get(&id).map(|handle| handle.to_vec())
    }
}

/// Text from the wire as it was: the trace has `\xHH` for bytes that are not UTF-8.
fn plain(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, rest) {
            (b'\\', [b'x', high, low, ..]) => {
                let digit = |byte: u8| (byte as char).to_digit(16).expect("hex") as u8;
                out.push(digit(*high) << 4 | digit(*low));
                rest = &rest[3..];
            }
            (b'\\', [_, ..]) => {
                out.push(b'\\');
                rest = &rest[1..];
            }
            _ => out.push(byte),
        }
    }
    out
}
