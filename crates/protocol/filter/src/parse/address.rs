//! Addresses of Ethernet, IPv4 and IPv6, and nets.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Parser, What};
use crate::error::FilterError;
use crate::lex::{Kind, Token};
use crate::syntax::{Direction, Primitive, Protocol};

impl Parser<'_> {
    pub(super) fn address(
        &mut self,
        protocol: Option<Protocol>,
        direction: Direction,
        is_net: bool,
    ) -> Result<Primitive, FilterError> {
        let token = self.tokens[self.at].clone();
        if let Some(address) = ether_address(token.text) {
            if protocol != Some(Protocol::Ether) {
                return Err(self.error(
                    "write 'ether host', 'ether src' or 'ether dst' before an Ethernet address",
                ));
            }
            if is_net {
                return Err(self.error("Ethernet addresses have no nets"));
            }
            self.at += 1;
            return Ok(Primitive::EtherAddress { direction, address });
        }
        match token.kind {
            Kind::Colons => self.address6(&token, protocol, direction, is_net),
            _ => self.address4(&token, protocol, direction, is_net),
        }
    }

    /// Fails if the protocol that stands before an address is none of these.
    fn belongs_to(
        &self,
        allowed: &[Protocol],
        protocol: Option<Protocol>,
        what: &str,
    ) -> Result<(), FilterError> {
        match protocol {
            Some(protocol) if !allowed.contains(&protocol) => Err(self.error(format!(
                "{} is {what}, which '{}' does not have",
                self.text(),
                protocol.name()
            ))),
            _ => Ok(()),
        }
    }

    fn address6(
        &mut self,
        token: &Token<'_>,
        protocol: Option<Protocol>,
        direction: Direction,
        is_net: bool,
    ) -> Result<Primitive, FilterError> {
        let Ok(address) = token.text.parse::<Ipv6Addr>() else {
            return Err(self.error(format!("'{}' is no address", token.text)));
        };
        self.belongs_to(&[Protocol::Ip6], protocol, "an IPv6 address")?;
        self.at += 1;
        let address = u128::from(address);
        let bits = self.prefix(is_net, 128)?.unwrap_or(128);
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        if address & !mask != 0 {
            return Err(self.beyond_mask());
        }
        Ok(Primitive::Address6 {
            direction,
            address,
            mask,
        })
    }

    fn address4(
        &mut self,
        token: &Token<'_>,
        protocol: Option<Protocol>,
        direction: Direction,
        is_net: bool,
    ) -> Result<Primitive, FilterError> {
        let octets: Option<Vec<u8>> = token
            .text
            .split('.')
            .map(|part| part.parse().ok())
            .collect();
        let octets = octets.filter(|octets| match octets.len() {
            4 => true,
            // A net may leave out the octets that are 0.
            1..4 => is_net,
            _ => false,
        });
        let Some(octets) = octets else {
            let what = if token.kind == Kind::Word && What::named(token.text).is_none() {
                format!(
                    "'{}' is no address: names are not resolved, give it in numbers",
                    token.text
                )
            } else {
                format!("an address should stand where '{}' does", token.text)
            };
            return Err(self.error(what));
        };
        let allowed = [Protocol::Ip, Protocol::Arp, Protocol::Rarp];
        self.belongs_to(&allowed, protocol, "an IPv4 address")?;
        self.at += 1;
        let mut all = [0; 4];
        all[..octets.len()].copy_from_slice(&octets);
        let address = u32::from_be_bytes(all);
        let mask = if is_net && self.accept(&["mask"]) {
            let Ok(mask) = self.text().parse::<Ipv4Addr>() else {
                return Err(self.error("a mask such as 255.255.255.0 is missing here"));
            };
            self.at += 1;
            u32::from(mask)
        } else {
            let bits = self.prefix(is_net, 32)?.unwrap_or(octets.len() as u32 * 8);
            u32::MAX.checked_shl(32 - bits).unwrap_or(0)
        };
        if address & !mask != 0 {
            return Err(self.beyond_mask());
        }
        Ok(Primitive::Address4 {
            header: protocol,
            direction,
            address,
            mask,
        })
    }

    fn beyond_mask(&self) -> FilterError {
        self.error_at(
            self.at - 1,
            "the address has bits set that its mask leaves out",
        )
    }

    fn prefix(&mut self, is_net: bool, bits_max: u32) -> Result<Option<u32>, FilterError> {
        if !self.accept(&["/"]) {
            return Ok(None);
        }
        if !is_net {
            return Err(self.error_at(self.at - 1, "only 'net' takes a mask"));
        }
        self.number("a number of bits", bits_max).map(Some)
    }
}

fn ether_address(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}
