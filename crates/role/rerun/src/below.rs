//! What is below a handle: names that are looked up, directories that are made.

use hashbrown::HashMap;
use lineside_frame::Piece;
use lineside_nfs::v3::{self, Procedure, Status};
use lineside_nfs::v4;
use lineside_nfs_client::{Request, Version};
use lineside_replay::Path;
use lineside_rpc::xdr::{Handle, Name, Optional};

use crate::asking::Asking;
use crate::error::RerunError;
use crate::url::Url;

/// What is below the export's root.
pub(crate) struct Below<'a, 'b> {
    pub(crate) asking: &'a mut Asking<'b>,
    pub(crate) url: &'a Url,
    pub(crate) version: Version,
}

/// What a call made of a name.
type Named = Result<Option<Vec<u8>>, u32>;

impl Below<'_, '_> {
    fn call(&mut self, doing: &str, call: &v3::Call<'_>) -> Result<Named, RerunError> {
        let procedure = call.procedure();
        let request = Request::Nfs3(call, &[]);
        self.asking.ask(doing, request, |results| {
            let reply = v3::Reply::decode(procedure, &mut results.cursor());
            match reply.status()? {
                0 => Some(Ok(reply.object().map(|handle| handle.to_vec()))),
                status => Some(Err(status)),
            }
        })
    }

    /// Operations of NFSv4 in a directory, the last of which is GETFH.
    fn compound(
        &mut self,
        doing: &str,
        directory: &[u8],
        operation: v4::Call<'_>,
    ) -> Result<Named, RerunError> {
        let of = [Piece::bytes(directory)];
        let put = v4::Call::PutFh(v4::PutFhArgs {
            object: Some(v4::Handle::new(&of)),
        });
        let calls = [put, operation, v4::Call::GetFh(())];
        let request = Request::Compound {
            tag: b"",
            calls: &calls,
            data: b"",
        };
        self.asking.ask(doing, request, |results| {
            let compound = results.compound().ok()?;
            if compound.status != v4::Status::OK {
                return Some(Err(compound.status.0));
            }
            let mut handles = compound.filter_map(|it| it.ok()?.0.handle().map(|it| it.to_vec()));
            Some(Ok(handles.next()))
        })
    }

    fn look_up(&mut self, directory: &[u8], name: &[u8]) -> Result<Named, RerunError> {
        if let Version::V4(_) = self.version {
            let name = [Piece::bytes(name)];
            let name = Some(Name::new(&name));
            let call = v4::Call::Lookup(v4::NameArgs { name });
            return self.compound("looking for the directory", directory, call);
        }
        let (directory, name) = ([Piece::bytes(directory)], [Piece::bytes(name)]);
        let call = v3::Call::Lookup(v3::DirOpArgs {
            directory: Some(Handle::new(&directory)),
            name: Some(Name::new(&name)),
        });
        self.call("looking for the directory", &call)
    }

    pub(crate) fn find_or_make(
        &mut self,
        directory: &[u8],
        name: &[u8],
    ) -> Result<Vec<u8>, RerunError> {
        let doing = format!("{}: LOOKUP of {}", self.url.text, name.escape_ascii());
        match self.look_up(directory, name)? {
            Ok(Some(handle)) => return Ok(handle),
            Err(status) if Status(status) == Status::NOENT => {}
            Ok(None) => return Err(refused(doing, Status::SERVERFAULT.0)),
            Err(status) => return Err(refused(doing, status)),
        }
        let doing = format!("{}: MKDIR of {}", self.url.text, name.escape_ascii());
        let made = match self.version {
            Version::V3 => self.make(&doing, directory, name)?,
            Version::V4(_) => self.make4(&doing, directory, name)?,
        };
        match made {
            Ok(Some(handle)) => Ok(handle),
            Ok(None) => match self.look_up(directory, name)? {
                Ok(Some(handle)) => Ok(handle),
                Ok(None) => Err(refused(doing, Status::SERVERFAULT.0)),
                Err(status) => Err(refused(doing, status)),
            },
            Err(status) => Err(refused(doing, status)),
        }
    }

    /// The directory at a path, which is made as far as it is not there.
    pub(crate) fn way(&mut self, top: &[u8], path: &Path) -> Result<Vec<u8>, RerunError> {
        let mut at = top.to_vec();
        for name in path {
            at = self.find_or_make(&at, name)?;
        }
        Ok(at)
    }

    fn make4(&mut self, doing: &str, directory: &[u8], name: &[u8]) -> Result<Named, RerunError> {
        let name = [Piece::bytes(name)];
        let attributes = v4::Attributes {
            mode: Some(0o755),
            ..v4::Attributes::default()
        };
        let call = v4::Call::Create(v4::CreateArgs {
            object: v4::CreateType::Directory,
            name: Some(Name::new(&name)),
            attributes: v4::AttributeList::new(&attributes),
        });
        self.compound(doing, directory, call)
    }

