//! The settings of a forwarder, from flags.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use lineside_account::Budget;
use lineside_balancer::{PortSettings, Settings, Timeouts};
use lineside_forward::{ByDriver, PayloadSettings};
use lineside_port::Method;
use lineside_port::live::Interface;
use lineside_reactor::Wait;

use super::keys::Section;
use super::words::{routes, set_timeout};
use crate::config::{self, ConfigError, memory_bytes};
use crate::inputs::{method, wait};

/// Of a port that is not looked up yet: Ethernet's.
const MTU_USUAL: u32 = 1_500;

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
        let (by_driver, payloads) = self.ways()?;
        let memory = self.memory.as_ref().map(memory_bytes).transpose()?;
        // Names and services are checked before anybody is asked for privileges.
        let named = names.iter().map(|name| PortSettings {
            name: name.clone(),
            ethernet: [0; 6],
            mtu: MTU_USUAL,
        });
        let settings = self.settings(named.collect())?;
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

    /// Services, addresses and limits, with ports that are known already.
    pub(super) fn settings(&self, ports: Vec<PortSettings>) -> Result<Settings, ConfigError> {
        let services = self.service.iter().flatten();
        let services = services.map(super::words::ServiceWords::service);
        let services: Vec<_> = services
            .collect::<Result<_, _>>()
            .map_err(ConfigError::new)?;
        if services.is_empty() {
            return Err(ConfigError::usage(
                "no service is named: write --service 'tcp ADDRESS:PORT to NODE:PORT, ...'",
            ));
        }
        let nat = { self.nat.iter().flatten() }.map(|word| {
            let address = word.parse::<IpAddr>();
            address.map_err(|_| ConfigError::new(format!("nat: '{word}' is not an address")))
        });
        let named = self.route.iter().flatten();
        let named = named.map(|words| routes(words, self.names()));
        let named: Vec<_> = named.collect::<Result<_, _>>().map_err(ConfigError::new)?;
        let mut timeouts = Timeouts::default();
        for words in self.timeout.iter().flatten() {
            set_timeout(&mut timeouts, words).map_err(ConfigError::new)?;
        }
        Ok(Settings {
            ports,
            nat: nat.collect::<Result<_, _>>()?,
            services,
            routes: named.into_iter().flatten().collect(),
            timeouts,
            cookies_above: self.syn_cookies.as_deref().map(share).transpose()?,
            connections_max: self.connections_max.unwrap_or_default(),
            // Of the system's: nobody can guess it.
            seed: (self.seed).unwrap_or_else(|| RandomState::new().hash_one("seed")),
        })
    }
}

/// A share, such as `50%`.
fn share(text: &str) -> Result<f64, ConfigError> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| {
        ConfigError::new(format!(
            "syn_cookies: '{text}' is not a share from 0% to 100%: write 25%"
        ))
    })
}

fn ports_of(interfaces: &[Interface]) -> Result<Vec<PortSettings>, ConfigError> {
    let ports = interfaces.iter().map(|interface| {
        let ethernet = interface.hardware_address.ok_or_else(|| {
            ConfigError::new(format!(
                "{} is not an Ethernet interface: use another one",
                interface.name
            ))
        });
        Ok(PortSettings {
            name: interface.name.clone(),
            ethernet: ethernet?,
            mtu: interface.mtu,
        })
    });
    ports.collect()
}
