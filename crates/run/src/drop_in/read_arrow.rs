//! A stream of Arrow IPC that a program writes.
//!
//! Nothing in it is trusted: each length is held against what is there, and what a table of a run
//! cannot hold is refused by name.

use std::io::{self, ErrorKind, Read};

use lineside_host::Stopwatch;
use lineside_trace::{GivenCell, GivenColumn, GivenKind};

use super::answer::Answer;
use super::flat::Table;
use super::write::arrow;

/// The most bytes of a message's metadata, and of its buffers.
const METADATA_MAX: u32 = 16 << 20;
const BODY_MAX: i64 = 256 << 20;

/// How the values of a column lie in its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Numbers of so many bytes, signed or not.
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    Float32,
    Float64,
    Bits,
    /// Offsets of so many bytes, then what they refer to.
    Variable {
        offset_bytes: usize,
    },
    /// So many bytes each.
    Fixed(usize),
}

/// Reads all messages of a program that runs `since` then.
pub(super) fn read(
    output: &mut impl Read,
    since: Stopwatch,
    answer: &mut Answer,
) -> Result<(), String> {
    let (mut layouts, mut metadata, mut body) = (None::<Vec<Layout>>, Vec::new(), Vec::new());
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
        match (kind, &layouts) {
            (arrow::SCHEMA, None) => {
                let (columns, found) = schema(header)?;
                answer.begin(columns)?;
                layouts = Some(found);
            }
            (arrow::RECORD_BATCH, Some(layouts)) => {
                let rows = batch(header, layouts, &body, answer)?;
                answer.advance(rows, since.elapsed())?;
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

/// The columns of a schema.
fn schema(schema: Table<'_>) -> Result<(Vec<GivenColumn>, Vec<Layout>), String> {
    let damaged = || "it writes an Arrow schema that contradicts itself".to_owned();
    if schema.short(0, 0) != Some(0) {
        return Err("it writes numbers with the highest byte first".to_owned());
    }
    let fields = schema.tables(1).ok_or_else(damaged)?;
    let mut columns = Vec::new();
    let mut layouts = Vec::new();
    for field in fields {
        let name = field.text(0).ok_or_else(damaged)?.to_owned();
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
        columns.push(GivenColumn { name, kind });
        layouts.push(layout);
    }
    Ok((columns, layouts))
}

/// What becomes of a type of Arrow's, by its number in the union `Type`.
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
}

impl<'a> Buffers<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (offset, len) = self.places.next()?;
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        self.body.get(offset..)?.get(..len)
    }
}

/// Adds the rows of a batch, and returns how many they are.
fn batch(
    batch: Table<'_>,
    layouts: &[Layout],
    body: &[u8],
    answer: &mut Answer,
) -> Result<usize, String> {
    let damaged = || "it writes an Arrow batch that contradicts its schema or itself".to_owned();
    if batch.has(3).ok_or_else(damaged)? {
        return Err("it writes batches that are compressed: write them as they are".to_owned());
    }
    let rows = batch.long(0).and_then(|rows| usize::try_from(rows).ok());
    // A bit for each row is the least: so much memory stands behind them.
    let rows = rows
        .filter(|&rows| rows <= 8 * body.len())
        .ok_or_else(damaged)?;
    let nodes = batch.pairs(1).ok_or_else(damaged)?;
    let mut buffers = Buffers {
        body,
        places: batch.pairs(2).ok_or_else(damaged)?.into_iter(),
    };
    let columns = answer.columns();
    if nodes.len() != layouts.len() || nodes.iter().any(|node| node.0 != rows as i64) {
        return Err(damaged());
    }
    for (place, (&layout, (_, nulls))) in layouts.iter().zip(nodes).enumerate() {
        let present = buffers.next().ok_or_else(damaged)?;
        let present = Some(present).filter(|present| nulls != 0 && !present.is_empty());
        if present.is_some_and(|present| present.len() < rows.div_ceil(8)) {
            return Err(damaged());
        }
        let first = buffers.next().ok_or_else(damaged)?;
        let second = match layout {
            Layout::Variable { .. } => buffers.next().ok_or_else(damaged)?,
            _ => &[],
        };
        let is_text = columns[place].kind == GivenKind::Text;
        for row in 0..rows {
            let is_present = present.is_none_or(|present| present[row / 8] >> (row % 8) & 1 == 1);
            let cell = match is_present {
                true => cell(layout, first, second, row).ok_or_else(damaged)?,
                false => GivenCell::Null,
            };
            if let (true, GivenCell::Bytes(bytes)) = (is_text, cell)
                && std::str::from_utf8(bytes).is_err()
            {
                let name = &columns[place].name;
                return Err(format!("its column '{name}' has a text that is not UTF-8"));
            }
            answer.push(place, cell)?;
        }
    }
    Ok(rows)
}

/// The value of a row; `None` if it is not there, or greater than an integer of the table.
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
