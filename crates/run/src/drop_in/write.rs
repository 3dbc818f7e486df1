//! Heads as messages: a stream of Arrow IPC, or lines of CSV.
//!
//! The layout is that of Arrow's columnar format, "IPC Streaming Format" and "Encapsulated message
//! format", with metadata version 5: a message is a marker, the length of its metadata, the
//! metadata as a FlatBuffer, and the buffers of the columns, each at a multiple of eight bytes.

use super::flat::{Builder, Field, Place};
use super::heads::{Cell, Column, Kind, Places, Rows, columns};

/// What a program missed since the batch before.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Missed {
    pub(super) batches: u64,
    pub(super) heads: u64,
}

/// Numbers of Arrow's unions and versions.
pub(super) mod arrow {
    pub(crate) const VERSION: i16 = 4;
    pub(crate) const SCHEMA: u8 = 1;
    pub(crate) const RECORD_BATCH: u8 = 3;
    pub(crate) const MARKER: u32 = 0xffff_ffff;
    pub(crate) const INT: u8 = 2;
    pub(crate) const BINARY: u8 = 4;
    pub(crate) const UTF8: u8 = 5;
}

/// Appends what a stream begins with.
pub(super) fn put_arrow_schema(has_bytes: bool, out: &mut Vec<u8>) {
    let mut builder = Builder::default();
    let mut fields = Vec::new();
    for (name, kind, _) in columns(has_bytes) {
        let (number, of) = match kind {
            Kind::Int32 => (arrow::INT, &[Field::Int(32), Field::Byte(1)][..]),
            Kind::Int64 => (arrow::INT, &[Field::Int(64), Field::Byte(1)][..]),
            Kind::Text => (arrow::UTF8, &[][..]),
            Kind::Bytes => (arrow::BINARY, &[][..]),
        };
        let of = builder.table(of);
        let name = builder.text(name);
        let children = builder.places(&[]);
        fields.push(builder.table(&[
            Field::At(name),
            Field::Byte(1),
            Field::Byte(number),
            Field::At(of),
            Field::Absent,
            Field::At(children),
        ]));
    }
    let fields = builder.places(&fields);
    let schema = builder.table(&[Field::Short(0), Field::At(fields)]);
    put_message(builder, arrow::SCHEMA, schema, 0, Missed::default(), out);
}

/// Appends a message's metadata; `body_len` bytes are to follow.
fn put_message(
    mut builder: Builder,
    kind: u8,
    header: Place,
    body_len: usize,
    missed: Missed,
    out: &mut Vec<u8>,
) {
    let mut metadata = Field::Absent;
    if missed.batches > 0 {
        let pairs = [
            ("dropped_batches", missed.batches),
            ("dropped_heads", missed.heads),
        ];
        let pairs = pairs.map(|(key, value)| {
            let (key, value) = (builder.text(key), builder.text(&value.to_string()));
            builder.table(&[Field::At(key), Field::At(value)])
        });
        metadata = Field::At(builder.places(&pairs));
    }
    let message = builder.table(&[
        Field::Short(arrow::VERSION),
        Field::Byte(kind),
        Field::At(header),
        Field::Long(body_len as i64),
        metadata,
    ]);
    let metadata = builder.finish(message);
    out.extend_from_slice(&arrow::MARKER.to_le_bytes());
    out.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    out.extend_from_slice(&metadata);
}

/// The buffers of a batch's columns, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Body {
    bytes: Vec<u8>,
    /// Offset and length of each buffer.
    buffers: Vec<(i64, i64)>,
    /// Rows and nulls of each column.
    nodes: Vec<(i64, i64)>,
    present: Vec<u8>,
}

impl Body {
    /// Lays out the columns of these rows.
    pub(super) fn fill(&mut self, rows: &Rows, has_bytes: bool, places: Places<'_>) {
        self.bytes.clear();
        self.buffers.clear();
        self.nodes.clear();
        for &(_, kind, column) in columns(has_bytes) {
            self.column(rows, kind, column, places);
        }
    }

