//! A stream of Arrow IPC that a program writes.
//!
//! Nothing in it is trusted: each length is held against what is there, and what a table of a run
//! cannot hold is refused by name.

use std::io::{self, ErrorKind, Read};

use lineside_trace::{GivenCell, GivenColumn, GivenKind};

use super::flat::Table;
use super::rows::{GivenRows, check_columns, check_count, check_name};
use super::write::arrow;

/// The most bytes of a message's metadata, and of its buffers.
const METADATA_MAX: u32 = 16 << 20;
const BODY_MAX: i64 = 256 << 20;

/// The most values of a batch: twice the numbers that its buffers may hold.
const VALUES_MAX: usize = 64 << 20;

/// How the values of a column lie in its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Numbers of this many bytes, signed or not.
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    Float32,
    Float64,
    Bits,
    /// Offsets of this many bytes, then what they refer to.
    Variable {
        offset_bytes: usize,
    },
    /// So many bytes each.
    Fixed(usize),
}

/// Reads all messages of a program.
pub(super) fn read(output: &mut impl Read, rows: &mut impl GivenRows) -> Result<(), String> {
    let (mut columns, mut metadata, mut body) = (None::<Vec<Column>>, Vec::new(), Vec::new());
    while let Some(message) = next_message(output, &mut metadata)? {
        let damaged = || "it writes an Arrow message that contradicts itself".to_owned();
        let message = Table::root(message).ok_or_else(damaged)?;
        let kind = message.byte(1).ok_or_else(damaged)?;
        let header = message.table(2).ok_or_else(damaged)?;
        let body_len = message.long(3).ok_or_else(damaged)?;
        if !(0..=BODY_MAX).contains(&body_len) {
            return Err(format!(
                "it writes a batch of {body_len} bytes: {BODY_MAX} are the most"
            ));
        }
        body.clear();
        let read = output.by_ref().take(body_len as u64).read_to_end(&mut body);
        let read = read.map_err(cannot_read)?;
        if (read as i64) < body_len {
            return Err("its output ends in the middle of a batch".to_owned());
        }
        match (kind, &columns) {
            (arrow::SCHEMA, None) => {
                let found = schema(header)?;
                let given: Vec<_> = found.iter().map(|column| column.given.clone()).collect();
                check_columns(&given)?;
                rows.begin(given)?;
                columns = Some(found);
            }
            (arrow::RECORD_BATCH, Some(columns)) => {
                let count = batch(header, columns, &body, rows)?;
                rows.advance(count)?;
            }
            (arrow::SCHEMA, Some(_)) => return Err("it writes a second schema".to_owned()),
            _ => {
                return Err("it writes an Arrow message that is no schema or batch".to_owned());
            }
        }
    }
    // What comes behind the end of the stream means nothing.
    io::copy(output, &mut io::sink()).map_err(cannot_read)?;
    Ok(())
}

fn cannot_read(error: io::Error) -> String {
    format!("its output cannot be read: {error}")
}

/// The metadata of the next message; `None` at the end of the stream.
fn next_message<'a>(
    output: &mut impl Read,
    metadata: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>, String> {
    let mut head = [0; 8];
    let mut filled = 0;
    while filled < head.len() {
        match output.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot_read(error)),
        }
    }
    let [marker, len] = [&head[..4], &head[4..]]
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")));
    if filled < head.len() || marker != arrow::MARKER {
        return Err(format!(
            "its output is no stream of Arrow IPC: a message begins with '{}'; write that format, \
            or CSV with NAME=csv:COMMAND",
            head[..filled].escape_ascii()
        ));
    }
    if len == 0 {
        return Ok(None);
    }
    if len > METADATA_MAX {
        return Err(format!(
            "it writes {len} bytes of metadata: {METADATA_MAX} are the most"
        ));
    }
    metadata.clear();
    let read = output.by_ref().take(len.into()).read_to_end(metadata);
    match read.map_err(cannot_read)? {
        read if read == len as usize => Ok(Some(metadata)),
        _ => Err("its output ends in the middle of a message".to_owned()),
    }
}

/// A column, and how its values lie.
struct Column {
    given: GivenColumn,
    layout: Layout,
}

