//! An authority for one zone, in which every name has the same addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{HEADER_LEN, Header, Message, Question, flag};
use crate::name::NameBuf;
use crate::query::write_opt;
use crate::{CLASS_ANY, CLASS_IN, kind, rcode};

#[cfg(test)]
mod tests;

/// What a server answers from. It holds nothing of a client, so one serves all of them.
#[derive(Debug, Clone)]
pub struct Zone {
    /// The name at and below which all names exist.
    pub origin: NameBuf,
    /// The address of each of them, if they have one.
    pub a: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub aaaa: Option<Ipv6Addr>,
    /// Seconds for which an answer may be kept.
    pub ttl_s: u32,
}

/// The largest UDP payload that is offered: what DNS flag day 2020 agreed upon, so that nothing is
/// fragmented.
const UDP_LEN: u16 = 1232;

/// A pointer to the name of the question.
const QUESTION: u16 = 0xc000 | HEADER_LEN as u16;

impl Zone {
    /// Appends the answer to a datagram; false: it gets none, because it is a response itself or
    /// has no header. An answer has less than 512 bytes, and so is never cut.
    pub fn answer(&self, datagram: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(header) = Header::parse(datagram) else {
            return false;
        };
        if header.is_response() {
            return false;
        }
        let refuse = |rcode: u16, out: &mut Vec<u8>| {
            write_header(out, header, rcode, [0; 4]);
            true
        };
        if header.opcode() != 0 {
            return refuse(rcode::NOT_IMPLEMENTED, out);
        }
        let Ok(query) = Message::parse(datagram) else {
            return refuse(rcode::FORMAT_ERROR, out);
        };
        let mut questions = query.questions();
        let (Some(question), None) = (questions.next(), questions.next()) else {
            return refuse(rcode::FORMAT_ERROR, out);
        };
        let name_len = question.end - 4 - HEADER_LEN;
        let is_plain = wire_len(&question) == name_len;
        if query.opt_count() > 1 || !is_plain {
            return refuse(rcode::FORMAT_ERROR, out);
        }
        self.respond(&query, &question, out);
        true
    }

    fn respond(&self, query: &Message<'_>, question: &Question<'_>, out: &mut Vec<u8>) {
        let is_below = question.name.is_below(&self.origin);
        let is_known_class = matches!(question.class, CLASS_IN | CLASS_ANY);
        let rcode = match query.edns() {
            Some((_, 1..)) => rcode::BAD_VERSION,
            _ if !is_known_class => rcode::REFUSED,
            _ if !is_below => rcode::NAME_ERROR,
            _ => rcode::NO_ERROR,
        };
        let is_wanted = |kind| {
            rcode == rcode::NO_ERROR && (question.kind == kind || question.kind == kind::ANY)
        };
        let a = self.a.filter(|_| is_wanted(kind::A));
        let aaaa = self.aaaa.filter(|_| is_wanted(kind::AAAA));
        let answers = u16::from(a.is_some()) + u16::from(aaaa.is_some());
        // That there is no such record is kept as long as the SOA says (RFC 2308 section 2.2).
        let has_soa = rcode == rcode::NO_ERROR && answers == 0;
        let has_opt = query.edns().is_some();
        let counts = [1, answers, u16::from(has_soa), u16::from(has_opt)];
        write_header(out, query.header(), rcode, counts);
        out.extend_from_slice(&query.bytes()[HEADER_LEN..question.end]);
        if let Some(address) = a {
            self.write_record(out, QUESTION, kind::A, &address.octets());
        }
        if let Some(address) = aaaa {
            self.write_record(out, QUESTION, kind::AAAA, &address.octets());
        }
        if has_soa {
            // The origin is the end of the name in the question.
            let origin_at = question.end - 4 - self.origin.wire().len();
            self.write_soa(out, 0xc000 | origin_at as u16);
        }
        if has_opt {
            write_opt(out, UDP_LEN, rcode);
        }
    }

    fn write_record(&self, out: &mut Vec<u8>, name: u16, kind: u16, data: &[u8]) {
        for word in [name, kind, CLASS_IN] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&self.ttl_s.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    }

    /// Names: the origin itself, and `hostmaster` below it; then serial, refresh, retry, expire and
    /// minimum (RFC 1035 section 3.3.13).
    fn write_soa(&self, out: &mut Vec<u8>, origin: u16) {
        let mut data = [0; 35];
        let origin_bytes = origin.to_be_bytes();
        data[..2].copy_from_slice(&origin_bytes);
        data[2..13].copy_from_slice(b"\x0ahostmaster");
        data[13..15].copy_from_slice(&origin_bytes);
        for (place, number) in data[15..]
            .chunks_exact_mut(4)
            .zip([1, 3600, 600, 86_400, self.ttl_s])
        {
            place.copy_from_slice(&number.to_be_bytes());
        }
        self.write_record(out, origin, kind::SOA, &data);
    }
}

/// Bytes of the question's name without compression.
fn wire_len(question: &Question<'_>) -> usize {
    1 + question
        .name
        .labels()
        .map(|label| 1 + label.len())
        .sum::<usize>()
}

fn write_header(out: &mut Vec<u8>, query: Header, rcode: u16, counts: [u16; 4]) {
    let is_answer = matches!(rcode, rcode::NO_ERROR);
    let mut flags = flag::RESPONSE | query.flags & (flag::OPCODE | flag::RECURSION_DESIRED);
    flags |= rcode & flag::RCODE;
    if is_answer {
        flags |= flag::AUTHORITATIVE;
    }
    out.extend_from_slice(&query.id.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    for count in counts {
        out.extend_from_slice(&count.to_be_bytes());
    }
}
