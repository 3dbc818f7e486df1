//! A directory of an NFS server, by NFSv3.

use std::net::SocketAddr;

use hashbrown::HashMap;
use lineside_image::{Entry, Image, Kind};
use lineside_nfs::v3;
use lineside_rpc::xdr::Optional;

use crate::connection::{Connection, Heard, Place, nothing, with_mode};
use crate::url::Url;
use crate::{
    DEVICE, LINK, MODE, Note, OWNER, SERVER_SIZE, SET_ID, SPECIAL, ServerError, TARGET, Target,
    WriteError, shown, target_of,
};

/// Statuses (RFC 1813 section 2.6).
const PERM: u32 = 1;
const ACCES: u32 = 13;
const EXIST: u32 = 17;
const INVAL: u32 = 22;
const FBIG: u32 = 27;
const NOSPC: u32 = 28;
const ROFS: u32 = 30;
const DQUOT: u32 = 69;
const NOTSUPP: u32 = 10_004;
const BADTYPE: u32 = 10_007;

/// A call under way.
#[derive(Debug, Clone)]
enum Job {
    Make(u32),
    /// Its handle did not come with the reply that made it.
    Look(u32),
    /// One more name.
    Link(u32),
    /// A file in place of what the server does not make.
    MakeFile(u32),
    Write {
        entry: u32,
        offset: u64,
        data: Vec<u8>,
    },
    Size(u32),
    Set(u32),
    Owner(u32),
}

impl Job {
    fn entry(&self) -> u32 {
        match self {
            Self::Make(entry)
            | Self::Look(entry)
            | Self::Link(entry)
            | Self::MakeFile(entry)
            | Self::Size(entry)
            | Self::Set(entry)
            | Self::Owner(entry)
            | Self::Write { entry, .. } => *entry,
        }
    }

    fn procedure(&self) -> &'static str {
        match self {
            Self::Make(_) | Self::MakeFile(_) => "the call that makes it",
            Self::Look(_) => "LOOKUP",
            Self::Link(_) => "LINK",
            Self::Write { .. } => "WRITE",
            Self::Size(_) | Self::Set(_) | Self::Owner(_) => "SETATTR",
        }
    }
}

/// A directory on a server that is written.
#[derive(Debug)]
pub struct NfsTarget {
    connection: Connection,
    top: String,
    directory: String,
    /// By entry.
    handles: Vec<Option<Box<[u8]>>>,
    jobs: HashMap<u64, Job>,
    tag: u64,
    /// This user may give files to others.
    gives: bool,
    notes: Vec<Note>,
}

impl NfsTarget {
    /// Mounts the export of a URL, whose directory is made with the image's top.
    pub fn open(url: &Url, server: SocketAddr) -> Result<Self, ServerError> {
        Ok(Self {
            connection: Connection::open(url, server)?,
            top: url.shown(),
            directory: url.directory.clone(),
            handles: Vec::new(),
            jobs: HashMap::new(),
            tag: 0,
            gives: rustix::process::geteuid().is_root(),
            notes: Vec::new(),
        })
    }

    fn send(&mut self, job: Job, call: &v3::Call<'_>, data: &[u8]) -> Result<(), WriteError> {
        self.tag += 1;
        self.jobs.insert(self.tag, job);
        Ok(self.connection.send(self.tag, call, data)?)
    }

    /// Takes the replies that came.
    fn take(&mut self, image: &Image) -> Result<(), WriteError> {
        for heard in self.connection.take() {
            if let Some(job) = self.jobs.remove(&heard.tag) {
                self.heard(image, job, &heard)?;
            }
        }
        Ok(())
    }

    /// Waits until all calls are answered.
    fn drain(&mut self, image: &Image) -> Result<(), WriteError> {
        loop {
            self.take(image)?;
            if !self.connection.wait()? {
                return self.take(image);
            }
        }
    }

    /// The handle of an entry that was made.
    fn handle(&mut self, image: &Image, at: u32) -> Result<Box<[u8]>, WriteError> {
        self.take(image)?;
        if self.handles.get(at as usize).is_none_or(Option::is_none) {
            self.drain(image)?;
        }
        let handle = self.handles.get(at as usize).cloned().flatten();
        handle.ok_or_else(|| self.failed(image, &Job::Look(at), "no handle".to_owned(), NOT_WHOLE))
    }

    fn failed(&self, image: &Image, job: &Job, status: String, hint: &'static str) -> WriteError {
        let error = ServerError::Status {
            path: shown(&self.top, image, job.entry()),
            procedure: job.procedure(),
            status,
            hint,
        };
        error.into()
    }

