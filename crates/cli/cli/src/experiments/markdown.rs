//! Two labs beside each other as Markdown, for a pull request.

use std::fmt::Write;
use std::path::Path;

use lineside_lab::{Change, Compared, Experiment};
use lineside_words::{escape, grouped, percent};

/// States, the worst first.
const STATES: [&str; 5] = ["worse", "undecided", "changed", "better", "same"];

/// What differs, the worst first; what does not is folded.
pub(super) fn compared(of: &Compared, lab: &Experiment, [a, b]: [&Path; 2]) -> String {
    let count = |state: &str| {
        of.changes
            .iter()
            .filter(|change| change.state == state)
            .count()
    };
    let counts = { STATES.iter() }.filter(|state| count(state) > 0);
    let counts: Vec<_> = counts
        .map(|state| format!("{} {state}", count(state)))
        .collect();
    let name = |path: &Path| text(&path.display().to_string());
    let mut out = format!("### {} to {}: {}\n", name(a), name(b), counts.join(", "));
    let (same, other): (Vec<&Change>, Vec<&Change>) =
        of.changes.iter().partition(|change| change.state == "same");
    let mut other = other;
    other.sort_by_key(|change| STATES.iter().position(|state| *state == change.state));
    table(&other, lab, &mut out);
    if !same.is_empty() {
        let _ = write!(out, "\n<details><summary>{} same</summary>\n", same.len());
        table(&same, lab, &mut out);
        out.push_str("\n</details>\n");
    }
    let (both, all) = of.points;
    let noise = of.noise.map_or_else(String::new, |noise| {
        format!(
            ", and beyond {}, by which A differs from itself",
            percent(noise)
        )
    });
    let _ = writeln!(
        out,
        "\n{} of {} points are in both. A change counts beyond {}{noise}, with an interval beyond \
         no change.",
        grouped(both as u64),
        grouped(all as u64),
        percent(of.threshold)
    );
    out
}

fn table(changes: &[&Change], lab: &Experiment, out: &mut String) {
    if changes.is_empty() {
        return;
    }
    out.push_str("\n| metric | point | B to A | 95 % | pairs | |\n|---|---|--:|--:|--:|---|\n");
    for change in changes {
        let ratio = change
            .ratio
            .map_or_else(|| "-".to_owned(), |it| format!("{:.3}", it.value));
        let interval = change.ratio.and_then(|it| it.low.zip(it.high));
        let interval = interval.map(|(low, high)| format!("{low:.3} to {high:.3}"));
        let at = { change.at.as_ref() }.map(|at| super::print::axes(lab, at));
        let _ = writeln!(
            out,
            "| {} | {} | {ratio} | {} | {} | {} |",
            text(&change.metric),
            at.map_or_else(|| "all".to_owned(), |at| text(&at)),
            interval.unwrap_or_else(|| "-".to_owned()),
            change.pairs,
            match change.state {
                "worse" => "**worse**",
                state => state,
            }
        );
    }
}

/// A text that stays in its cell, whatever it holds.
fn text(text: &str) -> String {
    let mut out = String::new();
    for character in escape(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '[' | ']' | '\\' | '@' => {
                let _ = write!(out, "&#{};", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_lab_stay_words() {
        assert_eq!(text("a|b"), "a&#124;b");
        assert_eq!(
            text("<img src=x>\n@all"),
            "&lt;img src=x&gt;&#92;u{a}&#64;all"
        );
    }
}
