//! Two traces compared call by call, for a terminal: first the answer, then counts, the worst
//! examples, and the division of the time.

use std::fmt::Write;

use lineside_analyze::{
    CallDifference, CallRule, ClientCalls, ComparedCalls, Comparison, DifferenceKind, DividedTime,
    tail,
};
use lineside_words::{escape, grouped, signed_time, time};

use crate::comparison::{side, wrapped};
use crate::text::Style;

/// Columns of a path.
const PATH_MAX: usize = 30;

/// What `compare --calls` prints.
pub fn compared_calls(comparison: &Comparison, style: &Style) -> String {
    let Some(calls) = &comparison.calls else {
        return String::new();
    };
    let mut out = String::new();
    let mut answer = calls.answer.clone();
    answer[..1].make_ascii_uppercase();
    wrapped("", &format!("{answer}."), style, &mut out);
    out.push('\n');
    side("A", &comparison.a, style, &mut out);
    side("B", &comparison.b, style, &mut out);
    for doubt in &comparison.doubts {
        wrapped("! ", doubt, style, &mut out);
    }
    if comparison.doubts.is_empty() {
        out += "Both are complete: they may be compared.\n";
    }
    out.push('\n');
    counts(calls, style, &mut out);
    for (kind, heading) in [
        (DifferenceKind::Missing, "Missing in B, the first"),
        (DifferenceKind::Added, "Added in B, the first"),
        (DifferenceKind::OtherStatus, "Another status, the first"),
        (DifferenceKind::OtherContent, "Other content, the first"),
        (DifferenceKind::Later, "Later in B, by most"),
        (DifferenceKind::Earlier, "Earlier in B, by most"),
    ] {
        let mut all = calls
            .differences
            .iter()
            .filter(|each| each.kind == kind)
            .peekable();
        if all.peek().is_some() {
            let _ = writeln!(out, "\n{}", style.heading(heading));
        }
        all.for_each(|each| example(each, style, &mut out));
    }
    division(calls, style, &mut out);
    out
}

fn counts(calls: &ComparedCalls, style: &Style, out: &mut String) {
    let rule = match calls.rule {
        CallRule::Source => "by source_operation_id",
        CallRule::Xid => "by client, xid and operation",
        CallRule::Order => "by client, file, what they ask for, and order",
    };
    let pairs = grouped(calls.pairs);
    let without = grouped(calls.missing + calls.added);
    let mut content = vec![grouped(calls.other_content)];
    content.extend(positive([
        (calls.other_range, "another range"),
        (calls.other_arguments, "other arguments"),
        (calls.other_size, "another size"),
        (calls.other_data.unwrap_or_default(), "other data"),
    ]));
    if calls.other_data.is_none() {
        content.push("no checksums of data in both: data are not compared".to_owned());
    }
    let than = time(calls.tolerance_ns);
    let times = |count: u64, own: u64| {
        let own = match own {
            0 => String::new(),
            own => format!("; after what they waited for: {}", grouped(own)),
        };
        format!(
            "{} by more than {than} since the begin{own}",
            grouped(count)
        )
    };
    let lines = [
        (
            "correspond",
            format!("{pairs} calls, {rule}; {without} without a partner"),
        ),
        ("missing", grouped(calls.missing)),
        ("added", grouped(calls.added)),
        ("other status", grouped(calls.other_status)),
        ("other content", content.join(", ")),
        ("later", times(calls.later, calls.later_themselves)),
        ("earlier", times(calls.earlier, calls.earlier_themselves)),
    ];
    let clients = calls.clients.iter().map(|of| ("  client", client(of)));
    let left = [("A", &calls.a), ("B", &calls.b)]
        .into_iter()
        .filter_map(|(name, of)| {
            let left = positive([
                (of.repeats, "sent again"),
                (of.calls_not_seen, "replies without their call"),
            ]);
            let left: Vec<String> = left.collect();
            (!left.is_empty()).then(|| ("left out", format!("of {name}: {}", left.join(", "))))
        });
    for (name, text) in lines.into_iter().chain(clients).chain(left) {
        wrapped(&format!("{name:<14}"), &text, style, out);
    }
}

