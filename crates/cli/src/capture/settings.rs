//! The section `[capture]`, and the typed configuration that it resolves to.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lineside_account::parse_size;
use lineside_actor::Topology;
use lineside_capture::{
    CaptureFile, Config, CoreSettings, Follow, LiveSettings, PartRotation, Scheduler, Settings,
    actors, placed_by_traffic,
};
use lineside_filter::Filter;
use lineside_port::Rotation;
use lineside_run::Interfaces;
use lineside_time::{format_duration, parse_duration};
use lineside_trace::Table;
use serde::{Deserialize, Serialize};

use super::decode_as;
use crate::config::{ConfigError, layered, nearest, read_section};
use crate::inputs::METHODS;

/// The section `[capture]`. A key that is absent has its default; `resolved` fills in all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Section {
    /// Capture files, `-` for standard input.
    pub(crate) inputs: Option<Vec<PathBuf>>,
    /// Interfaces to listen at, in place of `inputs`.
    pub(crate) interfaces: Option<Vec<String>>,
    /// How frames are taken from interfaces: a word of [`METHODS`].
    pub(crate) method: Option<String>,
    /// Packet sockets that share the frames of an interface.
    pub(crate) sockets: Option<usize>,
    /// Take also frames that are not for this host.
    pub(crate) promiscuous: Option<bool>,
    /// What goes first when a live run falls behind: a word of [`OVERLOADS`].
    pub(crate) overload: Option<String>,
    /// A live run, or one that follows a file, ends after this time.
    pub(crate) duration: Option<String>,
    /// The folder of the trace.
    pub(crate) output: Option<PathBuf>,
    /// A capture file that the frames are written into, beside the trace or instead of it.
    pub(crate) write_pcap: Option<PathBuf>,
    /// When the next of these files begins: dumpcap's words.
    pub(crate) pcap_rotation: Option<Vec<String>>,
    /// Replace a trace that is there.
    pub(crate) force: Option<bool>,
    /// Which frames are looked at: an expression of pcap-filter(7).
    pub(crate) filter: Option<String>,
    /// What the user knows better than content says: `tcp.port==20490,rpc`, `rpc.program==0x20000003,nfs`.
    pub(crate) decode_as: Option<Vec<String>>,
    /// Frames to read at most.
    pub(crate) frames_max: Option<NonZeroU64>,
    /// Go on where a file ends that is still written.
    pub(crate) follow: Option<bool>,
    /// The one memory budget.
    pub(crate) memory: Option<String>,
    /// Where parts end: a size, a time, or one of each.
    pub(crate) rotate: Option<Vec<String>>,
    /// Checksums of 512-byte blocks: table `checksums`.
    pub(crate) checksums: Option<bool>,
    /// Fields that belong to one protocol: tables `nfs`, `nfs4`, `services`.
    pub(crate) details: Option<bool>,
    /// A row a frame: table `packets`.
    pub(crate) packets: Option<bool>,
    /// Exit 4 if anything is missing.
    pub(crate) strict: Option<bool>,
    /// Cores that rebuild operations.
    pub(crate) cores: Option<usize>,
    /// Who runs what on several cores: a word of [`Scheduler::WORDS`].
    pub(crate) scheduler: Option<String>,
    /// Cores of actors, such as `pipeline-0=1`; the others are spread.
    pub(crate) placement: Option<Vec<String>>,
    /// A hole that was acknowledged is given up after this time ...
    pub(crate) late_window: Option<String>,
    /// ... and after so many further segments of its connection.
    pub(crate) late_segments: Option<u64>,
    /// A packet that comes again within this time was mirrored twice; 0 looks for none.
    pub(crate) duplicate_window: Option<String>,
    /// Bytes that one direction of a connection may hold out of order.
    pub(crate) flow_held_max: Option<String>,
    /// Connections at once.
    pub(crate) connections_max: Option<usize>,
    /// A connection without packets for so long is over.
    pub(crate) idle_timeout: Option<String>,
    /// A fragmented packet is given up after this time.
    pub(crate) fragment_timeout: Option<String>,
    /// Bytes of fragments held at once.
    pub(crate) fragments_held_max: Option<String>,
    /// Interval of the table `connections`.
    pub(crate) interval: Option<String>,
    /// A longer record is taken for a wrong record mark.
    pub(crate) record_max: Option<String>,
    /// Bytes of one message held for parsing.
    pub(crate) message_held_max: Option<String>,
    /// Bytes held while a lost record mark is searched.
    pub(crate) search_held_max: Option<String>,
    /// Bytes searched in vain until a stream is taken for something else.
    pub(crate) search_max: Option<String>,
    /// A call without reply is given up after this time.
    pub(crate) reply_timeout: Option<String>,
    /// Calls outstanding at once.
    pub(crate) outstanding_max: Option<usize>,
    /// Answered calls remembered per connection.
    pub(crate) answered_max: Option<usize>,
    /// Facts of files remembered per connection.
    pub(crate) file_facts_max: Option<usize>,
}

