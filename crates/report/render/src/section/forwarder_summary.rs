//! The certificate of a forwarder on the first screen.

use lineside_analyze::{Forwarding, share};
use lineside_trace::certificate::forward::{ForwardNode, ForwardService};
use lineside_words::{grouped, percent};

use super::forwarder::facts;
use crate::block::{Line, line};

/// Services, and nodes of one, that are shown; the others are counted.
const SHOWN: usize = 4;

/// The certificate in lines, the most telling first.
pub(crate) fn summary(it: &Forwarding) -> Vec<Line> {
    let facts = facts(it);
    let mut lines: Vec<Line> = { facts.iter() }
        .map(|fact| match fact.note.as_str() {
            "" => line(fact.label, [fact.value.clone()]),
            note => line(fact.label, [fact.value.clone(), note.to_owned()]),
        })
        .collect();
    for service in it.services.iter().take(SHOWN) {
        lines.extend(service_lines(service));
    }
    let more = it.services.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.push(line("service", [format!("{more} more")]));
    }
    for line in &mut lines {
        line.lines_max = 2;
    }
    lines
}

fn service_lines(service: &ForwardService) -> Vec<Line> {
    let whole = [
        format!("{} {}", service.transport, service.address),
        format!("{} connections began", grouped(service.opened)),
        format!("{} now", grouped(service.connections)),
    ];
    let opened: u64 = service.nodes.iter().map(|node| node.opened).sum();
    let node = |node: &ForwardNode| {
        let checks = match node.checks_bad {
            0 => String::new(),
            bad => format!("{} checks bad", grouped(bad)),
        };
        let parts = [
            format!("{} {}", node.address, node.state),
            format!(
                "{} began ({})",
                grouped(node.opened),
                percent(share(node.opened, opened))
            ),
            format!("{} now", grouped(node.connections)),
            checks,
        ];
        line("  node", parts)
    };
    let mut lines = vec![line("service", whole)];
    lines.extend(service.nodes.iter().take(SHOWN).map(node));
    let more = service.nodes.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.push(line("  node", [format!("{more} more")]));
    }
    lines
}
