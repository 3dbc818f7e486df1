//! Before a run: the directory that everything happens below is found or made, and what the
//! source's calls use of it is looked up.

use hashbrown::HashMap;
use lineside_frame::Piece;
use lineside_host::RunClock;
use lineside_nfs::v3::{self, Procedure, Status};
use lineside_nfs_client::{
    ClientError, Config, Credential, Mount, MountAt, Request, Step, Version,
};
use lineside_replay::{FileId, Script};
use lineside_rpc::xdr::{Handle, Name, Optional};

use crate::asking::Asking;
use crate::error::RerunError;
use crate::url::Url;

/// What a run stands on.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// What is mounted.
    pub export: Vec<u8>,
    /// The handle of the directory.
    pub top: Vec<u8>,
    /// Files that are there already, as the source calls them.
    pub known: Vec<(FileId, Vec<u8>)>,
    /// Files that calls use, and that are not there.
    pub missing: u64,
    /// Where MOUNT is.
    pub mount_port: u16,
}

/// A path below the directory.
pub type Path = Vec<Vec<u8>>;

/// Finds or makes the directory of `url`. `paths` names the files of the source that were there
/// before, as far as they have a name.
pub fn prepare(
    script: &Script,
    url: &Url,
    paths: &HashMap<FileId, Path>,
    user: (u32, u32),
    in_place: bool,
    timeout_ns: i64,
    clock: &RunClock,
) -> Result<Ground, RerunError> {
    let (mut asking, export_len) = mount(url, user, timeout_ns, clock)?;
    let mut below = Below {
        asking: &mut asking,
        url,
    };
    let mut top = below.asking.root();
    for component in &url.path[export_len..] {
        top = below.find_or_make(&top, component.as_bytes())?;
    }
    let mut ground = Ground {
        export: export_of(url, export_len),
        top: top.clone(),
        ..Ground::default()
    };
    let mut found: HashMap<Path, Option<Vec<u8>>> = HashMap::new();
    for file in script.needed() {
        let handle = match paths.get(&file) {
            Some(path) => below.find(&top, path, &mut found)?,
            None => None,
        };
        match handle {
            Some(handle) => ground.known.push((file, handle)),
            None => ground.missing += 1,
        }
    }
    let is_image = !ground.known.is_empty() && ground.missing == 0;
    if !in_place && !is_image && !below.is_empty(&top)? {
        let url = url.text.clone();
        return Err(RerunError::NotEmpty { url });
    }
    ground.mount_port = asking.mount_port.unwrap_or(url.port);
    Ok(ground)
}

fn export_of(url: &Url, len: usize) -> Vec<u8> {
    format!("/{}", url.path[..len].join("/")).into_bytes()
}

/// Mounts as much of the path as can be: how many components that is.
fn mount<'a>(
    url: &Url,
    user: (u32, u32),
    timeout_ns: i64,
    clock: &'a RunClock,
) -> Result<(Asking<'a>, usize), RerunError> {
    let mut last = String::new();
    for len in (1..=url.path.len()).rev() {
        let mut config = Config::new(Version::V3, &[], [0; 8]);
        config.port = url.port;
        config.credential =
            Credential::sys(b"lineside", user.0, user.1, &[user.1]).unwrap_or(config.credential);
        config.mount = Some(Mount {
            export: export_of(url, len),
            at: MountAt::Portmap,
        });
        match Asking::new(clock, url, config, timeout_ns) {
            Ok(asking) => return Ok((asking, len)),
            Err(RerunError::Client(error @ ClientError::Status(Step::Mnt, _))) => {
                last = error.to_string();
            }
            Err(error) => return Err(error),
        }
    }
    Err(RerunError::NoExport {
        server: url.server.to_string(),
        path: format!("/{}", url.path.join("/")),
        why: last,
    })
}

/// What is below the export's root.
struct Below<'a, 'b> {
    asking: &'a mut Asking<'b>,
    url: &'a Url,
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

    fn look_up(&mut self, directory: &[u8], name: &[u8]) -> Result<Named, RerunError> {
        let (directory, name) = ([Piece::bytes(directory)], [Piece::bytes(name)]);
        let call = v3::Call::Lookup(v3::DirOpArgs {
            directory: Some(Handle::new(&directory)),
            name: Some(Name::new(&name)),
        });
        self.call("looking for the directory", &call)
    }

    fn find_or_make(&mut self, directory: &[u8], name: &[u8]) -> Result<Vec<u8>, RerunError> {
        let doing = format!("{}: LOOKUP of {}", self.url.text, name.escape_ascii());
        match self.look_up(directory, name)? {
            Ok(Some(handle)) => return Ok(handle),
            Err(status) if Status(status) == Status::NOENT => {}
            Ok(None) => return Err(refused(doing, Status::SERVERFAULT.0)),
            Err(status) => return Err(refused(doing, status)),
        }
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
        let doing = format!("{}: MKDIR of {}", self.url.text, name.escape_ascii());
        match self.call(&doing, &call)? {
            Ok(Some(handle)) => Ok(handle),
            Ok(None) => match self.look_up(directory, name)? {
                Ok(Some(handle)) => Ok(handle),
                Ok(None) => Err(refused(doing, Status::SERVERFAULT.0)),
                Err(status) => Err(refused(doing, status)),
            },
            Err(status) => Err(refused(doing, status)),
        }
    }

    /// The handle of what is at a path, if something is.
    fn find(
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

    fn is_empty(&mut self, directory: &[u8]) -> Result<bool, RerunError> {
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
