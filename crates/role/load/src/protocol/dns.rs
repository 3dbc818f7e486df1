//! DNS over UDP (RFC 1035, RFC 6891), by the messages and the zone of `lineside-dns`.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use lineside_dns::{Header, Message, NameBuf, NameError, Query, Zone, kind, rcode, set_id};
use lineside_http::Url;
use lineside_time::Nanoseconds;
use lineside_workload::Template;

use super::{
    Answer, Carrier, DatagramClient, DatagramServer, Heard, Named, Numbered, Protocol, Request,
    Service,
};
use crate::application::End;
use crate::launch::{Datagrams, Requests};
use crate::one_way::SinkFigures;
use crate::serve::ServeDatagrams;
use crate::words::{UsageError, Words};

/// The most characters of a name, and of a label: RFC 1035, 2.3.4.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// Types of records by their names; the last is any other.
const KINDS: [&str; 10] = [
    "A", "AAAA", "NS", "CNAME", "SOA", "PTR", "MX", "TXT", "ANY", "QUERY",
];
/// Where the question begins.
const QUESTION_AT: usize = 12;

/// The port of RFC 1035, 4.2.
const PORT: u16 = 53;
/// An answer that passes any network in one piece (DNS flag day 2020).
const UDP_LEN: u16 = 1_232;
/// How a URL is written.
const FORM: &str = "dns://HOST[:PORT]/host{n}.example.com[?type=A]";
/// Types of records that a URL may name.
const TYPES: [(&str, u16); 8] = [
    ("A", kind::A),
    ("AAAA", kind::AAAA),
    ("NS", kind::NS),
    ("MX", kind::MX),
    ("TXT", kind::TXT),
    ("CNAME", kind::CNAME),
    ("PTR", kind::PTR),
    ("SOA", kind::SOA),
];

/// The protocol `dns`.
pub(super) static DNS: Protocol = Protocol {
    carrier: Carrier::Udp,
    ..Protocol::new(
        "dns",
        "dns://HOST[:PORT]/NAME[?type=A]",
        client,
        Service {
            place: 5,
            about: "The zone load.example by UDP: each name in it has the address 192.0.2.1",
            port: PORT,
            size: None,
            server: |_| {
                let zone = zone().map_err(UsageError::of)?;
                Ok(Box::new(ServeDatagrams {
                    make: move |_| DnsServer(zone.clone()),
                    figures: |_| SinkFigures::default(),
                }))
            },
        },
    )
};

/// A zone in which each name has an address of those for documents (RFC 5737).
fn zone() -> Result<Zone, NameError> {
    Ok(Zone {
        origin: NameBuf::parse("load.example")?,
        a: Some(Ipv4Addr::new(192, 0, 2, 1)),
        aaaa: None,
        ttl_s: 60,
    })
}

fn client(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let (server, names, kinds) = url(words)?;
    let names = Template::parse(names, None, words.seed).map_err(UsageError::of)?;
    let dns = Dns::new(names, kinds, true, Some(UDP_LEN), words.seed);
    let dns = dns.map_err(UsageError::of)?;
    Ok((server, Box::new(Datagrams(move |_| dns.clone()))))
}

/// `HOST[:PORT]/NAMES[?type=A,AAAA]`: the server, a template of names, types of records.
fn url<'a>(words: &Words<'a>) -> Result<(Url, &'a str, Vec<u16>), UsageError> {
    let (rest, query) = { words.rest.split_once('?') }.unwrap_or((words.rest, "type=A"));
    let (at, names) = rest.split_once('/').unwrap_or((rest, ""));
    if names.is_empty() {
        return Err(words.wrong(format!("no name to ask for: write {FORM}")));
    }
    let kinds = { query.strip_prefix("type=") }
        .ok_or_else(|| words.wrong(format!("'{query}' is unknown here: write {FORM}")))?;
    let number = |word: &str| {
        let mut all = TYPES.iter();
        let known = all.find(|(name, _)| name.eq_ignore_ascii_case(word));
        known.map(|(_, number)| *number).ok_or_else(|| {
            let all = TYPES.map(|(name, _)| name).join(", ");
            words.wrong(format!("no type of record '{word}': there are {all}"))
        })
    };
    let kinds = kinds.split(',').map(number).collect::<Result<_, _>>()?;
    Ok((words.server(at, PORT, FORM)?, names, kinds))
}

