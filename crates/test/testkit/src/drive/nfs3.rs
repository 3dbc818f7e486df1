//! NFSv3 and MOUNT.

use anyhow::{Context, Result, bail, ensure};
use lineside_frame::Piece;
use lineside_nfs::{mount, v3};
use lineside_nfs_client::Request;
use lineside_rpc::xdr::{Handle, Name, Optional};

use super::client::{Client, version_3};
use super::{Drive, Server, Shape, Tally, Transfer, piece, success};

/// What `read` makes of a reply and, of READ, of its data.
pub(super) fn nfs_reply<T>(
    procedure: v3::Procedure,
    message: &[u8],
    read: impl FnOnce(v3::Reply<'_>, &[u8]) -> T,
) -> Result<T> {
    let pieces = [Piece::bytes(message)];
    let mut cursor = success(&pieces)?;
    let reply = v3::Reply::decode(procedure, &mut cursor);
    ensure!(
        cursor.fault().is_none(),
        "a {} reply ends at {:?}",
        procedure.name(),
        cursor.fault()
    );
    let len = match &reply {
        v3::Reply::Read(outcome) => outcome.ok().and_then(|ok| ok.data_len).unwrap_or(0) as usize,
        _ => 0,
    };
    let data = message
        .get(cursor.position()..cursor.position() + len)
        .context("READ data was cut")?;
    Ok(read(reply, data))
}

/// An export mounted by NFSv3: its root, and the means to call the server.
pub struct Session {
    nfs: Client,
    mount: Client,
    export: String,
    root: Vec<u8>,
}

impl Session {
    /// Connects and mounts the export.
    pub fn open(server: &Server, shape: &Shape) -> Result<Self> {
        let mut mount = Client::connect(server.mount, shape.clone(), version_3())?;
        let nfs = Client::connect(
            server.nfs,
            Shape {
                seed: shape.seed ^ 1,
                ..shape.clone()
            },
            version_3(),
        )?;
        let path = piece(server.export.as_bytes());
        let directory = Some(Name::new(&path));
        let root = mount.mount(
            mount::Call::Mnt(mount::DirectoryArgs { directory }),
            |reply| match reply {
                mount::Reply::Mnt(outcome) => outcome
                    .ok()
                    .and_then(|ok| ok.handle)
                    .map(|handle| handle.to_vec()),
                _ => None,
            },
        )?;
        let root = root.with_context(|| format!("cannot mount {}", server.export))?;
        Ok(Self {
            nfs,
            mount,
            export: server.export.clone(),
            root,
        })
    }
}

impl Drive for Session {
    type File = Vec<u8>;

    fn close(mut self) -> Result<Tally> {
        let path = piece(self.export.as_bytes());
        let directory = Some(Name::new(&path));
        self.mount.mount(
            mount::Call::Umnt(mount::DirectoryArgs { directory }),
            |_| (),
        )?;
        self.nfs.drain()?;
        self.mount.drain()?;
        let mut tally = self.nfs.tally().clone();
        tally.merge(self.mount.tally());
        Ok(tally)
    }

    fn create(&mut self, name: &str) -> Result<Vec<u8>> {
        let (root, name_piece) = (self.root.clone(), piece(name.as_bytes()));
        let root = piece(&root);
        let what = v3::DirOpArgs {
            directory: Some(Handle::new(&root)),
            name: Some(Name::new(&name_piece)),
        };
        let attributes = v3::SetAttributes {
            size: Optional::Present(Some(0)),
            ..attributes(0o644)
        };
        let call = v3::Call::Create(v3::CreateArgs {
            what,
            how: v3::CreateHow::Unchecked(attributes),
        });
        let handle = self.nfs.nfs(call, &[], |reply, _| {
            reply.object().map(|handle| handle.to_vec())
        })?;
        handle.with_context(|| format!("cannot create {name}"))
    }

    fn begin(&mut self, file: &Vec<u8>, transfer: &Transfer, data: &[u8]) -> Result<u32> {
        let file = piece(file);
        let file = Some(Handle::new(&file));
        let (offset, count) = (Some(transfer.offset), Some(transfer.len as u32));
        let call = if transfer.write {
            let stable = Some(if transfer.stable {
                v3::StableHow::FILE_SYNC
            } else {
                v3::StableHow::UNSTABLE
            });
            v3::Call::Write(v3::WriteArgs {
                file,
                offset,
                count,
                stable,
                data_len: count,
            })
        } else {
            v3::Call::Read(v3::ReadArgs {
                file,
                offset,
                count,
            })
        };
        self.nfs.send(Request::Nfs3(&call, data))
    }

    fn end(&mut self) -> Result<(u32, Vec<u8>)> {
        let (xid, message) = self.nfs.wait(None)?;
        let data = match self.nfs.is_read(xid) {
            true => nfs_reply(v3::Procedure::Read, &message, |_, data| data.to_vec())?,
            false => Vec::new(),
        };
        Ok((xid, data))
    }

    fn commit(&mut self, file: &Vec<u8>) -> Result<()> {
        let file = piece(file);
        let args = v3::CommitArgs {
            file: Some(Handle::new(&file)),
            offset: Some(0),
            count: Some(0),
        };
        self.nfs.nfs(v3::Call::Commit(args), &[], |_, _| ())
    }

    fn release(&mut self, _file: Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn every_procedure(&mut self, round: u64) -> Result<()> {
        let root = self.root.clone();
        let root = piece(&root);
        let root = Some(Handle::new(&root));
        let directory_name = format!("drive-{round}");
        let directory_name = piece(directory_name.as_bytes());
        let in_root = v3::DirOpArgs {
            directory: root,
            name: Some(Name::new(&directory_name)),
        };
        let missing = piece(b"there is no such name");

        self.nfs.nfs(v3::Call::Null(()), &[], |_, _| ())?;
        for call in [
            v3::Call::FsInfo(v3::FileArgs { file: root }),
            v3::Call::FsStat(v3::FileArgs { file: root }),
            v3::Call::PathConf(v3::FileArgs { file: root }),
        ] {
            self.expect(call, &[])?;
        }
        let directory = self.made(v3::Call::MkDir(v3::MkDirArgs {
            what: in_root,
            attributes: attributes(0o755),
        }))?;
        let directory = piece(&directory);
        let directory = Some(Handle::new(&directory));
        let names: [&[u8]; 7] = [
            b"plain",
            "g\u{e4}rten".as_bytes(),
            b"exclusive",
            b"link",
            b"fifo",
            b"hard link",
            b"renamed \xff\\ name",
        ];
        let names = names.map(piece);
        let at = |index: usize| v3::DirOpArgs {
            directory,
            name: Some(Name::new(&names[index])),
        };

        let how = v3::CreateHow::Unchecked(attributes(0o640));
        let file = self.made(v3::Call::Create(v3::CreateArgs { what: at(0), how }))?;
        let how = v3::CreateHow::Guarded(attributes(0o600));
        self.made(v3::Call::Create(v3::CreateArgs { what: at(1), how }))?;
        let how = v3::CreateHow::Exclusive(Some(round.to_be_bytes()));
        self.made(v3::Call::Create(v3::CreateArgs { what: at(2), how }))?;
        let target = piece(b"../elsewhere/target");
        let args = v3::SymLinkArgs {
            what: at(3),
            attributes: attributes(0o777),
            target: Some(Name::new(&target)),
        };
        let link = self.made(v3::Call::SymLink(args))?;
        let link = piece(&link);
        self.expect(
            v3::Call::ReadLink(v3::FileArgs {
                file: Some(Handle::new(&link)),
            }),
            &[],
        )?;
        let args = v3::MkNodArgs {
            what: at(4),
            node: v3::Node::Fifo(attributes(0o644)),
        };
        self.made(v3::Call::MkNod(args))?;

        let transfers = [
            Transfer::write(0, 3000, true),
            Transfer::read(0, 3000),
            Transfer::read(1000, 100),
            Transfer::read(1 << 20, 512),
        ];
        self.transfer(&file, round, 1, &transfers)?;
        self.commit(&file)?;
        let file = piece(&file);
        let file = Some(Handle::new(&file));
        let set = v3::SetAttrArgs {
            file,
            attributes: attributes(0o600),
            guard: Optional::Absent,
        };
        self.expect(v3::Call::SetAttr(set), &[])?;
        self.expect(v3::Call::GetAttr(v3::FileArgs { file }), &[])?;
        self.expect(
            v3::Call::Access(v3::AccessArgs {
                file,
                access: Some(0x3f),
            }),
            &[],
        )?;
        self.expect(v3::Call::Link(v3::LinkArgs { file, link: at(5) }), &[])?;
        self.expect(
            v3::Call::Rename(v3::RenameArgs {
                from: at(1),
                to: at(6),
            }),
            &[],
        )?;
        self.expect(v3::Call::Lookup(at(6)), &[])?;
        self.nfs.nfs(
            v3::Call::Lookup(v3::DirOpArgs {
                directory,
                name: Some(Name::new(&missing)),
            }),
            &[],
            |_, _| (),
        )?;
        let verifier = Some([0; 8]);
        let args = v3::ReadDirArgs {
            directory,
            cookie: Some(0),
            cookie_verifier: verifier,
            count: Some(4096),
        };
        self.expect(v3::Call::ReadDir(args), &[])?;
        let args = v3::ReadDirPlusArgs {
            directory,
            cookie: Some(0),
            cookie_verifier: verifier,
            directory_count: Some(4096),
            count_max: Some(8192),
        };
        self.expect(v3::Call::ReadDirPlus(args), &[])?;
        self.nfs.nfs(v3::Call::RmDir(in_root), &[], |_, _| ())?; // NFS3ERR_NOTEMPTY
        for index in [0, 2, 3, 4, 5, 6] {
            self.expect(v3::Call::Remove(at(index)), &[])?;
        }
        self.expect(v3::Call::RmDir(in_root), &[])?;
        self.nfs.nfs(
            v3::Call::GetAttr(v3::FileArgs { file: directory }),
            &[],
            |_, _| (),
        )?; // NFS3ERR_STALE

        self.mount.mount(mount::Call::Null(()), |_| ())?;
        self.mount.mount(mount::Call::Dump(()), |_| ())?;
        self.mount.mount(mount::Call::Export(()), |_| ())?;
        let nowhere = mount::DirectoryArgs {
            directory: Some(Name::new(&missing)),
        };
        self.mount.mount(mount::Call::Mnt(nowhere), |_| ())?;
        self.mount.mount(mount::Call::UmntAll(()), |_| ())
    }
}

impl Session {
    /// Calls what must succeed.
    fn expect(&mut self, call: v3::Call<'_>, data: &[u8]) -> Result<()> {
        let name = call.procedure().name();
        let status = self.nfs.nfs(call, data, |reply, _| reply.status())?;
        ensure!(
            status == Some(0),
            "{name}: {}",
            status
                .and_then(v3::status_name)
                .unwrap_or("an unknown status")
        );
        Ok(())
    }

    /// Calls what must make something, and returns its handle.
    fn made(&mut self, call: v3::Call<'_>) -> Result<Vec<u8>> {
        let name = call.procedure().name();
        let answer = self.nfs.nfs(call, &[], |reply, _| {
            (reply.status(), reply.object().map(|handle| handle.to_vec()))
        })?;
        match answer {
            (Some(0), Some(handle)) => Ok(handle),
            (status, _) => bail!("{name}: status {status:?}"),
        }
    }
}

fn attributes(mode: u32) -> v3::SetAttributes {
    v3::SetAttributes {
        mode: Optional::Present(Some(mode)),
        uid: Optional::Absent,
        gid: Optional::Absent,
        size: Optional::Absent,
        atime: v3::SetTime::DontChange,
        mtime: v3::SetTime::ServerTime,
    }
}
