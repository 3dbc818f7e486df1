//! What a machine offers to live runs, what is precise to what because of it, and what helps.

mod form;
mod interfaces;
mod kernel;
mod machine;

use std::path::Path;

use lineside_host::MachineFacts;

pub use form::{Condition, DOCTOR_VERSION, Doctor, Finding, Wake};

/// Looks at the machine; takes a fifth of a second.
pub fn examine(interfaces: &[String], out: Option<&Path>) -> Doctor {
    let (wake, mut findings) = machine::of_time();
    let (of_kernel, may_capture) = kernel::findings();
    findings.splice(0..0, of_kernel);
    let (of_interfaces, any_usable) = interfaces::findings(interfaces, may_capture);
    findings.extend(of_interfaces);
    findings.extend(machine::of_limits());
    findings.extend(out.map(machine::of_disk));
    Doctor {
        version: DOCTOR_VERSION.to_owned(),
        lineside: env!("CARGO_PKG_VERSION").to_owned(),
        can_capture: may_capture && any_usable,
        findings,
        wake,
        facts: MachineFacts::read().by_name(),
    }
}
