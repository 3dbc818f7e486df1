//! The header of a call: who calls what, and the fast path for a header like the last one.

use lineside_frame::{Cursor, Piece};
use lineside_rows::{OperationCells, Word};
use lineside_rpc::message::{AuthSys, CallHeader, Flavor, GssProcedure, GssService, program_name};
use lineside_rpc::xdr::Xdr;

use crate::decode_as::DecodeAs;
use crate::details::{with_bytes, word};

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

/// What only a credential of AUTH_SYS has, as its cells have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SysCredential {
    stamp: Option<u32>,
    name: [u8; NAME_LEN_MAX],
    name_len: u8,
    groups: [u8; GROUPS_LEN_MAX],
    groups_len: u8,
}

/// The longest name of a host that is kept beside each caller: Linux's HOST_NAME_MAX.
const NAME_LEN_MAX: usize = 64;

impl SysCredential {
    /// `None`: the name is longer, or the body can be none of AUTH_SYS.
    fn new(body: &[u8]) -> Option<Self> {
        let pieces = [Piece::bytes(body)];
        let mut cursor = Cursor::new(&pieces);
        let sys = AuthSys::decode(&mut cursor);
        let from = sys.machine_name?.contiguous()?;
        let mut name = [0; NAME_LEN_MAX];
        name.get_mut(..from.len())?.copy_from_slice(from);
        let (groups, groups_len) = decimals(&sys);
        cursor.fault().is_none().then_some(Self {
            stamp: sys.stamp,
            name,
            name_len: from.len() as u8,
            groups,
            groups_len: groups_len as u8,
        })
    }

    /// Gives its cells.
    pub(crate) fn put_to(&self, cells: &mut impl OperationCells) {
        cells.credential_stamp(self.stamp.map(i64::from));
        cells.machine_name(Some(&self.name[..self.name_len.into()]));
        cells.group_ids(Some(&self.groups[..self.groups_len.into()]));
    }
}

/// Gives the cells that only a credential of AUTH_SYS has.
#[cold]
pub(crate) fn put_sys(sys: &AuthSys<'_>, cells: &mut impl OperationCells) {
    cells.credential_stamp(sys.stamp.map(i64::from));
    with_bytes(sys.machine_name.as_deref(), |name| cells.machine_name(name));
    let (text, len) = decimals(sys);
    cells.group_ids(Some(&text[..len]));
}

/// The further groups in decimal, with commas between, and how long that is.
fn decimals(sys: &AuthSys<'_>) -> ([u8; GROUPS_LEN_MAX], usize) {
    let (mut text, mut len) = ([0; GROUPS_LEN_MAX], 0);
    for (place, gid) in sys.gids.iter().enumerate() {
        if place > 0 {
            text[len] = b',';
            len += 1;
        }
        len += put_decimal(gid, &mut text[len..]);
    }
    (text, len)
}

/// 16 groups of ten digits, with commas between.
const GROUPS_LEN_MAX: usize = 16 * 11;

/// Writes a number in decimal, and returns how many digits it has.
fn put_decimal(mut number: u32, out: &mut [u8]) -> usize {
    let len = number.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in out[..len].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    len
}

/// The header of the last call with AUTH_SYS: the next one nearly always brings the same bytes.
#[derive(Debug, Default)]
pub(crate) struct LastHeader {
    bytes: Vec<u8>,
    caller: Option<Caller>,
    credential: Option<SysCredential>,
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

    /// Its credential, if that can be kept beside the caller.
    #[inline]
    pub(crate) fn credential(&self) -> Option<&SysCredential> {
        self.credential.as_ref()
    }

    /// Gives the cells that only a credential of AUTH_SYS has.
    #[inline]
    pub(crate) fn put_credential(&self, cells: &mut impl OperationCells) {
        match &self.credential {
            Some(credential) => credential.put_to(cells),
            None => self.put_long_credential(cells),
        }
    }

    #[cold]
    fn put_long_credential(&self, cells: &mut impl OperationCells) {
        let pieces = [Piece::bytes(self.body().unwrap_or(&[]))];
        let mut cursor = Cursor::new(&pieces);
        let sys = AuthSys::decode(&mut cursor);
        if cursor.fault().is_none() {
            put_sys(&sys, cells);
        }
    }

    /// The body of its credential, behind flavor and length.
    fn body(&self) -> Option<&[u8]> {
        let (len, rest) = self.bytes.get(Self::PROCEDURE + 8..)?.split_first_chunk()?;
        rest.get(..u32::from_be_bytes(*len) as usize)
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
        self.credential = self.body().and_then(SysCredential::new);
    }
}

/// What nearly every reply begins with after its xid: reply, accepted, AUTH_NONE without a body,
/// success.
pub(crate) const SUCCESS: [u8; 20] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    use lineside_rows::OperationRow;
    use lineside_rpc::message::{Body, Header};

    use super::*;

    /// A call of NFSv3 with AUTH_SYS up to its arguments, and two words of those.
    fn call() -> Vec<u8> {
        let name = u32::from_be_bytes(*b"box\0");
        let credential = [7, 3, name, 1000, 100, 3, 0, u32::MAX, 100];
        let mut words = vec![9, 0, 2, 100_003, 3, 1, 1, 36];
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
        let (mut row, mut kept) = (OperationRow::default(), OperationRow::default());
        last.put_credential(&mut row);
        last.credential().expect("short").put_to(&mut kept);
        assert_eq!(row, kept);
        assert_eq!(row.credential_stamp, Some(7));
        assert_eq!(row.machine_name.bytes(), Some(&b"box"[..]));
        assert_eq!(row.group_ids.bytes(), Some(&b"0,4294967295,100"[..]));
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