    fn heard(&mut self, image: &Image, job: Job, heard: &Heard) -> Result<(), WriteError> {
        let at = job.entry();
        let note = match (&job, heard.status) {
            (_, 0) => return self.done(image, job, heard),
            (Job::Make(0), EXIST) => return Err(ServerError::Exists(self.top.clone()).into()),
            (Job::Make(_) | Job::MakeFile(_) | Job::Link(_), EXIST) => {
                let path = shown(&self.top, image, at);
                return Err(WriteError::TwoForOne { path });
            }
            (Job::Make(_), PERM | INVAL | NOTSUPP | BADTYPE) if is_special(image, at) => {
                self.note(at, SPECIAL);
                return self.make_file(image, at);
            }
            (Job::Link(_), _) => {
                self.note(at, LINK);
                return self.make_file(image, at);
            }
            (Job::Size(_), FBIG | INVAL) => SERVER_SIZE,
            (Job::Owner(_), _) => {
                self.gives = false;
                OWNER
            }
            (Job::Set(_), PERM | ACCES | INVAL | NOTSUPP) => MODE,
            // Beyond what this server has for a file: its size is noted.
            (Job::Write { .. }, FBIG | INVAL) => return Ok(()),
            (_, status) => {
                let name = { v3::status_name(status) }.map(str::to_owned);
                let name = name.unwrap_or_else(|| status.to_string());
                if matches!(status, NOSPC | DQUOT) {
                    let path = shown(&self.top, image, at);
                    let why = format!("the server answered {name}");
                    return Err(WriteError::Full { path, why });
                }
                let hint = match status {
                    ROFS => "it exports read-only: give another export",
                    PERM | ACCES => {
                        "the server does not let this user: export with no_root_squash, or give a \
                        place where the user may write"
                    }
                    _ => NOT_WHOLE,
                };
                return Err(self.failed(image, &job, name, hint));
            }
        };
        self.note(at, note);
        Ok(())
    }

