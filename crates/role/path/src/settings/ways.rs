//! The ways of frames through a path, as words name them: the two directions between two ports, or
//! into and out of each of several.

use lineside_run::ConfigError;

use crate::emulate::HostEnd;
use crate::{Direction, PORTS_MAX};

/// The two sides of a link.
pub const CAPTURE_SIDES: [&str; 2] = ["inside", "outside"];

/// The side that a port between two is: the first one is the inside. Others have their name.
pub fn side_name<'a>(ports: &'a [String], port: &'a str) -> &'a str {
    match ports {
        [first, second] if !is_side(first) && !is_side(second) => {
            CAPTURE_SIDES[usize::from(second == port)]
        }
        _ => port,
    }
}

fn is_side(name: &str) -> bool {
    CAPTURE_SIDES.contains(&name)
}

/// A way as it is written before words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way<'a> {
    Between(Direction),
    /// What comes in by a port.
    Into(&'a str),
    /// What leaves by a port.
    OutOf(&'a str),
}

impl<'a> Way<'a> {
    /// The way before a text, if there is one, and what is behind it.
    pub(super) fn split(text: &'a str) -> (Option<Self>, &'a str) {
        let text = text.trim_start();
        let Some((prefix, rest)) = text.split_once(':') else {
            return (None, text);
        };
        let mut words = prefix.split_whitespace();
        let way = match (words.next(), words.next(), words.next()) {
            // Words of old have no blank before the colon.
            _ if prefix == "out" => Self::Between(Direction::Outbound),
            _ if prefix == "in" => Self::Between(Direction::Inbound),
            // An expression may begin so: 'match in: 5ms'.
            (Some("match"), ..) => return (None, text),
            (Some(port), Some("in"), None) => Self::Into(port),
            (Some(port), Some("out"), None) => Self::OutOf(port),
            _ => return (None, text),
        };
        (Some(way), rest.trim_start())
    }
}

/// The ways of a path. Their numbers are those of its sides.
#[derive(Debug, Clone, Default)]
pub struct Ways {
    /// The names of the ports, if they have some: two at least.
    ports: Vec<String>,
}

impl Ways {
    /// The ways between ports of these names; without any, those of a path whose two ends have no
    /// names.
    pub fn between(ports: Option<&[String]>) -> Result<Self, ConfigError> {
        let Some(ports) = ports else {
            return Ok(Self::default());
        };
        match ports {
            [] | [_] => {
                return Err(ConfigError::usage(
                    "--between names two interfaces: --between IF1,IF2, the first one is the \
                    inside; three to eight are a switch",
                ));
            }
            [one, other] if one == other => {
                return Err(ConfigError::usage(&format!(
                    "--between {one},{other}: a link has two different ends"
                )));
            }
            _ => {}
        }
        if ports.len() > PORTS_MAX {
            return Err(ConfigError::usage(&format!(
                "--between names {} interfaces: a switch has at most {PORTS_MAX} ports",
                ports.len()
            )));
        }
        let mut later = ports.iter().enumerate();
        if let Some((_, twice)) = later.find(|(at, port)| ports[..*at].contains(port)) {
            return Err(ConfigError::usage(&format!(
                "--between {}: '{twice}' is there twice: each port is another interface",
                ports.join(",")
            )));
        }
        Ok(Self {
            ports: ports.to_vec(),
        })
    }

    /// The ways between this host and an interface of its own.
    pub fn on(interface: &str) -> Self {
        Self {
            ports: vec![HostEnd::NAME.to_owned(), interface.to_owned()],
        }
    }

    /// The names of the ports, if they have some.
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// The names of the ports between which a switch stands; none for a link.
    pub(super) fn switch_ports(&self) -> Option<&[String]> {
        (self.ports.len() > 2).then_some(&self.ports)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.switch_ports().map_or(2, |ports| 2 * ports.len())
    }

    /// Whether words without a way are for this one too: with a switch for what comes in, so that a
    /// frame meets them once.
    pub(super) fn is_general(&self, way: usize) -> bool {
        self.switch_ports().is_none_or(|ports| way < ports.len())
    }

    /// The number of a way.
    pub(super) fn index(&self, way: Way<'_>) -> Result<usize, ConfigError> {
        let place = |name: &str| {
            let mut ports = self.ports.iter();
            let place = ports.position(|port| {
                let side = side_name(&self.ports, port);
                port == name || side == name
            });
            place.ok_or_else(|| self.unknown(name))
        };
        match (way, self.switch_ports()) {
            (Way::Between(direction), None) => Ok(direction as usize),
            (Way::Between(direction), Some([first, ..])) => {
                let word = match direction {
                    Direction::Outbound => "out",
                    Direction::Inbound => "in",
                };
                Err(ConfigError::usage(&format!(
                    "'{word}:' is for a link between two ports: of more, name one: '{first} \
                    {word}: WORDS'"
                )))
            }
            (Way::Into(name), Some(_)) => place(name),
            (Way::OutOf(name), Some(ports)) => Ok(ports.len() + place(name)?),
            // What comes in by the one port leaves by the other.
            (Way::Into(name), None) => place(name),
            (Way::OutOf(name), None) => Ok(1 - place(name)?),
            (Way::Between(_), Some([])) => unreachable!("a switch has ports"),
        }
    }

    fn unknown(&self, name: &str) -> ConfigError {
        let known = match &self.ports[..] {
            [] => "the two ends of this link have no names: write 'out:' or 'in:'".to_owned(),
            ports => format!("the ports are {}", ports.join(", ")),
        };
        ConfigError::usage(&format!("'{name}' is not a port of this run: {known}"))
    }

    /// How words for a way begin.
    pub(super) fn prefix(&self, way: usize) -> String {
        match self.switch_ports() {
            None if way == Direction::Outbound as usize => "out:".to_owned(),
            None => "in:".to_owned(),
            Some(ports) => match way.checked_sub(ports.len()) {
                None => format!("{} in:", ports[way]),
                Some(port) => format!("{} out:", ports[port]),
            },
        }
    }
}
