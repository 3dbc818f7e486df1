//! Calls as their callers give them, and as messages whose last numbers are set when they leave.

use lineside_frame::Piece;
use lineside_nfs::ancillary::portmap;
use lineside_nfs::v4::{self, Locker};
use lineside_nfs::{mount, v3};
use lineside_rpc::xdr::{Name, Xdr, pad};

use crate::config::{CallError, Version};
use crate::header::Credential;
use crate::owners::{Numbered, Whose};

/// A call with its arguments.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Of NFSv3; behind WRITE's arguments its data.
    Nfs3(&'a v3::Call<'a>, &'a [u8]),
    /// Of MOUNT.
    Mount(&'a mount::Call<'a>),
    /// Of the port mapper.
    Portmap(&'a portmap::Call<'a>),
    /// Operations of NFSv4. The client sets what is its own: SEQUENCE in front, its client id, the
    /// numbers of owners.
    Compound {
        /// The compound's tag.
        tag: &'a [u8],
        /// Without SEQUENCE.
        calls: &'a [v4::Call<'a>],
        /// What WRITE and WRITE_SAME write, one behind the other.
        data: &'a [u8],
    },
    /// Of any program.
    Other {
        /// Program, version, procedure.
        numbers: [u32; 3],
        /// Encoded arguments.
        arguments: &'a [u8],
    },
}

/// What is set in a message when it leaves.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// SEQUENCE's arguments.
    pub(crate) sequence: Option<usize>,
    pub(crate) client_ids: Vec<usize>,
    pub(crate) numbered: Vec<Numbered>,
}

impl Places {
    /// Behind the last byte that is set.
    fn end(&self) -> usize {
        let sequence = self.sequence.map(|at| at + 28);
        let client_ids = self.client_ids.iter().map(|at| at + 8);
        let numbered = self.numbered.iter().map(|each| each.at + 4);
        sequence
            .into_iter()
            .chain(client_ids)
            .chain(numbered)
            .max()
            .unwrap_or(0)
    }
}

impl Request<'_> {
    /// Program, version and procedure.
    fn numbers(&self) -> [u32; 3] {
        match self {
            Self::Nfs3(call, _) => [v3::PROGRAM, v3::VERSION, call.procedure().number()],
            Self::Mount(call) => [mount::PROGRAM, mount::VERSION, call.procedure().number()],
            Self::Portmap(call) => {
                let procedure = call.procedure().number();
                [portmap::PROGRAM, portmap::VERSION, procedure]
            }
            Self::Compound { .. } => [v4::PROGRAM, v4::VERSION, v4::COMPOUND],
            Self::Other { numbers, .. } => *numbers,
        }
    }

    /// The message of a call.
    pub(crate) fn encode(
        &self,
        xid: u32,
        credential: &Credential,
        version: Version,
    ) -> Result<(Vec<u8>, Places), CallError> {
        let mut out = Vec::with_capacity(256);
        credential.write_call(xid, self.numbers(), &mut out);
        let mut places = Places::default();
        match self {
            Self::Nfs3(call, data) => {
                let stated = match call {
                    v3::Call::Write(args) => args.data_len.unwrap_or(0) as usize,
                    _ => 0,
                };
                if stated != data.len() {
                    return Err(CallError::Data);
                }
                call.encode(&mut out);
                append(data, &mut out);
            }
            Self::Mount(call) => call.encode(&mut out),
            Self::Portmap(call) => call.encode(&mut out),
            Self::Compound { tag, calls, data } => {
                let Version::V4(minor) = version else {
                    return Err(CallError::Version);
                };
                encode_compound(minor, tag, calls, data, &mut out, &mut places)?;
            }
            Self::Other { arguments, .. } => out.extend_from_slice(arguments),
        }
        // Arguments of which something was not set are shorter than they should be.
        match places.end() <= out.len() {
            true => Ok((out, places)),
            false => Err(CallError::Data),
        }
    }
}

fn append(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(data);
    pad(out, data.len());
}

