//! `lineside version`: what this program was built with.

use crate::exit::Exit;
use crate::print::print;

/// The version, and the commit where the build script found one: what `--version` prints.
pub(crate) const VERSION: &str = env!("LINESIDE_VERSION");

pub(crate) fn run() -> anyhow::Result<Exit> {
    print(&text())?;
    Ok(Exit::Done)
}

pub(crate) fn text() -> String {
    let commit = option_env!("LINESIDE_COMMIT").unwrap_or("not recorded at the build");
    format!(
        "lineside {}\ncommit       {commit}\nprofile      {}\ntarget       {}-{}\n\
        live         AF_PACKET, AF_XDP, TAP\nschema       tables {}, report {}, compare {}\n",
        env!("CARGO_PKG_VERSION"),
        env!("LINESIDE_PROFILE"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        lineside_trace::SCHEMA_VERSION,
        lineside_analyze::REPORT_VERSION,
        lineside_analyze::COMPARE_VERSION,
    )
}