/// The default of `memory`: what the trace of any capture may take.
const MEMORY_DEFAULT: &str = "256MiB";

/// Live, what was acknowledged so long ago is lost, so that the account of a second tells it. No tap is so late.
const QUIET_WINDOW_NS: i64 = 500_000_000;

/// Less cannot hold two blocks of a reader, the encoders' batches and a connection's held bytes.
const MEMORY_MIN: usize = 16 << 20;

/// Below these a long capture becomes more files than a folder bears, and each file is mostly its own description.
const ROTATE_SIZE_MIN: usize = 1 << 20;

const ROTATE_TIME_MIN_NS: u64 = 1_000_000_000;

/// The default. An open part is held in memory, and there is one for each table.
const ROTATE_SIZE_MAX: usize = 64 << 20;

/// In `placement`: by the messages that an earlier run counted.
const BY_TRAFFIC: &str = "traffic:";

/// Where parts end, by a size, a time, or one of each.
fn part_rotation(limits: &[String]) -> Result<PartRotation, String> {
    let (mut bytes_max, mut time_ns) = (None, None);
    for text in limits {
        let is_again = if let Ok(ns) = parse_duration(text) {
            if !(ROTATE_TIME_MIN_NS..=i64::MAX as u64).contains(&ns) {
                return Err(format!("{text} is not from 1s to 292 years"));
            }
            std::mem::replace(&mut time_ns, NonZeroU64::new(ns)).is_some()
        } else if let Ok(bytes) = parse_size(text) {
            if !(ROTATE_SIZE_MIN..=ROTATE_SIZE_MAX).contains(&bytes) {
                return Err(format!("{text} is not a size from 1MiB to 64MiB"));
            }
            bytes_max.replace(bytes).is_some()
        } else {
            return Err(format!(
                "'{text}' is neither a size nor a time: write 16MiB, 60s, or 16MiB,60s for both"
            ));
        };
        if is_again {
            return Err(format!(
                "{} says the same thing twice: give at most one size and one time",
                limits.join(",")
            ));
        }
    }
    Ok(PartRotation {
        bytes_max: bytes_max.unwrap_or(ROTATE_SIZE_MAX),
        time_ns,
    })
}

