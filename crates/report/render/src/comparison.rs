//! A comparison of two traces for a terminal.

use std::fmt::Write;

use lineside_analyze::{
    Appearance, Appearances, Comparison, Course, Side, change_words, tail, who,
};
use lineside_trace::State;
use lineside_words::{grouped, time};

use crate::text::{SCREEN, Style, WIDTH, lines_of};

/// The comparison for a terminal: one screen, or all of it.
pub fn comparison(comparison: &Comparison, full: bool, style: &Style) -> String {
    let mut out = style.heading("What changed from A to B") + "\n";
    side("A", &comparison.a, style, &mut out);
    side("B", &comparison.b, style, &mut out);
    for doubt in &comparison.doubts {
        let kept = if full {
            doubt.clone()
        } else {
            head(doubt, 2 * WIDTH - 4)
        };
        wrapped("! ", &kept, style, &mut out);
    }
    let is_empty =
        comparison.comparisons == 0 || comparison.a.operations == 0 || comparison.b.operations == 0;
    if !is_empty {
        changes(comparison, full, style, &mut out);
    }
    if full {
        tables(comparison, style, &mut out);
    }
    out
}

pub(crate) fn side(name: &str, side: &Side, style: &Style, out: &mut String) {
    let verdict = side.verdict.map_or_else(
        || "no verdict".to_owned(),
        |state| match state {
            State::Complete => "complete".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        },
    );
    let when = side
        .start_ns
        .map_or_else(String::new, |start| format!("{}, ", style.zone.date(start)));
    let text = format!(
        "{}: {when}{}, {} operations, {} clients, {verdict}",
        tail(&side.asked.trace, 24),
        time(side.duration_ns),
        grouped(side.operations),
        grouped(side.clients),
    );
    wrapped(&format!("{name}  "), &text, style, out);
}

fn changes(comparison: &Comparison, full: bool, style: &Style, out: &mut String) {
    // The last two lines say what is not shown, and how sure the rest is.
    let room = SCREEN - 3;
    let mut shown = 0;
    let mut last = None;
    for change in &comparison.changes {
        let mut text = String::new();
        if last != Some(change.course) {
            let heading = match change.course {
                Course::Worse => "Worse",
                Course::Different => "Different",
                Course::Better => "Better",
            };
            text += &format!("\n{}\n", style.heading(heading));
        }
        let since = change
            .since_ns
            .map_or_else(String::new, |ns| format!(", since {}", style.zone.date(ns)));
        wrapped("- ", &format!("{}{since}", change.what), style, &mut text);
        if !full && out.lines().count() + text.lines().count() > room {
            break;
        }
        *out += &text;
        last = Some(change.course);
        shown += 1;
    }
    let left = comparison.changes.len() - shown;
    let others = comparison.unchanged.len() as u64;
    if comparison.changes.is_empty() {
        let sides = [&comparison.a, &comparison.b];
        let heading = match sides.iter().any(|side| side.is_short()) {
            true => "Too short to be sure whether anything changed",
            false => "Nothing changed that chance does not explain",
        };
        let _ = writeln!(out, "\n{}", style.heading(heading));
    } else if left > 0 {
        let _ = writeln!(
            out,
            "\n{left} more changes, and {others} figures that are no news: --full"
        );
    } else if !full {
        let _ = writeln!(
            out,
            "\n{others} further figures are no news: --full lists them"
        );
    }
    let all = format!(
        "{} figures were compared; all intervals together hold 99 times of 100, and a ratio below \
        1.1 is no news.",
        grouped(comparison.comparisons)
    );
    wrapped("", &all, style, out);
}

fn tables(comparison: &Comparison, style: &Style, out: &mut String) {
    let _ = writeln!(out, "\n{}", style.heading("No news"));
    for compared in &comparison.unchanged {
        wrapped(
            "- ",
            &change_words(std::slice::from_ref(compared), None),
            style,
            out,
        );
    }
    for (name, only) in [("A", &comparison.only_in_a), ("B", &comparison.only_in_b)] {
        let Appearances {
            files,
            busiest_files,
            clients,
            servers,
            operations,
            outcomes,
        } = only;
        let lists = [clients, servers, operations, outcomes, busiest_files];
        if lists.iter().all(|list| list.is_empty()) {
            continue;
        }
        let _ = writeln!(out, "\n{}", style.heading(&format!("Only in {name}")));
        if *files > 0 {
            let _ = writeln!(out, "  {} files; the busiest:", grouped(*files));
        }
        for Appearance {
            subject,
            operations,
        } in lists.into_iter().flatten()
        {
            wrapped(
                "- ",
                &format!("{}: {}", who(subject), grouped(*operations)),
                style,
                out,
            );
        }
    }
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        for reason in &side.reasons {
            wrapped(&format!("{name}: "), reason, style, out);
        }
    }
}

/// Writes a text after `lead`, its further lines below the first.
pub(crate) fn wrapped(lead: &str, text: &str, style: &Style, out: &mut String) {
    for line in lines_of(lead, text, style.width) {
        *out += &line;
        out.push('\n');
    }
}

/// The begin of a text that has to be short.
fn head(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
