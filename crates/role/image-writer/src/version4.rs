//! The calls of an image as compounds of NFSv4.1, for servers without NFSv3.
//!
//! Files are made by an OPEN that the same compound closes: what follows needs no state, and uses
//! the anonymous state id (RFC 8881 section 8.2.3).

use lineside_frame::Piece;
use lineside_nfs::v3;
use lineside_nfs::v4::attributes::SetTime;
use lineside_nfs::v4::{self, AttributeList, Attributes, Call, StateId};
use lineside_nfs_client::{Request, Results};
use lineside_rpc::xdr::{Handle, Name, Optional};

/// The minor version that has a current state id.
pub(crate) const MINOR: u32 = 1;

/// No state at all.
const ANONYMOUS: StateId = StateId {
    sequence: 0,
    other: [0; 12],
};
/// What the operation before has given.
const CURRENT: StateId = StateId {
    sequence: 1,
    other: [0; 12],
};
/// OPEN4_SHARE_ACCESS_WRITE, and OPEN4_SHARE_ACCESS_WANT_NO_DELEG.
const ACCESS: u32 = 0x402;

fn value<T>(of: &Optional<Option<T>>) -> Option<T>
where
    T: Copy,
{
    match of {
        Optional::Present(value) => *value,
        _ => None,
    }
}

/// Texts that arguments point to.
struct Texts {
    handle: Vec<u8>,
    handle2: Vec<u8>,
    name: Vec<u8>,
    target: Vec<u8>,
    uid: Option<Vec<u8>>,
    gid: Option<Vec<u8>>,
}

fn bytes_of_handle(handle: &Option<Handle<'_>>) -> Vec<u8> {
    handle.map(|handle| handle.to_vec()).unwrap_or_default()
}

fn bytes_of_name(name: &Option<Name<'_>>) -> Vec<u8> {
    name.map(|name| name.to_vec()).unwrap_or_default()
}

/// What a call of NFSv3 is about: where, and the attributes that it gives.
fn parts<'a>(call: &'a v3::Call<'a>) -> Option<(Texts, Option<&'a v3::SetAttributes>)> {
    let nothing = None;
    let (handle, what, attributes) = match call {
        v3::Call::Lookup(of) => (None, Some(of), None),
        v3::Call::MkDir(of) => (None, Some(&of.what), Some(&of.attributes)),
        v3::Call::SymLink(of) => (None, Some(&of.what), Some(&of.attributes)),
        v3::Call::MkNod(of) => match &of.node {
            v3::Node::Socket(attributes) | v3::Node::Fifo(attributes) => {
                (None, Some(&of.what), Some(attributes))
            }
            _ => return nothing,
        },
        v3::Call::Create(of) => match &of.how {
            v3::CreateHow::Guarded(attributes) => (None, Some(&of.what), Some(attributes)),
            _ => return nothing,
        },
        v3::Call::Link(of) => (Some(&of.file), Some(&of.link), None),
        v3::Call::Write(of) => (Some(&of.file), None, None),
        v3::Call::SetAttr(of) => (Some(&of.file), None, Some(&of.attributes)),
        _ => return nothing,
    };
    let target = match call {
        v3::Call::SymLink(of) => bytes_of_name(&of.target),
        _ => Vec::new(),
    };
    let directory = what.map(|what| bytes_of_handle(&what.directory));
    let number = |of: Option<u32>| of.map(|number| number.to_string().into_bytes());
    let texts = Texts {
        handle: handle
            .map(bytes_of_handle)
            .or_else(|| directory.clone())
            .unwrap_or_default(),
        handle2: directory.unwrap_or_default(),
        name: what
            .map(|what| bytes_of_name(&what.name))
            .unwrap_or_default(),
        target,
        uid: number(attributes.and_then(|it| value(&it.uid))),
        gid: number(attributes.and_then(|it| value(&it.gid))),
    };
    Some((texts, attributes))
}

