//! Features of the kernel, and what this process may use of them.

use lineside_host::{Availability, Capability, KernelFeatures, Privileges};

use super::form::{finding, helped};
use super::{Condition, Finding};

const WANTED: [Capability; 4] = [
    Capability::NetRaw,
    Capability::NetAdmin,
    Capability::Bpf,
    Capability::IpcLock,
];

/// What was found, and whether packets can be had at all.
pub(super) fn findings() -> (Vec<Finding>, bool) {
    let features = KernelFeatures::probe();
    let may_capture = features.packet_sockets == Availability::Usable;
    let found = vec![
        packet_sockets(features.packet_sockets),
        xdp(&features),
        landlock(features.landlock),
        simple(
            "seccomp",
            features.seccomp,
            "system calls can be filtered",
            "a kernel with CONFIG_SECCOMP_FILTER",
        ),
        simple(
            "io_priorities",
            features.io_priorities,
            "writing can yield to other programs' I/O",
            "a container whose filter of system calls allows ioprio_set",
        ),
        privileges(),
    ];
    (found, may_capture)
}

fn packet_sockets(state: Availability) -> Finding {
    let of = |state, found: &str, effect| finding("af_packet", state, found, effect);
    match state {
        Availability::Usable => of(
            Condition::Good,
            "usable",
            "any interface can be captured, beside the host's own use of it",
        ),
        Availability::Denied => helped(
            of(
                Condition::Missing,
                "there, and not permitted",
                "no interface can be captured; files and pipes can",
            ),
            remedy(&[Capability::NetRaw]),
        ),
        Availability::Absent => helped(
            of(
                Condition::Missing,
                "the kernel has none",
                "no interface can be captured; files and pipes can",
            ),
            "a kernel with CONFIG_PACKET (modprobe af_packet)",
        ),
    }
}

/// AF_XDP takes a socket, programs, and the right to attach them.
fn xdp(features: &KernelFeatures) -> Finding {
    let wanted = [Capability::NetRaw, Capability::NetAdmin, Capability::Bpf];
    let held = Privileges::read().is_ok_and(|held| held.require(&wanted).is_ok());
    let of = |state, found: &str| {
        let effect = match state {
            Condition::Good => "frames are stamped on arrival, past the network stack",
            _ => "captures use AF_PACKET; emulate and forward between interfaces lose speed",
        };
        finding("af_xdp", state, found, effect)
    };
    if features.xdp_sockets == Availability::Absent {
        return helped(
            of(Condition::Missing, "the kernel has none"),
            "a kernel with CONFIG_XDP_SOCKETS",
        );
    }
    if features.bpf == Availability::Absent {
        return helped(
            of(Condition::Missing, "the kernel has no bpf(2)"),
            "a kernel with CONFIG_BPF_SYSCALL",
        );
    }
    if !held || features.bpf == Availability::Denied {
        return helped(
            of(Condition::Missing, "there, and not permitted"),
            remedy(&wanted),
        );
    }
    of(Condition::Good, "usable")
}

fn landlock(version: Result<u32, &'static str>) -> Finding {
    match version {
        Ok(version) => finding(
            "landlock",
            if version >= 4 {
                Condition::Good
            } else {
                Condition::Limited
            },
            format!("version {version}"),
            match version {
                6.. => "files, ports, signals and nameless sockets can be shut off from parsers",
                4.. => {
                    "files and ports can be shut off from parsers; signals by seccomp alone, \
                     without version 6 (Linux 6.12)"
                }
                _ => "files can be shut off from parsers; the network takes version 4 (Linux 6.7)",
            },
        ),
        Err(why) => helped(
            finding(
                "landlock",
                Condition::Missing,
                "none",
                "no folder can be shut off from parsers",
            ),
            why,
        ),
    }
}

fn simple(what: &str, state: Availability, effect: &str, remedy: &str) -> Finding {
    match state {
        Availability::Usable => finding(what, Condition::Good, "usable", effect),
        Availability::Denied => helped(
            finding(
                what,
                Condition::Missing,
                "not permitted",
                &format!("not so: {effect}"),
            ),
            remedy,
        ),
        Availability::Absent => helped(
            finding(
                what,
                Condition::Missing,
                "none",
                &format!("not so: {effect}"),
            ),
            remedy,
        ),
    }
}

fn privileges() -> Finding {
    let Ok(held) = Privileges::read() else {
        let effect = "permissions are only known when used";
        return finding("privileges", Condition::Unknown, "not readable", effect);
    };
    let (has, lacks): (Vec<_>, Vec<_>) = WANTED.iter().partition(|&&each| held.holds(each));
    let names = |of: &[&Capability]| {
        let names: Vec<_> = of.iter().map(|each| each.name()).collect();
        names.join(", ")
    };
    if lacks.is_empty() {
        let effect = "a run drops them when its interfaces are open";
        return finding("privileges", Condition::Good, names(&has), effect);
    }
    let found = match has.is_empty() {
        true => format!("none of {}", names(&lacks)),
        false => format!("{}; without {}", names(&has), names(&lacks)),
    };
    let effect = "NET_RAW captures; NET_ADMIN and BPF are for AF_XDP and counting what filters \
                  reject; IPC_LOCK for loops without page faults";
    let state = match held.holds(Capability::NetRaw) {
        true => Condition::Limited,
        false => Condition::Missing,
    };
    helped(finding("privileges", state, found, effect), remedy(&WANTED))
}

/// What makes this process have them: the text of the error, after what is missing.
fn remedy(wanted: &[Capability]) -> String {
    let Ok(held) = Privileges::read() else {
        return "run it as root".to_owned();
    };
    match held.require(wanted) {
        Ok(()) => "a filter of system calls is in the way (container: --security-opt)".to_owned(),
        Err(error) => {
            let text = error.to_string();
            let text = text
                .split_once(": ")
                .map_or(text.as_str(), |(_, rest)| rest);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        }
    }
}
