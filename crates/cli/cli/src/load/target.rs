//! The server of a load, from its URL.

use std::net::{SocketAddr, ToSocketAddrs};

use lineside_dns::kind;
use lineside_http::Url;
use lineside_words::nearest;

use crate::config::ConfigError;

/// The port of an echo, RFC 862.
const ECHO_PORT: u16 = 7;
/// Bytes of an echo's requests.
const ECHO_BYTES: u32 = 64;
/// Bytes of a stamped datagram's payload.
const UDP_BYTES: &str = "100";
/// The most of an echo's: a request lies in memory whole.
const ECHO_BYTES_MAX: u32 = 1 << 20;
/// Schemes that are read.
const SCHEMES: [&str; 8] = [
    "http",
    "echo",
    "sink",
    "source",
    "memcached",
    "dns",
    "nfs",
    "udp",
];
/// The ports of a sink and of a source, RFC 863 and RFC 864.
const SINK_PORT: u16 = 9;
const SOURCE_PORT: u16 = 19;
/// The port of DNS, RFC 1035, 4.2.
const DNS_PORT: u16 = 53;
/// The port of NFS, RFC 7530, 3.1.
const NFS_PORT: u16 = 2049;
/// The port of memcached, as its own default.
const MEMCACHED_PORT: u16 = 11_211;

/// What is asked, and whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Http(Url),
    Echo {
        url: Url,
        bytes: u32,
    },
    /// Bulk data to a sink, of sizes in words.
    Sink {
        url: Url,
        bytes: Option<String>,
    },
    /// The same from a source.
    Source {
        url: Url,
        bytes: Option<String>,
    },
    Memcached(Url),
    /// Stamped datagrams, whose sizes are in words.
    Udp {
        url: Url,
        bytes: String,
        is_one_way: bool,
    },
    /// Names by a template, and types of records.
    Dns {
        url: Url,
        names: String,
        kinds: Vec<u16>,
    },
    /// An export; the port of MOUNT if it was given.
    Nfs {
        url: Url,
        export: String,
        mount_port: Option<u16>,
    },
}

/// Types of records by name.
const KINDS: [(&str, u16); 8] = [
    ("A", kind::A),
    ("AAAA", kind::AAAA),
    ("NS", kind::NS),
    ("MX", kind::MX),
    ("TXT", kind::TXT),
    ("CNAME", kind::CNAME),
    ("PTR", kind::PTR),
    ("SOA", kind::SOA),
];

