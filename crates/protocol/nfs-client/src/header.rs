//! The headers of calls and replies: who calls, and why a call was not executed.

use lineside_frame::{Cursor, Piece};
use lineside_rpc::message::{
    AUTH_BODY_LEN_MAX, AcceptStatus, Auth, AuthSys, Body, CallHeader, Flavor, Header,
    LAST_FRAGMENT, RPC_VERSION, Rejection, ReplyHeader,
};
use lineside_rpc::xdr::{Array, Opaque, Xdr};

/// Bytes that are no reply: nothing that the connection brings after them can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no reply to a call that waits for one")]
pub struct Broken;

/// Bytes of a machine's name, and groups, that AUTH_SYS has room for (RFC 5531 appendix A).
const MACHINE_LEN_MAX: usize = 255;
const GROUPS_MAX: usize = 16;

/// Who makes a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Credential {
    flavor: Flavor,
    body: Vec<u8>,
}

/// Why there can be no such credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The machine's name.
    #[error("a machine name of {0} bytes: AUTH_SYS has room for {MACHINE_LEN_MAX}")]
    MachineName(usize),
    /// Groups beside the first.
    #[error("{0} groups: AUTH_SYS has room for {GROUPS_MAX}")]
    Groups(usize),
}

impl Credential {
    /// AUTH_NONE.
    pub fn none() -> Self {
        Self {
            flavor: Flavor::NONE,
            body: Vec::new(),
        }
    }

    /// AUTH_SYS: a user, its group, and all groups as the machine lists them.
    pub fn sys(machine: &[u8], uid: u32, gid: u32, gids: &[u32]) -> Result<Self, CredentialError> {
        if machine.len() > MACHINE_LEN_MAX {
            return Err(CredentialError::MachineName(machine.len()));
        }
        if gids.len() > GROUPS_MAX {
            return Err(CredentialError::Groups(gids.len()));
        }
        let machine = [Piece::bytes(machine)];
        let caller = AuthSys {
            stamp: Some(0),
            machine_name: Some(Opaque::new(&machine)),
            uid: Some(uid),
            gid: Some(gid),
            gids: Array::new(gids),
        };
        let mut body = Vec::new();
        caller.encode(&mut body);
        debug_assert!(body.len() <= AUTH_BODY_LEN_MAX, "both limits together");
        Ok(Self {
            flavor: Flavor::SYS,
            body,
        })
    }

    /// Appends the header of a call of [program, version, procedure].
    pub(crate) fn write_call(&self, xid: u32, numbers: [u32; 3], out: &mut Vec<u8>) {
        let body = [Piece::bytes(&self.body)];
        let [program, version, procedure] = numbers.map(Some);
        let header = Header {
            xid: Some(xid),
            body: Body::Call(CallHeader {
                rpc_version: Some(RPC_VERSION),
                program,
                version,
                procedure,
                credential: Auth::new(self.flavor, &body),
                verifier: Auth::none(),
            }),
        };
        header.encode(out);
    }
}

/// The header of calls that differ in xid and procedure alone, behind a record mark.
#[derive(Debug, Clone)]
pub struct CallTemplate {
    bytes: Vec<u8>,
}

const MARK: usize = 4;
/// Where a call's numbers stand behind the mark (RFC 5531 section 9).
const PROGRAM_AT: usize = MARK + 12;

impl CallTemplate {
    /// Calls by this credential.
    pub fn new(credential: &Credential) -> Self {
        let mut bytes = vec![0; MARK];
        credential.write_call(0, [0; 3], &mut bytes);
        Self { bytes }
    }

    /// Appends a record with a call of [program, version, procedure]; `arguments` appends those.
    pub fn write(
        &self,
        xid: u32,
        numbers: [u32; 3],
        out: &mut Vec<u8>,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let mut set = |at: usize, word: u32| {
            out[start + at..][..4].copy_from_slice(&word.to_be_bytes());
        };
        set(MARK, xid);
        for (place, number) in numbers.into_iter().enumerate() {
            set(PROGRAM_AT + 4 * place, number);
        }
        arguments(out);
        let len = (out.len() - start - MARK) as u32;
        out[start..][..MARK].copy_from_slice(&(len | LAST_FRAGMENT).to_be_bytes());
    }
}

/// Why a call was not executed (RFC 5531 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was let in: `accept_stat`, which is not 0.
    Accepted(u32),
    /// It was not: `reject_stat`.
    Denied(u32),
}

impl Refusal {
    /// The RFC's name.
    pub fn name(self) -> &'static str {
        let name = match self {
            Self::Accepted(1) => AcceptStatus::ProgUnavail.name(),
            Self::Accepted(2) => Some("PROG_MISMATCH"),
            Self::Accepted(3) => AcceptStatus::ProcUnavail.name(),
            Self::Accepted(4) => AcceptStatus::GarbageArgs.name(),
            Self::Accepted(5) => AcceptStatus::SystemErr.name(),
            Self::Denied(0) => Some("RPC_MISMATCH"),
            Self::Denied(1) => Rejection::AuthError(None).name(),
            _ => None,
        };
        name.unwrap_or("an unknown refusal")
    }
}

/// The header of a reply: its xid, and why there are no results, at which the cursor then stands.
pub fn reply_header(cursor: &mut Cursor<'_>) -> Result<(u32, Option<Refusal>), Broken> {
    let header = Header::decode(cursor);
    let Body::Reply(reply) = header.body else {
        return Err(Broken);
    };
    if cursor.fault().is_some() {
        return Err(Broken);
    }
    let refused = match reply {
        ReplyHeader::Accepted(reply) => match reply.status {
            AcceptStatus::Success => None,
            refused => Some(Refusal::Accepted(refused.discriminant().ok_or(Broken)?)),
        },
        ReplyHeader::Denied(why) => Some(Refusal::Denied(why.discriminant().ok_or(Broken)?)),
        ReplyHeader::Unread => return Err(Broken),
    };
    Ok((header.xid.ok_or(Broken)?, refused))
}
