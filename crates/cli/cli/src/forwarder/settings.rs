//! The settings of a forwarder, from flags.

use std::time::Duration;

use lineside_account::Budget;
use lineside_balancer::{PortSettings, Settings};
use lineside_forward::settings::{ForwardWords, passage, ports_of};
use lineside_forward::{ByDriver, PayloadSettings};
use lineside_port::Method;
use lineside_port::live::Interface;
use lineside_reactor::Wait;
use serde_json::Value;

use super::keys::Section;
use crate::config::{self, ConfigError, memory_bytes, read_keys};
use crate::inputs::{method, wait};

/// Of a port that is not looked up yet: Ethernet's.
const MTU_USUAL: u32 = 1_500;

/// Reads the section of a forwarder's file as `ctl RUN reload` brings it. The error is a sentence.
pub fn forward_words(section: &Value) -> Result<ForwardWords, String> {
    Ok(read_keys::<Section>(section, "forward")?.words())
}

/// What a run needs beside its folder.
pub(crate) struct Prepared {
    pub(crate) settings: Settings,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) method: Option<Method>,
    pub(crate) by_driver: ByDriver,
    pub(crate) payloads: Option<PayloadSettings>,
    pub(crate) wait: Wait,
    pub(crate) duration: Option<Duration>,
    pub(crate) budget: Budget,
}

impl Section {
    /// The names of the ports.
    pub(crate) fn names(&self) -> &[String] {
        self.ports.as_deref().unwrap_or_default()
    }

    /// Words first: wrong ones are wrong with or without privileges.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let names = self.names();
        if names.is_empty() {
            return Err(ConfigError::usage(
                "the interfaces are missing: name them with -i IF1[,IF2...]",
            )
            .into());
        }
        let method = method(self.method.as_deref().unwrap_or_default())?;
        let wait = wait(self.wait.as_deref().unwrap_or_default())?;
        let (by_driver, payloads) =
            passage(self.mode.as_deref(), self.cache.as_deref(), self.hold)?;
        let memory = self.memory.as_ref().map(memory_bytes).transpose()?;
        // Names and services are checked before anybody is asked for privileges.
        let named = names.iter().map(|name| PortSettings {
            name: name.clone(),
            ethernet: [0; 6],
            mtu: MTU_USUAL,
        });
        let settings = self.words().settings(named.collect())?;
        settings.check()?;
        let interfaces = lineside_forward::interfaces(names, method)?;
        let ports = ports_of(&interfaces)?;
        let settings = Settings { ports, ..settings };
        settings.check()?;
        Ok(Prepared {
            settings,
            interfaces,
            method,
            by_driver,
            payloads,
            wait,
            duration: self.duration.as_ref().map(config::Duration::get),
            budget: Budget::new(memory.unwrap_or_default()),
        })
    }

    /// The words of services, addresses and limits.
    pub(crate) fn words(&self) -> ForwardWords {
        let texts = |texts: &Option<Vec<String>>| texts.clone().unwrap_or_default();
        let services = self.service.iter().flatten();
        ForwardWords {
            ports: texts(&self.ports),
            services: services.map(|words| words.0.clone()).collect(),
            nat: texts(&self.nat),
            routes: texts(&self.route),
            timeouts: texts(&self.timeout),
            syn_cookies: self.syn_cookies.clone(),
            connections_max: self.connections_max.unwrap_or_default(),
            seed: self.seed,
        }
    }
}
