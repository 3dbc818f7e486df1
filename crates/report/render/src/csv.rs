//! Rows as CSV (RFC 4180), as pandas and spreadsheets read them: a line of names, then a line for
//! each row.
//!
//! The names are those of the JSON, nested ones joined by `_`; a value that is null or absent is
//! empty, and a list has its values with commas between.

use std::collections::HashMap;

use lineside_words::escape;
use serde::Serialize;
use serde_json::Value;

/// Rows as CSV; without any there are no names either, and the text is empty.
pub fn csv(rows: &[impl Serialize]) -> serde_json::Result<String> {
    let mut names: Vec<String> = Vec::new();
    let mut places = HashMap::new();
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(rows.len());
    for row in rows {
        let mut fields = Vec::new();
        flatten(String::new(), &serde_json::to_value(row)?, &mut fields);
        let mut line = vec![String::new(); names.len()];
        for (name, field) in fields {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            });
            line.resize(names.len().max(line.len()), String::new());
            line[place] = field;
        }
        lines.push(line);
    }
    let mut out = String::new();
    for mut line in std::iter::once(names.clone()).chain(lines) {
        line.resize(names.len(), String::new());
        let fields: Vec<_> = line.iter().map(|field| quoted(field)).collect();
        out += &fields.join(",");
        out.push('\n');
    }
    Ok(if names.is_empty() { String::new() } else { out })
}

fn flatten(name: String, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(inner) => {
            for (key, value) in inner {
                let name = match name.as_str() {
                    "" => key.clone(),
                    outer => format!("{outer}_{key}"),
                };
                flatten(name, value, fields);
            }
        }
        value => fields.push((name, field(value))),
    }
}

/// A value in one line: what could steer a terminal is written out.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape(text).to_string(),
        Value::Array(values) => values.iter().map(field).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn quoted(field: &str) -> String {
    match field.contains(['"', ',', '\n', '\r']) || field != field.trim() {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_lines_with_quotes_where_they_must_be() {
        let rows = [
            json!({ "path": "/a,b", "took": { "wire_ns": 7, "server_ns": null }, "all": true }),
            json!({ "path": "a \"b\"\n", "all": false, "parts": ["READ", "GETATTR"] }),
            json!({ "took": { "server_ns": 1.5 }, "path": " a" }),
        ];
        assert_eq!(
            csv(&rows).expect("plain values"),
            "path,took_wire_ns,took_server_ns,all,parts\n\
            \"/a,b\",7,,true,\n\
            \"a \"\"b\"\"\\u{a}\",,,false,\"READ,GETATTR\"\n\
            \" a\",,1.5,,\n"
        );
        assert_eq!(csv(&[] as &[Value]).expect("nothing"), "");
    }
}
