//! Heads as messages: a stream of Arrow IPC, or lines of CSV.
//!
//! The layout is that of Arrow's columnar format, "IPC Streaming Format" and "Encapsulated message
//! format", with metadata version 5: a message is a marker, the length of its metadata, the
//! metadata as a FlatBuffer, and the buffers of the columns, each at a multiple of eight bytes.

use super::flat::{Builder, Field, Place};
use super::heads::{Cell, Column, Kind, Places, Row, Rows, columns};

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
pub(super) fn put_message(
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
    /// The texts of a column.
    text: Vec<u8>,
}

/// Bytes for a bit of each row, before the next buffer.
fn bits_len(rows: usize) -> usize {
    rows.div_ceil(8).next_multiple_of(8)
}

impl Body {
    /// Lays out the columns of these rows.
    pub(super) fn fill(&mut self, rows: &Rows, has_bytes: bool, places: Places<'_>) {
        self.bytes.clear();
        self.buffers.clear();
        self.nodes.clear();
        for &(_, _, column) in columns(has_bytes) {
            self.column(rows, column, places);
        }
    }

    /// Lays out a column, in a loop of its own for each.
    fn column(&mut self, rows: &Rows, column: Column, places: Places<'_>) {
        let place = |row: &Row| places.get(usize::from(row.place));
        match column {
            Column::Time => self.numbers::<8>(rows, |row| row.time_ns),
            Column::WireBytes => self.numbers::<8>(rows, |row| Some(row.wire_bytes.into())),
            Column::CapturedBytes => {
                self.numbers::<8>(rows, |row| Some(row.captured_bytes.into()));
            }
            Column::SourcePort => self.numbers::<4>(rows, |row| Some(row.ports?.source.into())),
            Column::DestinationPort => {
                self.numbers::<4>(rows, |row| Some(row.ports?.destination.into()));
            }
            Column::TcpSequence => self.numbers::<8>(rows, |row| Some(row.tcp?.sequence.into())),
            Column::TcpAcknowledgement => {
                self.numbers::<8>(rows, |row| Some(row.tcp?.acknowledgement.into()));
            }
            Column::TcpFlags => self.numbers::<4>(rows, |row| Some(row.tcp?.flags.into())),
            Column::TcpWindow => self.numbers::<4>(rows, |row| Some(row.tcp?.window.into())),
            Column::PayloadBytes => {
                self.numbers::<8>(rows, |row| Some(row.ports?.payload_bytes.into()));
            }
            Column::Port => self.texts(rows, |_, row| Some(Cell::Text(&place(row)?.0))),
            Column::Point => self.texts(rows, |_, row| Some(Cell::Text(place(row)?.1))),
            Column::SourceAddress => self.texts(rows, |_, row| Some(Cell::Address(row.ip?.0))),
            Column::DestinationAddress => {
                self.texts(rows, |_, row| Some(Cell::Address(row.ip?.1)));
            }
            Column::Transport | Column::Bytes => {
                self.texts(rows, |at, _| rows.cell(column, at, places));
            }
        }
    }

    /// A column of numbers of this many bytes.
    fn numbers<const LEN: usize>(&mut self, rows: &Rows, value: impl Fn(&Row) -> Option<i64>) {
        let count = rows.rows.len();
        let start = self.bytes.len();
        let data = start + bits_len(count);
        self.bytes
            .resize((data + LEN * count).next_multiple_of(8), 0);
        let (bits, values) = self.bytes[start..].split_at_mut(data - start);
        let (mut nulls, values) = (0, values.as_chunks_mut::<LEN>().0);
        for (at, (row, bytes)) in rows.rows.iter().zip(values).enumerate() {
            let value = value(row);
            nulls += i64::from(value.is_none());
            bits[at / 8] |= u8::from(value.is_some()) << (at % 8);
            let little = value.unwrap_or_default().to_le_bytes();
            bytes.copy_from_slice(&little[..LEN]);
        }
        self.nodes.push((count as i64, nulls));
        self.buffers.push((start as i64, count.div_ceil(8) as i64));
        self.buffers.push((data as i64, (LEN * count) as i64));
    }

    /// A column of texts, or of bytes.
    fn texts<'a>(&mut self, rows: &'a Rows, text: impl Fn(usize, &'a Row) -> Option<Cell<'a>>) {
        let count = rows.rows.len();
        let start = self.bytes.len();
        let offsets = start + bits_len(count);
        let data = (offsets + 4 * (count + 1)).next_multiple_of(8);
        self.bytes.resize(data, 0);
        self.text.clear();
        let (bits, ends) = self.bytes[start..].split_at_mut(offsets - start);
        // The first offset is 0.
        let (mut nulls, ends) = (0, &mut ends.as_chunks_mut::<4>().0[1..]);
        for (at, (row, end)) in rows.rows.iter().zip(ends).enumerate() {
            let cell = text(at, row);
            nulls += i64::from(cell.is_none());
            bits[at / 8] |= u8::from(cell.is_some()) << (at % 8);
            if let Some(cell) = cell {
                cell.put_text(&mut self.text);
            }
            *end = (self.text.len() as u32).to_le_bytes();
        }
        self.nodes.push((count as i64, nulls));
        self.buffers.push((start as i64, count.div_ceil(8) as i64));
        self.buffers
            .push((offsets as i64, (4 * (count + 1)) as i64));
        self.buffers.push((data as i64, self.text.len() as i64));
        self.bytes.extend_from_slice(&self.text);
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