    fn make(&mut self, doing: &str, directory: &[u8], name: &[u8]) -> Result<Named, RerunError> {
        let (of, called) = ([Piece::bytes(directory)], [Piece::bytes(name)]);
        let call = v3::Call::MkDir(v3::MkDirArgs {
            what: v3::DirOpArgs {
                directory: Some(Handle::new(&of)),
                name: Some(Name::new(&called)),
            },
            attributes: v3::SetAttributes {
                mode: Optional::Present(Some(0o755)),
                uid: Optional::Absent,
                gid: Optional::Absent,
                size: Optional::Absent,
                atime: v3::SetTime::DontChange,
                mtime: v3::SetTime::DontChange,
            },
        });
        self.call(doing, &call)
    }

    /// The handle of what is at a path, if something is.
    pub(crate) fn find(
        &mut self,
        top: &[u8],
        path: &Path,
        found: &mut HashMap<Path, Option<Vec<u8>>>,
    ) -> Result<Option<Vec<u8>>, RerunError> {
        let mut handle = top.to_vec();
        for len in 1..=path.len() {
            let part = path[..len].to_vec();
            let known = match found.get(&part) {
                Some(known) => known.clone(),
                None => {
                    let looked = self.look_up(&handle, &path[len - 1])?;
                    let looked = looked.unwrap_or_default();
                    found.insert(part, looked.clone());
                    looked
                }
            };
            match known {
                Some(known) => handle = known,
                None => return Ok(None),
            }
        }
        Ok(Some(handle))
    }

    pub(crate) fn is_empty(&mut self, directory: &[u8]) -> Result<bool, RerunError> {
        if let Version::V4(_) = self.version {
            return self.is_empty4(directory);
        }
        let of = [Piece::bytes(directory)];
        let call = v3::Call::ReadDir(v3::ReadDirArgs {
            directory: Some(Handle::new(&of)),
            cookie: Some(0),
            cookie_verifier: Some([0; 8]),
            count: Some(4_096),
        });
        let doing = "reading the directory";
        let listed = self
            .asking
            .ask(doing, Request::Nfs3(&call, &[]), |results| {
                let reply = v3::Reply::decode(Procedure::ReadDir, &mut results.cursor());
                let v3::Reply::ReadDir(outcome) = &reply else {
                    return None;
                };
                match outcome.ok() {
                    Some(ok) => {
                        let names = ok.entries.iter().filter_map(|entry| entry.name);
                        let mut names = names.map(|name| name.to_vec());
                        Some(Ok(names.all(|name| matches!(&name[..], b"." | b".."))))
                    }
                    None => reply.status().map(Err),
                }
            })?;
        listed.map_err(|status| refused(format!("{}: READDIR", self.url.text), status))
    }

    fn is_empty4(&mut self, directory: &[u8]) -> Result<bool, RerunError> {
        let of = [Piece::bytes(directory)];
        let put = v4::Call::PutFh(v4::PutFhArgs {
            object: Some(v4::Handle::new(&of)),
        });
        let read = v4::Call::ReadDir(v4::ReadDirArgs {
            cookie: Some(0),
            cookie_verifier: Some([0; 8]),
            directory_count: Some(1_024),
            count_max: Some(4_096),
            request: Some(v4::Bitmap::default()),
        });
        let request = Request::Compound {
            tag: b"",
            calls: &[put, read],
            data: b"",
        };
        let listed = self
            .asking
            .ask("reading the directory", request, |results| {
                let compound = results.compound().ok()?;
                if compound.status != v4::Status::OK {
                    return Some(Err(compound.status.0));
                }
                let mut replies = compound.flatten();
                replies.find_map(|(reply, _)| match reply {
                    v4::Reply::ReadDir(outcome) => {
                        Some(Ok(outcome.ok()?.entries.iter().next().is_none()))
                    }
                    _ => None,
                })
            })?;
        listed.map_err(|status| refused(format!("{}: READDIR", self.url.text), status))
    }
}

fn refused(doing: String, status: u32) -> RerunError {
    let hint = match Status(status) {
        Status::ROFS => ": it is exported read-only; name another export",
        Status::NOSPC | Status::DQUOT => ": there is no room; make some, or name another export",
        Status::ACCES | Status::PERM => {
            ": give --as UID:GID of a user who may write there, or export it with no_root_squash"
        }
        Status::NOTDIR => ": it is no directory; name another one",
        _ => "",
    };
    let known = v3::status_name(status).map(str::to_owned);
    RerunError::Refused {
        doing,
        status: known.unwrap_or_else(|| status.to_string()),
        hint,
    }
}