/// The columns of a schema.
fn schema(schema: Table<'_>) -> Result<Vec<Column>, String> {
    let damaged = || "it writes an Arrow schema that contradicts itself".to_owned();
    if schema.short(0, 0) != Some(0) {
        return Err("it writes numbers with the highest byte first".to_owned());
    }
    let fields = schema.tables(1).ok_or_else(damaged)?;
    // All of them may refer to the same name.
    check_count(fields.len())?;
    let mut columns = Vec::new();
    for field in fields {
        let name = field.text(0).ok_or_else(damaged)?;
        check_name(name)?;
        let name = name.to_owned();
        let number = field.byte(2).ok_or_else(damaged)?;
        let of = field.table(3).ok_or_else(damaged)?;
        if field.has(4).ok_or_else(damaged)? {
            return Err(format!(
                "its column '{name}' is encoded by a dictionary: write the values themselves"
            ));
        }
        let (kind, layout) = layout(number, of).ok_or_else(|| {
            format!(
                "its column '{name}' is of a type (number {number}) that a table of a run cannot \
                hold: write integers, floats, booleans, texts, bytes or times"
            )
        })?;
        let given = GivenColumn { name, kind };
        columns.push(Column { given, layout });
    }
    Ok(columns)
}

/// How a type of Arrow's is read, by its number in the union `Type`.
fn layout(number: u8, of: Table<'_>) -> Option<(GivenKind, Layout)> {
    let integer = |bytes, is_signed| (GivenKind::Integer, Layout::Integer { bytes, is_signed });
    let variable = |offset_bytes| Layout::Variable { offset_bytes };
    Some(match number {
        arrow::INT => {
            let bits = of.int(0, 0)?;
            let is_known = matches!(bits, 8 | 16 | 32 | 64);
            is_known.then_some(())?;
            integer(bits as usize / 8, of.byte(1)? != 0)
        }
        // FloatingPoint: single, double.
        3 => match of.short(0, 0)? {
            1 => (GivenKind::Float, Layout::Float32),
            2 => (GivenKind::Float, Layout::Float64),
            _ => return None,
        },
        arrow::BINARY => (GivenKind::Bytes, variable(4)),
        arrow::UTF8 => (GivenKind::Text, variable(4)),
        6 => (GivenKind::Boolean, Layout::Bits),
        // Date: days, or milliseconds, which is the default.
        8 => integer(if of.short(0, 1)? == 0 { 4 } else { 8 }, true),
        // Time, of 32 bits by default.
        9 => integer(if of.int(1, 32)? == 32 { 4 } else { 8 }, true),
        // Timestamp, Duration.
        10 | 18 => integer(8, true),
        // FixedSizeBinary.
        15 => (
            GivenKind::Bytes,
            Layout::Fixed(of.int(0, 0)?.try_into().ok()?),
        ),
        // LargeBinary, LargeUtf8.
        19 => (GivenKind::Bytes, variable(8)),
        20 => (GivenKind::Text, variable(8)),
        _ => return None,
    })
}

/// The buffers of a batch, as they are taken one after the other.
struct Buffers<'a> {
    body: &'a [u8],
    places: std::vec::IntoIter<(i64, i64)>,
    /// Bytes of those that were taken.
    taken: usize,
}

impl<'a> Buffers<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (offset, len) = self.places.next()?;
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let buffer = self.body.get(offset..)?.get(..len)?;
        // Buffers that lie on one another would be more than there is.
        self.taken += len;
        (self.taken <= self.body.len()).then_some(buffer)
    }
}

/// The values of a column in a batch.
struct Values<'a> {
    layout: Layout,
    is_text: bool,
    /// A bit for each row that has one; `None`: all have.
    present: Option<&'a [u8]>,
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> Values<'a> {
    /// Takes the buffers of a column; `None` if they are not there.
    fn take(column: &Column, nulls: i64, rows: usize, buffers: &mut Buffers<'a>) -> Option<Self> {
        let present = buffers.next()?;
        let present = Some(present).filter(|present| nulls != 0 && !present.is_empty());
        let layout = column.layout;
        let values = Self {
            layout,
            is_text: column.given.kind == GivenKind::Text,
            present,
            first: buffers.next()?,
            second: match layout {
                Layout::Variable { .. } => buffers.next()?,
                _ => &[],
            },
        };
        let is_whole = present.is_none_or(|present| present.len() >= rows.div_ceil(8));
        is_whole.then_some(values)
    }

    /// The value of a row; `None` if it is not there, or greater than an integer of the table.
    fn cell(&self, row: usize) -> Option<GivenCell<'a>> {
        let is_present =
            { self.present }.is_none_or(|present| present[row / 8] >> (row % 8) & 1 == 1);
        match is_present {
            true => cell(self.layout, self.first, self.second, row),
            false => Some(GivenCell::Null),
        }
    }

    /// Whether all values may go into a table, and are no more than was written.
    fn check(&self, rows: usize) -> Result<(), Refusal> {
        let mut bytes_left = self.second.len();
        for row in 0..rows {
            let GivenCell::Bytes(bytes) = self.cell(row).ok_or(Refusal::Damaged)? else {
                continue;
            };
            if self.is_text && std::str::from_utf8(bytes).is_err() {
                return Err(Refusal::NotText);
            }
            if let Layout::Variable { .. } = self.layout {
                // Between values that are null, offsets may go back.
                bytes_left = { bytes_left.checked_sub(bytes.len()) }.ok_or(Refusal::Damaged)?;
            }
        }
        Ok(())
    }
}

