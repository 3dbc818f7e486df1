//! The guide lists the keys as they are declared: names, flags and defaults.

use std::path::Path;

use serde_json::{Value, json};

use crate::capture::Section;
use crate::config::{ALL, Facts, Keys, read_keys};
use crate::link::section;
use crate::load;

fn guide(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide");
    std::fs::read_to_string(folder.join(name)).expect("the guide")
}

/// A value of this key as the guide has it, alone in a section.
fn read<K: Keys>(name: &str, text: &str) -> Option<K> {
    let number = text.parse::<u64>().ok().map(Value::from);
    let truth = text.parse::<bool>().ok().map(Value::from);
    let texts = [text.into(), json!([text])];
    let mut forms = number.into_iter().chain(truth).chain(texts);
    forms.find_map(|form| read_keys(&json!({ name: form }), "section").ok())
}

/// The default of a key, alone in a section.
fn default_of<K: Keys>(name: &str) -> Option<K> {
    let mut all = serde_json::Map::new();
    K::defaults(ALL).write(&mut all);
    let default = all.get(name).filter(|value| !value.is_null())?;
    read_keys(&json!({ name: default }), "section").ok()
}

fn assert_default<K: Keys + PartialEq + std::fmt::Debug>(name: &str, text: &str) {
    let Some(default) = default_of::<K>(name) else {
        return;
    };
    // The guide describes an empty list in words.
    let is_list_in_words =
        read_keys::<K>(&json!({ name: [] }), "section").ok() == Some(default.clone());
    if !is_list_in_words {
        assert_eq!(read::<K>(name, text), Some(default), "{name} ({text})");
    }
}

fn long_or_short(facts: &Facts) -> String {
    facts
        .long
        .map_or_else(|| facts.flag(), |long| format!("--{long}"))
}

#[test]
fn the_guide_lists_all_keys_of_capture() {
    let guide = guide("capture.md");
    let rows: Vec<Vec<&str>> = { guide.lines() }
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(" | ").map(str::trim).collect())
        .collect();
    let declared = Section::declared();
    assert!(declared.len() > 40);
    for facts in &declared {
        let name = format!("`{}`", facts.name);
        if facts.has_flag() {
            let row = { rows.iter() }.find(|row| row.get(1) == Some(&name.as_str()));
            let row = row.unwrap_or_else(|| panic!("no row of {name}"));
            let is_there = |flag: String| row[0].contains(&flag);
            let short = facts
                .short
                .is_some_and(|short| is_there(format!("`-{short}")));
            assert!(
                short || is_there(format!("`{}", long_or_short(facts))),
                "{row:?}"
            );
            assert_default::<Section>(facts.name, row[2]);
        } else {
            let start = guide
                .find(&format!("{name} ("))
                .unwrap_or_else(|| panic!("no {name}"));
            let text = &guide[start + name.len() + 2..];
            let default = text.split(')').next().unwrap_or_default();
            assert_default::<Section>(facts.name, default);
        }
    }
}

#[test]
fn the_guide_lists_all_keys_and_flags_of_emulate() {
    assert_table("emulate.md", &section::Section::declared());
}

#[test]
fn the_guide_lists_all_keys_and_flags_of_load() {
    assert_table("load.md", &load::Section::declared());
}

fn assert_table(guide_name: &str, declared: &[Facts]) {
    let guide = guide(guide_name);
    let table = guide.split("| key | flag |").nth(1).expect("a table");
    let table = table.split("\n\n").next().expect("its end");
    for facts in declared {
        let name = format!("`{}`", facts.name);
        let row = table.lines().find(|line| line.contains(&name));
        let row = row.unwrap_or_else(|| panic!("no {name} in {table}"));
        let same = facts
            .long
            .is_some_and(|long| long.replace('-', "_") == facts.name);
        assert!(
            row.contains(&facts.flag())
                || row.contains(&long_or_short(facts))
                || same && row.contains("the same"),
            "{name}: no {} in {row}",
            facts.flag()
        );
    }
}
