//! Lines of CSV that a program writes: the first one names the columns.

use std::io::{BufRead, BufReader, Read};

use lineside_trace::{GivenCell, GivenColumn, GivenKind};

use super::rows::{GivenRows, check_columns};

/// The most bytes of a line.
const LINE_MAX: u64 = 1 << 20;

/// Reads all lines of a program.
pub(super) fn read(output: &mut impl Read, rows: &mut impl GivenRows) -> Result<(), String> {
    let mut lines = BufReader::new(output);
    let (mut line, mut fields) = (Vec::new(), Fields::default());
    let (mut columns, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        let read = read.map_err(|error| format!("its output cannot be read: {error}"))?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        if read as u64 == LINE_MAX {
            return Err(format!("line {number} is longer than {LINE_MAX} bytes"));
        }
        let text = std::str::from_utf8(&line);
        let text = text.map_err(|_| format!("line {number} is not UTF-8"))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        fields
            .split(text)
            .map_err(|why| format!("line {number} {why}"))?;
        if columns.is_empty() {
            columns = { fields.iter() }.map(column).collect::<Result<_, _>>()?;
            check_columns(&columns)?;
            rows.begin(columns.clone())?;
            continue;
        }
        if fields.iter().count() != columns.len() {
            return Err(format!(
                "line {number} has {} fields, and the first line names {} columns",
                fields.iter().count(),
                columns.len()
            ));
        }
        // All of them before the first one is pushed: rows come whole, or not at all.
        for (field, column) in fields.iter().zip(&columns) {
            if cell(field, column.kind).is_none() {
                let name = &column.name;
                return Err(format!(
                    "line {number}: '{field}' is no value of the column '{name}'"
                ));
            }
        }
        for (place, (field, column)) in fields.iter().zip(&columns).enumerate() {
            rows.push(place, cell(field, column.kind).unwrap_or(GivenCell::Null))?;
        }
        rows.advance(1)?;
    }
}

/// A column by its name and, behind a colon, its type.
fn column(head: &str) -> Result<GivenColumn, String> {
    let (name, kind) = match head.rsplit_once(':') {
        None => (head, GivenKind::Text),
        Some((name, "text")) => (name, GivenKind::Text),
        Some((name, "integer")) => (name, GivenKind::Integer),
        Some((name, "float")) => (name, GivenKind::Float),
        Some((name, "boolean")) => (name, GivenKind::Boolean),
        Some((name, other)) => {
            return Err(format!(
                "its column '{name}' is of the type '{other}': text, integer, float and boolean \
                are known"
            ));
        }
    };
    Ok(GivenColumn {
        name: name.to_owned(),
        kind,
    })
}

fn cell(field: &str, kind: GivenKind) -> Option<GivenCell<'_>> {
    if field.is_empty() {
        return Some(GivenCell::Null);
    }
    Some(match kind {
        GivenKind::Integer => GivenCell::Integer(field.parse().ok()?),
        GivenKind::Float => GivenCell::Float(field.parse().ok()?),
        GivenKind::Boolean => GivenCell::Boolean(match field {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return None,
        }),
        GivenKind::Text | GivenKind::Bytes => GivenCell::Bytes(field.as_bytes()),
    })
}

/// The fields of a line.
#[derive(Debug, Default)]
struct Fields {
    /// All of them, without their quotes.
    text: String,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Fields {
    /// Takes a line apart (RFC 4180, 2). A quoted field ends with its line.
    fn split(&mut self, line: &str) -> Result<(), &'static str> {
        self.text.clear();
        self.ends.clear();
        let (mut characters, mut is_quoted) = (line.chars().peekable(), false);
        while let Some(character) = characters.next() {
            match character {
                '"' if is_quoted && characters.next_if_eq(&'"').is_some() => self.text.push('"'),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => self.ends.push(self.text.len()),
                other => self.text.push(other),
            }
        }
        self.ends.push(self.text.len());
        match is_quoted {
            true => Err("has a quote that does not end"),
            false => Ok(()),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        { starts.zip(&self.ends) }.map(|(start, &end)| &self.text[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_may_hold_commas_and_quotes() {
        let mut fields = Fields::default();
        for (line, expected) in [
            ("a,b", &["a", "b"][..]),
            ("", &[""]),
            (",", &["", ""]),
            (r#""a,b",c"#, &["a,b", "c"]),
            (r#""say ""x""",1"#, &[r#"say "x""#, "1"]),
        ] {
            fields.split(line).expect("it ends");
            assert_eq!(fields.iter().collect::<Vec<_>>(), expected, "{line}");
        }
        assert!(fields.split("\"a").is_err());
    }
}
