//! The headers of ONC RPC version 2 (RFC 5531) and the marks of its records over TCP.

use lineside_frame::{Cursor, Piece};

use crate::xdr::{Array, Opaque, Xdr};

/// The longest body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTH_BODY_LEN_MAX: usize = 400;

/// The verifier of a reply that agrees to TLS (RFC 9289 section 4.1).
const STARTTLS: &[u8] = b"STARTTLS";

/// The version of RPC itself that every call states.
pub const RPC_VERSION: u32 = 2;

crate::xdr! {
    /// What every message begins with: rpc_msg (RFC 5531 section 9). The cursor then stands at the
    /// arguments, or at the results if the call was accepted and succeeded.
    pub struct Header<'a> { xid: Option<u32>, body: Body<'a> }

    /// Call or reply; `Unread` with a malformed cursor if it is neither.
    pub union Body<'a> {
        0 => Call(call: CallHeader<'a>),
        1 => Reply(reply: ReplyHeader<'a>),
    }

    /// call_body (RFC 5531 section 9).
    pub struct CallHeader<'a> {
        /// [`RPC_VERSION`], or this is no call.
        rpc_version: Option<u32>,
        program: Option<u32>,
        version: Option<u32>,
        procedure: Option<u32>,
        credential: Auth<'a>,
        verifier: Auth<'a>,
    }

    /// reply_body (RFC 5531 section 9).
    pub union ReplyHeader<'a> {
        /// The call was let in.
        0 => Accepted(reply: AcceptedReply<'a>),
        /// It was not.
        1 => Denied(reason: Rejection),
    }

    /// accepted_reply (RFC 5531 section 9).
    pub struct AcceptedReply<'a> { verifier: Auth<'a>, status: AcceptStatus }

    /// accept_stat, with what follows it.
    pub union AcceptStatus {
        /// The results follow.
        0 => Success,
        /// The program is not served here.
        1 => ProgUnavail,
        /// It is, but in these versions.
        2 => ProgMismatch(versions: Versions),
        /// It has no such procedure.
        3 => ProcUnavail,
        /// The arguments could not be decoded.
        4 => GarbageArgs,
        /// The server failed, for instance for want of memory.
        5 => SystemErr,
    }

    /// rejected_reply (RFC 5531 section 9).
    pub union Rejection {
        /// These versions of RPC are served.
        0 => RpcMismatch(versions: Versions),
        /// The caller could not be authenticated.
        1 => AuthError(status: Option<AuthStatus>),
    }

    /// The lowest and the highest version that is served.
    pub struct Versions { low: Option<u32>, high: Option<u32> }

    /// auth_stat (RFC 5531 section 9).
    pub enum AuthStatus {
        OK = 0, "AUTH_OK";
        BADCRED = 1, "AUTH_BADCRED";
        REJECTEDCRED = 2, "AUTH_REJECTEDCRED";
        BADVERF = 3, "AUTH_BADVERF";
        REJECTEDVERF = 4, "AUTH_REJECTEDVERF";
        TOOWEAK = 5, "AUTH_TOOWEAK";
        INVALIDRESP = 6, "AUTH_INVALIDRESP";
        FAILED = 7, "AUTH_FAILED";
        KERB_GENERIC = 8, "AUTH_KERB_GENERIC";
        TIMEEXPIRE = 9, "AUTH_TIMEEXPIRE";
        TKT_FILE = 10, "AUTH_TKT_FILE";
        DECODE = 11, "AUTH_DECODE";
        NET_ADDR = 12, "AUTH_NET_ADDR";
        GSS_CREDPROBLEM = 13, "RPCSEC_GSS_CREDPROBLEM";
        GSS_CTXPROBLEM = 14, "RPCSEC_GSS_CTXPROBLEM";
    }

    /// How a caller identifies itself: auth_flavor, and the pseudo-flavors that MOUNT names (RFC
    /// 2623).
    pub enum Flavor {
        NONE = 0, "none";
        SYS = 1, "sys";
        SHORT = 2, "short";
        DH = 3, "dh";
        KERB = 4, "kerb";
        RSA = 5, "rsa";
        GSS = 6, "gss";
        TLS = 7, "tls";
        KRB5 = 390_003, "krb5";
        KRB5I = 390_004, "krb5i";
        KRB5P = 390_005, "krb5p";
    }

    /// The body of a credential of flavor [`SYS`](Flavor::SYS): authsys_parms (RFC 5531 appendix
    /// A).
    pub struct AuthSys<'a> {
        stamp: Option<u32>,
        machine_name: Option<Opaque<'a, 255>>,
        uid: Option<u32>,
        gid: Option<u32>,
        gids: Array<'a, u32, 16>,
    }

    /// The body of a credential of flavor [`GSS`](Flavor::GSS): rpc_gss_cred_t (RFC 2203 section
    /// 5).
    pub struct AuthGss<'a> {
        version: Option<u32>,
        procedure: Option<GssProcedure>,
        sequence: Option<u32>,
        service: Option<GssService>,
        context: Option<Opaque<'a, 400>>,
    }

    /// What a call with [`GSS`](Flavor::GSS) is for (RFC 2203 section 5).
    pub enum GssProcedure {
        DATA = 0, "RPCSEC_GSS_DATA";
        INIT = 1, "RPCSEC_GSS_INIT";
        CONTINUE_INIT = 2, "RPCSEC_GSS_CONTINUE_INIT";
        DESTROY = 3, "RPCSEC_GSS_DESTROY";
    }

    /// How [`GSS`](Flavor::GSS) protects arguments and results (RFC 2203 section 5).
    pub enum GssService {
        NONE = 1, "none";
        INTEGRITY = 2, "integrity";
        PRIVACY = 3, "privacy";
    }
}

