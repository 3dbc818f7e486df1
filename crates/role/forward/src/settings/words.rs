//! The words of a service, of a route and of a timeout.
//!
//! ```text
//!  tcp 10.9.1.100:80 to 10.9.2.2:8080 weight 3, 10.9.2.3:8080; choose least; check http /health
//!  └┬┘ └─────┬─────┘    └───────────────┬──────────────────┘   └──────────┬──────────────────┘
//!  transport address                  nodes                            options
//! ```

use std::net::{IpAddr, SocketAddr};

use lineside_balancer::{
    Choice, Health, HttpCheck, NodeSettings, OnLoss, Route, Service, Timeouts, Transport, proxy,
};
use lineside_time::Nanoseconds;
use lineside_words::{nearest, parse_duration};

/// Options of a service, for the one nearest to an unknown one.
const OPTIONS: [&str; 13] = [
    "choose",
    "affinity",
    "check",
    "on-loss",
    "slow-start",
    "keep-client",
    "no-mss-clamp",
    "multicast",
    "syn-proxy",
    "host",
    "path",
    "sni",
    "default",
];

const CHOICES: [(&str, Choice); 3] = [
    ("maglev", Choice::Maglev),
    ("least", Choice::LeastConnections),
    ("weighted", Choice::RoundRobin),
];

/// The service of these words. The error is a sentence.
pub fn service(words: &str) -> Result<Service, String> {
    let wrong = |why: String| format!("service '{words}': {why}");
    let mut parts = words.split(';');
    let head = parts.next().unwrap_or_default();
    let mut service = of_head(head).map_err(wrong)?;
    for option in parts {
        set_option(&mut service, option.trim()).map_err(wrong)?;
    }
    Ok(service)
}

fn of_head(head: &str) -> Result<Service, String> {
    let usual = "write 'tcp ADDRESS:PORT to NODE:PORT[ weight N], ...'";
    let (ends, nodes) = head
        .split_once(" to ")
        .ok_or_else(|| format!("' to ' is missing: {usual}"))?;
    let mut words = ends.split_whitespace();
    let (transport, address) = (words.next(), words.next());
    let (Some(transport), Some(address), None) = (transport, address, words.next()) else {
        return Err(format!("'{ends}' is not a transport and address: {usual}"));
    };
    let (transport, address) = (self::transport(transport)?, end(address)?);
    let nodes = nodes.split(',').map(|node| self::node(node.trim()));
    Ok(Service::new(
        transport,
        address,
        nodes.collect::<Result<_, _>>()?,
    ))
}

/// `tcp` or `udp`.
pub(super) fn transport(word: &str) -> Result<Transport, String> {
    match word {
        "tcp" => Ok(Transport::Tcp),
        "udp" => Ok(Transport::Udp),
        _ => Err(format!("'{word}' is not a transport: tcp or udp")),
    }
}

/// An address and a port.
pub(super) fn end(word: &str) -> Result<SocketAddr, String> {
    word.parse().map_err(|_| {
        format!("'{word}' is not an address with a port: write 10.9.1.100:80 or [fd00:9::100]:80")
    })
}

/// A node with its weight.
pub(super) fn node(words: &str) -> Result<NodeSettings, String> {
    let mut each = words.split_whitespace();
    let address = end(each.next().ok_or("a node is missing between two commas")?)?;
    let weight = match (each.next(), each.next(), each.next()) {
        (None, ..) => 1,
        (Some("weight"), Some(weight), None) => self::weight(weight)?,
        _ => {
            return Err(format!(
                "'{words}' is not a node: write 10.9.2.2:8080 weight 3"
            ));
        }
    };
    Ok(NodeSettings { address, weight })
}

/// A weight.
pub(super) fn weight(word: &str) -> Result<u32, String> {
    let weight = word
        .parse()
        .ok()
        .filter(|weight| (0..=1_000).contains(weight));
    weight.ok_or_else(|| format!("'{word}' is not a weight: a whole number from 0 to 1000"))
}

