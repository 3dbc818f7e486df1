//! NFSv4.0 to 4.2, in compounds as Linux sends them: SEQUENCE, PUTFH, what it is about, GETATTR.

use anyhow::{Context, Result, ensure};
use lineside_frame::Piece;
use lineside_nfs::v4::{
    self, AttributeList, Attributes, Bitmap, Call, Claim, CreateHow, CreateType, Handle, OpenHow,
    Owner, Reply, StateId, StateOwner,
};
use lineside_nfs_client::{Config, Mount, MountAt, Request, Version};
use lineside_rpc::xdr::{Name, Xdr};

use super::client::Client;
use super::{Drive, Server, Shape, Tally, Transfer, piece, success};

/// Bits that Linux asks for of a file: type, change, size, file system, number, mode, links,
/// owners, device, space, times.
const FILE: [u32; 14] = [1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53];
/// The same of what an operation may have changed: change, size, space, times.
const CHANGED: [u32; 5] = [3, 4, 45, 52, 53];
/// Of an entry of a directory also why there are none, and the handle.
const ENTRY: [u32; 16] = [1, 3, 4, 8, 11, 19, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53];
/// What a client compares by VERIFY: change, size, file number.
const COMPARED: [u32; 3] = [3, 4, 20];
/// What NFSv3 has in FSINFO, FSSTAT and PATHCONF.
const FILE_SYSTEM: [&[u32]; 3] = [&[10, 27, 30, 31, 51], &[21, 22, 23, 42, 43, 44], &[28, 29]];
/// OPEN4_SHARE_ACCESS_BOTH.
const READ_AND_WRITE: u32 = 3;
/// OPEN4_RESULT_CONFIRM: an OPEN_CONFIRM must follow.
const MUST_CONFIRM: u32 = 2;
/// An export mounted by NFSv4.
pub struct Session4 {
    client: Client,
    minor_version: u32,
    root: Vec<u8>,
    /// The owner of all opens.
    owner: Vec<u8>,
}

/// An open file.
pub struct Open {
    handle: Vec<u8>,
    stateid: StateId,
}

