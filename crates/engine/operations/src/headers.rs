//! The header of a call: who calls what, and the fast path for a header like the last one.

use lineside_rows::Word;
use lineside_rpc::message::{CallHeader, Flavor, GssProcedure, GssService, program_name};

use crate::decode_as::DecodeAs;
use crate::details::word;

/// The header of a call but for the xid and the procedure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) program: u32,
    pub(crate) version: u32,
    /// The program whose rules apply, and whether `--decode-as` names it.
    pub(crate) meant: u32,
    pub(crate) is_decoded_as: bool,
    pub(crate) program_word: Word,
    pub(crate) auth_flavor: Word,
    /// User and group.
    pub(crate) ids: [Option<i64>; 2],
    pub(crate) asks_tls: bool,
    /// Arguments can be read; they are wrapped for RPCSEC_GSS's integrity.
    pub(crate) is_readable: bool,
    pub(crate) is_wrapped: bool,
}

impl Caller {
    /// `None`: too little of the header survived to know what was called.
    pub(crate) fn new(call: &CallHeader<'_>, decode_as: &DecodeAs) -> Option<Self> {
        let (program, version) = (call.program?, call.version?);
        let rule = decode_as.program(program);
        let meant = rule.unwrap_or(program);
        let flavor = call.credential.flavor;
        let gss = call.credential.gss();
        let carries = gss.filter(|gss| gss.procedure == Some(GssProcedure::DATA));
        let service = carries.and_then(|gss| gss.service);
        let is_readable = match service {
            Some(GssService::PRIVACY) => false,
            // Cut off before the field that says whether arguments and results are wrapped.
            None => flavor.is_some_and(|flavor| flavor != Flavor::GSS),
            _ => true,
        };
        let auth_flavor = match (gss.and_then(|gss| gss.service), flavor) {
            (Some(GssService::NONE), _) => Word::Known("gss_none"),
            (Some(GssService::INTEGRITY), _) => Word::Known("gss_integrity"),
            (Some(GssService::PRIVACY), _) => Word::Known("gss_privacy"),
            // Cut off before the service.
            (_, None) | (None, Some(Flavor::GSS)) => Word::None,
            (_, Some(flavor)) => word(flavor.name(), flavor.0),
        };
        let sys = call.credential.sys();
        Some(Self {
            program,
            version,
            meant,
            is_decoded_as: rule.is_some(),
            program_word: word(program_name(meant), program),
            auth_flavor,
            ids: sys.map_or([None; 2], |sys| {
                [sys.uid, sys.gid].map(|id| id.map(i64::from))
            }),
            asks_tls: flavor == Some(Flavor::TLS),
            is_readable,
            is_wrapped: service == Some(GssService::INTEGRITY),
        })
    }

    /// Program and version, as rows have them.
    #[inline]
    pub(crate) fn numbers(&self) -> (Option<i64>, Option<i32>) {
        (Some(self.program.into()), self.version.try_into().ok())
    }
}

/// The header of the last call with AUTH_SYS: the next one nearly always brings the same bytes.
#[derive(Debug, Default)]
pub(crate) struct LastHeader {
    bytes: Vec<u8>,
    caller: Option<Caller>,
}

impl LastHeader {
    /// Where the procedure lies. Calls differ in it and in the xid, which comes first.
    const PROCEDURE: usize = 20;

    /// The xid and the procedure of a call that begins with `bytes`, and how long its header is, if
    /// that is like the last one.
    #[inline]
    pub(crate) fn again(&self, bytes: &[u8]) -> Option<(u32, u32, usize)> {
        const FIXED: usize = LastHeader::PROCEDURE + 4;
        let len = self.caller.as_ref().map(|_| self.bytes.len())?;
        let (last, last_rest) = self.bytes.split_first_chunk::<FIXED>()?;
        let (header, rest) = bytes.get(..len)?.split_first_chunk::<FIXED>()?;
        let is_same = header[4..Self::PROCEDURE] == last[4..Self::PROCEDURE] && rest == last_rest;
        let number = |at: usize| header[at..].first_chunk().copied().map(u32::from_be_bytes);
        match is_same {
            true => Some((number(0)?, number(Self::PROCEDURE)?, len)),
            false => None,
        }
    }

    /// Who made it.
    #[inline]
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    pub(crate) fn remember(&mut self, bytes: &[u8], caller: Caller) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.caller = Some(caller);
    }
}

/// What nearly every reply begins with after its xid: reply, accepted, AUTH_NONE without a body,
/// success.
pub(crate) const SUCCESS: [u8; 20] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    use lineside_frame::{Cursor, Piece};
    use lineside_rpc::message::{Body, Header};
    use lineside_rpc::xdr::Xdr;

    use super::*;

    /// A call of NFSv3 with AUTH_SYS up to its arguments, and two words of those.
    fn call() -> Vec<u8> {
        let credential = [7, 3, u32::from_be_bytes(*b"box\0"), 1000, 100, 0];
        let mut words = vec![9, 0, 2, 100_003, 3, 1, 1, 24];
        words.extend_from_slice(&credential);
        words.extend_from_slice(&[0, 0, 4, 5]);
        words.into_iter().flat_map(u32::to_be_bytes).collect()
    }

    #[test]
    fn only_xid_and_procedure_may_differ_from_the_last_header() {
        let bytes = call();
        let header_len = bytes.len() - 8;
        let pieces = [Piece::bytes(&bytes)];
        let mut cursor = Cursor::new(&pieces);
        let Body::Call(header) = Header::decode(&mut cursor).body else {
            panic!("a call");
        };
        assert_eq!(cursor.position(), header_len);
        let caller = Caller::new(&header, &DecodeAs::default()).expect("whole");
        assert_eq!(caller.ids, [Some(1000), Some(100)]);

        let mut last = LastHeader::default();
        assert!(last.again(&bytes).is_none());
        last.remember(&bytes[..header_len], caller);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            let found = last.again(&other);
            let may_differ = at < 4 || (20..24).contains(&at) || at >= header_len;
            assert_eq!(found.is_some(), may_differ, "byte {at}");
            if let Some((xid, procedure, len)) = found {
                assert_eq!(xid.to_be_bytes(), other[..4]);
                assert_eq!(procedure.to_be_bytes(), other[20..24]);
                assert_eq!(len, header_len);
            }
        }
        assert!(last.again(&bytes[..header_len - 1]).is_none());
    }
}