/// Why names cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DnsError {
    /// One of them is no name.
    #[error("a name that is asked for, {name:?}: {error}")]
    Name {
        /// As it would be written.
        name: String,
        /// Why.
        error: NameError,
    },
    /// They may become longer than a name.
    #[error("names of up to {0} characters, and a name has at most 253: shorten them")]
    TooLong(usize),
    /// No types of records.
    #[error("no type of record to ask for: name one, such as A")]
    NoKind,
}

/// A client that asks for names, each made by a template, and for types of records in turn.
#[derive(Debug, Clone)]
pub struct Dns {
    names: Template,
    /// A query for the root, for each type: what is before the name, and what is behind it.
    queries: Vec<Vec<u8>>,
    kinds: Vec<u16>,
    seed: u64,
    name: Vec<u8>,
    /// The query that was written last.
    query: Vec<u8>,
    written_for: Option<Numbered>,
}

impl Dns {
    /// Queries for names that the template makes, of the types `kinds` (see [`lineside_dns::kind`])
    /// in turn. With `recursion`, a resolver is asked to ask others; with `udp_len`, EDNS says that
    /// this many bytes of an answer are taken. The ids of a flow follow one another from a place
    /// that the seed gives.
    pub fn new(
        names: Template,
        kinds: Vec<u16>,
        recursion: bool,
        udp_len: Option<u16>,
        seed: u64,
    ) -> Result<Self, DnsError> {
        if kinds.is_empty() {
            return Err(DnsError::NoKind);
        }
        let most = names.len_max();
        let mut name = Vec::with_capacity(most);
        for ordinal in [0, 1, u64::MAX] {
            name.clear();
            names.write(ordinal, u32::MAX.into(), &mut name);
            let name = String::from_utf8_lossy(&name).into_owned();
            if let Err(error) = NameBuf::parse(&name) {
                return Err(DnsError::Name { name, error });
            }
        }
        if most > NAME_MAX {
            return Err(DnsError::TooLong(most));
        }
        let root = NameBuf::parse(".").map_err(|error| DnsError::Name {
            name: ".".to_owned(),
            error,
        })?;
        let query = |&kind: &u16| {
            let mut query = Vec::new();
            let name = root.clone();
            Query {
                id: 0,
                name,
                kind,
                recursion_desired: recursion,
                udp_len,
            }
            .write(&mut query);
            query
        };
        Ok(Self {
            names,
            queries: kinds.iter().map(query).collect(),
            kinds,
            seed,
            name,
            query: Vec::with_capacity(512),
            written_for: None,
        })
    }

    fn kind(&self, ordinal: u64) -> usize {
        (ordinal % self.kinds.len() as u64) as usize
    }

