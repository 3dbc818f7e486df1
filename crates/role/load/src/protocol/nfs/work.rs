//! What a preparation asks, and what follows from each reply.

use std::collections::VecDeque;

use lineside_frame::{Cursor, Piece};
use lineside_nfs::{mount, v3};
use lineside_nfs_client::{ClientError, Request, Step};
use lineside_rpc::xdr::{Handle, List, Name, Optional};

use super::client::status_name;
use super::content;
use super::preparation::{DIRECTORIES_MAX, FILES_MAX, Files, Preparation, PrepareError};
use super::tree::Tree;

/// Bytes of a WRITE that makes a file: what every server takes.
const CHUNK: u64 = 32 << 10;
/// The longest path that is followed: that of the systems in use.
const PATH_MAX: usize = 4_096;

/// A call of a preparation.
#[derive(Debug, Clone)]
pub(super) enum Job {
    FsInfo,
    /// Of a tree that is made: the directory or file with this number.
    FindDirectory(u32),
    MakeDirectory(u32),
    FindFile(u32),
    MakeFile(u32),
    Write {
        file: u32,
        offset: u64,
    },
    Commit(u32),
    /// Of a tree that is found.
    List {
        directory: u32,
        cookie: u64,
        verifier: [u8; 8],
    },
    FindEntry {
        directory: u32,
        name: Box<[u8]>,
    },
}

#[derive(Debug, Default, Clone)]
struct Directory {
    /// Its path, with a slash at the end; of the root nothing.
    path: Vec<u8>,
    handle: Vec<u8>,
}

#[derive(Debug, Default, Clone)]
struct File {
    directory: u32,
    name: Vec<u8>,
    handle: Vec<u8>,
    size: u64,
}

/// What is known so far, and what is still to be asked.
#[derive(Debug)]
pub(super) struct Work {
    preparation: Preparation,
    root: Vec<u8>,
    transfer_max: (u32, u32),
    backlog: VecDeque<Job>,
    directories: Vec<Directory>,
    files: Vec<File>,
    /// Of a tree that is made: directories that are known, and files that were begun.
    known: u32,
    begun: u32,
    lists_handles: bool,
}

impl Work {
    pub(super) fn new(preparation: Preparation) -> Self {
        Self {
            preparation,
            root: Vec::new(),
            transfer_max: (u32::MAX, u32::MAX),
            backlog: VecDeque::new(),
            directories: Vec::new(),
            files: Vec::new(),
            known: 0,
            begun: 0,
            lists_handles: true,
        }
    }

    /// The next call; `None`: what was asked must be answered first, or everything is known.
    pub(super) fn next(&mut self) -> Option<Job> {
        if let Some(job) = self.backlog.pop_front() {
            return Some(job);
        }
        let Files::Made {
            files, directories, ..
        } = self.preparation.files
        else {
            return None;
        };
        if self.known < directories || self.begun >= files {
            return None;
        }
        self.begun += 1;
        Some(Job::FindFile(self.begun - 1))
    }

    /// What a call is, for an error.
    pub(super) fn describe(&self, job: &Job) -> String {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        match job {
            Job::FsInfo => format!("FSINFO of {}", self.preparation.export),
            Job::FindDirectory(number) => format!("LOOKUP of {}", directory_name(*number)),
            Job::MakeDirectory(number) => format!("MKDIR of {}", directory_name(*number)),
            Job::FindFile(number) => format!("LOOKUP of {}", file_name(*number)),
            Job::MakeFile(number) => format!("CREATE of {}", file_name(*number)),
            Job::Write { file, .. } => format!("WRITE to {}", file_name(*file)),
            Job::Commit(file) => format!("COMMIT of {}", file_name(*file)),
            Job::List { directory, .. } => {
                let path = self.directories.get(*directory as usize);
                format!(
                    "READDIRPLUS of /{}",
                    path.map_or_else(String::new, |it| text(&it.path))
                )
            }
            Job::FindEntry { name, .. } => format!("LOOKUP of {}", text(name)),
        }
    }