    fn column(&mut self, rows: &Rows, kind: Kind, column: Column, places: Places<'_>) {
        let count = rows.rows.len();
        // The bits of the values that are there, and room for them, which null gives back.
        let start = self.bytes.len();
        self.present.clear();
        self.present.resize(count.div_ceil(8), 0);
        self.bytes
            .resize(start + self.present.len().next_multiple_of(8), 0);
        let values = self.bytes.len();
        let mut nulls = 0;
        let has_offsets = matches!(kind, Kind::Text | Kind::Bytes);
        let mut offsets = values;
        if has_offsets {
            self.bytes
                .resize(values + (4 * (count + 1)).next_multiple_of(8), 0);
        }
        let data = self.bytes.len();
        for at in 0..count {
            let cell = rows.cell(column, at, places);
            match (kind, cell) {
                (Kind::Int32, Some(Cell::Number(value))) => {
                    self.bytes.extend_from_slice(&(value as i32).to_le_bytes());
                }
                (Kind::Int64, Some(Cell::Number(value))) => {
                    self.bytes.extend_from_slice(&value.to_le_bytes());
                }
                (Kind::Text | Kind::Bytes, Some(cell)) => cell.put_text(&mut self.bytes),
                (Kind::Int32, _) => self.bytes.extend_from_slice(&[0; 4]),
                (Kind::Int64, _) => self.bytes.extend_from_slice(&[0; 8]),
                (Kind::Text | Kind::Bytes, None) => {}
            }
            nulls += i64::from(cell.is_none());
            self.present[at / 8] |= u8::from(cell.is_some()) << (at % 8);
            if has_offsets {
                offsets += 4;
                let end = (self.bytes.len() - data) as u32;
                self.bytes[offsets..offsets + 4].copy_from_slice(&end.to_le_bytes());
            }
        }
        self.bytes[start..start + self.present.len()].copy_from_slice(&self.present);
        self.nodes.push((count as i64, nulls));
        let mut buffer = |start: usize, len: usize| self.buffers.push((start as i64, len as i64));
        buffer(start, self.present.len());
        if has_offsets {
            buffer(values, 4 * (count + 1));
        }
        let data_len = self.bytes.len() - data;
        buffer(data, data_len);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Appends the batch as a message.
    pub(super) fn put(&self, missed: Missed, out: &mut Vec<u8>) {
        let mut builder = Builder::default();
        let (nodes, buffers) = (builder.pairs(&self.nodes), builder.pairs(&self.buffers));
        let rows = self.nodes.first().map_or(0, |node| node.0);
        let batch = builder.table(&[Field::Long(rows), Field::At(nodes), Field::At(buffers)]);
        put_message(
            builder,
            arrow::RECORD_BATCH,
            batch,
            self.bytes.len(),
            missed,
            out,
        );
        out.extend_from_slice(&self.bytes);
    }
}

/// Appends what a stream ends with.
pub(super) fn put_arrow_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&arrow::MARKER.to_le_bytes());
    out.extend_from_slice(&0_u32.to_le_bytes());
}

/// Appends the line with the names of the columns.
pub(super) fn put_csv_names(has_bytes: bool, out: &mut Vec<u8>) {
    let names: Vec<_> = columns(has_bytes).iter().map(|(name, ..)| *name).collect();
    out.extend_from_slice(names.join(",").as_bytes());
    out.push(b'\n');
}

/// Appends the rows as lines; before them, what was missed, as a comment.
pub(super) fn put_csv(
    rows: &Rows,
    has_bytes: bool,
    places: Places<'_>,
    missed: Missed,
    out: &mut Vec<u8>,
) {
    if missed.batches > 0 {
        let Missed { batches, heads } = missed;
        let line = format!("# dropped_batches={batches} dropped_heads={heads}\n");
        out.extend_from_slice(line.as_bytes());
    }
    for at in 0..rows.rows.len() {
        for (place, &(_, _, column)) in columns(has_bytes).iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            match rows.cell(column, at, places) {
                None => {}
                Some(Cell::Bytes(bytes)) => put_hex(bytes, out),
                Some(Cell::Text(text)) => put_csv_text(text, out),
                Some(cell) => cell.put_text(out),
            }
        }
        out.push(b'\n');
    }
}

fn put_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// A field, in quotes where it needs them (RFC 4180, 2).
fn put_csv_text(text: &str, out: &mut Vec<u8>) {
    if text.contains([',', '"', '\n', '\r']) {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}
