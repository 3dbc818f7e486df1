//! Interfaces: how each would be captured, and what stamps its frames.

use lineside_port::Method;
use lineside_port::live::{Interface, Offers, choice};

use super::form::{finding, helped};
use super::{Condition, Finding};

/// What was found, and whether one of them can be captured from.
pub(super) fn findings(names: &[String], may_capture: bool) -> (Vec<Finding>, bool) {
    if names.is_empty() {
        return all();
    }
    let mut any_usable = false;
    let mut found = Vec::new();
    for name in names {
        match Interface::named(name) {
            Ok(interface) => {
                any_usable |= interface.is_up;
                found.extend(
                    [mode(&interface, may_capture), stamps(&interface)].map(|finding| Finding {
                        interface: Some(name.clone()),
                        ..finding
                    }),
                );
            }
            Err(error) => found.push(Finding {
                interface: Some(name.clone()),
                ..helped(
                    finding(
                        "interface",
                        Condition::Missing,
                        error.to_string(),
                        "nothing can be captured there",
                    ),
                    "ip link",
                )
            }),
        }
    }
    (found, any_usable)
}

/// Without names: which there are, in a line.
fn all() -> (Vec<Finding>, bool) {
    let interfaces = match Interface::all() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            let effect = "interfaces cannot be looked up";
            let found = finding("interfaces", Condition::Unknown, error.to_string(), effect);
            return (vec![found], false);
        }
    };
    let up: Vec<&str> = { interfaces.iter() }
        .filter(|interface| interface.is_up)
        .map(|interface| interface.name.as_str())
        .collect();
    if up.is_empty() {
        let found = finding(
            "interfaces",
            Condition::Missing,
            "none is up",
            "nothing can be captured",
        );
        return (vec![helped(found, "sudo ip link set IF up")], false);
    }
    let effect = "'-i IF' has the method and the stamps of each";
    let found = finding(
        "interfaces",
        Condition::Good,
        format!("up: {}", up.join(", ")),
        effect,
    );
    (vec![found], true)
}

fn mode(interface: &Interface, may_capture: bool) -> Finding {
    let of = |state, found: String, effect: &str| finding("interface", state, found, effect);
    if !interface.is_up {
        let effect = "nothing can be captured there";
        let found = of(Condition::Missing, "it is down".to_owned(), effect);
        return helped(found, format!("sudo ip link set {} up", interface.name));
    }
    let native = match Offers::of(interface).native_xdp {
        Some(true) => "its driver has native AF_XDP",
        Some(false) => "its driver has no native AF_XDP, the kernel's generic one works",
        None => "its driver may have native AF_XDP (Linux 6.3 would say)",
    };
    let (method, reason) = choice(interface);
    let found = format!("{method} by default: {reason}; {native}");
    let (state, effect) = match (may_capture, method) {
        (false, _) => (Condition::Missing, "not permitted: see af_packet above"),
        (true, Method::AfPacket) => (
            Condition::Good,
            "frames come within 20 ms, stamped where the kernel takes them from the driver",
        ),
        (true, _) => (
            Condition::Good,
            "frames are taken from the host, and come at once",
        ),
    };
    if interface.joins_frames() && method == Method::AfPacket {
        let effect = "the kernel joins frames of a stream before they are seen: sizes and times \
                      are those of what it joined";
        let found = of(Condition::Limited, found, effect);
        return helped(found, format!("sudo ethtool -K {} gro off", interface.name));
    }
    of(state, found, effect)
}

fn stamps(interface: &Interface) -> Finding {
    let offers = Offers::of(interface);
    let effect = "lineside stamps in software: the wait in the adapter (interrupt coalescing, \
                  often 10 to 100 us) is part of each stamp";
    let of = |state, found: &str| finding("stamps", state, found, effect);
    match (offers.software_stamps, offers.hardware_stamps) {
        (_, Some(true)) => helped(
            of(Condition::Limited, "software; the adapter could as well"),
            format!("sudo ethtool -C {} rx-usecs 0", interface.name),
        ),
        (Some(_), _) => of(Condition::Good, "software, by the kernel"),
        (None, _) => of(Condition::Unknown, "the driver does not say"),
    }
}