impl Section {
    /// Reads a TOML file, or the configuration of an earlier run from its `trace.json`.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let list = |word: &str| Some(vec![word.to_owned()]);
        let examples = Self {
            duration: Some("60s".to_owned()),
            filter: Some("tcp port 2049".to_owned()),
            interfaces: list("eth0"),
            pcap_rotation: list("files:10"),
            decode_as: list("tcp.port==20490,rpc"),
            placement: list("pipeline-0=1"),
            ..Self::defaults()
        };
        read_section(path, "capture", &serde_json::json!(examples))
    }

    /// This section, with what it leaves open taken from `below`.
    pub(crate) fn over(self, below: Self) -> Self {
        layered(self, &below)
    }

    /// Every key with its value, to be run again.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "capture": self })
    }

    /// All defaults filled in, and the typed configuration.
    pub(crate) fn resolved(self) -> Result<(Self, Settings), ConfigError> {
        let mut section = self.over(Self::defaults());
        let time = |key: &str, text: &Option<String>| -> Result<i64, ConfigError> {
            let text = text.as_deref().unwrap_or_default();
            let ns = parse_duration(text)
                .map_err(|error| ConfigError::new(format!("{key}: {error}")))?;
            i64::try_from(ns)
                .map_err(|_| ConfigError::new(format!("{key}: {text} is longer than 292 years")))
        };
        let size = |key: &str, text: &Option<String>| {
            parse_size(text.as_deref().unwrap_or_default())
                .map_err(|error| ConfigError::new(format!("{key}: {error}")))
        };
        let memory_bytes = size("memory", &section.memory)?;
        if memory_bytes < MEMORY_MIN {
            return Err(ConfigError::new(format!(
                "memory: {memory_bytes} bytes are too few: give 16MiB or more"
            )));
        }
        let rotation = part_rotation(section.rotate.as_deref().unwrap_or_default())
            .map_err(|why| ConfigError::new(format!("rotate: {why}")))?;
        let interval_ns = time("interval", &section.interval)?;
        if interval_ns == 0 {
            return Err(ConfigError::usage(
                "interval: 0 is no interval: give a time such as 60s",
            ));
        }
        let record_max_bytes = size("record_max", &section.record_max)?;
        if !(4096..1 << 31).contains(&record_max_bytes) {
            return Err(ConfigError::usage(
                "record_max: give a size from 4KiB to less than 2GiB, which is all that a record mark can say",
            ));
        }
        let number = |key: &str, value: Option<usize>| {
            value.filter(|&value| value > 0).ok_or_else(|| {
                ConfigError::new(format!(
                    "{key}: 0 would leave no room at all: give 1 or more"
                ))
            })
        };
        let duration = section.duration.as_ref();
        let duration_ns = duration
            .map(|_| time("duration", &section.duration))
            .transpose()?;
        let live = section.live(duration_ns)?;
        let decode_as = decode_as::parse(section.decode_as.as_deref().unwrap_or_default())
            .map_err(|why| ConfigError::new(format!("decode_as: {why}")))?;
        let config = Config {
            flow: lineside_capture::FlowConfig {
                late_window_ns: time("late_window", &section.late_window)?,
                late_segments: section.late_segments.unwrap_or_default(),
                quiet_window_ns: live.is_some().then_some(QUIET_WINDOW_NS),
                flow_held_max_bytes: size("flow_held_max", &section.flow_held_max)?,
                connections_max: number("connections_max", section.connections_max)?,
                idle_timeout_ns: time("idle_timeout", &section.idle_timeout)?,
                fragment_timeout_ns: time("fragment_timeout", &section.fragment_timeout)?,
                fragments_held_max_bytes: size("fragments_held_max", &section.fragments_held_max)?,
                duplicate_window_ns: time("duplicate_window", &section.duplicate_window)?,
                interval_ns,
            },
            record: lineside_capture::RecordConfig {
                record_max_bytes,
                message_held_max_bytes: size("message_held_max", &section.message_held_max)?,
                search_held_max_bytes: size("search_held_max", &section.search_held_max)?,
                search_max_bytes: size("search_max", &section.search_max)? as u64,
                ..lineside_capture::RecordConfig::default()
            },
            decode_as,
            reply_timeout_ns: time("reply_timeout", &section.reply_timeout)?,
            outstanding_max: number("outstanding_max", section.outstanding_max)?,
            answered_max: section.answered_max.unwrap_or_default(),
            facts_max: number("file_facts_max", section.file_facts_max)?,
            checksums: section.checksums.unwrap_or(true),
        };
        let filter = section.filter.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| ConfigError::new(format!("filter: {error}")))?;
        let cores = section.cores()?;
        let follow = section.follow(duration_ns)?;
        let capture_file = section.capture_file()?;
        if let Some(cores) = &cores {
            section.settle_placement(&cores.placement);
        }
        let settings = Settings {
            config,
            filter,
            filter_text: section.filter.clone(),
            inputs: section.inputs.clone().unwrap_or_default(),
            live,
            follow,
            output: section.output.clone(),
            capture_file,
            force: section.force == Some(true),
            tables: section.tables(),
            rotation,
            memory_bytes,
            frames_max: section.frames_max.map_or(u64::MAX, NonZeroU64::get),
            cores,
            configuration: section.to_json(),
        };
        Ok((section, settings))
    }

    /// The tables that are wanted.
    fn tables(&self) -> Vec<Table> {
        let on = |switch: Option<bool>| switch == Some(true);
        let wanted = |table: &Table| match table {
            Table::Checksums => on(self.checksums),
            Table::Nfs | Table::Nfs4 | Table::Services => on(self.details),
            Table::Packets => on(self.packets),
            _ => true,
        };
        Table::ALL.iter().copied().filter(wanted).collect()
    }

    /// The capture file that frames are written into.
    fn capture_file(&self) -> Result<Option<CaptureFile>, ConfigError> {
        let words = self.pcap_rotation.as_deref().unwrap_or_default();
        let rotation =
            Rotation::parse(words).map_err(|error| ConfigError::new(error.to_string()))?;
        match &self.write_pcap {
            Some(path) => Ok(Some(CaptureFile {
                path: path.clone(),
                rotation,
                is_series: self.pcap_rotation.is_some(),
            })),
            None if words.is_empty() => Ok(None),
            None => Err(ConfigError::usage(
                "-b says when a capture file ends, but none is written: name one with --write-pcap",
            )),
        }
    }

    /// What only live runs have; `None` if files are read.
    fn live(&self, duration_ns: Option<i64>) -> Result<Option<LiveSettings>, ConfigError> {
        let error = |text: &str| Err(ConfigError::usage(text));
        let interfaces = self.interfaces.clone().unwrap_or_default();
        if interfaces.is_empty() {
            self.refuse_flags_of_interfaces()?;
            return match duration_ns {
                Some(_) if self.follow != Some(true) => error(
                    "duration: only a live run lasts: name an interface with -i, or follow a file with --follow",
                ),
                _ => Ok(None),
            };
        }
        if self
            .inputs
            .as_ref()
            .is_some_and(|inputs| !inputs.is_empty())
        {
            return error("either files or interfaces (-i), not both in one run");
        }
        if self.follow == Some(true) {
            return error("--follow is for files, and this listens at interfaces: leave it out");
        }
        let word = self.method.as_deref().unwrap_or_default();
        let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == word) else {
            let nearest = nearest(word, METHODS.iter().map(|(known, _)| *known));
            return error(&format!(
                "method: '{word}' is unknown; the nearest known one is {nearest}"
            ));
        };
        let sockets = self.sockets.unwrap_or(1);
        if !(1..=64).contains(&sockets) {
            return error("sockets: give a number from 1 to 64");
        }
        let word = self.overload.as_deref().unwrap_or_default();
        if !OVERLOADS.contains(&word) {
            let nearest = nearest(word, OVERLOADS.into_iter());
            return error(&format!(
                "overload: '{word}' is unknown; the nearest known one is {nearest}"
            ));
        }
        Ok(Some(LiveSettings {
            gives_up_checksums: word == OVERLOADS[1],
            interfaces: Interfaces {
                names: interfaces,
                method: *method,
                sockets,
                promiscuous: self.promiscuous != Some(false),
            },
            duration: duration_ns.map(|ns| Duration::from_nanos(ns as u64)),
        }))
    }

    /// Fails if files are read, and something is asked of interfaces. The defaults ask nothing: they stand in each `trace.json`.
    fn refuse_flags_of_interfaces(&self) -> Result<(), ConfigError> {
        let defaults = Self::defaults();
        for (flag, is_asked) in [
            ("--method", self.method != defaults.method),
            ("--sockets", self.sockets != defaults.sockets),
            ("-p", self.promiscuous != defaults.promiscuous),
            ("--overload", self.overload != defaults.overload),
        ] {
            if is_asked {
                return Err(ConfigError::new(format!(
                    "{flag} is for interfaces (-i), and this reads files: leave it out"
                )));
            }
        }
        Ok(())
    }

    /// How a file that grows is read; `None` if it is read as it is.
    fn follow(&self, duration_ns: Option<i64>) -> Result<Option<Follow>, ConfigError> {
        if self.follow != Some(true) {
            return Ok(None);
        }
        let inputs = self.inputs.as_deref().unwrap_or_default();
        if inputs.len() != 1 || inputs[0].as_os_str() == "-" {
            let what = "follow: name the one file that grows, or the one folder";
            return Err(ConfigError::usage(what));
        }
        Ok(Some(Follow {
            duration: duration_ns.map(|ns| Duration::from_nanos(ns as u64)),
        }))
    }

    fn cores(&self) -> Result<Option<CoreSettings>, ConfigError> {
        let error = |text: String| Err(ConfigError::new(text));
        let count = self.cores.unwrap_or(1);
        let topology = Topology::read();
        let topology = topology.map_err(|why| ConfigError::new(format!("cores: {why}")))?;
        let cpus = topology.cpus.len();
        if count == 0 {
            return error("cores: 0 cannot do anything: give 1 or more".to_owned());
        }
        if count > cpus {
            return error(format!(
                "cores: {count} asked for, but this process may use {cpus}: give {cpus} or fewer"
            ));
        }
        let word = self.scheduler.as_deref().unwrap_or_default();
        let scheduler = [Scheduler::Stealing, Scheduler::Pinned];
        let Some(scheduler) = scheduler.into_iter().find(|each| each.word() == word) else {
            let nearest = nearest(word, Scheduler::WORDS.into_iter());
            return error(format!(
                "scheduler: '{word}' is unknown; the nearest known one is {nearest}"
            ));
        };
        let actors = actors(count);
        let spread = actors.iter().enumerate();
        let mut placement: HashMap<_, _> = spread
            .map(|(at, name)| (name.clone(), at % count))
            .collect();
        let wanted = self.placement.as_deref().unwrap_or_default();
        if !wanted.is_empty() && scheduler != Scheduler::Pinned {
            return error(
                "placement: only the scheduler pinned keeps to one: add --scheduler pinned"
                    .to_owned(),
            );
        }
        for text in wanted {
            if let Some(trace) = text.strip_prefix(BY_TRAFFIC) {
                let counted = placed_by_traffic(Path::new(trace), count)
                    .map_err(|why| ConfigError::new(format!("placement: {why}")))?;
                for (actor, core) in counted {
                    // That run may have had more pipelines; what it lacked stays spread.
                    placement.entry(actor).and_modify(|home| *home = core);
                }
                continue;
            }
            let pair = text.split_once('=');
            let Some((actor, Ok(core))) = pair.map(|(actor, core)| (actor, core.parse())) else {
                return error(format!(
                    "placement: '{text}' is no ACTOR=CORE, such as pipeline-0=1, and no {BY_TRAFFIC}TRACE"
                ));
            };
            if core >= count {
                return error(format!(
                    "placement: {text}: cores are counted from 0 to {}",
                    count - 1
                ));
            }
            if placement.insert(actor.to_owned(), core).is_none() {
                let nearest = nearest(actor, actors.iter().map(String::as_str));
                return error(format!(
                    "placement: there is no actor '{actor}'; the nearest known one is {nearest}"
                ));
            }
        }
        Ok((count > 1).then_some(CoreSettings {
            count,
            scheduler,
            placement,
        }))
    }

    /// Says where actors are rather than by which trace: that one may be gone when the run is repeated.
    fn settle_placement(&mut self, placement: &HashMap<String, usize>) {
        let mut words = self.placement.iter().flatten();
        if !words.any(|word| word.starts_with(BY_TRAFFIC)) {
            return;
        }
        let pairs = placement.iter();
        let mut pairs: Vec<_> = pairs
            .map(|(actor, core)| format!("{actor}={core}"))
            .collect();
        pairs.sort_unstable();
        self.placement = Some(pairs);
    }

    pub(crate) fn defaults() -> Self {
        let config = Config::default();
        let time = |ns: i64| Some(format_duration(ns as u64));
        let size = |bytes: usize| Some(format!("{}KiB", bytes >> 10));
        Self {
            method: Some(METHODS[0].0.to_owned()),
            sockets: Some(1),
            promiscuous: Some(true),
            overload: Some(OVERLOADS[0].to_owned()),
            force: Some(false),
            decode_as: Some(Vec::new()),
            memory: Some(MEMORY_DEFAULT.to_owned()),
            rotate: Some(vec![format!("{}MiB", ROTATE_SIZE_MAX >> 20)]),
            checksums: Some(true),
            details: Some(true),
            packets: Some(false),
            strict: Some(false),
            cores: Some(1),
            scheduler: Some(Scheduler::WORDS[0].to_owned()),
            placement: Some(Vec::new()),
            late_window: time(config.flow.late_window_ns),
            duplicate_window: time(config.flow.duplicate_window_ns),
            late_segments: Some(config.flow.late_segments),
            flow_held_max: size(config.flow.flow_held_max_bytes),
            connections_max: Some(config.flow.connections_max),
            idle_timeout: time(config.flow.idle_timeout_ns),
            fragment_timeout: time(config.flow.fragment_timeout_ns),
            fragments_held_max: size(config.flow.fragments_held_max_bytes),
            interval: time(config.flow.interval_ns),
            record_max: size(config.record.record_max_bytes),
            message_held_max: size(config.record.message_held_max_bytes),
            search_held_max: size(config.record.search_held_max_bytes),
            search_max: size(config.record.search_max_bytes as usize),
            reply_timeout: time(config.reply_timeout_ns),
            outstanding_max: Some(config.outstanding_max),
            answered_max: Some(config.answered_max),
            file_facts_max: Some(config.facts_max),
            ..Self::default()
        }
    }
}

