//! Messages (RFC 1035 section 4): header, questions, records, checked once.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::ParseError;
use crate::kind;
use crate::name::Name;

#[cfg(test)]
mod tests;

/// A message in bytes that belong to the caller.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: Header,
    /// Where the records begin.
    records_at: usize,
    end: usize,
    /// Type, class and time to live of the OPT record (RFC 6891 section 6.1.3).
    edns: Option<Edns>,
    opt_count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Edns {
    udp_len: u16,
    rcode_high: u8,
    version: u8,
}

/// The header (RFC 1035 section 4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the client.
    pub id: u16,
    /// All 16 bits behind it.
    pub flags: u16,
    /// Entries of the four sections: questions, answers, authorities, additionals.
    pub counts: [u16; 4],
}

/// A question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The name that is asked for.
    pub name: Name<'a>,
    /// The type of record, see [`kind`].
    pub kind: u16,
    /// The class.
    pub class: u16,
    /// Where it ends in the message.
    pub(crate) end: usize,
}

/// The sections of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// Records that answer.
    Answer,
    /// Records that name the authority.
    Authority,
    /// Records that may help.
    Additional,
}

/// A record.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Where it stands.
    pub section: Section,
    /// The name that it belongs to.
    pub name: Name<'a>,
    /// Its type, see [`kind`].
    pub kind: u16,
    /// Its class; of OPT the sender's largest UDP payload.
    pub class: u16,
    /// Seconds for which it may be kept.
    pub ttl_s: u32,
    /// Its data.
    pub data: Data<'a>,
}

/// The data of a record.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// Of A.
    A(Ipv4Addr),
    /// Of AAAA.
    Aaaa(Ipv6Addr),
    /// Of CNAME, NS and PTR.
    Name(Name<'a>),
    /// Of any other type. Names within it may be compressed.
    Other(&'a [u8]),
}

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 12;

/// Flags of a header.
pub(crate) mod flag {
    pub(crate) const RESPONSE: u16 = 0x8000;
    pub(crate) const OPCODE: u16 = 0x7800;
    pub(crate) const AUTHORITATIVE: u16 = 0x0400;
    pub(crate) const TRUNCATED: u16 = 0x0200;
    pub(crate) const RECURSION_DESIRED: u16 = 0x0100;
    pub(crate) const RCODE: u16 = 0x000f;
}

impl Header {
    /// The header that `bytes` begin with.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        if bytes.len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        let word = |at| u16_at(bytes, at);
        Ok(Self {
            id: word(0)?,
            flags: word(2)?,
            counts: [word(4)?, word(6)?, word(8)?, word(10)?],
        })
    }

    /// A response, not a query.
    pub fn is_response(&self) -> bool {
        self.flags & flag::RESPONSE != 0
    }

    /// The kind of query; 0 is the usual one.
    pub fn opcode(&self) -> u16 {
        (self.flags & flag::OPCODE) >> 11
    }

    /// The server is an authority for the name.
    pub fn is_authoritative(&self) -> bool {
        self.flags & flag::AUTHORITATIVE != 0
    }

    /// The response did not fit: ask again over TCP.
    pub fn is_truncated(&self) -> bool {
        self.flags & flag::TRUNCATED != 0
    }
}