/// Why a column is refused.
enum Refusal {
    Damaged,
    NotText,
}

/// Adds the rows of a batch, and returns how many they are.
fn batch(
    batch: Table<'_>,
    columns: &[Column],
    body: &[u8],
    rows: &mut impl GivenRows,
) -> Result<usize, String> {
    let damaged = || "it writes an Arrow batch that contradicts its schema or itself".to_owned();
    if batch.has(3).ok_or_else(damaged)? {
        return Err("it writes batches that are compressed: write them as they are".to_owned());
    }
    let count = batch.long(0).and_then(|count| usize::try_from(count).ok());
    // A bit for each row is the least: so much memory stands behind them.
    let count = count
        .filter(|&count| count <= 8 * body.len())
        .ok_or_else(damaged)?;
    if count * columns.len() > VALUES_MAX {
        return Err(format!(
            "it writes a batch of {count} rows: with {} columns {} are the most",
            columns.len(),
            VALUES_MAX / columns.len()
        ));
    }
    let nodes = batch.pairs(1).ok_or_else(damaged)?;
    let mut buffers = Buffers {
        body,
        places: batch.pairs(2).ok_or_else(damaged)?.into_iter(),
        taken: 0,
    };
    if nodes.len() != columns.len() || nodes.iter().any(|node| node.0 != count as i64) {
        return Err(damaged());
    }
    let values = { columns.iter().zip(nodes) }
        .map(|(column, (_, nulls))| Values::take(column, nulls, count, &mut buffers));
    let values: Vec<_> = values.collect::<Option<_>>().ok_or_else(damaged)?;
    // All of them before the first one is pushed: rows come whole, or not at all.
    for (values, column) in values.iter().zip(columns) {
        values.check(count).map_err(|why| match why {
            Refusal::Damaged => damaged(),
            Refusal::NotText => {
                let name = &column.given.name;
                format!("its column '{name}' has a text that is not UTF-8")
            }
        })?;
    }
    for (place, values) in values.iter().enumerate() {
        for row in 0..count {
            rows.push(place, values.cell(row).unwrap_or(GivenCell::Null))?;
        }
    }
    Ok(count)
}

/// A value that is no null, as [`Values::cell`] has it.
fn cell<'a>(
    layout: Layout,
    first: &'a [u8],
    second: &'a [u8],
    row: usize,
) -> Option<GivenCell<'a>> {
    let fixed = |len: usize| first.get(row * len..)?.get(..len);
    Some(match layout {
        Layout::Integer { bytes, is_signed } => {
            let little = fixed(bytes)?;
            let is_negative = is_signed && little.last().is_some_and(|byte| byte & 0x80 != 0);
            let mut whole = if is_negative { [0xff; 8] } else { [0; 8] };
            whole[..bytes].copy_from_slice(little);
            let value = i64::from_le_bytes(whole);
            GivenCell::Integer(Some(value).filter(|value| is_signed || *value >= 0)?)
        }
        Layout::Float32 => GivenCell::Float(f32::from_le_bytes(fixed(4)?.try_into().ok()?).into()),
        Layout::Float64 => GivenCell::Float(f64::from_le_bytes(fixed(8)?.try_into().ok()?)),
        Layout::Bits => GivenCell::Boolean(first.get(row / 8)? >> (row % 8) & 1 == 1),
        Layout::Fixed(len) => GivenCell::Bytes(fixed(len)?),
        Layout::Variable { offset_bytes } => {
            let offset = |row: usize| {
                let mut whole = [0; 8];
                let little = first.get(row * offset_bytes..)?.get(..offset_bytes)?;
                whole[..offset_bytes].copy_from_slice(little);
                usize::try_from(u64::from_le_bytes(whole)).ok()
            };
            GivenCell::Bytes(second.get(offset(row)?..offset(row + 1)?)?)
        }
    })
}
