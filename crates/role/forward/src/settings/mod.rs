//! The settings of a forwarder in words, and what they resolve to.
//!
//! Not here: flags, keys of files, and printing.

mod control;
mod payloads;
mod words;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use lineside_balancer::{PortSettings, Settings, Timeouts};
use lineside_port::live::Interface;
use lineside_run::ConfigError;

pub use control::{ReadWords, listen, responding};
pub use payloads::{PAYLOAD_MODES, cache_bytes, passage};
pub use words::service;

/// A quarter is more than handshakes ever take of what is sized for its connections, and leaves
/// three for those that last.
const COOKIES_ABOVE: f64 = 0.25;

/// The settings of a forwarder in words.
#[derive(Debug, Clone, Default)]
pub struct ForwardWords {
    /// The names of its ports.
    pub ports: Vec<String>,
    /// Its services.
    pub services: Vec<String>,
    /// Addresses of its own to reach nodes from.
    pub nat: Vec<String>,
    /// Its routes.
    pub routes: Vec<String>,
    /// Times after which idle entries go: `NAME=TIME`.
    pub timeouts: Vec<String>,
    /// From which share of half-open entries on SYNs are answered with cookies, or `off`; without
    /// it, a quarter.
    pub syn_cookies: Option<String>,
    /// Room of the connection table.
    pub connections_max: u32,
    /// Seed of hashes, ports and cookies; without one it is drawn.
    pub seed: Option<u64>,
}

impl ForwardWords {
    /// Services, addresses and limits, with ports that are known already.
    pub fn settings(&self, ports: Vec<PortSettings>) -> Result<Settings, ConfigError> {
        let services = self.services.iter().map(|words| service(words));
        let services: Vec<_> = services
            .collect::<Result<_, _>>()
            .map_err(ConfigError::new)?;
        if services.is_empty() {
            return Err(ConfigError::usage(
                "no service is named: write --service 'tcp ADDRESS:PORT to NODE:PORT, ...'",
            ));
        }
        let nat = self.nat.iter().map(|word| {
            let address = word.parse::<IpAddr>();
            address.map_err(|_| ConfigError::new(format!("nat: '{word}' is not an address")))
        });
        let named = { self.routes.iter() }.map(|words| words::routes(words, &self.ports));
        let named: Vec<_> = named.collect::<Result<_, _>>().map_err(ConfigError::new)?;
        let mut timeouts = Timeouts::default();
        for words in &self.timeouts {
            words::set_timeout(&mut timeouts, words).map_err(ConfigError::new)?;
        }
        Ok(Settings {
            ports,
            nat: nat.collect::<Result<_, _>>()?,
            services,
            routes: named.into_iter().flatten().collect(),
            timeouts,
            cookies_above: match self.syn_cookies.as_deref() {
                None => Some(COOKIES_ABOVE),
                Some("off") => None,
                Some(text) => Some(share(text)?),
            },
            connections_max: self.connections_max,
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
            "syn_cookies: '{text}' is not a share from 0% to 100%: write 25%, or off"
        ))
    })
}

/// The ports of interfaces, which have to be Ethernet's.
pub fn ports_of(interfaces: &[Interface]) -> Result<Vec<PortSettings>, ConfigError> {
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
