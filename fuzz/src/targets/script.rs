//! Scripts of `tcp-drill`: any text. What is read can be changed by seed, and is named with a line
//! of the text if it cannot be read.

use lineside_testkit::drill::{mutated, parse};

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().count() as u32 + 1;
    match parse(&text, &["STANDARD"]) {
        Ok(script) => {
            if let Some((_, what)) = mutated(&script, data.len() as u64) {
                assert!(!what.is_empty());
            }
        }
        Err(fault) => assert!(
            (1..=lines).contains(&fault.line),
            "{fault:?} of {lines} lines"
        ),
    }
}
