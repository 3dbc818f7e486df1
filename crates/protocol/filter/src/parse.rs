//! From tokens to [`Node`]s, in the grammar of pcap-filter(7).

mod address;

use std::ops::Range;

use crate::error::FilterError;
use crate::lex::{Kind, Token, tokens};
use crate::syntax::{Arithmetic, Direction, Node, Operator, Primitive, Protocol, Relation};

/// Parentheses, `not` and indices within each other, which take stack.
const NESTING_MAX: usize = 100;
/// Changes between `and` and `or`, and operators of arithmetic, in the whole expression: each makes
/// the tree deeper.
const CHAIN_MAX: usize = 500;

const SUPPORTED: &str = "supported: host, net, port, portrange, proto, src, dst, ether, ip, ip6, \
    arp, rarp, tcp, udp, sctp, icmp, icmp6, \
     igmp, ah, esp, pim, vrrp, vlan, broadcast, multicast, less, greater, len, tcp[13] and its \
     like, and, or, not, parentheses";

/// Words that begin a condition, one of which may be meant where an earlier `port` still holds.
const BEGINNINGS: [&str; 16] = [
    "host",
    "net",
    "port",
    "portrange",
    "proto",
    "src",
    "dst",
    "ether",
    "ip",
    "ip6",
    "tcp",
    "udp",
    "vlan",
    "less",
    "greater",
    "not",
];

/// Words of pcap-filter(7) that are left out.
const UNSUPPORTED: [&str; 34] = [
    "gateway",
    "protochain",
    "mpls",
    "pppoed",
    "pppoes",
    "geneve",
    "vxlan",
    "ifname",
    "on",
    "rnr",
    "rulenum",
    "reason",
    "rset",
    "ruleset",
    "srnr",
    "subrulenum",
    "action",
    "inbound",
    "outbound",
    "wlan",
    "fddi",
    "tr",
    "type",
    "subtype",
    "dir",
    "decnet",
    "iso",
    "clnp",
    "stp",
    "ipx",
    "netbeui",
    "lat",
    "atalk",
    "aarp",
];

/// Names of ports that need no number.
const SERVICES: [(&str, u16); 16] = [
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("sunrpc", 111),
    ("ntp", 123),
    ("snmp", 161),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("nfs", 2049),
    ("iscsi-target", 3260),
];

/// Names of numbers, as pcap-filter(7) lists them.
const CONSTANTS: [(&str, u32); 37] = [
    ("tcpflags", 13),
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
];

/// What stands before an address or a number, and is inherited by bare ones behind `and`, `or` and
/// `not`.
#[derive(Debug, Clone, Copy)]
struct Qualifiers {
    protocol: Option<Protocol>,
    direction: Option<Direction>,
    kind: Option<What>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

impl What {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "host" => Self::Host,
            "net" => Self::Net,
            "port" => Self::Port,
            "portrange" => Self::PortRange,
            "proto" => Self::Proto,
            _ => return None,
        })
    }
}

pub(crate) fn parse(expression: &str) -> Result<Option<Node>, FilterError> {
    let mut parser = Parser {
        expression,
        tokens: tokens(expression)?,
        at: 0,
        nesting: 0,
        chain: 0,
    };
    if parser.tokens.is_empty() {
        return Ok(None);
    }
    let (node, _) = parser.expression(None)?;
    if parser.at < parser.tokens.len() {
        let what = format!(
            "'{}' stands where 'and', 'or' or the end should: is a qualifier such as 'host' or \
            'port' missing before it?",
            parser.text()
        );
        return Err(parser.error(what));
    }
    Ok(Some(node))
}

struct Parser<'a> {
    expression: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    nesting: usize,
    chain: usize,
}

/// A truth, and what a bare address or number behind it would inherit.
type Term = (Node, Option<Qualifiers>);

impl<'a> Parser<'a> {
    fn text_at(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The next token; empty at the end.
    fn text(&self) -> &'a str {
        self.text_at(self.at)
    }

    fn place(&self, at: usize) -> Range<usize> {
        let end = self.expression.trim_end().len();
        self.tokens
            .get(at)
            .map_or(end..end, |token| token.place.clone())
    }

    fn error(&self, what: impl Into<String>) -> FilterError {
        self.error_at(self.at, what)
    }

    fn error_at(&self, at: usize, what: impl Into<String>) -> FilterError {
        FilterError::new(self.expression, self.place(at), what)
    }

