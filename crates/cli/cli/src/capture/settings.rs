//! The section `[capture]`, and the typed configuration that it resolves to.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use lineside_actor::Topology;
use lineside_capture::{
    At, Config, CoreSettings, Follow, LiveSettings, Scheduler, Settings, actors, is_pipe,
    placed_by_traffic,
};
use lineside_filter::Filter;
use lineside_rows::Table;
use lineside_run::{Interfaces, answer_capture, drop_ins, monitors};
use lineside_words::nearest;

use super::decode_as;

use super::keys::{FILES, OVERLOADS, Section};
use super::rotation::{Coming, rotation};
use crate::config::{self, ALL, ConfigError, Keys, Sandboxing, Size, Time};
use crate::inputs::METHODS;
use crate::outputs::capture_file;

/// Live, bytes that were acknowledged this long ago are lost, so that the account of a second
/// includes them. No tap is so late.
const QUIET_WINDOW_NS: i64 = 500_000_000;

/// Less memory cannot hold two blocks of a reader, the encoders' batches and a connection's held
/// bytes.
const MEMORY_MIN: usize = 16 << 20;

/// Prefix in `placement`: by the messages that an earlier run counted.
const BY_TRAFFIC: &str = "traffic:";

impl Section {
    /// Reads a TOML file, or the configuration of an earlier run from its `trace.json`.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ConfigError> {
        config::from_file(path, "capture")
    }

    /// Every key with its value, for another run.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        config::to_json("capture", self)
    }

    /// All defaults filled in, and the typed configuration.
    pub(crate) fn resolved(self) -> Result<(Self, Settings), ConfigError> {
        let coming = self.coming();
        let defaults = Self {
            rotate: Some(coming.rotate().map(str::to_owned).collect()),
            flush: Some(coming.flush().to_owned()),
            ..Self::defaults(ALL)
        };
        let mut section = self.over(defaults);
        let memory_bytes = section.memory_bytes()?;
        let mut rotation = rotation(
            section.rotate.as_deref().unwrap_or_default(),
            section.flush.as_deref().unwrap_or_default(),
            section.keep.as_deref().unwrap_or_default(),
            coming,
        )?;
        rotation.retention.runs = section.runs == Some(true);
        let duration = section.duration.as_ref().map(config::Duration::get);
        let live = section.live(duration)?;
        let config = section.config(live.is_some())?;
        let has_drop_ins = section.drop_ins.as_ref().is_some_and(|all| !all.is_empty());
        section
            .sandbox
            .unwrap_or_default()
            .with_drop_ins(has_drop_ins)?;
        let filter = section.filter.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| ConfigError::new(format!("filter: {error}")))?;
        let cores = section.cores()?;
        let follow = section.follow(duration)?;
        let rotation_words = section.pcap_rotation.as_deref();
        let capture_file = capture_file(section.write_pcap.as_deref(), rotation_words)?;
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
            made: None,
            capture_file,
            force: section.force == Some(true),
            tables: section.tables(),
            rotation,
            monitors: monitors(section.monitors.as_deref(), section.output.is_some())?,
            respond: Some(answer_capture),
            drop_ins: drop_ins(
                section.drop_ins.as_deref(),
                section.drop_in_bytes,
                section.output.is_some(),
            )?,
            memory_bytes,
            sandbox: section.sandbox != Some(Sandboxing::Off),
            sandbox_required: section.sandbox == Some(Sandboxing::Require),
            at: { section.at.as_deref() }.map_or_else(At::default, At::of),
            snap_len: section.snap_len.unwrap_or_default(),
            frames_max: section.frames_max.map_or(u64::MAX, NonZeroU64::get),
            cores,
            configuration: section.to_json(),
        };
        Ok((section, settings))
    }

    fn memory_bytes(&self) -> Result<usize, ConfigError> {
        let bytes = { self.memory.as_ref() }.map_or(Ok(0), config::memory_bytes)?;
        if bytes < MEMORY_MIN {
            return Err(ConfigError::new(format!(
                "memory: {bytes} bytes are too few: give 16MiB or more"
            )));
        }
        Ok(bytes)
    }

    /// How data come, which decides when parts end.
    fn coming(&self) -> Coming {
        let mut inputs = self.inputs.iter().flatten();
        if self
            .interfaces
            .as_ref()
            .is_some_and(|names| !names.is_empty())
        {
            Coming::Live
        } else if self.follow == Some(true) || inputs.any(|path| is_pipe(path)) {
            Coming::Grown
        } else {
            Coming::Files
        }
    }

    /// The configuration of the pipeline.
    fn config(&self, is_live: bool) -> Result<Config, ConfigError> {
        let time = |value: &Option<Time>| value.as_ref().map_or(0, Time::get);
        let size = |value: &Option<Size>| value.as_ref().map_or(0, Size::get);
        let interval_ns = time(&self.interval);
        if interval_ns == 0 {
            return Err(ConfigError::usage(
                "interval: 0 is not an interval: give a time such as 60s",
            ));
        }
        let record_max_bytes = size(&self.record_max);
        if !(4096..1 << 31).contains(&record_max_bytes) {
            return Err(ConfigError::usage(
                "record_max: give a size from 4KiB to less than 2GiB, the most that a record mark \
                can express",
            ));
        }
        let number = |key: &str, value: Option<usize>| {
            value
                .filter(|&value| value > 0)
                .ok_or_else(|| ConfigError::new(format!("{key}: 0 leaves no room: give 1 or more")))
        };
        let decode_as = decode_as::parse(self.decode_as.as_deref().unwrap_or_default())
            .map_err(|why| ConfigError::new(format!("decode_as: {why}")))?;
        Ok(Config {
            flow: lineside_capture::FlowConfig {
                late_window_ns: time(&self.late_window),
                late_segments: self.late_segments.unwrap_or_default(),
                quiet_window_ns: is_live.then_some(QUIET_WINDOW_NS),
                flow_held_max_bytes: size(&self.flow_held_max),
                connections_max: number("connections_max", self.connections_max)?,
                idle_timeout_ns: time(&self.idle_timeout),
                fragment_timeout_ns: time(&self.fragment_timeout),
                fragments_held_max_bytes: size(&self.fragments_held_max),
                duplicate_window_ns: time(&self.duplicate_window),
                interval_ns,
            },
            record: lineside_capture::RecordConfig {
                record_max_bytes,
                message_held_max_bytes: size(&self.message_held_max),
                search_held_max_bytes: size(&self.search_held_max),
                search_max_bytes: size(&self.search_max) as u64,
                ..lineside_capture::RecordConfig::default()
            },
            decode_as,
            reply_timeout_ns: time(&self.reply_timeout),
            outstanding_max: number("outstanding_max", self.outstanding_max)?,
            answered_max: self.answered_max.unwrap_or_default(),
            facts_max: number("file_facts_max", self.file_facts_max)?,
            checksums: self.checksums.unwrap_or(true),
            fast_path: true,
        })
    }

    /// The requested tables.
    fn tables(&self) -> Vec<Table> {
        let on = |switch: Option<bool>| switch == Some(true);
        let wanted = |table: &Table| match table {
            Table::Checksums => on(self.checksums),
            Table::Nfs | Table::Nfs4 | Table::Services => on(self.details),
            Table::Packets => on(self.packets),
            // They are the monitors' own.
            table => !Table::MONITORS.contains(table),
        };
        Table::ALL.iter().copied().filter(wanted).collect()
    }

    /// The settings of live runs; `None` if files are read.
    fn live(&self, duration: Option<Duration>) -> Result<Option<LiveSettings>, ConfigError> {
        let error = |text: &str| Err(ConfigError::usage(text));
        let interfaces = self.interfaces.clone().unwrap_or_default();
        if interfaces.is_empty() {
            self.refuse_flags_of_interfaces()?;
            return match duration {
                Some(_) if self.follow != Some(true) => error(
                    "duration: only a live run has a duration: name an interface with -i, or \
                    follow a file with --follow",
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
            return error(
                "--follow is for files, and this run captures from interfaces: leave it \
            out",
            );
        }
        let sockets = self.sockets.unwrap_or(1);
        if !(1..=64).contains(&sockets) {
            return error("sockets: give a number from 1 to 64");
        }
        self.check_words().map_err(ConfigError::new)?;
        let is_method = |(word, _): &&(&str, _)| Some(*word) == self.method.as_deref();
        let method = METHODS
            .iter()
            .find(is_method)
            .and_then(|(_, method)| *method);
        Ok(Some(LiveSettings {
            gives_up_checksums: self.overload.as_deref() == Some(OVERLOADS[1]),
            interfaces: Interfaces {
                names: interfaces,
                method,
                sockets,
                promiscuous: self.promiscuous != Some(false),
                snap_len: self.snap_len.unwrap_or_default(),
            },
            duration,
        }))
    }

    /// Fails if files are read and a setting for interfaces is given. Defaults are allowed: each
    /// `trace.json` contains them.
    fn refuse_flags_of_interfaces(&self) -> Result<(), ConfigError> {
        match self.refused_in(FILES, &Self::defaults(ALL)) {
            Some(facts) => Err(ConfigError::new(format!(
                "{} is for interfaces (-i), and this run reads files: leave it out",
                facts.flag()
            ))),
            None => Ok(()),
        }
    }

    /// How a growing file is read; `None` if a file is read as it is.
    fn follow(&self, duration: Option<Duration>) -> Result<Option<Follow>, ConfigError> {
        if self.follow != Some(true) {
            return Ok(None);
        }
        let inputs = self.inputs.as_deref().unwrap_or_default();
        if inputs.len() != 1 || inputs[0].as_os_str() == "-" {
            let what = "follow: name the one file that grows, or the one folder";
            return Err(ConfigError::usage(what));
        }
        Ok(Some(Follow { duration }))
    }

    fn cores(&self) -> Result<Option<CoreSettings>, ConfigError> {
        let error = |text: String| Err(ConfigError::new(text));
        let count = self.cores.unwrap_or(1);
        let topology = Topology::read();
        let topology = topology.map_err(|why| ConfigError::new(format!("cores: {why}")))?;
        let cpus = topology.cpus.len();
        if count == 0 {
            return error("cores: 0 cores cannot run anything: give 1 or more".to_owned());
        }
        if count > cpus {
            return error(format!(
                "cores: {count} requested, but this process may use {cpus}: give {cpus} or fewer"
            ));
        }
        self.check_words().map_err(ConfigError::new)?;
        let scheduler = [Scheduler::Stealing, Scheduler::Pinned];
        let is_wanted = |each: &Scheduler| Some(each.word()) == self.scheduler.as_deref();
        let scheduler = { scheduler.into_iter().find(is_wanted) }.unwrap_or(Scheduler::Stealing);
        let actors = actors(count);
        let spread = actors.iter().enumerate();
        let mut placement: HashMap<_, _> = spread
            .map(|(at, name)| (name.clone(), at % count))
            .collect();
        let wanted = self.placement.as_deref().unwrap_or_default();
        if !wanted.is_empty() && scheduler != Scheduler::Pinned {
            return error(
                "placement: only the scheduler pinned supports it: add --scheduler pinned"
                    .to_owned(),
            );
        }
        for text in wanted {
            if let Some(trace) = text.strip_prefix(BY_TRAFFIC) {
                let counted = placed_by_traffic(Path::new(trace), count)
                    .map_err(|why| ConfigError::new(format!("placement: {why}")))?;
                for (actor, core) in counted {
                    // That run may have had more pipelines; actors that it lacked stay spread.
                    placement.entry(actor).and_modify(|home| *home = core);
                }
                continue;
            }
            let pair = text.split_once('=');
            let Some((actor, Ok(core))) = pair.map(|(actor, core)| (actor, core.parse())) else {
                return error(format!(
                    "placement: '{text}' is no ACTOR=CORE, such as pipeline-0=1, and no \
                    {BY_TRAFFIC}TRACE"
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

    /// Names actors' cores instead of the trace that they came from: it may be gone when the run is
    /// repeated.
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn section(value: serde_json::Value) -> Result<Section, String> {
        config::read_keys(&value, "capture")
    }

    #[test]
    fn the_resolved_configuration_resolves_to_itself() {
        let flags = section(json!({ "late_window": "5ms" })).expect("valid");
        let (resolved, settings) = flags.resolved().expect("valid");
        assert_eq!(settings.config.flow.late_window_ns, 5_000_000);
        assert_eq!(
            settings.config.record.record_max_bytes,
            Config::default().record.record_max_bytes
        );
        let again = section(resolved.to_json()["capture"].clone());
        let (again, _) = again.expect("the same keys").resolved().expect("valid");
        assert_eq!(again, resolved);
        assert_eq!(again.to_json(), resolved.to_json());
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for value in [
            json!({ "memory": "1KiB" }),
            json!({ "interval": "0s" }),
            json!({ "late_window": "2 parsecs" }),
            json!({ "record_max": "2GiB" }),
            json!({ "outstanding_max": 0 }),
            json!({ "scheduler": "pined" }),
        ] {
            let resolved = section(value.clone()).and_then(|section| {
                let resolved = section.resolved();
                resolved.map(|_| ()).map_err(|error| error.to_string())
            });
            assert!(resolved.is_err(), "{value}");
        }
    }
}
