//! The content of a report: its first screen, and its sections, most important first.

use lineside_analyze::{Report, Zone};
use lineside_words::{grouped, percent};

use crate::block::{Block, Section};
use crate::section::{
    capture, forwarder, link, load, load_pictures, monitors, replay, two_taps, usage,
};
use crate::summary::{Summary, chosen, insights, title};

/// A report in words.
pub(crate) struct Page {
    pub(crate) title: String,
    /// When, from what, and which operations.
    pub(crate) about: Vec<String>,
    /// The certificate of an emulated link, of a forwarder, of a load or of a replay.
    pub(crate) certificate: Vec<Section>,
    /// The first screen.
    pub(crate) summary: Summary,
    /// Everything, most important first.
    pub(crate) sections: Vec<Section>,
    pub(crate) footer: String,
}

/// The report in words, with the times of a zone.
pub(crate) fn page(report: &Report, zone: &Zone) -> Page {
    let of_load = report.load.as_ref();
    let certificate = { report.emulation.as_ref() }
        .map(link::sections)
        .or_else(|| of_load.map(|load| vec![load::section(load)]))
        .or_else(|| {
            let forwarding = report.forwarding.as_ref()?;
            Some(forwarder::sections(forwarding, zone))
        })
        .or_else(|| Some(vec![replay::section(report.replay.as_ref()?)]));
    // Without a tap, the link is all that there is to report.
    let is_alone =
        certificate.is_some() && report.understood.is_none() && report.totals.operations == 0;
    let mut certificate = certificate.unwrap_or_default();
    if is_alone {
        // What stands out comes before what is drawn.
        certificate.splice(1..1, findings(report, zone));
    }
    // What a load's own pictures show is not drawn again.
    let pictures = of_load.map_or_else(Vec::new, |load| load_pictures::pictures(load, zone));
    let before = [
        capture::missing(report, zone),
        findings(report, zone),
        two_taps::section(&report.trace.two_taps),
        capture::workload(report),
        capture::over_time(&report.over_time, zone).filter(|_| pictures.is_empty()),
        capture::errors(report, zone),
        capture::again(&report.operations),
        capture::operations(&report.operations),
        capture::directions(report),
        capture::wire(report),
    ];
    let monitors = report.monitors.iter();
    let monitors = monitors.flat_map(|monitors| monitors::sections(monitors, zone));
    let after = [
        usage::busiest("files", "File", &report.files),
        usage::busiest("directories", "Directory", &report.directories),
        usage::busiest("other objects", "Object", &report.objects),
        usage::busiest("clients", "Client", &report.clients),
        // One has what the totals show.
        (report.servers.count > 1)
            .then(|| usage::busiest("servers", "Server", &report.servers))
            .flatten(),
        usage::storms(report, zone),
        usage::misaligned(report),
        usage::busiest("pairs of client and file", "Client", &report.pairs),
        usage::busiest("users", "User", &report.users),
    ];
    Page {
        title: title(report),
        about: about(report, zone),
        certificate,
        summary: Summary::of(report, zone, is_alone),
        sections: { pictures.into_iter().chain(before.into_iter().flatten()) }
            .filter(|_| !is_alone)
            .chain(monitors)
            .chain(after.into_iter().flatten().filter(|_| !is_alone))
            .collect(),
        footer: footer(report),
    }
}

fn about(report: &Report, zone: &Zone) -> Vec<String> {
    let totals = &report.totals;
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (totals.first_ns, totals.last_ns) {
        lines.push(zone.span(first, last));
    }
    let inputs = &report.trace.inputs;
    for input in inputs.iter().take(3) {
        lines.push(format!("from {} ({})", input.name, input.format));
    }
    if inputs.len() > 3 {
        lines.push(format!("and {} more", inputs.len() - 3));
    }
    lines.extend(chosen(report, zone).map(|chosen| format!("only {chosen}")));
    lines
}

fn findings(report: &Report, zone: &Zone) -> Option<Section> {
    (!report.findings.is_empty()).then(|| Section {
        heading: format!("What stands out: {}", grouped(report.findings.len() as u64)),
        note: "Worst first: what clients waited for, then what concerns most operations."
            .to_owned(),
        blocks: vec![Block::Findings(insights(report, zone))],
    })
}

fn footer(report: &Report) -> String {
    let (trace, parameters) = (&report.trace, &report.parameters);
    format!(
        "Trace {}, schema {}, written by {}. Quantiles are within {} of the exact ones ({} over \
        time); counts, sums, least \
         and most are exact. At most {} files, {} clients, {} users and {} pairs of clients and \
         shared files are distinguished.",
        trace.trace_id,
        trace.schema_version,
        trace.tool,
        percent(parameters.quantile_error_share),
        percent(parameters.quantile_over_time_error_share),
        grouped(parameters.files_max),
        grouped(parameters.clients_max),
        grouped(parameters.users_max),
        grouped(parameters.pairs_max),
    )
}