    /// What the ids of a flow are its numbers combined with.
    fn offset(&self, flow: u32) -> u16 {
        ((self.seed ^ u64::from(flow)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
    }

    fn write_query(&mut self, message: Numbered) {
        if self.written_for == Some(message) {
            return;
        }
        let Numbered { request, number } = message;
        self.name.clear();
        self.names
            .write(request.ordinal, request.slot.into(), &mut self.name);
        let around = &self.queries[self.kind(request.ordinal)];
        self.query.clear();
        self.query.extend_from_slice(&around[..QUESTION_AT]);
        let name = self.name.strip_suffix(b".").unwrap_or(&self.name);
        for label in name.split(|&byte| byte == b'.') {
            // Only numbers that grow beyond what was checked could make it longer.
            let label = &label[..label.len().min(LABEL_MAX)];
            if !label.is_empty() {
                self.query.push(label.len() as u8);
                self.query.extend_from_slice(label);
            }
        }
        self.query.extend_from_slice(&around[QUESTION_AT..]);
        let id = number as u16 ^ self.offset(request.slot);
        set_id(&mut self.query, id);
        self.written_for = Some(message);
    }
}

impl DatagramClient for Dns {
    const NUMBER_BITS: u32 = 16;

    fn len(&mut self, message: Numbered) -> usize {
        self.write_query(message);
        self.query.len()
    }

    fn write(&mut self, message: Numbered, _: Nanoseconds, bytes: &mut [u8]) {
        self.write_query(message);
        bytes.copy_from_slice(&self.query);
    }

    fn read(&mut self, flow: u32, bytes: &[u8]) -> Option<Heard> {
        let message = Message::parse(bytes).ok()?;
        let header: Header = message.header();
        let status = message.rcode();
        header.is_response().then(|| Heard {
            number: (header.id ^ self.offset(flow)).into(),
            answer: Answer {
                status: status.into(),
                // One that is cut short would have to be asked for again, over TCP.
                is_success: status == rcode::NO_ERROR && !header.is_truncated(),
                content_bytes: bytes.len() as u64,
                ..Answer::default()
            },
        })
    }

    /// RFC 5452, 9.1: the question must be the same, too.
    fn is_answer_to(&mut self, message: Numbered, bytes: &[u8]) -> bool {
        self.write_query(message);
        let (answer, query) = (Message::parse(bytes), Message::parse(&self.query));
        matches!((answer, query), (Ok(answer), Ok(query)) if answer.answers(&query))
    }

    fn operation_number(&self, request: Request) -> u8 {
        match self.kinds[self.kind(request.ordinal)] {
            kind::A => 0,
            kind::AAAA => 1,
            kind::NS => 2,
            kind::CNAME => 3,
            kind::SOA => 4,
            kind::PTR => 5,
            kind::MX => 6,
            kind::TXT => 7,
            kind::ANY => 8,
            _ => 9,
        }
    }
}

impl Named for Dns {
    fn operation(&self, request: Request) -> &'static str {
        KINDS[usize::from(self.operation_number(request))]
    }

    fn operations(&self) -> &'static [&'static str] {
        match self.kinds.len() {
            1 => &[],
            _ => &KINDS,
        }
    }

    /// The mnemonics of IANA's registry of RCODEs.
    fn status(&self, status: u32) -> Cow<'static, str> {
        match u16::try_from(status) {
            Ok(rcode::NO_ERROR) => "NOERROR".into(),
            Ok(rcode::FORMAT_ERROR) => "FORMERR".into(),
            Ok(rcode::SERVER_FAILURE) => "SERVFAIL".into(),
            Ok(rcode::NAME_ERROR) => "NXDOMAIN".into(),
            Ok(rcode::NOT_IMPLEMENTED) => "NOTIMP".into(),
            Ok(rcode::REFUSED) => "REFUSED".into(),
            Ok(rcode::BAD_VERSION) => "BADVERS".into(),
            _ => status.to_string().into(),
        }
    }
}

/// An authority for a zone.
#[derive(Debug, Clone)]
pub struct DnsServer(pub Zone);

