//! Loads and probes of hosts that may be others': above a rate, these are asked for once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_host::Netlink;

use crate::config::ConfigError;

/// Requests a second that go to any address unasked: a browser that loads a page, and a monitor
/// that looks after a service, send fewer.
pub(crate) const UNASKED_PER_SECOND: f64 = 1_000.0;

/// What a load or a probe may send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    /// Where to.
    pub(crate) to: IpAddr,
    /// The most requests a second.
    pub(crate) per_second: f64,
    /// How to send fewer.
    pub(crate) fewer: &'static str,
}

impl Sending {
    /// Refuses requests at a high rate to an address that is neither private nor this host's,
    /// unless the user said that they are meant.
    pub(crate) fn must_be_meant(self, is_meant: Option<bool>) -> Result<(), ConfigError> {
        let Self {
            to,
            per_second,
            fewer,
        } = self;
        // What is no number is no low rate.
        let is_low = per_second <= UNASKED_PER_SECOND;
        if is_meant == Some(true) || is_low || is_private(to) || is_of_this_host(to) {
            return Ok(());
        }
        let rate = match per_second.is_finite() {
            true => format!("up to {per_second:.0} requests a second"),
            false => "as many requests as it answers".to_owned(),
        };
        Err(ConfigError::usage(&format!(
            "{to} is a public address, and this would send it {rate}: if it is yours to load, add \
             --public; otherwise {fewer}"
        )))
    }
}

/// Whether packets to this address stay with whoever sends them, or with their network.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

/// RFC 1918, RFC 6598 (100.64.0.0/10), RFC 5737, link-local and loopback addresses; 0.0.0.0 is this
/// host.
fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_unspecified()
        || (first == 100 && second & 0xc0 == 64)
}

/// RFC 4193 (fc00::/7), RFC 3849 (2001:db8::/32), link-local and loopback addresses; :: is this
/// host.
fn is_private_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || address.segments()[..2] == [0x2001, 0xdb8]
}

/// Whether an interface has this address. Where the kernel does not say, none has.
fn is_of_this_host(address: IpAddr) -> bool {
    let addresses = Netlink::open().and_then(|netlink| netlink.addresses());
    addresses.is_ok_and(|all| all.iter().any(|(_, own)| *own == address.to_canonical()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(to: &str, per_second: f64, is_meant: Option<bool>) -> Result<(), String> {
        let to = to.parse().expect("an address");
        let sending = Sending {
            to,
            per_second,
            fewer: "send fewer",
        };
        let meant = sending.must_be_meant(is_meant);
        meant.map_err(|error| error.to_string())
    }

    #[test]
    fn private_addresses_are_loaded_unasked() {
        for private in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.7.7",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.2",
            "169.254.1.1",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.9",
            "0.0.0.0",
            "::1",
            "::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "febf::1",
            "2001:db8:1::1",
            "::ffff:10.1.1.1",
        ] {
            assert_eq!(asked(private, f64::INFINITY, None), Ok(()), "{private}");
        }
    }

    #[test]
    fn public_addresses_are_asked_for_above_a_rate() {
        for public in [
            "9.255.255.255",
            "11.0.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "192.0.3.1",
            "198.51.101.1",
            "203.0.114.1",
            "224.0.0.1",
            "255.255.255.255",
            "2001:db9::1",
            "fec0::1",
            "fbff::1",
            "64:ff9b::a00:1",
            "ff02::1",
            "::ffff:9.9.9.9",
        ] {
            for per_second in [1_000.5, f64::INFINITY, f64::NAN] {
                let why = asked(public, per_second, None).expect_err(public);
                assert!(why.contains(public) && why.contains("--public"), "{why}");
                assert!(asked(public, per_second, Some(false)).is_err());
                assert_eq!(asked(public, per_second, Some(true)), Ok(()));
            }
            assert_eq!(asked(public, 1_000.0, None), Ok(()), "{public}");
        }
    }
}