impl<'a> Message<'a> {
    /// Checks all of a message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let header = Header::parse(bytes)?;
        let mut message = Self {
            bytes,
            header,
            records_at: HEADER_LEN,
            end: HEADER_LEN,
            edns: None,
            opt_count: 0,
        };
        for _ in 0..header.counts[0] {
            message.records_at = question(bytes, message.records_at)?.end;
        }
        message.end = message.records_at;
        for section in [Section::Answer, Section::Authority, Section::Additional] {
            for _ in 0..message.count(section) {
                let (record, end) = record(bytes, message.end, section)?;
                if record.kind == kind::OPT {
                    let [rcode_high, version, ..] = record.ttl_s.to_be_bytes();
                    message.opt_count += 1;
                    message.edns = Some(Edns {
                        udp_len: record.class,
                        rcode_high,
                        version,
                    });
                }
                message.end = end;
            }
        }
        Ok(message)
    }

    /// Its header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Its bytes, without what may come behind its last record.
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.end]
    }

    /// The response code with the bits of EDNS, see [`rcode`](crate::rcode).
    pub fn rcode(&self) -> u16 {
        let high = self.edns.map_or(0, |edns| edns.rcode_high);
        u16::from(high) << 4 | self.header.flags & flag::RCODE
    }

    /// The largest UDP payload that the sender takes, and its version of EDNS, if it has any.
    pub fn edns(&self) -> Option<(u16, u8)> {
        self.edns.map(|edns| (edns.udp_len, edns.version))
    }

    /// OPT records; more than one are an error of format (RFC 6891 section 6.1.1).
    pub fn opt_count(&self) -> usize {
        self.opt_count
    }

    /// Entries of a section.
    pub fn count(&self, section: Section) -> u16 {
        self.header.counts[match section {
            Section::Answer => 1,
            Section::Authority => 2,
            Section::Additional => 3,
        }]
    }

    /// The questions.
    pub fn questions(&self) -> impl Iterator<Item = Question<'a>> {
        let (bytes, mut at) = (self.bytes, HEADER_LEN);
        (0..self.header.counts[0]).map_while(move |_| {
            let question = question(bytes, at).ok()?;
            at = question.end;
            Some(question)
        })
    }

    /// The records of all sections, in their order.
    pub fn records(&self) -> Sections<'a> {
        Sections {
            bytes: self.bytes,
            at: self.records_at,
            left: [Section::Answer, Section::Authority, Section::Additional]
                .map(|section| self.count(section)),
        }
    }

    /// Whether this is a response to `query`: the same id and questions (RFC 5452 section 4).
    pub fn answers(&self, query: &Message<'_>) -> bool {
        let is_same = |(a, b): (Question<'_>, Question<'_>)| {
            a.kind == b.kind && a.class == b.class && a.name.is(b.name)
        };
        self.header.is_response()
            && self.header.id == query.header.id
            && self.header.counts[0] == query.header.counts[0]
            && self.questions().zip(query.questions()).all(is_same)
    }
}

/// The records of a message.
#[derive(Debug, Clone)]
pub struct Sections<'a> {
    bytes: &'a [u8],
    at: usize,
    left: [u16; 3],
}

impl<'a> Iterator for Sections<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let at = self.left.iter().position(|&left| left > 0)?;
        self.left[at] -= 1;
        let section = [Section::Answer, Section::Authority, Section::Additional][at];
        let (record, end) = record(self.bytes, self.at, section).ok()?;
        self.at = end;
        Some(record)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ParseError> {
    let word = bytes.get(at..at + 2).ok_or(ParseError::Truncated)?;
    Ok(u16::from_be_bytes([word[0], word[1]]))
}

fn question(bytes: &[u8], at: usize) -> Result<Question<'_>, ParseError> {
    let (name, at) = Name::parse(bytes, at)?;
    Ok(Question {
        name,
        kind: u16_at(bytes, at)?,
        class: u16_at(bytes, at + 2)?,
        end: at + 4,
    })
}

fn record(bytes: &[u8], at: usize, section: Section) -> Result<(Record<'_>, usize), ParseError> {
    let (name, at) = Name::parse(bytes, at)?;
    let (kind, class) = (u16_at(bytes, at)?, u16_at(bytes, at + 2)?);
    let (high, low) = (u16_at(bytes, at + 4)?, u16_at(bytes, at + 6)?);
    let data_at = at + 10;
    let end = data_at + usize::from(u16_at(bytes, at + 8)?);
    let data = bytes.get(data_at..end).ok_or(ParseError::Truncated)?;
    let data = match kind {
        kind::A => {
            let octets: [u8; 4] = data.try_into().map_err(|_| ParseError::BadData)?;
            Data::A(octets.into())
        }
        kind::AAAA => {
            let octets: [u8; 16] = data.try_into().map_err(|_| ParseError::BadData)?;
            Data::Aaaa(octets.into())
        }
        kind::CNAME | kind::NS | kind::PTR => {
            let (name, name_end) = Name::parse(bytes, data_at)?;
            if name_end != end {
                return Err(ParseError::BadData);
            }
            Data::Name(name)
        }
        _ => Data::Other(data),
    };
    let record = Record {
        section,
        name,
        kind,
        class,
        ttl_s: u32::from(high) << 16 | u32::from(low),
        data,
    };
    Ok((record, end))
}