    /// What a call of the client's own is, for an error.
    pub(super) fn describe_step(&self, step: Step) -> String {
        match step {
            Step::Mnt => format!("MNT of {}", self.preparation.export),
            step => step.name().to_owned(),
        }
    }

    /// Gives `take` a call.
    pub(super) fn with_request<T>(&self, job: &Job, take: impl FnOnce(Request<'_>) -> T) -> T {
        let (object, name) = self.subject(job);
        let (object, name) = ([Piece::bytes(object)], [Piece::bytes(&name)]);
        let handle = Some(Handle::new(&object));
        let what = v3::DirOpArgs {
            directory: handle,
            name: Some(Name::new(&name)),
        };
        let mut data = 0..0;
        let call = match *job {
            Job::FindDirectory(_) | Job::FindFile(_) | Job::FindEntry { .. } => {
                v3::Call::Lookup(what)
            }
            Job::MakeDirectory(_) => v3::Call::MkDir(v3::MkDirArgs {
                what,
                attributes: attributes(0o755),
            }),
            Job::MakeFile(_) => v3::Call::Create(v3::CreateArgs {
                what,
                how: v3::CreateHow::Unchecked(attributes(0o644)),
            }),
            Job::Write { file, offset } => {
                data = offset..self.files[file as usize].size.min(offset + self.chunk());
                let count = Some((data.end - data.start) as u32);
                v3::Call::Write(v3::WriteArgs {
                    file: handle,
                    offset: Some(offset),
                    count,
                    stable: Some(v3::StableHow::UNSTABLE),
                    data_len: count,
                })
            }
            Job::Commit(_) => v3::Call::Commit(v3::CommitArgs {
                file: handle,
                offset: Some(0),
                count: Some(0),
            }),
            Job::List {
                cookie, verifier, ..
            } => self.list(handle, cookie, verifier),
            _ => v3::Call::FsInfo(v3::FileArgs { file: handle }),
        };
        let mut written = vec![0; (data.end - data.start) as usize];
        if let Job::Write { file, .. } = *job {
            content::fill(file.into(), data.start, &mut written);
        }
        take(Request::Nfs3(&call, &written))
    }

    fn chunk(&self) -> u64 {
        CHUNK.min(self.transfer_max.1.into()).max(1)
    }

    fn list<'a>(
        &self,
        directory: Option<Handle<'a>>,
        cookie: u64,
        verifier: [u8; 8],
    ) -> v3::Call<'a> {
        let (cookie, cookie_verifier) = (Some(cookie), Some(verifier));
        match self.lists_handles {
            true => v3::Call::ReadDirPlus(v3::ReadDirPlusArgs {
                directory,
                cookie,
                cookie_verifier,
                directory_count: Some(16 << 10),
                count_max: Some(64 << 10),
            }),
            false => v3::Call::ReadDir(v3::ReadDirArgs {
                directory,
                cookie,
                cookie_verifier,
                count: Some(16 << 10),
            }),
        }
    }

    /// The handle and the name that a call is about.
    fn subject(&self, job: &Job) -> (&[u8], Vec<u8>) {
        let directory = |number: u32| &self.directories[number as usize].handle[..];
        match job {
            Job::FindDirectory(number) | Job::MakeDirectory(number) => {
                (&self.root, directory_name(*number).into_bytes())
            }
            Job::FindFile(number) | Job::MakeFile(number) => {
                let Files::Made { directories, .. } = self.preparation.files else {
                    return (&self.root, Vec::new());
                };
                (
                    directory(number % directories),
                    file_name(*number).into_bytes(),
                )
            }
            Job::Write { file, .. } | Job::Commit(file) => {
                (&self.files[*file as usize].handle, Vec::new())
            }
            Job::List {
                directory: number, ..
            } => (directory(*number), Vec::new()),
            Job::FindEntry {
                directory: number,
                name,
            } => (directory(*number), name.to_vec()),
            Job::FsInfo => (&self.root, Vec::new()),
        }
    }

    /// What follows from the results of a call, at which the cursor stands.
    pub(super) fn on_results(
        &mut self,
        job: Job,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), PrepareError> {
        let reply = v3::Reply::decode(self.procedure(&job), cursor);
        if cursor.fault().is_some() {
            return Err(self.no_reply(&job));
        }
        self.on_nfs(job, &reply)
    }

    /// Why the export could not be mounted.
    pub(super) fn on_client_error(&self, error: ClientError) -> PrepareError {
        let (step, refusal) = match error {
            ClientError::Status(Step::Mnt, status) => return self.refused_mount(status),
            ClientError::Refused(step, refusal) => (step, Some(refusal)),
            ClientError::Status(step, _)
            | ClientError::Unreadable(step)
            | ClientError::NoReply(step) => (step, None),
            _ => (Step::Mnt, None),
        };
        let doing = self.describe_step(step);
        match refusal {
            Some(refusal) => PrepareError::Refused {
                doing,
                status: refusal.name().to_owned(),
                hint: "",
            },
            None => PrepareError::NoReplyAtAll { doing },
        }
    }

    fn procedure(&self, job: &Job) -> v3::Procedure {
        match job {
            Job::FindDirectory(_) | Job::FindFile(_) | Job::FindEntry { .. } => {
                v3::Procedure::Lookup
            }
            Job::MakeDirectory(_) => v3::Procedure::MkDir,
            Job::MakeFile(_) => v3::Procedure::Create,
            Job::Write { .. } => v3::Procedure::Write,
            Job::Commit(_) => v3::Procedure::Commit,
            Job::List { .. } if self.lists_handles => v3::Procedure::ReadDirPlus,
            Job::List { .. } => v3::Procedure::ReadDir,
            _ => v3::Procedure::FsInfo,
        }
    }

    fn no_reply(&self, job: &Job) -> PrepareError {
        PrepareError::NoReplyAtAll {
            doing: self.describe(job),
        }
    }

    fn refused_mount(&self, status: u32) -> PrepareError {
        let hint = match mount::Status(status) {
            mount::Status::ACCES | mount::Status::PERM => {
                ": is this host among those of the export? Linux's server also wants 'insecure' \
                 for ports above 1023"
            }
            mount::Status::NOENT => ": 'showmount -e' lists what is exported",
            _ => "",
        };
        let name = mount::status_name(status).map(str::to_owned);
        PrepareError::Refused {
            doing: self.describe_step(Step::Mnt),
            status: name.unwrap_or_else(|| status.to_string()),
            hint,
        }
    }

    /// The root is known.
    pub(super) fn begin(&mut self, root: &[u8]) {
        self.root = root.to_vec();
        self.backlog.push_back(Job::FsInfo);
        match self.preparation.files {
            Files::Found { .. } => {
                self.directories.push(Directory {
                    path: Vec::new(),
                    handle: self.root.clone(),
                });
                self.backlog.push_back(list(0, 0, [0; 8]));
            }
            Files::Made {
                files, directories, ..
            } => {
                self.directories
                    .resize(directories as usize, Directory::default());
                self.files.resize(files as usize, File::default());
                self.backlog
                    .extend((0..directories).map(Job::FindDirectory));
            }
        }
    }

    fn on_nfs(&mut self, job: Job, reply: &v3::Reply<'_>) -> Result<(), PrepareError> {
        let status = reply.status().unwrap_or(0);
        let makes = matches!(self.preparation.files, Files::Made { makes: true, .. });
        match (&job, v3::Status(status)) {
            (_, v3::Status::OK) => return self.on_ok(job, reply),
            (Job::FindDirectory(number), v3::Status::NOENT) if makes => {
                self.backlog.push_front(Job::MakeDirectory(*number));
            }
            (Job::FindFile(number), v3::Status::NOENT) if makes => {
                self.backlog.push_front(Job::MakeFile(*number));
            }
            // An entry that went away is none; one that may not be read is none for this user.
            (Job::FindEntry { .. }, v3::Status::NOENT | v3::Status::ACCES) => {}
            (Job::List { directory, .. }, v3::Status::ACCES) if *directory > 0 => {}
            (Job::List { .. }, v3::Status::NOTSUPP) if self.lists_handles => {
                self.lists_handles = false;
                self.backlog.push_front(job);
            }
            (_, _) => {
                let hint = match &job {
                    Job::FindDirectory(_) | Job::FindFile(_) => {
                        ": no such tree was made there; 'prepare' makes it"
                    }
                    _ => "",
                };
                return Err(PrepareError::Refused {
                    doing: self.describe(&job),
                    status: status_name(status).into_owned(),
                    hint,
                });
            }
        }
        Ok(())
    }

    fn on_ok(&mut self, job: Job, reply: &v3::Reply<'_>) -> Result<(), PrepareError> {
        let object = || reply.object().map(|handle| handle.to_vec());
        match job {
            Job::FindDirectory(number) => {
                let handle = object().ok_or_else(|| self.no_reply(&job))?;
                self.directories[number as usize].handle = handle;
                self.known += 1;
            }
            // The reply may have no handle: RFC 1813, 3.3.9.
            Job::MakeDirectory(number) => self.backlog.push_front(Job::FindDirectory(number)),
            Job::MakeFile(number) => self.backlog.push_front(Job::FindFile(number)),
            Job::FindFile(number) => {
                let handle = object().ok_or_else(|| self.no_reply(&job))?;
                self.on_file(number, handle, size_of(reply))?;
            }
            Job::Write { file, offset } => {
                let written = reply.transferred().unwrap_or(0);
                let offset = offset + u64::from(written);
                let next = match offset < self.files[file as usize].size {
                    _ if written == 0 => return Err(self.no_reply(&job)),
                    true => Job::Write { file, offset },
                    false => Job::Commit(file),
                };
                self.backlog.push_front(next);
            }
            Job::List {
                directory, cookie, ..
            } => self.on_list(directory, cookie, reply),
            Job::FindEntry { directory, name } => {
                let attributes = reply.attributes().map(|attributes| attributes.get());
                if let (Some(handle), Some(attributes)) = (object(), attributes) {
                    self.on_entry(directory, &name, handle, &attributes);
                }
            }
            _ => {
                if let v3::Reply::FsInfo(outcome) = reply
                    && let Some(ok) = outcome.ok()
                {
                    let most = |bytes: Option<u32>| bytes.filter(|&bytes| bytes > 0);
                    self.transfer_max = (
                        most(ok.read_max).unwrap_or(u32::MAX),
                        most(ok.write_max).unwrap_or(u32::MAX),
                    );
                }
            }
        }
        Ok(())
    }

    /// A file of a tree that is made is there, perhaps too short.
    fn on_file(
        &mut self,
        number: u32,
        handle: Vec<u8>,
        there: Option<u64>,
    ) -> Result<(), PrepareError> {
        let Files::Made {
            directories,
            ref bytes,
            seed,
            makes,
            ..
        } = self.preparation.files
        else {
            return Ok(());
        };
        let size = bytes.draw(seed, number.into());
        self.files[number as usize] = File {
            directory: number % directories,
            name: file_name(number).into_bytes(),
            handle,
            size,
        };
        match there {
            Some(there) if there < size && makes => {
                self.backlog.push_front(Job::Write {
                    file: number,
                    offset: there,
                });
                Ok(())
            }
            Some(there) if there < size => Err(PrepareError::Refused {
                doing: self.describe(&Job::FindFile(number)),
                status: format!("it has {there} bytes of {size}"),
                hint: ": 'prepare' writes the others",
            }),
            _ => Ok(()),
        }
    }

    fn files_max(&self) -> usize {
        match self.preparation.files {
            Files::Found { files_max } => files_max.clamp(1, FILES_MAX) as usize,
            Files::Made { files, .. } => files as usize,
        }
    }

    fn on_list(&mut self, directory: u32, from: u64, reply: &v3::Reply<'_>) {
        let (last, eof, verifier) = match reply {
            v3::Reply::ReadDirPlus(outcome) => {
                let Some(ok) = outcome.ok() else { return };
                let last = self.on_entries(directory, &ok.entries);
                (last, ok.eof, ok.cookie_verifier)
            }
            v3::Reply::ReadDir(outcome) => {
                let Some(ok) = outcome.ok() else { return };
                for entry in &ok.entries {
                    self.look_up(directory, entry.name);
                }
                let last = ok.entries.iter().last().and_then(|entry| entry.cookie);
                (last, ok.eof, ok.cookie_verifier)
            }
            _ => return,
        };
        // A list that neither ends nor goes on would never end.
        if let (Some(last), Some(false)) = (last, eof)
            && last != from
            && self.files.len() < self.files_max()
        {
            // Behind the entries of this part, so that those that wait are bounded.
            let next = list(directory, last, verifier.unwrap_or_default());
            self.backlog.push_back(next);
        }
    }

    fn look_up(&mut self, directory: u32, name: Option<Name<'_>>) {
        if let Some(name) = name.map(|name| name.to_vec())
            && !matches!(&name[..], b"." | b"..")
        {
            let name = name.into_boxed_slice();
            self.backlog.push_front(Job::FindEntry { directory, name });
        }
    }

    /// The cookie of the last entry.
    fn on_entries(&mut self, directory: u32, entries: &List<'_, v3::EntryPlus<'_>>) -> Option<u64> {
        let mut last = None;
        for entry in entries {
            last = entry.cookie;
            let handle = entry.handle.value().map(|handle| handle.to_vec());
            let attributes = entry
                .attributes
                .present()
                .map(|attributes| attributes.get());
            match (handle, attributes, entry.name) {
                (Some(handle), Some(attributes), Some(name)) => {
                    self.on_entry(directory, &name.to_vec(), handle, &attributes);
                }
                _ => self.look_up(directory, entry.name),
            }
        }
        last
    }

    fn on_entry(
        &mut self,
        directory: u32,
        name: &[u8],
        handle: Vec<u8>,
        attributes: &v3::Attributes,
    ) {
        if matches!(name, b"." | b"..") {
            return;
        }
        match attributes.file_type {
            Some(v3::FileType::REGULAR) if self.files.len() < self.files_max() => {
                self.files.push(File {
                    directory,
                    name: name.to_vec(),
                    handle,
                    size: attributes.size.unwrap_or(0),
                });
            }
            Some(v3::FileType::DIRECTORY) if self.directories.len() < DIRECTORIES_MAX as usize => {
                let mut path = self.directories[directory as usize].path.clone();
                path.extend_from_slice(name);
                path.push(b'/');
                if path.len() > PATH_MAX {
                    return;
                }
                self.directories.push(Directory { path, handle });
                let number = self.directories.len() as u32 - 1;
                self.backlog.push_back(list(number, 0, [0; 8]));
            }
            _ => {}
        }
    }

    /// The tree, when everything is known.
    pub(super) fn tree(&mut self) -> Result<Tree, PrepareError> {
        if self.files.is_empty() {
            let export = self.preparation.export.clone();
            return Err(PrepareError::NoFiles { export });
        }
        let mut tree = Tree::new(&self.root);
        tree.set_transfer_max(self.transfer_max.0, self.transfer_max.1);
        for directory in &self.directories {
            tree.add_directory(&directory.handle);
        }
        let mut files = std::mem::take(&mut self.files);
        if let Files::Found { .. } = self.preparation.files {
            // In whatever order a server lists them, a seed gives the same requests.
            let path = |file: &File| {
                let mut path = self.directories[file.directory as usize].path.clone();
                path.extend_from_slice(&file.name);
                path
            };
            files.sort_by_cached_key(path);
        }
        for file in &files {
            tree.add_file(file.directory, &file.name, &file.handle, file.size);
        }
        Ok(tree)
    }
}

fn list(directory: u32, cookie: u64, verifier: [u8; 8]) -> Job {
    Job::List {
        directory,
        cookie,
        verifier,
    }
}

fn size_of(reply: &v3::Reply<'_>) -> Option<u64> {
    reply.attributes()?.get().size
}

fn directory_name(number: u32) -> String {
    format!("d{number:05}")
}

fn file_name(number: u32) -> String {
    format!("f{number:07}")
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
