//! The settings of runs between live ports, from flags.

use std::os::fd::OwnedFd;
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{Sandbox, Signals};
use lineside_path::emulate::{Between, Commands, HostEnd, Way, open_interfaces};
use lineside_port::Method;
use lineside_port::live::Interface;
use lineside_reactor::Wait;
use lineside_store::RunFolder;

use super::flags::Arguments;
use crate::config::{self, ConfigError, Sandboxing};
use crate::inputs::{method, wait};

/// What `--between` and `--on` need beside the path and the run.
pub(super) struct BetweenSettings {
    method: Option<Method>,
    wait: Wait,
    host: Option<HostEnd>,
    interfaces: Vec<Interface>,
    completes_checksums: bool,
    duration: Option<Duration>,
}

impl BetweenSettings {
    /// Words first: wrong ones are wrong with or without privileges.
    pub(super) fn read(arguments: &Arguments) -> anyhow::Result<Self> {
        let keys = &arguments.keys;
        if keys.tap == Some(true) && keys.output.is_none() {
            return Err(ConfigError::usage(
                "--tap writes a trace into the run folder: name that with --output RUN",
            )
            .into());
        }
        let method = method(keys.method.as_deref().unwrap_or_default())?;
        let wait = wait(keys.wait.as_deref().unwrap_or_default())?;
        let (host, interfaces) = match &keys.on {
            Some(name) => {
                let (host, interface) = HostEnd::find(name, method)?;
                (Some(host), vec![interface])
            }
            None => {
                let names = keys.between.as_deref().unwrap_or_default();
                (None, open_interfaces(names, method)?)
            }
        };
        Ok(Self {
            method,
            wait,
            host,
            interfaces,
            completes_checksums: keys.no_checksum_completion != Some(true),
            duration: keys.duration.as_ref().map(config::Duration::get),
        })
    }

    /// The names of the sides.
    pub(super) fn names(&self) -> Vec<String> {
        let host = self.host.iter().map(|_| HostEnd::NAME.to_owned());
        let interfaces = self.interfaces.iter();
        host.chain(interfaces.map(|interface| interface.name.clone()))
            .collect()
    }

    /// The run with these settings; `file` is given to the user that remains.
    pub(super) fn into_run<'a>(
        self,
        budget: &'a Budget,
        folder: Option<&'a RunFolder>,
        (file, sandbox): (Option<OwnedFd>, Option<Sandbox>),
        signals: &'a Signals,
    ) -> Between<'a> {
        Between {
            host: self.host,
            interfaces: self.interfaces,
            method: self.method,
            wait: self.wait,
            completes_checksums: self.completes_checksums,
            duration: self.duration,
            budget,
            folder,
            file,
            sandbox,
            signals,
        }
    }
}

impl Arguments {
    /// The sandbox of a run, or why there is none.
    pub(super) fn sandbox(&self, folder: Option<&RunFolder>) -> Result<Sandbox, &'static str> {
        let keys = &self.keys;
        let sandbox = lineside_run::sandbox(folder);
        let sandbox = keys.sandbox.unwrap_or_default().applied(sandbox);
        match keys.has_drop_ins() {
            true if sandbox.is_some() => Err(lineside_run::DROP_INS_NEED_MORE),
            _ => sandbox.ok_or(Sandboxing::NONE),
        }
    }

    /// The run with one or two commands; what is missing is refused before anything begins.
    pub(super) fn commands<'a>(
        &'a self,
        budget: &'a Budget,
        signals: &'a Signals,
    ) -> Result<Commands<'a>, ConfigError> {
        let keys = &self.keys;
        let wait = wait(keys.wait.as_deref().unwrap_or_default())?;
        let client = keys.client.as_deref().unwrap_or_default();
        if client.is_empty() {
            return Err(ConfigError::usage(
                "the command is missing: write it after all flags, as -- CMD",
            ));
        }
        let passes_loopback = keys.loopback == Some(true);
        Ok(Commands {
            server: keys.server.as_deref(),
            client,
            outside: match (keys.outside, &keys.server) {
                (Some(true), _) => Way::Open,
                (_, Some(_)) => Way::Closed,
                (_, None) => Way::IfPossible,
            },
            passes_loopback,
            is_bare: self.bare_client,
            server_wait: server_wait(keys.server_wait.as_deref().unwrap_or_default())?,
            wait,
            budget,
            sandbox: None,
            signals,
        })
    }
}

/// The words of `--server-wait`.
fn server_wait(words: &str) -> Result<Duration, ConfigError> {
    if words == "0" {
        return Ok(Duration::ZERO);
    }
    let wait = lineside_words::parse_duration(words);
    let wait = wait.map_err(|error| ConfigError::usage(&format!("server-wait: {error}")))?;
    Ok(Duration::from_nanos(wait))
}