impl ReplyHeader<'_> {
    /// Whether it agrees to TLS (RFC 9289 section 4.1); `None` if the bytes that decide were not
    /// seen.
    pub fn starts_tls(&self) -> Option<bool> {
        let verifier = match self {
            Self::Unread => return None,
            Self::Denied(_) => return Some(false),
            Self::Accepted(reply) => &reply.verifier,
        };
        if verifier.flavor? != Flavor::NONE {
            return Some(false);
        }
        let body = verifier.body?;
        Some(body.len() == STARTTLS.len() && body.slices().flatten().eq(STARTTLS))
    }

    /// True if the results follow.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Accepted(reply) if reply.status == AcceptStatus::Success)
    }

    /// The RFC's name of how the call fared as an RPC, if that was seen.
    pub fn status_name(&self) -> Option<&'static str> {
        match self {
            Self::Unread => None,
            Self::Accepted(reply) => reply.status.name(),
            Self::Denied(reason) => reason.name(),
        }
    }
}

impl AcceptStatus {
    /// The RFC's name.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unread => return None,
            Self::Success => "SUCCESS",
            Self::ProgUnavail => "PROG_UNAVAIL",
            Self::ProgMismatch(_) => "PROG_MISMATCH",
            Self::ProcUnavail => "PROC_UNAVAIL",
            Self::GarbageArgs => "GARBAGE_ARGS",
            Self::SystemErr => "SYSTEM_ERR",
        })
    }
}

impl Rejection {
    /// The RFC's name.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Unread => None,
            Self::RpcMismatch(_) => Some("RPC_MISMATCH"),
            Self::AuthError(_) => Some("AUTH_ERROR"),
        }
    }
}

/// A credential or a verifier: opaque_auth (RFC 5531 section 8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Auth<'a> {
    /// What the body is.
    pub flavor: Option<Flavor>,
    /// The body as it lies.
    pub body: Option<Opaque<'a, AUTH_BODY_LEN_MAX>>,
}

impl<'a> Auth<'a> {
    /// Nobody in particular; the usual verifier.
    pub fn none() -> Self {
        Self::new(Flavor::NONE, &[])
    }