/// The words of `--overload`: frames are dropped at the port, or checksums are given up before that.
pub(crate) const OVERLOADS: [&str; 2] = ["drop", "no-checksums"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolved_configuration_resolves_to_itself() {
        let flags = Section {
            late_window: Some("5ms".to_owned()),
            ..Section::default()
        };
        let (section, settings) = flags.resolved().expect("valid");
        assert_eq!(settings.config.flow.late_window_ns, 5_000_000);
        assert_eq!(
            settings.config.record.record_max_bytes,
            Config::default().record.record_max_bytes
        );
        let again: Section =
            serde_json::from_value(section.to_json()["capture"].clone()).expect("the same shape");
        assert_eq!(again.resolved().expect("valid").0, section);
    }

    fn rotate(limits: &[&str]) -> Section {
        Section {
            rotate: Some(limits.iter().map(|&limit| limit.to_owned()).collect()),
            ..Section::default()
        }
    }

    #[test]
    fn parts_rotate_by_a_size_a_time_or_both() {
        for (limits, bytes_max, time_ns) in [
            (&[][..], 64 << 20, None),
            (&["1MiB"], 1 << 20, None),
            (&["1s"], 64 << 20, NonZeroU64::new(1_000_000_000)),
            (
                &["2min", "16MiB"],
                16 << 20,
                NonZeroU64::new(120_000_000_000),
            ),
        ] {
            let (_, settings) = rotate(limits).resolved().expect("valid");
            assert_eq!(settings.rotation, PartRotation { bytes_max, time_ns });
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for section in [
            Section {
                memory: Some("1KiB".to_owned()),
                ..Section::default()
            },
            Section {
                interval: Some("0s".to_owned()),
                ..Section::default()
            },
            Section {
                late_window: Some("2 parsecs".to_owned()),
                ..Section::default()
            },
            Section {
                record_max: Some("2GiB".to_owned()),
                ..Section::default()
            },
            Section {
                outstanding_max: Some(0),
                ..Section::default()
            },
            rotate(&["1000KiB"]),
            rotate(&["65MiB"]),
            rotate(&["999ms"]),
            rotate(&["60"]),
            rotate(&["5m"]),
            rotate(&["2s", "3s"]),
            rotate(&["2MiB", "3s", "3MiB"]),
        ] {
            assert!(section.clone().resolved().is_err(), "{section:?}");
        }
    }
}