fn set_option(service: &mut Service, option: &str) -> Result<(), String> {
    let (name, rest) = option.split_once(' ').unwrap_or((option, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("keep-client", "") => service.keeps_client = true,
        ("no-mss-clamp", "") => service.clamps_mss = false,
        ("multicast", "") => service.multicast = true,
        ("syn-proxy", "") => {
            service.splice.get_or_insert_with(splice_of_all);
        }
        ("host" | "path" | "sni" | "default", _) => add_rule(service, option)?,
        ("choose", word) => {
            let known = CHOICES.iter().find(|(known, _)| *known == word);
            let known = known.ok_or_else(|| {
                let nearest = nearest(word, CHOICES.iter().map(|(known, _)| *known));
                format!("choose: '{word}' is unknown; the nearest known one is {nearest}")
            })?;
            service.choice = known.1;
        }
        ("affinity", word) => service.affinity = Some(time("affinity", word)?),
        ("slow-start", word) => service.slow_start = time("slow-start", word)?,
        ("on-loss", "reset") => service.on_loss = OnLoss::Reset,
        ("on-loss", "leave") => service.on_loss = OnLoss::Leave,
        ("on-loss", word) => return Err(format!("on-loss: '{word}' is neither reset nor leave")),
        ("check", words) => service.health = Some(health(words, service.address.ip())?),
        _ => {
            let nearest = nearest(name, OPTIONS);
            return Err(format!(
                "'{option}' is not an option; the nearest known one is '{nearest}'"
            ));
        }
    }
    Ok(())
}

/// A handshake that is answered here, and no rule.
fn splice_of_all() -> proxy::Service {
    proxy::Service {
        rules: None,
        groups: Vec::new(),
        offer: proxy::Offer::default(),
    }
}

/// `host NAME [path PREFIX] to NODE ...`, `path PREFIX to NODE ...`, `sni NAME to NODE ...` or
/// `default to NODE ...`; without the last, all nodes take what no rule does.
fn add_rule(service: &mut Service, option: &str) -> Result<(), String> {
    let (condition, nodes) = option.split_once(" to ").ok_or_else(|| {
        format!("'{option}': the nodes are missing: write '{option} to NODE:PORT'")
    })?;
    let nodes: Vec<_> = nodes
        .split_whitespace()
        .map(end)
        .collect::<Result<_, _>>()?;
    let splice = service.splice.get_or_insert_with(splice_of_all);
    let rules = splice.rules.get_or_insert_with(|| proxy::Rules {
        rules: Vec::new(),
        // A group that names no nodes has all.
        default: Some(proxy::Group::MAX),
    });
    let group = splice.groups.len() as proxy::Group;
    match condition {
        "default" => rules.default = Some(group),
        condition => {
            let rule = proxy::Rule::parse(condition, group);
            rules
                .rules
                .push(rule.map_err(|error| format!("'{option}': {error}"))?);
        }
    }
    splice.groups.push(nodes);
    Ok(())
}

/// `tcp` or `http PATH`, and then `every 1s`, `within 1s`, `rise 2`, `fall 3`, `host NAME`; the
/// request names `host` by default.
fn health(words: &str, host: IpAddr) -> Result<Health, String> {
    let usual = "write 'check tcp' or 'check http /health every 1s within 500ms rise 2 fall 3'";
    let mut each = words.split_whitespace();
    let mut health = Health::default();
    match each.next() {
        Some("tcp") => {}
        Some("http") => {
            let path = each.next().filter(|path| path.starts_with('/'));
            let path = path.ok_or_else(|| format!("check http: the path is missing: {usual}"))?;
            health.http = Some(HttpCheck {
                path: path.to_owned(),
                host: host.to_string(),
                status: 200..=399,
            });
        }
        _ => return Err(format!("'check {words}': {usual}")),
    }
    while let Some(name) = each.next() {
        let value = each
            .next()
            .ok_or_else(|| format!("check: {name} has no value: {usual}"))?;
        let count = || {
            let count = value.parse().ok().filter(|count| (1..=100).contains(count));
            count.ok_or_else(|| format!("check: '{name} {value}' is not a count from 1 to 100"))
        };
        match name {
            "every" => health.interval = time("every", value)?,
            "within" => health.timeout = time("within", value)?,
            "rise" => health.rise = count()?,
            "fall" => health.fall = count()?,
            "host" if health.http.is_some() => {
                health
                    .http
                    .iter_mut()
                    .for_each(|http| value.clone_into(&mut http.host));
            }
            _ => return Err(format!("check: '{name}' is unknown: {usual}")),
        }
    }
    Ok(health)
}

fn time(name: &str, word: &str) -> Result<Nanoseconds, String> {
    let ns = parse_duration(word).map_err(|error| format!("{name}: {error}"))?;
    let ns = i64::try_from(ns).ok().filter(|ns| *ns > 0);
    ns.ok_or_else(|| format!("{name}: '{word}' is out of range"))
}

/// `NETWORK [via GATEWAY] dev IF`, where the network is a prefix, an address or `default`.
pub(super) fn routes(words: &str, ports: &[String]) -> Result<Vec<Route>, String> {
    let usual = "write '10.9.3.0/24 via 10.9.2.1 dev IF', '... dev IF' or 'default via ... dev IF'";
    let wrong = || format!("route '{words}': {usual}");
    let each: Vec<&str> = words.split_whitespace().collect();
    let (network, via, device) = match each[..] {
        [network, "via", via, "dev", device] => (network, Some(via), device),
        [network, "dev", device] => (network, None, device),
        _ => return Err(wrong()),
    };
    let port = ports
        .iter()
        .position(|port| port == device)
        .ok_or_else(|| {
            format!(
                "route '{words}': {device} is not one of the ports {}",
                ports.join(", ")
            )
        })?;
    let via: Option<IpAddr> = via
        .map(|via| via.parse().map_err(|_| wrong()))
        .transpose()?;
    let networks = match (network, via) {
        ("default", Some(IpAddr::V4(_))) => vec![([0; 4].into(), 0)],
        ("default", Some(IpAddr::V6(_))) => vec![([0_u16; 8].into(), 0)],
        ("default", None) => vec![([0; 4].into(), 0), ([0_u16; 8].into(), 0)],
        (network, _) => vec![prefix(network).ok_or_else(wrong)?],
    };
    let route = |network: (IpAddr, u8)| match via {
        Some(via) if via.is_ipv4() != network.0.is_ipv4() => Err(format!(
            "route '{words}': the gateway is of another family than the network"
        )),
        via => Ok(Route { network, via, port }),
    };
    networks.into_iter().map(route).collect()
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Some(most), |len| len.parse().ok())?;
    (len <= most).then_some((address, len))
}