/// Texts as calls point to them.
struct Pieces<'a> {
    handle: [Piece<'a>; 1],
    handle2: [Piece<'a>; 1],
    name: [Piece<'a>; 1],
    target: [Piece<'a>; 1],
    owner: [Piece<'a>; 1],
}

/// Gives `make` the compound that does what a call of NFSv3 does; `None`: there is none.
pub(crate) fn compound<T>(
    call: &v3::Call<'_>,
    data: &[u8],
    make: impl FnOnce(Request<'_>) -> T,
) -> Option<T> {
    let (texts, set) = parts(call)?;
    let pieces = Pieces {
        handle: [Piece::bytes(&texts.handle)],
        handle2: [Piece::bytes(&texts.handle2)],
        name: [Piece::bytes(&texts.name)],
        target: [Piece::bytes(&texts.target)],
        owner: [Piece::bytes(b"lineside image")],
    };
    let [uid, gid] =
        [&texts.uid, &texts.gid].map(|it| [Piece::bytes(it.as_deref().unwrap_or_default())]);
    let time = set.and_then(|set| match set.mtime {
        v3::SetTime::ClientTime(time) => time.seconds.zip(time.nanoseconds),
        _ => None,
    });
    let time = time.map(|(seconds, nanoseconds)| {
        SetTime::ClientTime(Some(v4::Time {
            seconds: seconds.into(),
            nanoseconds,
        }))
    });
    let values = Attributes {
        size: set.and_then(|set| value(&set.size)),
        mode: set.and_then(|set| value(&set.mode)),
        owner: texts.uid.as_ref().map(|_| Name::new(&uid)),
        group: texts.gid.as_ref().map(|_| Name::new(&gid)),
        set_mtime: time.unwrap_or(SetTime::Unread),
        ..Attributes::default()
    };
    let calls = operations(call, &pieces, AttributeList::new(&values))?;
    Some(make(Request::Compound {
        tag: b"",
        calls: &calls,
        data,
    }))
}

/// The operations of the compound.
fn operations<'a>(
    call: &v3::Call<'_>,
    pieces: &'a Pieces<'a>,
    attributes: AttributeList<'a>,
) -> Option<Vec<Call<'a>>> {
    let put = |handle| {
        let object = Some(v4::Handle::new(handle));
        Call::PutFh(v4::PutFhArgs { object })
    };
    let name = Some(Name::new(&pieces.name));
    let made = |object| {
        let make = Call::Create(v4::CreateArgs {
            object,
            name,
            attributes,
        });
        vec![put(&pieces.handle), make, Call::GetFh(())]
    };
    let of_name = v4::NameArgs { name };
    Some(match call {
        v3::Call::Lookup(_) => {
            vec![put(&pieces.handle), Call::Lookup(of_name), Call::GetFh(())]
        }
        v3::Call::MkDir(_) => made(v4::CreateType::Directory),
        v3::Call::SymLink(_) => made(v4::CreateType::Symlink(Some(Name::new(&pieces.target)))),
        v3::Call::MkNod(of) => made(match of.node {
            v3::Node::Socket(_) => v4::CreateType::Socket,
            _ => v4::CreateType::Fifo,
        }),
        v3::Call::Create(_) => {
            let [open, close] = opened(pieces, attributes);
            vec![put(&pieces.handle), open, Call::GetFh(()), close]
        }
        v3::Call::Link(_) => vec![
            put(&pieces.handle),
            Call::SaveFh(()),
            put(&pieces.handle2),
            Call::Link(of_name),
        ],
        v3::Call::Write(of) => {
            let write = Call::Write(v4::WriteArgs {
                stateid: Some(ANONYMOUS),
                offset: of.offset,
                stable: Some(v4::StableHow::FILE_SYNC),
                data_len: of.data_len,
            });
            vec![put(&pieces.handle), write]
        }
        v3::Call::SetAttr(_) => {
            let set = Call::SetAttr(v4::SetAttrArgs {
                stateid: Some(ANONYMOUS),
                attributes,
            });
            vec![put(&pieces.handle), set]
        }
        _ => return None,
    })
}

/// An OPEN that makes a file, and what closes it.
fn opened<'a>(pieces: &'a Pieces<'a>, attributes: AttributeList<'a>) -> [Call<'a>; 2] {
    let open = Call::Open(v4::OpenArgs {
        sequence: Some(0),
        access: Some(ACCESS),
        deny: Some(0),
        owner: v4::StateOwner {
            client_id: Some(0),
            owner: Some(v4::Owner::new(&pieces.owner)),
        },
        how: v4::OpenHow::Create(v4::CreateHow::Guarded(attributes)),
        claim: v4::Claim::Null(Some(Name::new(&pieces.name))),
    });
    let close = Call::Close(v4::CloseArgs {
        sequence: Some(0),
        stateid: Some(CURRENT),
    });
    [open, close]
}

/// What came of such a compound.
pub(crate) struct Done {
    /// Those that an image knows have the numbers of NFSv3's.
    pub(crate) status: u32,
    pub(crate) handle: Option<Vec<u8>>,
    /// Of WRITE.
    pub(crate) count: u32,
}

/// The results of such a compound.
pub(crate) fn results(of: Results<'_>) -> Option<Done> {
    let compound = of.compound().ok()?;
    let mut done = Done {
        status: compound.status.0,
        handle: None,
        count: 0,
    };
    for each in compound {
        match each.ok()?.0 {
            v4::Reply::GetFh(outcome) => {
                let handle = outcome.ok().and_then(|ok| ok.object);
                done.handle = handle.map(|handle| handle.to_vec());
            }
            v4::Reply::Write(outcome) => {
                done.count = outcome.ok().and_then(|ok| ok.count).unwrap_or(0);
            }
            // It was made, however it was closed.
            v4::Reply::Close(_) => done.status = 0,
            _ => {}
        }
    }
    Some(done)
}
