//! The protocols of a load. Each is described in its own module, as a [`Protocol`], and has its
//! line here; flags, help, URLs, keys, servers and presets follow from the lists.

use std::net::{SocketAddr, ToSocketAddrs};

use lineside_http::Url;
use serde_json::{Map, Value};

use super::definition::{Key, Preset, Protocol};
use crate::words::UsageError;

/// All protocols, in the order in which help lists their URLs.
pub static PROTOCOLS: &[&Protocol] = &[
    &super::http::HTTP,
    &super::memcached::MEMCACHED,
    &super::dns::DNS,
    &super::nfs::NFS,
    &super::stamped::UDP,
    &super::echo::ECHO,
    &super::bulk::SINK,
    &super::bulk::SOURCE,
];

/// All presets, in the order in which help lists them.
pub static PRESETS: &[&Preset] = &[
    &super::memcached::ETC,
    &super::http::IOT,
    &super::http::WEB,
    &super::bulk::DATACENTRE,
];

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().copied().find(|preset| preset.name == name)
}

/// The protocol of this name, the scheme of its URLs.
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    let mut all = PROTOCOLS.iter().copied();
    all.find(|protocol| protocol.name == name)
}

/// Keys of all protocols, each once.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    PROTOCOLS.iter().flat_map(|protocol| protocol.keys)
}

/// All services, in the order of help.
pub fn services() -> Vec<&'static Protocol> {
    let mut all = PROTOCOLS.to_vec();
    all.sort_by_key(|protocol| protocol.service.place);
    all
}

/// Fails if a key is set that `protocol` does not read.
pub fn must_fit(protocol: &Protocol, set: &Map<String, Value>) -> Result<(), UsageError> {
    let is_set = |key: &&Key| set.get(key.name).is_some_and(|value| !value.is_null());
    let Some(key) = keys().filter(is_set).find(|key| !protocol.reads(key)) else {
        return Ok(());
    };
    let declares = |of: &&&Protocol| of.keys.iter().any(|own| own.name == key.name);
    let shares = |of: &&&Protocol| of.shared_keys.contains(&key.name);
    let of = { PROTOCOLS.iter().filter(declares) }.chain(PROTOCOLS.iter().filter(shares));
    let of: Vec<_> = of.map(|of| of.name).collect();
    Err(UsageError(format!(
        "{} is for {}, and this is {}: leave it out",
        key.flag(),
        of.join(" or "),
        protocol.name
    )))
}

/// The server's addresses, each once.
pub fn resolve(Url { host, port, .. }: &Url) -> Result<Vec<SocketAddr>, UsageError> {
    let found = (host.as_str(), *port).to_socket_addrs();
    let found = found.map_err(|error| {
        UsageError(format!(
            "{host}: {error}: write a name that is known here ('getent hosts {host}'), or an \
             address"
        ))
    })?;
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    match all.is_empty() {
        true => Err(UsageError(format!("{host}: it has no address"))),
        false => Ok(all),
    }
}

/// A list as a sentence has it: `a, b and c`.
pub fn listed(words: &[impl AsRef<str>], last: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::words::test::words;

    #[test]
    fn names_and_keys_are_of_one_protocol_each() {
        let names: BTreeSet<_> = PROTOCOLS.iter().map(|of| of.name).collect();
        assert_eq!(names.len(), PROTOCOLS.len());
        let all: BTreeSet<_> = keys().map(|key| key.name).collect();
        assert_eq!(all.len(), keys().count());
        for protocol in PROTOCOLS {
            assert!(protocol.url.starts_with(&format!("{}://", protocol.name)));
            let is_known = |shared: &&str| all.contains(shared);
            assert!(
                protocol.shared_keys.iter().all(is_known),
                "{}",
                protocol.name
            );
        }
        for of in PRESETS.iter().flat_map(|preset| preset.of) {
            assert!(names.contains(of), "{of}");
        }
    }

    #[test]
    fn urls_name_the_server() {
        for (url, name, host, port) in [
            ("http://localhost/a?b", "http", "localhost", 80),
            ("memcached://localhost", "memcached", "localhost", 11_211),
            ("nfs://a/b", "nfs", "a", 2049),
        ] {
            let client = protocol(name).expect(name).client;
            let (server, _) = client(&words(url)).expect(url);
            assert_eq!((&*server.host, server.port), (host, port), "{url}");
        }
    }

    #[test]
    fn a_key_of_others_is_refused_with_their_names() {
        let echo = protocol("echo").expect("a protocol");
        let set = |name: &str| Map::from_iter([(name.to_owned(), Value::from("x"))]);
        let error = must_fit(echo, &set("value_size")).expect_err("a key of others");
        assert_eq!(
            error.0,
            "--value-size is for memcached or nfs, and this is echo: leave it out"
        );
        let nfs = protocol("nfs").expect("a protocol");
        assert!(must_fit(nfs, &set("keys")).is_ok());
    }
}
