//! The table for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use lineside_run::doctor::{Condition, Doctor, Finding};
use lineside_words::escape;

/// How wide the first columns are.
const LEAD: usize = 26;

/// What was found, in lines.
pub fn doctor(found: &Doctor) -> String {
    let mut out = String::new();
    for finding in &found.findings {
        let state = match finding.state {
            Condition::Good => "good",
            Condition::Limited => "limited",
            Condition::Missing => "missing",
            Condition::Unknown => "unknown",
        };
        let what = finding.what.replace('_', " ");
        let _ = writeln!(out, "{state:<9}{what:<17}{}", subject(finding));
        let _ = writeln!(out, "{:LEAD$}{}", "", escape(&finding.effect));
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(out, "{:LEAD$}try: {}", "", escape(remedy));
        }
    }
    out.push_str(&facts(&found.facts));
    out.push_str(match found.can_capture {
        true => "Interfaces can be captured from.\n",
        false => "Live capture is not possible (see above). Reading files works.\n",
    });
    out
}

/// Facts about a machine, a line each.
pub fn facts(of: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    for (name, value) in of {
        let _ = writeln!(out, "{:<35} {}", escape(name), escape(value));
    }
    out
}

fn subject(finding: &Finding) -> String {
    match &finding.interface {
        Some(interface) => format!("{}: {}", escape(interface), escape(&finding.found)),
        None => escape(&finding.found),
    }
}