/// What `read` makes of the results of a compound and of the data that READ returned.
pub(super) fn results<T>(message: &[u8], read: impl FnOnce(&[Reply<'_>], &[u8]) -> T) -> Result<T> {
    let pieces = [Piece::bytes(message)];
    let mut cursor = success(&pieces)?;
    let header = v4::ReplyHeader::decode(&mut cursor);
    let (mut replies, mut data) = (Vec::new(), &[][..]);
    for _ in 0..header.operation_count.unwrap_or(0) {
        let reply = Reply::decode(&mut cursor);
        if let Some(len) = reply.data_len() {
            let start = cursor.position();
            let read = message.get(start..start + len as usize);
            data = read.context("READ data was cut")?;
            v4::skip_data(&mut cursor, len);
        }
        replies.push(reply);
        ensure!(
            cursor.fault().is_none(),
            "a compound's reply ends at {:?} in {:?}",
            cursor.fault(),
            replies.last()
        );
    }
    Ok(read(&replies, data))
}

impl Session4 {
    /// Connects, makes the server know this client, and mounts the export.
    pub fn open(server: &Server, shape: &Shape, minor_version: u32) -> Result<Self> {
        ensure!(!shape.udp, "NFSv4 needs TCP");
        ensure!(minor_version <= 2, "no NFSv4.{minor_version} here");
        let owner = format!("nfs-drive {} {}", shape.seed, std::process::id()).into_bytes();
        let mut config = Config::new(Version::V4(minor_version), &owner, verifier());
        config.mount = Some(Mount {
            export: server.export.clone().into_bytes(),
            at: MountAt::default(),
        });
        let client = Client::connect(server.nfs, shape.clone(), config)?;
        Ok(Self {
            root: client.root().to_vec(),
            client,
            minor_version,
            owner,
        })
    }

    fn send(&mut self, calls: &[Call<'_>], data: &[u8]) -> Result<u32> {
        self.client.send(Request::Compound {
            tag: b"",
            calls,
            data,
        })
    }

    /// Calls, and returns what `read` makes of the results behind SEQUENCE's.
    fn call<T>(&mut self, calls: &[Call<'_>], read: impl FnOnce(&[Reply<'_>]) -> T) -> Result<T> {
        let xid = self.send(calls, &[])?;
        let message = self.client.wait(Some(xid))?.1;
        results(&message, |replies, _| match replies {
            [Reply::Sequence(_), replies @ ..] => read(replies),
            replies => read(replies),
        })
    }

    /// Calls what must succeed.
    fn expect<T>(
        &mut self,
        calls: &[Call<'_>],
        read: impl FnOnce(&[Reply<'_>]) -> Option<T>,
    ) -> Result<T> {
        let (answer, reply) = self.call(calls, |replies| {
            let is_ok = |reply: &Reply<'_>| reply.status() == Some(0);
            let done = replies.len() == calls.len() && replies.iter().all(is_ok);
            (
                done.then(|| read(replies)).flatten(),
                format!("{:?}", replies.last()),
            )
        })?;
        answer.with_context(|| format!("{:?} was answered {reply}", calls.last()))
    }

    /// Does something to an object, which must succeed.
    fn on(&mut self, handle: &[u8], calls: &[Call<'_>]) -> Result<()> {
        let handle = piece(handle);
        self.expect(&[&[put(&handle)], calls].concat(), |_| Some(()))
    }

    /// Goes or makes somewhere, and returns the handle there.
    fn made(&mut self, mut calls: Vec<Call<'_>>) -> Result<Vec<u8>> {
        calls.extend([Call::GetFh(()), attributes(&FILE)]);
        self.expect(&calls, |replies| {
            replies
                .iter()
                .find_map(Reply::handle)
                .map(|handle| handle.to_vec())
        })
    }

    fn make(
        &mut self,
        directory: &[u8],
        called: &[u8],
        object: CreateType<'_>,
        mode: u32,
    ) -> Result<Vec<u8>> {
        let (directory, called, values) = (piece(directory), piece(called), mode_of(mode));
        let args = v4::CreateArgs {
            object,
            name: Some(Name::new(&called)),
            attributes: AttributeList::new(&values),
        };
        self.made(vec![put(&directory), Call::Create(args)])
    }

    /// Opens a file to read and write. The client sets the numbers of the owner, and its own id.
    fn open_file(&mut self, directory: &[u8], called: &[u8], how: CreateHow<'_>) -> Result<Open> {
        let (directory, called, owner) = (piece(directory), piece(called), self.owner.clone());
        let owner = piece(&owner);
        let args = v4::OpenArgs {
            sequence: Some(0),
            access: Some(READ_AND_WRITE),
            deny: Some(0),
            owner: StateOwner {
                client_id: Some(0),
                owner: Some(Owner::new(&owner)),
            },
            how: OpenHow::Create(how),
            claim: Claim::Null(Some(Name::new(&called))),
        };
        let calls = [
            put(&directory),
            Call::Open(args),
            Call::GetFh(()),
            Call::Access(v4::AccessArgs { access: Some(0x2d) }),
            attributes(&FILE),
        ];
        let (handle, stateid, flags) = self.expect(&calls, |replies| match replies {
            [_, Reply::Open(outcome), Reply::GetFh(object), ..] => {
                let (ok, handle) = (outcome.ok()?, object.ok()?.object?.to_vec());
                Some((handle, ok.stateid?, ok.flags?))
            }
            _ => None,
        })?;
        let mut file = Open { handle, stateid };
        if flags & MUST_CONFIRM != 0 {
            let args = v4::OpenConfirmArgs {
                stateid: Some(stateid),
                sequence: Some(0),
            };
            let handle = piece(&file.handle);
            let calls = [put(&handle), Call::OpenConfirm(args)];
            file.stateid = self.expect(&calls, |replies| replies.last()?.stateid())?;
        }
        Ok(file)
    }

    /// What came with NFSv4.2, whatever the server makes of it.
    fn of_minor_2(&mut self, file: &Open) -> Result<()> {
        let (handle, stateid) = (piece(&file.handle), Some(file.stateid));
        let of = |offset, length| v4::AllocateArgs {
            stateid,
            offset: Some(offset),
            length: Some(length),
        };
        let seek = |what| v4::SeekArgs {
            stateid,
            offset: Some(0),
            what: Some(what),
        };
        for call in [
            Call::Allocate(of(0, 8_192)),
            Call::Deallocate(of(1_024, 512)),
            Call::Seek(seek(v4::Content::DATA)),
            Call::Seek(seek(v4::Content::HOLE)),
        ] {
            self.call(&[put(&handle), call, attributes(&CHANGED)], |_| ())?;
        }
        Ok(())
    }

    /// Does something between two comparisons of the file with what was seen before: it is the
    /// same, and then it is not.
    fn compare(&mut self, file: &Open, calls: &[Call<'_>]) -> Result<()> {
        let handle = piece(&file.handle);
        let look = [put(&handle), attributes(&COMPARED)];
        let (change, size, fileid) = self.expect(&look, |replies| match replies.last()? {
            Reply::GetAttr(outcome) => {
                let seen = outcome.ok()?.attributes.values();
                Some((seen.change, seen.size, seen.fileid))
            }
            _ => None,
        })?;
        let values = |change, size| Attributes {
            change,
            size,
            fileid,
            ..Attributes::default()
        };
        let list = |of| {
            let attributes = AttributeList::new(of);
            v4::VerifyArgs { attributes }
        };
        let (same, other) = (values(change, size), values(change, Some(1 << 40)));
        self.on(
            &file.handle,
            &[Call::Verify(list(&same)), attributes(&FILE)],
        )?;
        // NFS4ERR_NOT_SAME, NFS4ERR_SAME
        self.call(&[put(&handle), Call::Verify(list(&other))], |_| ())?;
        self.call(&[put(&handle), Call::NVerify(list(&same))], |_| ())?;
        self.on(&file.handle, calls)?;
        self.on(
            &file.handle,
            &[Call::NVerify(list(&same)), attributes(&FILE)],
        )
    }

    fn remove(&mut self, directory: &[u8], called: &[u8]) -> Result<()> {
        let called = piece(called);
        self.on(directory, &[Call::Remove(name(&called))])
    }
}

impl Drive for Session4 {
    type File = Open;

    fn create(&mut self, called: &str) -> Result<Open> {
        let values = Attributes {
            size: Some(0),
            ..mode_of(0o644)
        };
        let how = CreateHow::Unchecked(AttributeList::new(&values));
        self.open_file(&self.root.clone(), called.as_bytes(), how)
    }

    fn begin(&mut self, file: &Open, transfer: &Transfer, data: &[u8]) -> Result<u32> {
        let handle = piece(&file.handle);
        let (stateid, offset, len) = (
            Some(file.stateid),
            Some(transfer.offset),
            Some(transfer.len as u32),
        );
        if !transfer.write {
            let args = v4::ReadArgs {
                stateid,
                offset,
                count: len,
            };
            return self.send(&[put(&handle), Call::Read(args)], &[]);
        }
        let args = v4::WriteArgs {
            stateid,
            offset,
            stable: Some(if transfer.stable {
                v4::StableHow::FILE_SYNC
            } else {
                v4::StableHow::UNSTABLE
            }),
            data_len: len,
        };
        self.send(
            &[put(&handle), Call::Write(args), attributes(&CHANGED)],
            data,
        )
    }

    fn end(&mut self) -> Result<(u32, Vec<u8>)> {
        let (xid, message) = self.client.wait(None)?;
        results(&message, |replies, data| {
            let failed = replies.iter().find(|reply| reply.status() != Some(0));
            ensure!(failed.is_none(), "{failed:?}");
            Ok((xid, data.to_vec()))
        })?
    }

    fn commit(&mut self, file: &Open) -> Result<()> {
        let args = v4::CommitArgs {
            offset: Some(0),
            count: Some(0),
        };
        self.on(&file.handle, &[Call::Commit(args), attributes(&CHANGED)])
    }

    fn release(&mut self, file: Open) -> Result<()> {
        let args = v4::CloseArgs {
            sequence: Some(0),
            stateid: Some(file.stateid),
        };
        self.on(&file.handle, &[Call::Close(args)])
    }

    fn every_procedure(&mut self, round: u64) -> Result<()> {
        let root = self.root.clone();
        for bits in FILE_SYSTEM {
            self.on(&root, &[attributes(bits)])?;
        }
        let own = format!("drive-{round}");
        let directory = self.make(&root, own.as_bytes(), CreateType::Directory, 0o755)?;
        let names: [&[u8]; 7] = [
            b"plain",
            "g\u{e4}rten".as_bytes(),
            b"exclusive",
            b"link",
            b"fifo",
            b"hard link",
            b"renamed \\ name",
        ];
        let (plain, guarded) = (mode_of(0o640), mode_of(0o600));
        let how = CreateHow::Unchecked(AttributeList::new(&plain));
        let file = self.open_file(&directory, names[0], how)?;
        let how = CreateHow::Guarded(AttributeList::new(&guarded));
        let other = self.open_file(&directory, names[1], how)?;
        self.release(other)?;
        let verifier = Some(round.to_be_bytes());
        let how = match self.minor_version {
            0 => CreateHow::Exclusive(verifier),
            _ => CreateHow::ExclusiveWithAttributes(v4::ExclusiveCreate {
                verifier,
                attributes: AttributeList::new(&guarded),
            }),
        };
        let other = self.open_file(&directory, names[2], how)?;
        self.release(other)?;
        let target = piece(b"../elsewhere/target");
        let link = CreateType::Symlink(Some(Name::new(&target)));
        let link = self.make(&directory, names[3], link, 0o777)?;
        self.on(&link, &[Call::ReadLink(())])?;
        self.make(&directory, names[4], CreateType::Fifo, 0o644)?;

        let transfers = [
            Transfer::write(0, 3000, true),
            Transfer::read(0, 3000),
            Transfer::read(1000, 100),
            Transfer::read(1 << 20, 512),
        ];
        self.transfer(&file, round, 1, &transfers)?;
        self.commit(&file)?;
        let set = Call::SetAttr(v4::SetAttrArgs {
            stateid: Some(file.stateid),
            attributes: AttributeList::new(&guarded),
        });
        self.compare(&file, &[set, attributes(&FILE)])?;
        self.on(&file.handle, &[attributes(&FILE)])?;
        let access = Call::Access(v4::AccessArgs { access: Some(0x3f) });
        self.on(&file.handle, &[access, attributes(&FILE)])?;
        if self.minor_version == 2 {
            self.of_minor_2(&file)?;
        }
        let handle = file.handle.clone();
        self.release(file)?;
        let (into, called) = (piece(&directory), piece(names[5]));
        let calls = [
            Call::SaveFh(()),
            put(&into),
            Call::Link(name(&called)),
            attributes(&CHANGED),
            Call::RestoreFh(()),
            attributes(&FILE),
        ];
        self.on(&handle, &calls)?;
        let (from, to) = (piece(names[1]), piece(names[6]));
        let rename = Call::Rename(v4::RenameArgs {
            from: Some(Name::new(&from)),
            to: Some(Name::new(&to)),
        });
        self.on(&directory, &[Call::SaveFh(()), put(&into), rename])?;
        self.made(vec![put(&into), Call::Lookup(name(&to))])?;
        let missing = piece(b"there is no such name");
        self.call(
            &[
                put(&into),
                Call::Lookup(name(&missing)),
                Call::GetFh(()),
                attributes(&FILE),
            ],
            |_| (),
        )?;
        for request in [&FILE[..3], &ENTRY] {
            let args = v4::ReadDirArgs {
                cookie: Some(0),
                cookie_verifier: Some([0; 8]),
                directory_count: Some(4096),
                count_max: Some(8192),
                request: Some(Bitmap::new(request)),
            };
            self.on(&directory, &[Call::ReadDir(args)])?;
        }
        let (top, called) = (piece(&root), piece(own.as_bytes()));
        let remove = [put(&top), Call::Remove(name(&called))];
        self.call(&remove, |_| ())?; // NFS4ERR_NOTEMPTY
        for index in [0, 2, 3, 4, 5, 6] {
            self.remove(&directory, names[index])?;
        }
        self.expect(&remove, |_| Some(()))?;
        // NFS4ERR_STALE
        self.call(&[put(&into), attributes(&FILE)], |_| ())
    }

    fn close(mut self) -> Result<Tally> {
        self.client.finish()?;
        Ok(self.client.tally().clone())
    }
}

fn put<'a>(handle: &'a [Piece<'a>]) -> Call<'a> {
    let object = Some(Handle::new(handle));
    Call::PutFh(v4::PutFhArgs { object })
}

fn name<'a>(called: &'a [Piece<'a>]) -> v4::NameArgs<'a> {
    let name = Some(Name::new(called));
    v4::NameArgs { name }
}

fn attributes(bits: &[u32]) -> Call<'static> {
    let request = Some(Bitmap::new(bits));
    Call::GetAttr(v4::GetAttrArgs { request })
}

fn mode_of(mode: u32) -> Attributes<'static> {
    Attributes {
        mode: Some(mode),
        ..Attributes::default()
    }
}

/// Another process of the same name has another one: the server forgets what the former had.
fn verifier() -> v4::Verifier {
    u64::from(std::process::id()).to_be_bytes()
}