    /// All bytes of `body`, of a flavor.
    pub fn new(flavor: Flavor, body: &'a [Piece<'a>]) -> Self {
        Self {
            flavor: Some(flavor),
            body: Some(Opaque::new(body)),
        }
    }

    /// The caller's ids, if the flavor is [`SYS`](Flavor::SYS) and the body can be that.
    pub fn sys(&self) -> Option<AuthSys<'a>> {
        self.parse(Flavor::SYS)
    }

    /// The caller's context and the service, if the flavor is [`GSS`](Flavor::GSS) and the body can
    /// be that.
    pub fn gss(&self) -> Option<AuthGss<'a>> {
        self.parse(Flavor::GSS)
    }

    fn parse<T: Xdr<'a>>(&self, flavor: Flavor) -> Option<T> {
        if self.flavor != Some(flavor) {
            return None;
        }
        let mut cursor = self.body?.cursor();
        let body = T::decode(&mut cursor);
        cursor.fault().is_none().then_some(body)
    }
}

impl<'a> Xdr<'a> for Auth<'a> {
    const SIZE: Option<usize> = None;

    #[inline]
    fn decode(cursor: &mut Cursor<'a>) -> Self {
        Self {
            flavor: Xdr::decode(cursor),
            body: Xdr::decode(cursor),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.flavor.encode(out);
        self.body.encode(out);
    }

    fn agrees(&self, whole: &Self) -> bool {
        self.flavor.agrees(&whole.flavor) && self.body.agrees(&whole.body)
    }
}

/// The short name of a program that travels with NFS, as the `program` column has it.
pub fn program_name(program: u32) -> Option<&'static str> {
    Some(match program {
        100_000 => "portmap",
        100_003 => "nfs",
        100_005 => "mount",
        100_011 => "rquota",
        100_020 => "klm",
        100_021 => "nlm",
        100_024 => "nsm",
        100_227 => "nfsacl",
        // The numbers that are free for a client's choice (RFC 5531 section 8.4): beside NFS, it
        // takes one for callbacks.
        0x4000_0000..0x6000_0000 => "nfs_cb",
        _ => return None,
    })
}

/// Whether a program's number is one that is registered, or free for a client's choice; the ranges
/// left to users, and the reserved ones, are not (RFC 5531 section 8.4).
#[inline]
pub fn is_registered(program: u32) -> bool {
    (100_000..0x2000_0000).contains(&program) || (0x4000_0000..0x6000_0000).contains(&program)
}

/// The bit of a record mark that marks the record's last fragment (RFC 5531 section 11).
pub const LAST_FRAGMENT: u32 = 1 << 31;