    fn done(&mut self, image: &Image, job: Job, heard: &Heard) -> Result<(), WriteError> {
        match job {
            Job::Make(at) | Job::MakeFile(at) | Job::Look(at) => match &heard.handle {
                Some(handle) => {
                    self.handles[at as usize] = Some(handle.as_slice().into());
                    Ok(())
                }
                None if matches!(job, Job::Look(_)) => {
                    Err(self.failed(image, &job, "no handle".to_owned(), NOT_WHOLE))
                }
                None => self.look(image, at),
            },
            // A server may write less.
            Job::Write {
                entry,
                offset,
                data,
            } if (heard.count as usize) < data.len() => {
                let count = heard.count as usize;
                if count == 0 {
                    let job = Job::Look(entry);
                    return Err(self.failed(image, &job, "0 bytes written".to_owned(), NOT_WHOLE));
                }
                self.write(
                    image,
                    entry,
                    offset + u64::from(heard.count),
                    &data[count..],
                )
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, entry: u32, what: &'static str) {
        self.notes.push(Note { entry, what });
    }

    /// Where an entry is: its directory's handle and its name.
    fn place(&mut self, image: &Image, at: u32) -> Result<(Box<[u8]>, Vec<u8>), WriteError> {
        if at == 0 {
            let root = self.connection.root().into();
            return Ok((root, self.directory.clone().into_bytes()));
        }
        let entry = image.entry(at);
        Ok((self.handle(image, entry.parent)?, entry.name.to_vec()))
    }

    fn look(&mut self, image: &Image, at: u32) -> Result<(), WriteError> {
        let (directory, name) = self.place(image, at)?;
        let place = Place::new(&directory, &name);
        self.send(Job::Look(at), &v3::Call::Lookup(place.what()), &[])
    }

    fn make_file(&mut self, image: &Image, at: u32) -> Result<(), WriteError> {
        let (directory, name) = self.place(image, at)?;
        let place = Place::new(&directory, &name);
        let call = v3::Call::Create(v3::CreateArgs {
            what: place.what(),
            how: v3::CreateHow::Guarded(with_mode(0o600)),
        });
        self.send(Job::MakeFile(at), &call, &[])
    }
}

const NOT_WHOLE: &str = "the image is not whole: remove it, and make it anew";

fn is_special(image: &Image, at: u32) -> bool {
    matches!(image.entry(at).kind, Kind::Socket | Kind::Fifo)
}

impl Target for NfsTarget {
    fn make(&mut self, image: &Image, at: u32, entry: &Entry<'_>) -> Result<(), WriteError> {
        self.handles.push(None);
        self.take(image)?;
        if let Some(first) = entry.link_of {
            let (file, (directory, name)) = (self.handle(image, first)?, self.place(image, at)?);
            let (file, place) = (Place::new(&file, b""), Place::new(&directory, &name));
            let call = v3::Call::Link(v3::LinkArgs {
                file: file.handle(),
                link: place.what(),
            });
            return self.send(Job::Link(at), &call, &[]);
        }
        let (directory, name) = self.place(image, at)?;
        let place = Place::new(&directory, &name);
        let what = place.what();
        let (target, is_right) = target_of(entry);
        let target = Place::new(b"", &target);
        let call = match entry.kind {
            Kind::Directory => v3::Call::MkDir(v3::MkDirArgs {
                what,
                attributes: with_mode(0o700),
            }),
            Kind::File => return self.make_file(image, at),
            Kind::BlockDevice | Kind::CharacterDevice => {
                self.note(at, DEVICE);
                return self.make_file(image, at);
            }
            Kind::Link => {
                if !is_right {
                    self.note(at, TARGET);
                }
                v3::Call::SymLink(v3::SymLinkArgs {
                    what,
                    attributes: nothing(),
                    target: target.name(),
                })
            }
            Kind::Socket | Kind::Fifo => {
                let attributes = with_mode(entry.mode & 0o777);
                let node = match entry.kind {
                    Kind::Socket => v3::Node::Socket(attributes),
                    _ => v3::Node::Fifo(attributes),
                };
                v3::Call::MkNod(v3::MkNodArgs { what, node })
            }
        };
        self.send(Job::Make(at), &call, &[])?;
        match at {
            // What is there is never written to.
            0 => self.drain(image),
            _ => Ok(()),
        }
    }

    fn write(
        &mut self,
        image: &Image,
        at: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<(), WriteError> {
        let handle = self.handle(image, at)?;
        let place = Place::new(&handle, b"");
        let count = u32::try_from(data.len()).ok();
        let call = v3::Call::Write(v3::WriteArgs {
            file: place.handle(),
            offset: Some(offset),
            count,
            stable: Some(v3::StableHow::FILE_SYNC),
            data_len: count,
        });
        let job = Job::Write {
            entry: at,
            offset,
            data: data.to_vec(),
        };
        self.send(job, &call, data)
    }

    fn settle(&mut self, image: &Image, at: u32, entry: &Entry<'_>) -> Result<(), WriteError> {
        if entry.link_of.is_some() {
            return Ok(());
        }
        let handle = self.handle(image, at)?;
        let place = Place::new(&handle, b"");
        let set = |attributes| {
            v3::Call::SetAttr(v3::SetAttrArgs {
                file: place.handle(),
                attributes,
                guard: Optional::Absent,
            })
        };
        if entry.kind == Kind::File && entry.size > 0 {
            let size = Optional::Present(Some(entry.size));
            let call = set(v3::SetAttributes { size, ..nothing() });
            self.send(Job::Size(at), &call, &[])?;
            // The size must be set before the time is.
            self.drain(image)?;
        }
        let has_owner = !entry.is_added && (entry.uid.is_some() || entry.gid.is_some());
        if has_owner && self.gives {
            let number = |number: Option<u32>| match number {
                Some(number) => Optional::Present(Some(number)),
                None => Optional::Absent,
            };
            let (uid, gid) = (number(entry.uid), number(entry.gid));
            let call = set(v3::SetAttributes {
                uid,
                gid,
                ..nothing()
            });
            self.send(Job::Owner(at), &call, &[])?;
            self.drain(image)?;
        } else if has_owner && entry.uid != Some(rustix::process::geteuid().as_raw()) {
            self.note(at, OWNER);
        }
        if entry.kind == Kind::Link {
            return Ok(());
        }
        let mut mode = entry.mode;
        if entry.kind != Kind::Directory && mode & 0o6000 > 0 {
            self.note(at, SET_ID);
            mode &= 0o1777;
        }
        let mut attributes = with_mode(mode);
        if let Some(time) = entry.mtime_ns.and_then(time_of) {
            attributes.mtime = v3::SetTime::ClientTime(time);
        }
        let call = set(attributes);
        self.send(Job::Set(at), &call, &[])?;
        self.take(image)
    }

    fn finish(&mut self, image: &Image) -> Result<(), WriteError> {
        self.drain(image)
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}

fn time_of(ns: i64) -> Option<v3::Time> {
    Some(v3::Time {
        seconds: Some(u32::try_from(ns.div_euclid(1_000_000_000)).ok()?),
        nanoseconds: Some(ns.rem_euclid(1_000_000_000) as u32),
    })
}
