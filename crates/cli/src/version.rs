//! `lineside version`: what this program was built with.

use crate::exit::Exit;
use crate::print::print;

pub(crate) fn run() -> anyhow::Result<Exit> {
    print(&text())?;
    Ok(Exit::Done)
}

pub(crate) fn text() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let commit = option_env!("LINESIDE_COMMIT").unwrap_or("not recorded at the build");
    format!(
        "lineside {}\ncommit       {commit}\nprofile      {profile}\ntarget       {}-{}\n\
        live         AF_PACKET, AF_XDP, TAP\nschema       tables {}, report {}, compare {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        lineside_trace::SCHEMA_VERSION,
        lineside_analyze::REPORT_VERSION,
        lineside_analyze::COMPARE_VERSION,
    )
}