/// Appends `message` as a record: fragments of the given sizes, then one with the rest.
///
/// Sizes beyond the end of the message are ignored; a size of 0 is a fragment without bytes, which
/// RFC 5531 section 11 allows.
pub fn encode_record(fragments: &[usize], message: &[u8], out: &mut Vec<u8>) {
    let mut rest = message;
    for &size in fragments {
        if let Some((fragment, behind)) = rest.split_at_checked(size)
            && !behind.is_empty()
        {
            out.extend_from_slice(&(size as u32).to_be_bytes());
            out.extend_from_slice(fragment);
            rest = behind;
        }
    }
    out.extend_from_slice(&(rest.len() as u32 | LAST_FRAGMENT).to_be_bytes());
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_frame::Fault;
    use lineside_time::Random;

    /// Names by IANA's registry of RPC program numbers.
    #[test]
    fn programs_beside_nfs_have_names() {
        let named = [
            (100_000, "portmap"),
            (100_003, "nfs"),
            (100_005, "mount"),
            (100_011, "rquota"),
            (100_020, "klm"),
            (100_021, "nlm"),
            (100_024, "nsm"),
            (100_227, "nfsacl"),
            (0x4000_0000, "nfs_cb"),
            (0x5fff_ffff, "nfs_cb"),
        ];
        for (number, name) in named {
            assert_eq!(program_name(number), Some(name));
            assert!(is_registered(number));
        }
        for number in [99_999, 0x2000_0000, 0x3fff_ffff, 0x6000_0000] {
            assert!(program_name(number).is_none() && !is_registered(number));
        }
    }

    /// A call of RPC version 2 with AUTH_SYS, word by word from RFC 5531 section 9 and appendix A.
    const CALL: &[u32] = &[
        0x0102_0304, // xid
        0,           // CALL
        2,           // RPC version
        100_003,
        3,
        6,
        1,  // AUTH_SYS
        32, // bytes of its body
        7,  // stamp
        3,  // machine name
        u32::from_be_bytes(*b"box\0"),
        1000, // uid
        100,  // gid
        2,    // gids
        100,
        4,
        0, // AUTH_NONE
        0,
    ];

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn encode<'a>(value: &impl Xdr<'a>) -> Vec<u8> {
        let mut out = Vec::new();
        value.encode(&mut out);
        out
    }

    #[test]
    fn a_call_is_read_and_written_word_by_word() {
        let name = [Piece::bytes(b"box")];
        let sys = AuthSys {
            stamp: Some(7),
            machine_name: Some(Opaque::new(&name)),
            uid: Some(1000),
            gid: Some(100),
            gids: Array::new(&[100, 4]),
        };
        let body = encode(&sys);
        let body = [Piece::bytes(&body)];
        let call = CallHeader {
            rpc_version: Some(RPC_VERSION),
            program: Some(100_003),
            version: Some(3),
            procedure: Some(6),
            credential: Auth::new(Flavor::SYS, &body),
            verifier: Auth::none(),
        };
        let header = Header {
            xid: Some(0x0102_0304),
            body: Body::Call(call),
        };
        assert_eq!(encode(&header), bytes(CALL));

        let bytes = bytes(CALL);
        for border in 0..bytes.len() {
            let pieces = [
                Piece::bytes(&bytes[..border]),
                Piece::bytes(&bytes[border..]),
            ];
            let mut cursor = Cursor::new(&pieces);
            let seen = Header::decode(&mut cursor);
            assert_eq!((seen, cursor.remaining()), (header, 0));
            let Body::Call(call) = seen.body else {
                panic!("a call");
            };
            assert_eq!(call.credential.sys(), Some(sys));
            assert_eq!(call.credential.gss(), None);

            let mut cursor = Cursor::new(&pieces[..1]);
            assert!(Header::decode(&mut cursor).agrees(&header));
            assert_eq!(cursor.fault(), Some(Fault::End));
        }
    }

    #[test]
    fn replies_are_named() {
        let versions = Versions {
            low: Some(2),
            high: Some(4),
        };
        let accepted = |status| {
            ReplyHeader::Accepted(AcceptedReply {
                verifier: Auth::none(),
                status,
            })
        };
        for (words, reply, name) in [
            (
                &[9, 1, 0, 0, 0, 0][..],
                accepted(AcceptStatus::Success),
                "SUCCESS",
            ),
            (
                &[9, 1, 0, 0, 0, 1],
                accepted(AcceptStatus::ProgUnavail),
                "PROG_UNAVAIL",
            ),
            (
                &[9, 1, 0, 0, 0, 2, 2, 4],
                accepted(AcceptStatus::ProgMismatch(versions)),
                "PROG_MISMATCH",
            ),
            (
                &[9, 1, 0, 0, 0, 3],
                accepted(AcceptStatus::ProcUnavail),
                "PROC_UNAVAIL",
            ),
            (
                &[9, 1, 0, 0, 0, 4],
                accepted(AcceptStatus::GarbageArgs),
                "GARBAGE_ARGS",
            ),
            (
                &[9, 1, 0, 0, 0, 5],
                accepted(AcceptStatus::SystemErr),
                "SYSTEM_ERR",
            ),
            (
                &[9, 1, 1, 0, 2, 4],
                ReplyHeader::Denied(Rejection::RpcMismatch(versions)),
                "RPC_MISMATCH",
            ),
            (
                &[9, 1, 1, 1, 5],
                ReplyHeader::Denied(Rejection::AuthError(Some(AuthStatus::TOOWEAK))),
                "AUTH_ERROR",
            ),
        ] {
            let bytes = bytes(words);
            let pieces = [Piece::bytes(&bytes)];
            let mut cursor = Cursor::new(&pieces);
            let header = Header::decode(&mut cursor);
            assert_eq!((header.xid, header.body), (Some(9), Body::Reply(reply)));
            assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
            assert_eq!(reply.status_name(), Some(name));
            assert_eq!(reply.is_success(), name == "SUCCESS");
            assert_eq!(encode(&header), bytes);
        }
    }

    #[test]
    fn bytes_that_are_no_header_are_malformed() {
        for words in [
            &[9, 2][..],
            &[9, 1, 2],
            &[9, 1, 0, 0, 0, 6],
            &[9, 1, 1, 2],
            &[9, 0, 2, 3, 4, 5, 1, 401],
        ] {
            let bytes = bytes(words);
            let pieces = [Piece::bytes(&bytes)];
            let mut cursor = Cursor::new(&pieces);
            let header = Header::decode(&mut cursor);
            assert_eq!(cursor.fault(), Some(Fault::Malformed), "{words:?}");
            assert_eq!(header.xid, Some(9));
        }
    }

    #[test]
    fn a_credential_longer_than_its_body_is_malformed() {
        let mut words = CALL.to_vec();
        words[13] = 3;
        let bytes = bytes(&words);
        let pieces = [Piece::bytes(&bytes)];
        let mut cursor = Cursor::new(&pieces);
        let Body::Call(call) = Header::decode(&mut cursor).body else {
            panic!("a call");
        };
        assert_eq!(call.credential.sys(), None);
        assert_eq!(call.verifier, Auth::none(), "the header continues after it");
    }

    #[test]
    fn a_gss_credential_names_its_service() {
        let context = [Piece::bytes(b"ctx")];
        let gss = AuthGss {
            version: Some(1),
            procedure: Some(GssProcedure::DATA),
            sequence: Some(77),
            service: Some(GssService::INTEGRITY),
            context: Some(Opaque::new(&context)),
        };
        let body = encode(&gss);
        assert_eq!(body, bytes(&[1, 0, 77, 2, 3, 0x6374_7800]));
        let body = [Piece::bytes(&body)];
        assert_eq!(Auth::new(Flavor::GSS, &body).gss(), Some(gss));
    }

    #[test]
    fn a_record_is_its_fragments() {
        let record = |fragments: &[usize]| {
            let mut out = Vec::new();
            encode_record(fragments, b"abcdefgh", &mut out);
            out
        };
        assert_eq!(record(&[]), b"\x80\0\0\x08abcdefgh");
        assert_eq!(record(&[3, 0]), b"\0\0\0\x03abc\0\0\0\0\x80\0\0\x05defgh");
        assert_eq!(record(&[8, 9]), record(&[]));
    }

    #[test]
    fn foreign_bytes_do_no_harm() {
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            let words: Vec<u32> = (0..random.below(40))
                .map(|_| {
                    if random.chance(0.9) {
                        random.below(7) as u32
                    } else {
                        random.bits() as u32
                    }
                })
                .collect();
            let bytes = bytes(&words);
            let pieces = [Piece::bytes(&bytes)];
            let mut cursor = Cursor::new(&pieces);
            let header = Header::decode(&mut cursor);
            if let Body::Call(call) = header.body {
                let _ = (call.credential.sys(), call.verifier.gss());
            }
            if cursor.fault().is_none() {
                // Not the same bytes: padding may have been anything.
                let again = encode(&header);
                let pieces = [Piece::bytes(&again)];
                assert_eq!(Header::decode(&mut Cursor::new(&pieces)), header);
                assert_eq!(again.len(), cursor.position());
            }
        }
    }
}