impl Target {
    /// Reads a URL.
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        let wrong = |why: String| ConfigError::new(format!("{text}: {why}"));
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong(format!(
                "no scheme: write http://{text} or echo://{text}"
            )));
        };
        match &*scheme.to_ascii_lowercase() {
            "http" => Url::parse(text)
                .map(Self::Http)
                .map_err(|error| wrong(error.to_string())),
            "echo" => echo(rest).map_err(wrong),
            "sink" => {
                let (url, bytes) = bulk(rest, SINK_PORT, "sink").map_err(wrong)?;
                Ok(Self::Sink { url, bytes })
            }
            "source" => {
                let (url, bytes) = bulk(rest, SOURCE_PORT, "source").map_err(wrong)?;
                Ok(Self::Source { url, bytes })
            }
            "memcached" => memcached(rest).map_err(wrong),
            "udp" => udp(rest).map_err(wrong),
            "dns" => dns(rest).map_err(wrong),
            "nfs" => nfs(rest).map_err(wrong),
            "https" => Err(wrong("https is not supported yet: write http".to_owned())),
            other => Err(wrong(format!(
                "no scheme '{other}' is known; the nearest known one is {}",
                nearest(other, SCHEMES.into_iter())
            ))),
        }
    }

    /// What reports call the protocol.
    pub(super) fn protocol(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Echo { .. } => "echo",
            Self::Sink { .. } => "sink",
            Self::Source { .. } => "source",
            Self::Memcached(_) => "memcached",
            Self::Udp { .. } => "udp",
            Self::Dns { .. } => "dns",
            Self::Nfs { .. } => "nfs",
        }
    }

    /// The server's addresses, each once.
    pub(super) fn resolve(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        let (Self::Http(url)
        | Self::Echo { url, .. }
        | Self::Sink { url, .. }
        | Self::Source { url, .. }
        | Self::Memcached(url)
        | Self::Udp { url, .. }
        | Self::Dns { url, .. }
        | Self::Nfs { url, .. }) = self;
        let Url { host, port, .. } = url;
        let found = (host.as_str(), *port).to_socket_addrs();
        let found = found.map_err(|error| {
            ConfigError::new(format!(
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
            true => Err(ConfigError::new(format!("{host}: it has no address"))),
            false => Ok(all),
        }
    }
}

/// `HOST[:PORT]` of a protocol without paths.
fn place(place: &str, port: u16, form: &str) -> Result<Url, String> {
    let mut url = Url::parse(&format!("http://{place}")).map_err(|error| error.to_string())?;
    if url.target != "/" {
        return Err(format!("there are no paths here: write {form}"));
    }
    let after_address = place.trim_end_matches('/').rsplit(']').next();
    if !after_address.is_some_and(|rest| rest.contains(':')) {
        url.port = port;
    }
    Ok(url)
}

fn memcached(rest: &str) -> Result<Target, String> {
    let url = place(rest, MEMCACHED_PORT, "memcached://HOST[:PORT]")?;
    Ok(Target::Memcached(url))
}

/// `HOST[:PORT][?bytes=WORDS]`.
fn bulk(rest: &str, port: u16, scheme: &str) -> Result<(Url, Option<String>), String> {
    let form = format!("{scheme}://HOST[:PORT][?bytes=1MiB]");
    let (at, query) = rest.split_once('?').unwrap_or((rest, ""));
    let bytes = match query.strip_prefix("bytes=") {
        None if query.is_empty() => None,
        None => return Err(format!("'{query}' is unknown here: write {form}")),
        Some(words) => Some(words.to_owned()),
    };
    Ok((place(at, port, &form)?, bytes))
}

/// `HOST[:PORT][?bytes=WORDS][&oneway]`.
fn udp(rest: &str) -> Result<Target, String> {
    const FORM: &str = "udp://HOST[:PORT][?bytes=100&oneway]";
    let (at, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut bytes, mut is_one_way) = (UDP_BYTES, false);
    for word in query.split('&').filter(|word| !word.is_empty()) {
        match word.strip_prefix("bytes=") {
            Some(words) => bytes = words,
            None if word == "oneway" => is_one_way = true,
            None => return Err(format!("'{word}' is unknown here: write {FORM}")),
        }
    }
    Ok(Target::Udp {
        url: place(at, ECHO_PORT, FORM)?,
        bytes: bytes.to_owned(),
        is_one_way,
    })
}

/// `HOST[:PORT]/NAMES[?type=A,AAAA]`.
fn dns(rest: &str) -> Result<Target, String> {
    const FORM: &str = "dns://HOST[:PORT]/host{n}.example.com[?type=A]";
    let (rest, query) = rest.split_once('?').unwrap_or((rest, "type=A"));
    let (at, names) = rest.split_once('/').unwrap_or((rest, ""));
    if names.is_empty() {
        return Err(format!("no name to ask for: write {FORM}"));
    }
    let kinds = query
        .strip_prefix("type=")
        .ok_or_else(|| format!("'{query}' is unknown here: write {FORM}"))?;
    let number = |word: &str| {
        let known = KINDS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word));
        known.map(|(_, number)| *number).ok_or_else(|| {
            let all = KINDS.map(|(name, _)| name);
            format!("no type of record '{word}': there are {}", all.join(", "))
        })
    };
    Ok(Target::Dns {
        url: place(at, DNS_PORT, FORM)?,
        names: names.to_owned(),
        kinds: kinds.split(',').map(number).collect::<Result<_, _>>()?,
    })
}

/// `HOST[:PORT]/EXPORT[?mountport=N]`.
fn nfs(rest: &str) -> Result<Target, String> {
    const FORM: &str = "nfs://HOST[:PORT]/EXPORT[?mountport=N]";
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let at = rest.find('/').unwrap_or(rest.len());
    let (at, export) = rest.split_at(at);
    if export.is_empty() {
        return Err(format!("no export: write {FORM}"));
    }
    let mount_port = match query.strip_prefix("mountport=") {
        None if query.is_empty() => None,
        None => return Err(format!("'{query}' is unknown here: write {FORM}")),
        Some(port) => Some(
            port.parse()
                .map_err(|_| format!("'{port}' is not a port"))?,
        ),
    };
    Ok(Target::Nfs {
        url: place(at, NFS_PORT, FORM)?,
        export: export.to_owned(),
        mount_port,
    })
}

