//! One binary for all fuzz targets: `LINESIDE_FUZZ` names the one to run (see `run`).
#![no_main]

mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("LINESIDE_FUZZ").unwrap_or_default();
        targets::by_name(&name).unwrap_or_else(|| {
            eprintln!("LINESIDE_FUZZ must name a target: {:?}", targets::names());
            std::process::exit(2)
        })
    });
    target(data);
});