impl DatagramServer for DnsServer {
    fn read(&mut self, _: [End; 2], _: Nanoseconds, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        self.0.answer(bytes, answer)
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;
    use crate::words::test::words;

    fn client(names: &str, kinds: &[u16], udp_len: Option<u16>) -> Result<Dns, DnsError> {
        let names = Template::parse(names, None, 3).expect("a template");
        Dns::new(names, kinds.to_vec(), true, udp_len, 9)
    }

    fn numbered(number: u64) -> Numbered {
        let request = Request {
            ordinal: 10 + number,
            slot: 6,
        };
        Numbered { request, number }
    }

    #[test]
    fn a_url_has_names_and_types() {
        let (server, names, kinds) = url(&words("dns://[::1]/h{n}.a?type=a,MX")).expect("a URL");
        assert_eq!((server.port, names, &*kinds), (53, "h{n}.a", &[1, 15][..]));
    }

    #[test]
    fn queries_are_those_of_the_message_writer() {
        let mut client = client("h{n}.example.org", &[kind::AAAA, kind::A], Some(1_232));
        let client = client.as_mut().expect("names");
        for number in [0, 1, 70_000] {
            let message = numbered(number);
            let mut bytes = vec![0; client.len(message)];
            client.write(message, 0, &mut bytes);
            let mut expected = Vec::new();
            let name = format!("h{}.example.org", 10 + number);
            Query {
                id: number as u16 ^ client.offset(6),
                name: NameBuf::parse(&name).expect("a name"),
                kind: [kind::AAAA, kind::A][number as usize % 2],
                recursion_desired: true,
                udp_len: Some(1_232),
            }
            .write(&mut expected);
            assert_eq!(bytes, expected);
            assert_eq!(
                client.operation(message.request),
                ["AAAA", "A"][number as usize % 2]
            );
        }
    }

    #[test]
    fn an_answer_has_the_number_and_the_question() {
        let mut client = client("{hex:8}.example.org", &[kind::A], None).expect("names");
        let zone = Zone {
            origin: NameBuf::parse("example.org").expect("a name"),
            a: Some([192, 0, 2, 7].into()),
            aaaa: None,
            ttl_s: 60,
        };
        let mut server = DnsServer(zone);
        let ends = [("127.0.0.1".parse().expect("an address"), 53); 2];
        let mut ask = |client: &mut Dns, number| {
            let mut query = vec![0; client.len(numbered(number))];
            client.write(numbered(number), 0, &mut query);
            let mut answer = Vec::new();
            assert!(server.read(ends, 0, &query, &mut answer));
            (query, answer)
        };
        let (query, answer) = ask(&mut client, 66_000);
        assert_eq!(client.read(6, &query), None, "a query is no answer");
        let heard = client.read(6, &answer).expect("an answer");
        assert_eq!(
            (heard.number, heard.answer.is_success),
            (66_000 & 0xffff, true)
        );
        assert_ne!(
            client.read(7, &answer).map(|heard| heard.number),
            Some(heard.number)
        );
        assert!(client.is_answer_to(numbered(66_000), &answer));
        assert!(!client.is_answer_to(numbered(66_001), &answer));
        // The same id, another question.
        assert!(!client.is_answer_to(numbered(66_000 - (1 << 16)), &answer));
        let mut refused = answer.clone();
        refused[3] |= 5;
        let heard = client.read(6, &refused).expect("an answer");
        assert!(!heard.answer.is_success);
        assert_eq!(client.status(heard.answer.status), "REFUSED");
        let mut cut = answer.clone();
        cut[2] |= 2;
        assert!(
            client
                .read(6, &cut)
                .is_some_and(|heard| !heard.answer.is_success)
        );
        assert_eq!(client.read(6, &answer[..answer.len() - 1]), None);
    }

    /// Anything may come: it is no answer, or one to a query with the same question.
    #[test]
    fn mutants_answer_nothing_that_was_not_asked() {
        let mut client = client("h{n}.example.org", &[kind::A], Some(1_232)).expect("names");
        let mut query = vec![0; client.len(numbered(5))];
        client.write(numbered(5), 0, &mut query);
        let zone = Zone {
            origin: NameBuf::parse("example.org").expect("a name"),
            a: Some([192, 0, 2, 7].into()),
            aaaa: None,
            ttl_s: 60,
        };
        let mut answer = Vec::new();
        assert!(zone.answer(&query, &mut answer));
        let question = QUESTION_AT..query.len() - 11;
        let (mut answers, mut others) = (0, 0);
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let mut mutant = answer.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(mutant.len() as u64) as usize;
                mutant[at] = random.bits() as u8;
            }
            if random.chance(0.2) {
                mutant.truncate(random.below(mutant.len() as u64) as usize);
            }
            if client.read(6, &mutant).is_none() {
                others += 1;
                continue;
            }
            answers += 1;
            if client.is_answer_to(numbered(5), &mutant) {
                let [mutant, asked] = [&mutant, &query].map(|of| of[question.clone()].to_vec());
                assert!(mutant.eq_ignore_ascii_case(&asked), "{seed}");
            }
        }
        assert!(answers > 1_000 && others > 1_000, "{answers} {others}");
    }

    #[test]
    fn what_is_no_name_says_so() {
        for (names, says) in [
            ("a..b", "empty label"),
            ("a b", "not a character"),
            ("{bytes:64}.org", "63 bytes"),
        ] {
            let error = client(names, &[kind::A], None)
                .expect_err("no names")
                .to_string();
            assert!(error.contains(says), "{error}");
        }
        let long = "{bytes:60}.{bytes:60}.{bytes:60}.{bytes:60}.{n}";
        let error = client(long, &[kind::A], None)
            .expect_err("too long")
            .to_string();
        assert!(error.contains("253"), "{error}");
        assert_eq!(client("a", &[], None).expect_err("none"), DnsError::NoKind);
    }
}