/// Sets `NAME=TIME`.
pub(super) fn set_timeout(timeouts: &mut Timeouts, words: &str) -> Result<(), String> {
    const NAMES: [&str; 5] = [
        "established",
        "transitory",
        "half_open",
        "udp",
        "unanswered",
    ];
    let (name, value) = words.split_once('=').unwrap_or((words, ""));
    let ns = time(&format!("timeout {name}"), value)?;
    match name {
        "established" => timeouts.established = ns,
        "transitory" => timeouts.transitory = ns,
        "half_open" => timeouts.half_open = ns,
        "udp" => timeouts.udp = ns,
        "unanswered" => timeouts.unanswered = ns,
        _ => {
            let nearest = nearest(name, NAMES);
            return Err(format!(
                "timeout: '{name}' is unknown; the nearest known one is {nearest}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_refused_with_the_way_out() {
        for (words, expected) in [
            ("tcp 10.9.1.100:80", "' to ' is missing"),
            ("sctp 10.9.1.100:80 to 10.9.2.2:80", "tcp or udp"),
            (
                "tcp 10.9.1.100 to 10.9.2.2:80",
                "not an address with a port",
            ),
            ("tcp 10.9.1.100:80 to 10.9.2.2:80,", "between two commas"),
            (
                "tcp 10.9.1.100:80 to 10.9.2.2:80 weight -1",
                "from 0 to 1000",
            ),
            ("tcp 10.9.1.100:80 to 10.9.2.2:80 wait 1", "is not a node"),
            ("tcp 10.9.1.100:80 to 10.9.2.2:80; chose least", "'choose'"),
            ("tcp 10.9.1.100:80 to 10.9.2.2:80; choose lest", "least"),
            (
                "tcp 10.9.1.100:80 to 10.9.2.2:80; check http",
                "the path is missing",
            ),
            (
                "tcp 10.9.1.100:80 to 10.9.2.2:80; check tcp every",
                "no value",
            ),
            (
                "tcp 10.9.1.100:80 to 10.9.2.2:80; affinity 0s",
                "out of range",
            ),
        ] {
            let why = service(words).expect_err(words);
            assert!(why.contains(expected), "{words}: {why}");
        }
    }

    #[test]
    fn routes_name_a_port() {
        let ports = ["a".to_owned(), "b".to_owned()];
        let read = |words| routes(words, &ports);
        let found = read("10.9.3.0/24 via 10.9.2.1 dev b").expect("right");
        assert_eq!((found.len(), found[0].port, found[0].network.1), (1, 1, 24));
        assert_eq!(read("default dev a").expect("right").len(), 2);
        assert_eq!(read("default via fd00::1 dev a").expect("right").len(), 1);
        for wrong in [
            "10.9.3.0/24 dev c",
            "10.9.3.0/33 dev a",
            "default via fd00::1",
            "10.0.0.0/8 via ::1 dev a",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
