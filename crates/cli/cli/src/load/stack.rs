//! Flags of our own TCP over an interface, of clients and servers.

use std::net::IpAddr;

use lineside_host::{Capability, Privileges};
use lineside_load::settings::{Opened, StackSettings};
use lineside_port::Method;
use lineside_tcp::Prefix;

use crate::config::{ConfigError, key, keys};
use crate::congestion::{CONGESTION, congestion};
use crate::inputs::method;

/// The window that is offered to peers.
const WINDOW_BYTES: u32 = 64 << 10;
/// Twice the maximum segment lifetime of RFC 9293, 3.4.2 is 4 minutes; Linux waits for one.
const TIME_WAIT_NS: i64 = 60_000_000_000;

keys! {
    /// How an interface carries our own TCP.
    pub(crate) struct StackWords {
        interface: String = key("Use this program's own TCP over an interface, not the kernel's \
        sockets")
            .short('i').long("interface").value("IF");
        addresses: Vec<String> = key("Addresses that -i uses, none of them the host's, e.g. \
        10.9.0.0/16; or the host's own, with --ports")
            .long("address").value("ADDRESS/BITS").commas().or_one()
            .example("10.9.0.0/16");
        routers: Vec<String> = key("Routers to everything that --on-link does not reach")
            .long("router").value("ADDRESS").commas().or_one()
            .example("10.9.0.1");
        on_link: Vec<String> = key("Addresses that are reached without a router \
        [default: those of --address; everything without --router]")
            .long("on-link").value("ADDRESS/BITS").commas().or_one()
            .example("10.9.0.0/16");
        mtu: u32 = key("Longest packet of -i, in bytes [default: the interface's]")
            .long("mtu").value("N");
        method: String = key("How -i receives and sends frames: auto, af_xdp, af_xdp_generic or \
        af_packet [default: auto]")
            .long("method").value("WORD");
        congestion: String = key("Congestion control of -i: cubic or reno [default: cubic]")
            .long("congestion").value("WORD")
            .words(|| CONGESTION.to_vec());
    }
}

impl StackWords {
    /// The settings; `None` if the kernel's sockets are used.
    pub(super) fn settings(&self, ports: (u16, u32)) -> anyhow::Result<Option<StackSettings>> {
        let Some(interface) = &self.interface else {
            self.must_be_empty()?;
            return Ok(None);
        };
        let addresses = blocks("address", self.addresses.as_deref())?;
        if addresses.is_empty() {
            return Err(ConfigError::usage(
                "-i needs addresses that no host has: name them with --address, such as \
                 --address 10.9.0.0/16; or the host's own, with --ports 61000-65535",
            )
            .into());
        }
        let method = method(self.method.as_deref().unwrap_or("auto"))?;
        let routers = addresses_of("router", self.routers.as_deref())?;
        let on_link = match &self.on_link {
            Some(texts) => blocks("on-link", Some(texts))?,
            None if routers.is_empty() => everything(&addresses),
            None => addresses.clone(),
        };
        Privileges::read()?.require(needed(method))?;
        Ok(Some(StackSettings {
            interface: interface.clone(),
            method,
            addresses,
            on_link,
            routers,
            ports,
            mtu: self.mtu.map(|mtu| mtu as usize),
            window_bytes: WINDOW_BYTES,
            congestion: congestion(self.congestion.as_deref().unwrap_or(CONGESTION[0]))?,
            time_wait_ns: TIME_WAIT_NS,
            timeout_ns: None,
            connections_max: 0,
            neighbours: None,
            taps: None,
            opened: Opened::default(),
        }))
    }

    /// What says how an interface is used says nothing without one.
    fn must_be_empty(&self) -> Result<(), ConfigError> {
        let given = [
            (self.addresses.is_some(), "--address"),
            (self.routers.is_some(), "--router"),
            (self.on_link.is_some(), "--on-link"),
            (self.mtu.is_some(), "--mtu"),
            (self.method.is_some(), "--method"),
            (self.congestion.is_some(), "--congestion"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, flag)) => Err(ConfigError::new(format!(
                "{flag} is for this program's own TCP over an interface: name that with -i, or \
                 leave it out"
            ))),
        }
    }
}

/// Without the others, AF_XDP is refused, and AF_PACKET is taken if that is allowed.
fn needed(method: Option<Method>) -> &'static [Capability] {
    match method {
        Some(Method::AfXdpNative | Method::AfXdpGeneric) => {
            &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf]
        }
        _ => &[Capability::NetRaw],
    }
}

/// All addresses of the families of these blocks.
fn everything(addresses: &[Prefix]) -> Vec<Prefix> {
    let mut all: Vec<Prefix> = Vec::new();
    for block in addresses {
        let address: IpAddr = match block.address {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        if !all.iter().any(|known| known.address == address) {
            all.push(Prefix { address, len: 0 });
        }
    }
    all
}

/// Blocks of addresses, as flags and files have them.
fn blocks(name: &str, texts: Option<&[String]>) -> Result<Vec<Prefix>, ConfigError> {
    let block = |text: &String| {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.as_str(), None),
        };
        let wrong = || {
            ConfigError::new(format!(
                "{name}: '{text}' is not a block of addresses: write 10.9.0.0/16, or one address"
            ))
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let single = Prefix::single(address);
        let len = match bits {
            None => single.len,
            Some(bits) => { bits.parse().ok() }
                .filter(|&len| len <= single.len)
                .ok_or_else(wrong)?,
        };
        Ok(Prefix { address, len })
    };
    texts.unwrap_or_default().iter().map(block).collect()
}

/// Addresses, as flags and files have them.
pub(super) fn addresses_of(
    name: &str,
    texts: Option<&[String]>,
) -> Result<Vec<IpAddr>, ConfigError> {
    let address = |text: &String| {
        text.parse()
            .map_err(|_| ConfigError::new(format!("{name}: '{text}' is not an address")))
    };
    texts.unwrap_or_default().iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_an_interface_are_refused_without_one() {
        let words = StackWords {
            mtu: Some(9000),
            ..StackWords::default()
        };
        let error = words
            .settings((1024, 1))
            .expect_err("no interface")
            .to_string();
        assert!(error.starts_with("--mtu is for"), "{error}");
        let words = StackWords {
            interface: Some("lo".to_owned()),
            ..StackWords::default()
        };
        let error = words
            .settings((1024, 1))
            .expect_err("no address")
            .to_string();
        assert!(error.contains("--address 10.9.0.0/16"), "{error}");
    }

    #[test]
    fn blocks_are_addresses_with_or_without_bits() {
        let read = |text: &str| blocks("address", Some(&[text.to_owned()]));
        assert_eq!(read("10.9.0.0/16").expect("a block")[0].len, 16);
        assert_eq!(read("fd00::1").expect("one")[0].len, 128);
        for bad in ["10.9/16", "10.9.0.0/33", "10.9.0.0/", "x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