    fn accept(&mut self, texts: &[&str]) -> bool {
        let found = texts.contains(&self.text());
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), FilterError> {
        if self.accept(&[text]) {
            return Ok(());
        }
        Err(self.error(format!("'{text}' is missing here")))
    }

    fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(self.error(format!("nested more than {NESTING_MAX} deep")));
        }
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    fn count_chain(&mut self) -> Result<(), FilterError> {
        self.chain += 1;
        if self.chain > CHAIN_MAX {
            return Err(self.error(format!(
                "more than {CHAIN_MAX} changes between 'and' and 'or', or operators of arithmetic"
            )));
        }
        Ok(())
    }

    /// `and` and `or` bind equally, to the left.
    fn joined(
        &mut self,
        mut qualifiers: Option<Qualifiers>,
        part: impl Fn(&mut Self, Option<Qualifiers>) -> Result<Term, FilterError>,
    ) -> Result<Term, FilterError> {
        let (mut left, first) = part(self, qualifiers)?;
        qualifiers = first;
        loop {
            let is_all = if self.accept(&["and", "&&"]) {
                true
            } else if self.accept(&["or", "||"]) {
                false
            } else {
                return Ok((left, qualifiers));
            };
            let (right, behind) = part(self, qualifiers)?;
            qualifiers = behind;
            match (&mut left, is_all) {
                (Node::All(parts), true) | (Node::Any(parts), false) => parts.push(right),
                _ => {
                    self.count_chain()?;
                    let parts = vec![left, right];
                    left = if is_all {
                        Node::All(parts)
                    } else {
                        Node::Any(parts)
                    };
                }
            }
        }
    }

    fn expression(&mut self, qualifiers: Option<Qualifiers>) -> Result<Term, FilterError> {
        self.joined(qualifiers, Self::term)
    }

    fn term(&mut self, qualifiers: Option<Qualifiers>) -> Result<Term, FilterError> {
        let start = self.at;
        let word = self.text();
        if self.accept(&["not", "!"]) {
            let (node, behind) = self.nested(|parser| parser.term(qualifiers))?;
            return Ok((Node::Not(Box::new(node)), behind));
        }
        if self.begins_arithmetic() {
            return Ok((self.relation()?, None));
        }
        if self.accept(&["("]) {
            let term = self.nested(|parser| parser.expression(qualifiers))?;
            self.expect(")")?;
            return Ok(term);
        }
        let is_protocol = Protocol::named(word).is_some();
        if is_protocol || matches!(word, "src" | "dst") || What::named(word).is_some() {
            return self.qualified();
        }
        let primitive = match word {
            "" => return Err(self.error("the filter ends where something should follow")),
            "vlan" => {
                self.at += 1;
                let id = match self.tokens.get(self.at).map(|token| token.kind) {
                    Some(Kind::Number(id)) => {
                        if id > 0x0fff {
                            return Err(self.error("a VLAN identifier is at most 4095"));
                        }
                        self.at += 1;
                        Some(id as u16)
                    }
                    _ => None,
                };
                Primitive::Vlan(id)
            }
            "less" | "greater" => {
                self.at += 1;
                let relation = if word == "less" {
                    Relation::LessOrEqual
                } else {
                    Relation::GreaterOrEqual
                };
                Primitive::Relation {
                    left: Arithmetic::Length,
                    relation,
                    right: Arithmetic::Number(self.number("a length in bytes", u32::MAX)?),
                }
            }
            "broadcast" | "multicast" => {
                self.at += 1;
                to_many(Protocol::Ether, word).expect("Ethernet has both")
            }
            _ if UNSUPPORTED.contains(&word) => {
                return Err(self.error(format!("'{word}' is not supported; {SUPPORTED}")));
            }
            _ if qualifiers.is_some() => return self.value(qualifiers),
            _ => {
                return Err(self.error(format!(
                    "'{word}' is not known as a primitive of filters; {SUPPORTED}"
                )));
            }
        };
        Ok((self.primitive(start, primitive), None))
    }

    fn primitive(&self, start: usize, primitive: Primitive) -> Node {
        let place = self.place(start).start..self.place(self.at - 1).end;
        Node::Primitive(primitive, place)
    }

    /// What begins with a protocol, a direction or a kind: up to its address or number, if it has
    /// any.
    fn qualified(&mut self) -> Result<Term, FilterError> {
        let start = self.at;
        let protocol = Protocol::named(self.text());
        self.at += usize::from(protocol.is_some());
        if let Some(protocol) = protocol
            && matches!(self.text(), "broadcast" | "multicast")
        {
            let Some(primitive) = to_many(protocol, self.text()) else {
                return Err(self.error(format!(
                    "'{} {}' is not supported: there are ether broadcast, ether multicast, ip \
                    multicast and ip6 multicast",
                    protocol.name(),
                    self.text()
                )));
            };
            self.at += 1;
            return Ok((self.primitive(start, primitive), None));
        }
        let direction = self.direction();
        let kind = What::named(self.text());
        self.at += usize::from(kind.is_some());
        let qualifiers = Qualifiers {
            protocol,
            direction,
            kind,
        };
        match protocol {
            Some(Protocol::Ether) if direction.is_none() && kind.is_none() => {
                Err(self.error("'ether' needs host, src, dst, proto, broadcast, multicast or [ ]"))
            }
            Some(protocol) if direction.is_none() && kind.is_none() => {
                Ok((self.primitive(start, Primitive::Protocol(protocol)), None))
            }
            _ => self.values(Some(qualifiers)),
        }
    }

    fn direction(&mut self) -> Option<Direction> {
        let (one, other) = match self.text() {
            "src" => (Direction::Source, "dst"),
            "dst" => (Direction::Destination, "src"),
            _ => return None,
        };
        self.at += 1;
        let joined = match self.text() {
            "or" | "||" => Direction::Either,
            "and" | "&&" => Direction::Both,
            _ => return Some(one),
        };
        if self.text_at(self.at + 1) != other {
            return Some(one);
        }
        self.at += 2;
        Some(joined)
    }

    /// `host a`, `host not a`, `host (a or b)`.
    fn values(&mut self, qualifiers: Option<Qualifiers>) -> Result<Term, FilterError> {
        if self.accept(&["not", "!"]) {
            let (node, behind) = self.nested(|parser| parser.values(qualifiers))?;
            return Ok((Node::Not(Box::new(node)), behind));
        }
        if self.accept(&["("]) {
            let values =
                self.nested(|parser| parser.joined(qualifiers, |parser, q| parser.values(q)))?;
            self.expect(")")?;
            return Ok(values);
        }
        self.value(qualifiers)
    }

    fn value(&mut self, qualifiers: Option<Qualifiers>) -> Result<Term, FilterError> {
        let start = self.at;
        let Some(Qualifiers {
            protocol,
            direction,
            kind,
        }) = qualifiers
        else {
            return Err(self.error("a qualifier such as 'host' or 'port' is missing here"));
        };
        if self.at == self.tokens.len() {
            return Err(self.error("an address or a number is missing at the end"));
        }
        let direction_or_either = direction.unwrap_or(Direction::Either);
        let primitive = match kind {
            None | Some(What::Host | What::Net) => {
                self.address(protocol, direction_or_either, kind == Some(What::Net))?
            }
            Some(What::Port | What::PortRange) => {
                let transport = match protocol {
                    None | Some(Protocol::Tcp | Protocol::Udp | Protocol::Sctp) => protocol,
                    Some(other) => {
                        return Err(self.error_at(
                            start.saturating_sub(1),
                            format!("'{}' has no ports: tcp, udp and sctp have", other.name()),
                        ));
                    }
                };
                let (low, high) = self.ports(kind == Some(What::PortRange))?;
                Primitive::Ports {
                    transport,
                    direction: direction_or_either,
                    low,
                    high,
                }
            }
            Some(What::Proto) => {
                if direction.is_some() {
                    return Err(self.error_at(start - 1, "a protocol has no src and no dst"));
                }
                self.protocol_number(protocol)?
            }
        };
        Ok((self.primitive(start, primitive), qualifiers))
    }

    fn number(&mut self, what: &str, max: u32) -> Result<u32, FilterError> {
        match self.tokens.get(self.at).map(|token| token.kind) {
            Some(Kind::Number(number)) if number <= max => {
                self.at += 1;
                Ok(number)
            }
            _ => Err(self.error(format!("{what}, at most {max}, is missing here"))),
        }
    }

    fn ports(&mut self, is_range: bool) -> Result<(u16, u16), FilterError> {
        let text = self.text();
        let port = |text: &str| {
            let named = SERVICES.iter().find(|(name, _)| *name == text);
            named
                .map(|&(_, number)| number)
                .or_else(|| text.parse().ok())
        };
        let written = match self.tokens.get(self.at).map(|token| token.kind) {
            Some(Kind::Number(number)) => u16::try_from(number).ok(),
            _ => port(text),
        };
        let found = match written {
            Some(one) => Some((one, one)),
            // A name may have a minus within it, too.
            None if is_range => text.match_indices('-').find_map(|(at, _)| {
                let (low, high) = (port(&text[..at])?, port(&text[at + 1..])?);
                Some((low.min(high), low.max(high)))
            }),
            None => None,
        };
        let Some(found) = found else {
            let what = if is_range {
                format!("'{text}' is no range of ports: write it as 600-1023")
            } else {
                let meant = BEGINNINGS
                    .iter()
                    .find(|word| lineside_words::distance(word, text) == 1)
                    .map_or_else(String::new, |word| format!("; or did you mean '{word}'?"));
                format!("'{text}' is no port that is known: give its number, 0 to 65535{meant}")
            };
            return Err(self.error(what));
        };
        self.at += 1;
        Ok(found)
    }

    fn protocol_number(&mut self, header: Option<Protocol>) -> Result<Primitive, FilterError> {
        let named = Protocol::named(self.text());
        if header == Some(Protocol::Ether) {
            if let Some(ether_type) = named.and_then(Protocol::ether_type) {
                self.at += 1;
                return Ok(Primitive::EtherType(ether_type));
            }
            let number = self.number("an EtherType", 0xffff)?;
            if number < 0x600 {
                let what = "below 0x600 this is a length, and 802.2 headers are not supported";
                return Err(self.error_at(self.at - 1, what));
            }
            return Ok(Primitive::EtherType(number as u16));
        }
        if !matches!(header, None | Some(Protocol::Ip | Protocol::Ip6)) {
            let what = "only 'ip proto', 'ip6 proto', 'ether proto' and 'proto' are supported";
            return Err(self.error_at(self.at - 1, what));
        }
        let number = match named.and_then(Protocol::number) {
            Some(number) => {
                self.at += 1;
                number
            }
            None => self.number("a protocol: a name, or a number", 0xff)? as u8,
        };
        Ok(Primitive::IpProtocol { header, number })
    }

    /// Whether a comparison begins here: with a load, with a number or name before an operator, or
    /// with a parenthesis before one.
    fn begins_arithmetic(&self) -> bool {
        let next = self.text_at(self.at + 1);
        match self
            .tokens
            .get(self.at)
            .map(|token| (token.kind, token.text))
        {
            Some((_, "-")) => true,
            Some((_, "(")) => {
                let mut open = 0;
                for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
                    match token.text {
                        "(" => open += 1,
                        ")" => open -= 1,
                        _ => {}
                    }
                    if open == 0 {
                        return is_operator(self.text_at(at + 1));
                    }
                }
                false
            }
            Some((Kind::Number(_), _)) => is_operator(next),
            Some((Kind::Word, word)) => {
                (Protocol::named(word).is_some() && next == "[")
                    || word == "len"
                    || (constant(word).is_some() && is_operator(next))
            }
            _ => false,
        }
    }

    fn relation(&mut self) -> Result<Node, FilterError> {
        let start = self.at;
        let left = self.arithmetic(0)?;
        let relation = match self.text() {
            "=" | "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            ">" => Relation::Greater,
            "<" => Relation::Less,
            ">=" => Relation::GreaterOrEqual,
            "<=" => Relation::LessOrEqual,
            _ => return Err(self.error("a comparison (=, !=, <, <=, >, >=) is missing here")),
        };
        self.at += 1;
        let right = self.arithmetic(0)?;
        let primitive = Primitive::Relation {
            left,
            relation,
            right,
        };
        Ok(self.primitive(start, primitive))
    }

    fn arithmetic(&mut self, strength_min: usize) -> Result<Arithmetic, FilterError> {
        let mut left = self.operand()?;
        while let Some((operator, strength)) = operator(self.text())
            && strength >= strength_min
        {
            let place = self.at;
            self.at += 1;
            self.count_chain()?;
            let right = self.nested(|parser| parser.arithmetic(strength + 1))?;
            left = match (&left, &right) {
                (&Arithmetic::Number(one), &Arithmetic::Number(other)) => {
                    Arithmetic::Number(operator.of_numbers(one, other).ok_or_else(|| {
                        self.error_at(place, "division by 0, or a shift by more than 31 bits")
                    })?)
                }
                (_, &Arithmetic::Number(other)) if operator.of_numbers(1, other).is_none() => {
                    let what = "division by 0, or a shift by more than 31 bits";
                    return Err(self.error_at(place, what));
                }
                _ => Arithmetic::Binary(operator, Box::new(left), Box::new(right)),
            };
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Arithmetic, FilterError> {
        let Some(token) = self.tokens.get(self.at).cloned() else {
            return Err(self.error("the filter ends where a number should follow"));
        };
        self.at += 1;
        match (token.kind, token.text) {
            (Kind::Number(number), _) => Ok(Arithmetic::Number(number)),
            (_, "-") => {
                let operand = self.nested(Self::operand)?;
                Ok(match operand {
                    Arithmetic::Number(number) => Arithmetic::Number(number.wrapping_neg()),
                    other => Arithmetic::Negate(Box::new(other)),
                })
            }
            (_, "(") => {
                let inner = self.nested(|parser| parser.arithmetic(0))?;
                self.expect(")")?;
                Ok(inner)
            }
            (_, "len") => Ok(Arithmetic::Length),
            (_, word) => {
                if let Some(number) = constant(word) {
                    return Ok(Arithmetic::Number(number));
                }
                if let Some(protocol) = Protocol::named(word)
                    && self.accept(&["["])
                {
                    return self.load(protocol);
                }
                let hint = if word.contains('-') {
                    ": put blanks around an operator"
                } else {
                    ""
                };
                let what = format!("a number should stand where '{word}' does{hint}");
                Err(self.error_at(self.at - 1, what))
            }
        }
    }

    fn load(&mut self, protocol: Protocol) -> Result<Arithmetic, FilterError> {
        if matches!(protocol, Protocol::Ah | Protocol::Esp) {
            let what = format!("bytes of '{}' are not supported", protocol.name());
            return Err(self.error_at(self.at - 2, what));
        }
        let index_at = self.at;
        let index = self.nested(|parser| parser.arithmetic(0))?;
        // No frame is longer; and the kernel gives other meanings to offsets that look negative.
        if matches!(index, Arithmetic::Number(0x4_0000..)) {
            return Err(self.error_at(index_at, "an offset is less than 262144"));
        }
        let size = if self.accept(&[":"]) {
            let size = self.number("a size: 1, 2 or 4", 4)?;
            if !matches!(size, 1 | 2 | 4) {
                return Err(self.error_at(self.at - 1, "the size is 1, 2 or 4 bytes"));
            }
            size as u8
        } else {
            1
        };
        self.expect("]")?;
        Ok(Arithmetic::Load {
            protocol,
            index: Box::new(index),
            size,
        })
    }
}

/// `broadcast` and `multicast` of a protocol, where they are defined without an interface's own
/// mask.
fn to_many(protocol: Protocol, word: &str) -> Option<Primitive> {
    match (protocol, word) {
        (Protocol::Ether, "broadcast") => Some(Primitive::EtherAddress {
            direction: Direction::Destination,
            address: [0xff; 6],
        }),
        (Protocol::Ether, "multicast") => Some(Primitive::EtherMulticast),
        (Protocol::Ip, "multicast") => Some(Primitive::IpMulticast),
        (Protocol::Ip6, "multicast") => Some(Primitive::Ip6Multicast),
        _ => None,
    }
}

fn constant(word: &str) -> Option<u32> {
    let found = CONSTANTS.iter().find(|(name, _)| *name == word);
    found.map(|&(_, number)| number)
}

/// An operator, and how strongly it binds: as in C.
fn operator(text: &str) -> Option<(Operator, usize)> {
    Some(match text {
        "|" => (Operator::Or, 1),
        "^" => (Operator::Xor, 2),
        "&" => (Operator::And, 3),
        "<<" => (Operator::ShiftLeft, 4),
        ">>" => (Operator::ShiftRight, 4),
        "+" => (Operator::Add, 5),
        "-" => (Operator::Subtract, 5),
        "*" => (Operator::Multiply, 6),
        "/" => (Operator::Divide, 6),
        "%" => (Operator::Modulo, 6),
        _ => return None,
    })
}

fn is_operator(text: &str) -> bool {
    operator(text).is_some() || matches!(text, "=" | "==" | "!=" | "<" | ">" | "<=" | ">=")
}