fn encode_compound(
    minor: u32,
    tag: &[u8],
    calls: &[v4::Call<'_>],
    mut data: &[u8],
    out: &mut Vec<u8>,
    places: &mut Places,
) -> Result<(), CallError> {
    if tag.len() > Name::LEN_MAX {
        return Err(CallError::Data);
    }
    let has_sequence = minor > 0 && !calls.first().is_some_and(stands_alone);
    let tag = [Piece::bytes(tag)];
    let header = v4::CallHeader {
        tag: Some(Name::new(&tag)),
        minor_version: Some(minor),
        operation_count: Some(calls.len() as u32 + u32::from(has_sequence)),
    };
    header.encode(out);
    if has_sequence {
        let sequence = v4::Call::Sequence(v4::SequenceArgs {
            session: Some([0; 16]),
            sequence: Some(0),
            slot: Some(0),
            highest_slot: Some(0),
            cache_this: Some(calls.iter().any(changes)),
        });
        places.sequence = Some(out.len() + OPERATION);
        sequence.encode(out);
    }
    for (operation, call) in calls.iter().enumerate() {
        let start = out.len();
        call.encode(out);
        note(minor, operation as u32, call, start + OPERATION, places);
        if let Some(len) = call.data_len() {
            let (mine, rest) = data.split_at_checked(len as usize).ok_or(CallError::Data)?;
            append(mine, out);
            data = rest;
        }
    }
    data.is_empty().then_some(()).ok_or(CallError::Data)
}

/// Bytes of an operation's number.
const OPERATION: usize = 4;
/// Bytes of a state id.
const STATE: usize = 16;

/// Operations that stand alone, before there is a session or about it (RFC 8881 section 2.10.1).
fn stands_alone(call: &v4::Call<'_>) -> bool {
    matches!(
        call,
        v4::Call::ExchangeId(_)
            | v4::Call::CreateSession(_)
            | v4::Call::BindConnToSession(_)
            | v4::Call::DestroySession(_)
            | v4::Call::DestroyClientId(_)
    )
}

/// Operations that do something else when they are executed twice: the server keeps their results.
fn changes(call: &v4::Call<'_>) -> bool {
    matches!(
        call,
        v4::Call::Create(_)
            | v4::Call::Link(_)
            | v4::Call::Open(_)
            | v4::Call::OpenDowngrade(_)
            | v4::Call::Close(_)
            | v4::Call::Lock(_)
            | v4::Call::LockU(_)
            | v4::Call::Remove(_)
            | v4::Call::Rename(_)
            | v4::Call::SetAttr(_)
            | v4::Call::DelegReturn(_)
    )
}

/// Notes what of an operation, whose arguments begin at `at`, the client sets itself: RFC 7530
/// section 16 has the layouts. Numbers of owners are those of NFSv4.0 alone.
fn note(minor: u32, operation: u32, call: &v4::Call<'_>, at: usize, places: &mut Places) {
    let state = || call.stateid().map(|stateid| Whose::State(stateid.other));
    let name = |owner: &v4::StateOwner<'_>| owner.owner.map(|owner| owner.to_vec());
    let (mut numbered, mut client_id) = (Vec::new(), None);
    match call {
        v4::Call::Open(args) => {
            numbered.push((name(&args.owner).map(Whose::OpenOwner), at));
            client_id = Some(at + 12);
        }
        v4::Call::Close(_) => numbered.push((state(), at)),
        v4::Call::OpenConfirm(_) | v4::Call::OpenDowngrade(_) => {
            numbered.push((state(), at + STATE))
        }
        v4::Call::LockU(_) => numbered.push((state(), at + 4)),
        v4::Call::Lock(args) => {
            // Type, reclaim, offset, length, which locker.
            let locker = at + 28;
            match &args.locker {
                Locker::New(new) => {
                    numbered.push((state(), locker));
                    let lock_owner = name(&new.owner).map(Whose::LockOwner);
                    numbered.push((lock_owner, locker + 4 + STATE));
                    client_id = Some(locker + 8 + STATE);
                }
                Locker::Known(_) => numbered.push((state(), locker + STATE)),
                Locker::Unread => {}
            }
        }
        // Type, offset, length.
        v4::Call::LockT(_) => client_id = Some(at + 20),
        v4::Call::ReleaseLockOwner(_)
        | v4::Call::Renew(_)
        | v4::Call::DelegPurge(_)
        | v4::Call::DestroyClientId(_) => client_id = Some(at),
        _ => {}
    }
    places.client_ids.extend(client_id);
    if minor == 0 {
        let all = numbered.into_iter().filter_map(|(whose, at)| {
            whose.map(|whose| Numbered {
                whose,
                operation,
                at,
            })
        });
        places.numbered.extend(all);
    }
}