/// `HOST[:PORT][?bytes=N]`.
fn echo(rest: &str) -> Result<Target, String> {
    let (at, query) = rest.split_once('?').unwrap_or((rest, ""));
    let url = place(at, ECHO_PORT, "echo://HOST[:PORT][?bytes=64]")?;
    let bytes = match query.strip_prefix("bytes=") {
        None if query.is_empty() => ECHO_BYTES,
        None => return Err(format!("'{query}' is unknown here: write ?bytes=64")),
        Some(size) => lineside_words::parse_size(size)
            .ok()
            .and_then(|bytes| u32::try_from(bytes).ok())
            .filter(|bytes| (1..=ECHO_BYTES_MAX).contains(bytes))
            .ok_or_else(|| format!("'{size}' is not a length of a request: give 1 to 1MiB"))?,
    };
    Ok(Target::Echo { url, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_protocol_server_and_length() {
        let http = Target::parse("http://localhost/a?b").expect("a URL");
        assert_eq!(
            http,
            Target::Http(Url::parse("http://localhost/a?b").expect("a URL"))
        );
        let dns = Target::parse("dns://[::1]/h{n}.a?type=a,MX").expect("a URL");
        let Target::Dns { url, names, kinds } = dns else {
            panic!("{dns:?}");
        };
        assert_eq!((url.port, &*names, &*kinds), (53, "h{n}.a", &[1, 15][..]));
        let nfs = Target::parse("nfs://a/b/c?mountport=7").expect("a URL");
        let Target::Nfs {
            export, mount_port, ..
        } = nfs
        else {
            panic!("{nfs:?}");
        };
        assert_eq!((&*export, mount_port), ("/b/c", Some(7)));
        let udp = Target::parse("udp://a?oneway&bytes=uniform 64..1400").expect("a URL");
        let Target::Udp {
            url,
            bytes,
            is_one_way,
        } = udp
        else {
            panic!("{udp:?}");
        };
        assert_eq!((url.port, &*bytes), (7, "uniform 64..1400"));
        assert!(is_one_way);
        let sink = Target::parse("sink://a?bytes=uniform 1KiB..1GiB").expect("a URL");
        let Target::Sink { url, bytes } = sink else {
            panic!("{sink:?}");
        };
        let words = bytes.as_deref();
        assert_eq!((url.port, words), (9, Some("uniform 1KiB..1GiB")));
        let source = Target::parse("source://[::1]:7").expect("a URL");
        let Target::Source { url, bytes } = source else {
            panic!("{source:?}");
        };
        assert_eq!((url.port, bytes), (7, None));
        let memcached = Target::parse("memcached://localhost").expect("a URL");
        let Target::Memcached(Url { port, .. }) = memcached else {
            panic!("{memcached:?}");
        };
        assert_eq!(port, 11_211);
        for (text, host, port, bytes) in [
            ("echo://127.0.0.1", "127.0.0.1", 7, 64),
            ("echo://127.0.0.1:80", "127.0.0.1", 80, 64),
            ("echo://[::1]", "::1", 7, 64),
            ("ECHO://[::1]:9000/?bytes=4KiB", "::1", 9000, 4096),
        ] {
            let Ok(Target::Echo { url, bytes: found }) = Target::parse(text) else {
                panic!("{text}");
            };
            assert_eq!((&*url.host, url.port, found), (host, port, bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused_with_the_way_out() {
        for (text, words) in [
            ("127.0.0.1:8080", "write http://127.0.0.1:8080"),
            ("http://", "no host"),
            ("https://a/", "not supported yet"),
            ("htpt://a/", "the nearest known one is http"),
            ("echo://a/path", "there are no paths here"),
            ("memcached://a/?b", "write memcached://HOST[:PORT]"),
            ("udp://a?size=1", "?bytes=100"),
            ("sink://a?byte=1", "write sink://HOST[:PORT][?bytes=1MiB]"),
            ("dns://a", "no name to ask for"),
            ("dns://a/x?type=B", "there are A, AAAA"),
            ("nfs://a", "no export"),
            ("nfs://a/e?port=1", "mountport=N"),
            ("echo://a?byte=3", "write ?bytes=64"),
            ("echo://a?bytes=0", "give 1 to 1MiB"),
            ("echo://a?bytes=2GiB", "give 1 to 1MiB"),
        ] {
            let error = Target::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
