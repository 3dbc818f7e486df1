//! A plan's figures as lines of text.

use std::fmt::Write;

use lineside_analyze::{Plan, share};
use lineside_plan::Figures;
use lineside_words::{escape, grouped, percent, time};

/// What calls waited for, how deep windows are, and what is not known.
pub fn plan(plan: &Plan) -> String {
    let figures = &plan.figures;
    let mut out = String::new();
    let line = |out: &mut String, name: &str, text: &str| {
        let _ = writeln!(out, "{name:<12} {text}");
    };
    line(&mut out, "trace", &escape(&plan.trace));
    let lasted = plan.first_ns.zip(plan.last_ns);
    let lasted = lasted.map_or(0, |(first, last)| last.abs_diff(first));
    line(
        &mut out,
        "calls",
        &format!(
            "{} in {}, {} connections opened, {} threads",
            grouped(figures.calls),
            time(lasted),
            grouped(figures.openings),
            grouped(figures.threads)
        ),
    );
    for (number, what) in causes(figures) {
        if number > 0 {
            let share = percent(share(number, figures.events()));
            let _ = writeln!(out, "  {share:>8}  {what}");
        }
    }
    line(
        &mut out,
        "thought",
        &format!(
            "{} in all, at most {} each",
            time(figures.think_ns),
            time(plan.idle_ns.unsigned_abs())
        ),
    );
    line(
        &mut out,
        "edges",
        &format!(
            "{} trigger, {} window, {} resource",
            grouped(figures.trigger_edges),
            grouped(figures.window_edges),
            grouped(figures.resource_edges)
        ),
    );
    line(
        &mut out,
        "runs",
        &format!(
            "{} of READs or WRITEs of a file, with {} of the calls",
            grouped(figures.runs),
            percent(share(figures.run_calls, figures.events()))
        ),
    );
    depths(figures, &mut out);
    unknown(plan, &mut out);
    out
}

fn causes(figures: &Figures) -> [(u64, &'static str); 5] {
    [
        (figures.by_reply, "after a reply of their thread"),
        (
            figures.by_window,
            "after a reply of their run, whose window was full",
        ),
        (
            figures.by_spawn,
            "first of a thread, after the reply that has what they use",
        ),
        (
            figures.by_guess,
            "first of a thread, after the latest reply of the client: a guess",
        ),
        (
            figures.by_time,
            "at a time of day: after nothing that was seen, or an idle time",
        ),
    ]
}

fn depths(figures: &Figures, out: &mut String) {
    /// Depths that are listed: those with most calls.
    const LINES_MAX: usize = 8;
    let mut depths = figures.depths.clone();
    depths.sort_by_key(|of| std::cmp::Reverse((of.calls, of.depth)));
    let more = depths.len().saturating_sub(LINES_MAX);
    depths.truncate(LINES_MAX);
    depths.sort_by_key(|of| of.depth);
    for of in depths {
        let full = of.runs - of.bounds;
        let _ = writeln!(
            out,
            "  depth {:>3}  {} runs, {} calls: windows full in {}, a lower bound in {}",
            of.depth,
            grouped(of.runs),
            grouped(of.calls),
            grouped(full),
            grouped(of.bounds)
        );
    }
    if more > 0 {
        let _ = writeln!(out, "  {more} more depths: --json has all");
    }
}

/// What the plan does not know, one line each.
fn unknown(plan: &Plan, out: &mut String) {
    let (figures, left_out) = (&plan.figures, &plan.left_out);
    let bounds: u64 = figures.depths.iter().map(|of| of.bounds).sum();
    let facts = [
        (
            bounds,
            "runs may have a greater depth: replies came before their windows were full, or within 1 ms",
        ),
        (
            figures.unanswered,
            "calls have no reply: what came after them is not known",
        ),
        (
            left_out.calls_not_seen,
            "rows lack the call, or its time, and are left out",
        ),
        (
            left_out.repeats,
            "calls came again, which is the transport's doing, and are left out",
        ),
        (
            left_out.callbacks,
            "calls are a server's (callbacks), and are left out",
        ),
        (
            left_out.other_protocols,
            "requests of other protocols are left out",
        ),
        (
            left_out.openings_not_seen,
            "connections were open before the capture, or their opening was not seen",
        ),
        (
            left_out.of_load,
            "calls are requests of a load, whose rows lack what replies named: nothing waits for that",
        ),
        (
            figures.forgotten,
            "files, names and states were forgotten for lack of memory: edges from them are missing",
        ),
    ];
    for (at, (number, what)) in facts.iter().filter(|(number, _)| *number > 0).enumerate() {
        let name = if at == 0 { "not known" } else { "" };
        let _ = writeln!(out, "{name:<12} {} {what}", grouped(*number));
    }
    if !plan.lacks.is_empty() {
        let _ = writeln!(
            out,
            "{:<12} an older lineside wrote no {}",
            "",
            escape(&plan.lacks.join(", "))
        );
    }
}
