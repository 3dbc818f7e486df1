//! Time, cores, memory and disk.

use std::path::Path;
use std::time::Duration;

use lineside_host::{
    Cores, HostLimits, MachineFacts, StealCounts, clock_read_ns, free_disk_bytes, wake_latenesses,
};
use lineside_words::{bytes, percent, signed_time, time};

use super::form::{finding, helped, measured};
use super::{Condition, Finding, Wake};

/// Naps of half a millisecond that take a tenth of a second.
const NAP: Duration = Duration::from_micros(500);
const NAPS: usize = 180;
/// Emulated frames that leave later than that make a run `disturbed`.
const LATE_NS: u64 = 1_000_000;

/// How late threads wake, and the findings about time.
pub(super) fn of_time() -> (Wake, Vec<Finding>) {
    let steal = StealCounts::read();
    let late = wake_latenesses(NAP, NAPS);
    let share = StealCounts::share_since(steal);
    let at = |permille: usize| late[(late.len() - 1) * permille / 1000] as u64;
    let wake = Wake {
        samples: late.len() as u64,
        nap_ns: NAP.as_nanos() as u64,
        p50_ns: at(500),
        p99_ns: at(990),
        max_ns: at(1000),
    };
    (wake, vec![clock(), steal_of(share), waking(&wake)])
}

fn clock() -> Finding {
    let settings = &MachineFacts::read().settings;
    let cost_ns = clock_read_ns(20_000);
    let figures = [("read_ns", Some(cost_ns.round() as u64))];
    let cost = format!("{} a reading", signed_time(cost_ns));
    let Some(source) = settings.get("clock_source") else {
        let effect = "stamps are as precise as a reading of the clock";
        let found = format!("not shown (no /sys); {cost}");
        return measured(
            finding("clock_source", Condition::Unknown, found, effect),
            &figures,
        );
    };
    let found = format!("{source}; {cost}");
    let is_quick = matches!(
        source.as_str(),
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page"
    ) && cost_ns < 200.0;
    if is_quick {
        let effect = "stamps and deadlines are read in user space, precise to less than 1 us";
        return measured(
            finding("clock_source", Condition::Good, found, effect),
            &figures,
        );
    }
    let effect = "each reading of the clock is slow: loops and the kernel's stamps lose time";
    let found = measured(
        finding("clock_source", Condition::Limited, found, effect),
        &figures,
    );
    let others = HostLimits::read().clock_sources.into_iter();
    match { others }.find(|name| matches!(name.as_str(), "tsc" | "kvm-clock") && name != source) {
        Some(better) => helped(
            found,
            format!(
                "echo {better} | sudo tee \
                 /sys/devices/system/clocksource/clocksource0/current_clocksource"
            ),
        ),
        None => found,
    }
}

fn steal_of(share: Option<f64>) -> Finding {
    let Some(share) = share else {
        let effect = "whether other machines take this one's cores is not known";
        return finding(
            "steal",
            Condition::Unknown,
            "/proc/stat is not shown",
            effect,
        );
    };
    let found = format!("{} of the last 0.1 s", percent(share));
    let figures = [("permille", Some((share * 1000.0).round() as u64))];
    if share < 0.005 {
        let effect = "no other machine took this one's cores";
        return measured(finding("steal", Condition::Good, found, effect), &figures);
    }
    let effect = "other machines take this one's cores: times of emulate and load may not hold";
    helped(
        measured(
            finding("steal", Condition::Limited, found, effect),
            &figures,
        ),
        "a host of its own, or dedicated cores",
    )
}

fn waking(wake: &Wake) -> Finding {
    let text = time;
    let found = format!(
        "{} naps of {}: late by p50 {}, p99 {}, max {}",
        wake.samples,
        text(wake.nap_ns),
        text(wake.p50_ns),
        text(wake.p99_ns),
        text(wake.max_ns)
    );
    let effect = format!(
        "emulate and load keep times to about {} without polling",
        text(wake.p99_ns)
    );
    if wake.p99_ns < LATE_NS {
        return finding("wake", Condition::Good, found, &effect);
    }
    let effect = format!("{effect}: a run in which frames are 1 ms late is disturbed");
    helped(
        finding("wake", Condition::Limited, found, &effect),
        "an idle machine, and cores of its own: isolcpus=, or a real-time priority",
    )
}

/// Cores, memory and what this process is limited to.
pub(super) fn of_limits() -> Vec<Finding> {
    let limits = HostLimits::read();
    let settings = &MachineFacts::read().settings;
    let setting = |name: &str| settings.get(name).map(String::as_str);
    vec![
        cores(),
        memory(&limits),
        locked(limits.locked_bytes_max),
        descriptors(limits.descriptors_max),
        huge_pages(setting("huge_pages")),
        governor(setting("governor")),
        load(setting("load")),
    ]
}

fn cores() -> Finding {
    let facts = MachineFacts::read();
    let count = facts.cores.unwrap_or(1);
    let isolated = Cores::read().map_or(0, |cores| cores.isolated().len() as u64);
    let figures = [("cores", facts.cores), ("isolated_cores", Some(isolated))];
    let found = format!("{count}, of them {isolated} isolated");
    if isolated > 0 {
        let effect = "loops take the isolated cores, where nothing interrupts them";
        return measured(finding("cores", Condition::Good, found, effect), &figures);
    }
    let effect = match count {
        1 => "capturing, and all else, share one core",
        _ => "loops share cores with the kernel's work",
    };
    let found = finding("cores", Condition::Limited, found, effect);
    let last = count.saturating_sub(1).max(1);
    helped(
        measured(found, &figures),
        format!("isolcpus={last} on the kernel's command line, if loops matter"),
    )
}

