//! Queries, as a client writes them.

use crate::message::flag;
use crate::name::NameBuf;
use crate::{CLASS_IN, kind};

/// A query with one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Chosen by the client; a response has the same.
    pub id: u16,
    /// The name that is asked for.
    pub name: NameBuf,
    /// The type of record, see [`kind`].
    pub kind: u16,
    /// Asks a resolver to ask others (RD).
    pub recursion_desired: bool,
    /// With EDNS(0): the largest UDP payload that the client takes (RFC 6891 section 6.2.3).
    pub udp_len: Option<u16>,
}

impl Query {
    /// Appends the message. Written once and sent often, [`set_id`] makes it another query.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flags = match self.recursion_desired {
            true => flag::RECURSION_DESIRED,
            false => 0,
        };
        let additional = u16::from(self.udp_len.is_some());
        for word in [self.id, flags, 1, 0, 0, additional] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(self.name.wire());
        for word in [self.kind, CLASS_IN] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        if let Some(udp_len) = self.udp_len {
            write_opt(out, udp_len, 0);
        }
    }
}

/// Gives a written message another id.
pub fn set_id(message: &mut [u8], id: u16) {
    if let Some(place) = message.get_mut(..2) {
        place.copy_from_slice(&id.to_be_bytes());
    }
}

/// Appends an OPT record of version 0 (RFC 6891 section 6.1.2).
pub(crate) fn write_opt(out: &mut Vec<u8>, udp_len: u16, rcode: u16) {
    out.push(0);
    for word in [kind::OPT, udp_len, rcode >> 4 << 8, 0, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
}