/// Counts that are not 0, each with what it counts.
fn positive<const N: usize>(counts: [(u64, &'static str); N]) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{} {what}", grouped(count)))
}

fn client(of: &ClientCalls) -> String {
    let counts = positive([
        (of.missing, "missing"),
        (of.added, "added"),
        (of.other_status, "other status"),
        (of.other_content, "other content"),
        (of.later, "later"),
        (of.earlier, "earlier"),
    ]);
    let counts: Vec<String> = counts.collect();
    let mean = match of.pairs {
        0 => String::new(),
        _ => format!("; in the mean {}", later(of.later_mean_ns)),
    };
    format!("{}: {}{mean}", escape(&of.client), counts.join(", "))
}

fn example(of: &CallDifference, style: &Style, out: &mut String) {
    let when = of
        .a_time_ns
        .or(of.b_time_ns)
        .map_or_else(String::new, |ns| style.zone.date(ns));
    let (name, id) = match of.a_operation_id {
        Some(id) => ("A", Some(id)),
        None => ("B", of.b_operation_id),
    };
    let id = id.map_or_else(String::new, |id| format!(" ({id} of {name})"));
    let path = { of.path.as_ref() }.map_or_else(String::new, |path| {
        format!(" {}", tail(&escape(path), PATH_MAX))
    });
    let by = of
        .later_ns
        .map_or_else(String::new, |ns| format!(" {}", later(ns)));
    let what = match of.what.as_str() {
        "" => String::new(),
        what => format!(":{by} {what}"),
    };
    let (client, operation) = (escape(&of.client), escape(&of.operation));
    wrapped(
        "- ",
        &format!("{when} {client} {operation}{path}{what}{id}"),
        style,
        out,
    );
}

/// A part of a time, by its name.
type Part<'a> = (&'a str, fn(&DividedTime) -> i64);

fn division(calls: &ComparedCalls, style: &Style, out: &mut String) {
    let _ = writeln!(out, "\n{}", style.heading("Where the time goes"));
    let _ = writeln!(
        out,
        "{:<22} {:>10} {:>10} {:>12}",
        "", "A", "B", "difference"
    );
    let mut lines = |name: &str, [a, b]: [DividedTime; 2], has_client: bool| {
        let parts: [Part<'_>; 4] = [
            (name, |of| of.total_ns),
            ("  server", |of| of.server_ns),
            ("  network", |of| of.network_ns),
            ("  client", |of| of.client_ns),
        ];
        for (name, part) in parts.into_iter().take(3 + usize::from(has_client)) {
            let (a, b) = (part(&a), part(&b));
            let by = b.saturating_sub(a);
            let by = later(by);
            let [a, b] = [a, b].map(|ns| time(ns.unsigned_abs()));
            let _ = writeln!(out, "{name:<22} {a:>10} {b:>10} {by:>12}");
        }
    };
    if let [Some(a), Some(b)] = calls.elapsed {
        lines("elapsed", [a, b], true);
    }
    if let Some(pairs) = i64::try_from(calls.response_pairs)
        .ok()
        .filter(|pairs| *pairs > 0)
    {
        let mean = calls.response.map(|of| DividedTime {
            total_ns: of.total_ns / pairs,
            server_ns: of.server_ns / pairs,
            network_ns: of.network_ns / pairs,
            client_ns: 0,
        });
        lines("response, in the mean", mean, false);
    }
}

/// A difference of times with its sign.
fn later(ns: i64) -> String {
    match ns {
        0 => "0".to_owned(),
        1.. => format!("+{}", signed_time(ns as f64)),
        _ => signed_time(ns as f64),
    }
}