fn memory(limits: &HostLimits) -> Finding {
    let figures = [
        ("available_bytes", limits.available_bytes),
        ("group_limit_bytes", limits.group_bytes_max),
    ];
    let lowest = {
        limits
            .available_bytes
            .into_iter()
            .chain(limits.group_bytes_max)
    }
    .min();
    let Some(lowest) = lowest else {
        let effect = "--memory bounds what a run takes (default: 256 MiB)";
        return finding("memory", Condition::Unknown, "not shown", effect);
    };
    let group = match limits.group_bytes_max {
        Some(limit) => format!(", and the control group may have {}", bytes(limit)),
        None => String::new(),
    };
    let available = limits.available_bytes.map_or_else(|| "?".to_owned(), bytes);
    let found = format!("{available} can be had{group}");
    let effect = "a run takes --memory (default: 256 MiB)";
    if lowest > 512 << 20 {
        return measured(finding("memory", Condition::Good, found, effect), &figures);
    }
    helped(
        measured(
            finding("memory", Condition::Limited, found, effect),
            &figures,
        ),
        "--memory 128MiB",
    )
}

fn locked(max: Option<u64>) -> Finding {
    let of = |state, found: String, effect: &str| {
        measured(
            finding("locked_memory", state, found, effect),
            &[("limit_bytes", max)],
        )
    };
    match max {
        Some(max) if max < 256 << 20 => helped(
            of(
                Condition::Limited,
                format!("{} at most", bytes(max)),
                "loops may wait for a page; old kernels (before 5.11) limit AF_XDP by it",
            ),
            "ulimit -l unlimited, LimitMEMLOCK=infinity of systemd, or CAP_IPC_LOCK",
        ),
        _ => of(
            Condition::Good,
            max.map_or_else(
                || "no limit".to_owned(),
                |max| format!("{} at most", bytes(max)),
            ),
            "loops can lock what they use",
        ),
    }
}

fn descriptors(max: Option<u64>) -> Finding {
    let of = |state, effect: &str| {
        let found = max.map_or_else(|| "no limit".to_owned(), |max| format!("{max} at most"));
        measured(
            finding("descriptors", state, found, effect),
            &[("limit", max)],
        )
    };
    match max {
        Some(..1024) => helped(
            of(
                Condition::Limited,
                "many inputs or interfaces may not be open at once",
            ),
            "ulimit -n 4096, or LimitNOFILE= of systemd",
        ),
        _ => of(Condition::Good, "enough for files and interfaces"),
    }
}

fn huge_pages(chosen: Option<&str>) -> Finding {
    let of = |state, found: &str, effect| finding("huge_pages", state, found, effect);
    match chosen {
        Some("never") => helped(
            of(
                Condition::Limited,
                "never",
                "buffers that grow take a page fault for every 4 KiB",
            ),
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(chosen) => of(Condition::Good, chosen, "buffers take huge pages"),
        None => of(
            Condition::Unknown,
            "not shown",
            "whether buffers take huge pages is not known",
        ),
    }
}

fn governor(chosen: Option<&str>) -> Finding {
    let of = |state, found: &str, effect| finding("governor", state, found, effect);
    match chosen {
        Some("performance") => of(
            Condition::Good,
            "performance",
            "processors keep their clock rate",
        ),
        Some(chosen) => helped(
            of(
                Condition::Limited,
                chosen,
                "processors change their clock rate: the first requests after a pause are slower",
            ),
            "sudo cpupower frequency-set -g performance",
        ),
        None => of(
            Condition::Unknown,
            "not shown",
            "whether processors change their clock rate is not known",
        ),
    }
}

fn load(found: Option<&str>) -> Finding {
    let of = |state, found: String, effect| finding("load", state, found, effect);
    let load = found.and_then(|text| text.parse::<f64>().ok());
    let cores = MachineFacts::read().cores.unwrap_or(1);
    let Some(load) = load else {
        let effect = "whether other programs want the cores is not known";
        return of(Condition::Unknown, "not shown".to_owned(), effect);
    };
    let found = format!("{load:.2} over the last minute, of {cores} cores");
    match load <= cores as f64 / 2.0 {
        true => of(Condition::Good, found, "other programs leave cores to runs"),
        false => helped(
            of(
                Condition::Limited,
                found,
                "other programs want the cores that runs want",
            ),
            "end them, or wait",
        ),
    }
}

/// The disk that a trace is to be written to.
pub(super) fn of_disk(folder: &Path) -> Finding {
    match free_disk_bytes(folder) {
        Ok(free) => {
            let found = format!("{} free for {}", bytes(free), folder.display());
            let figures = [("free_bytes", Some(free))];
            // A part has at most 64 MiB, and four of them wait for the disk.
            if free > 1 << 30 {
                let effect = "a run on a full disk goes on and says what it could not write";
                return measured(finding("disk", Condition::Good, found, effect), &figures);
            }
            let effect = "little: parts have up to 64 MiB, and several wait to be written";
            helped(
                measured(finding("disk", Condition::Limited, found, effect), &figures),
                "another folder, or less of what is in this one",
            )
        }
        Err(error) => helped(
            finding(
                "disk",
                Condition::Unknown,
                format!("{}: {error}", folder.display()),
                "whether a trace fits is not known",
            ),
            "a folder that is there, with '-o DIR'",
        ),
    }
}
