//! A server of MOUNT and NFSv3 at one port, without a port mapper: `mount -o
//! vers=3,tcp,port=P,mountport=P,mountproto=tcp,nolock`.
//!
//! Everybody may do everything. NFSv3 is whole but for links, special files and locks, which are
//! answered `NFS3ERR_NOTSUPP`.

use std::sync::{Arc, Mutex, PoisonError};

use lineside_frame::{Cursor, Piece};
use lineside_nfs::mount;
use lineside_nfs::v3::{self, Procedure, Status};
use lineside_nfs_client::records::{Heads, Limits, Records};
use lineside_rpc::message::{
    AcceptStatus, AcceptedReply, Auth, Body, CallHeader, Flavor, Header, LAST_FRAGMENT,
    RPC_VERSION, Rejection, ReplyHeader, Versions,
};
use lineside_rpc::xdr::{Array, Handle, InPlace, List, Name, Optional, Outcome, Xdr, padding};
use lineside_time::Nanoseconds;

use super::content;
use super::store::{FILE_BYTES_MAX, How, NAME_MAX, Part, Store};
use super::tree::TRANSFER_MAX;
use crate::protocol::{Answers, Broken, Server};

/// A call is kept whole until its end has come.
const LIMITS: Limits = Limits {
    head: TRANSFER_MAX as usize + 4_096,
    record: TRANSFER_MAX as u64 + 4_096,
};
/// Calls that are not over, of all connections.
const HEADS_BYTES_MAX: usize = 256 << 20;
/// Versions that are served of NFS and of MOUNT.
const VERSIONS: Versions = Versions {
    low: Some(3),
    high: Some(3),
};
/// An entry of READDIRPLUS at most, without its name: entryplus3 with attributes and a handle.
const ENTRY_PLUS_BYTES: usize = 4 + 8 + 4 + 8 + 4 + 84 + 4 + 4 + 16;
/// Of READDIR likewise.
const ENTRY_BYTES: usize = 4 + 8 + 4 + 8;
/// What a reply to READDIR has besides entries.
const LIST_BYTES: usize = 128;
/// Cookies of "." and "..": those of other entries are larger by their number.
const DOTS: u64 = 2;

/// Serves a store. Workers whose clients see the same files share it.
#[derive(Debug)]
pub struct NfsServer {
    store: Arc<Mutex<Store>>,
    heads: Heads,
    out: Vec<u8>,
    now: Nanoseconds,
    /// Changes with each start, so that clients write again what they had not committed.
    verifier: [u8; 8],
}

/// A call that is not over.
#[derive(Debug, Default)]
pub struct NfsServerReader {
    records: Records,
    is_over: bool,
}

/// A part of a file that follows from its place.
#[derive(Debug, Clone, Copy)]
pub struct NfsContent {
    /// The file's number; `None`: zeros.
    file: Option<u64>,
    offset: u64,
}

impl NfsServer {
    /// A server of a store.
    pub fn new(store: Arc<Mutex<Store>>) -> Self {
        Self {
            store,
            heads: Heads::new(HEADS_BYTES_MAX),
            out: Vec::with_capacity(64 << 10),
            now: 0,
            verifier: [0; 8],
        }
    }
}

impl Server for NfsServer {
    type Reader = NfsServerReader;
    type Content = NfsContent;

    fn pass(&mut self, now: Nanoseconds) {
        self.now = now;
        if self.verifier == [0; 8] {
            self.verifier = now.to_be_bytes();
        }
    }

    fn rests(&self, reader: &NfsServerReader) -> bool {
        reader.records.is_between() && !reader.is_over
    }

    fn read(
        &mut self,
        reader: &mut NfsServerReader,
        bytes: &[u8],
        answers: &mut impl Answers<NfsContent>,
    ) {
        if reader.is_over {
            return;
        }
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.set_now(self.now);
        let (out, verifier) = (&mut self.out, self.verifier);
        let outcome = reader
            .records
            .push(bytes, &mut self.heads, LIMITS, |call, _| {
                answers.request();
                out.clear();
                Answering {
                    store: &mut store,
                    out,
                    verifier,
                }
                .on_call(call, answers)
            });
        if outcome.is_err() {
            reader.is_over = true;
            answers.close();
        }
    }

    fn release(&mut self, reader: NfsServerReader) {
        reader.records.release(&mut self.heads);
    }

    fn content(&self, NfsContent { file, offset: at }: NfsContent, offset: u64, bytes: &mut [u8]) {
        match file {
            Some(file) => content::fill(file, at + offset, bytes),
            None => bytes.fill(0),
        }
    }
}

/// A call being answered.
struct Answering<'s> {
    store: &'s mut Store,
    out: &'s mut Vec<u8>,
    verifier: [u8; 8],
}

/// A directory before and after it was to be changed, and what came of it.
struct Changed<T> {
    outcome: Result<T, Status>,
    before: Optional<v3::WccAttributes>,
    after: Option<v3::Attributes>,
}

impl<T> Changed<T> {
    fn wcc(&self) -> v3::Wcc<'_> {
        v3::Wcc {
            before: self.before,
            after: post(self.after.as_ref()),
        }
    }
}

fn post(attributes: Option<&v3::Attributes>) -> v3::PostOpAttributes<'_> {
    attributes.map_or(Optional::Absent, |it| Optional::Present(InPlace::from(it)))
}

fn bytes_of<'a>(name: Option<Name<'a>>) -> &'a [u8] {
    // A call lies in one piece.
    name.and_then(|name| name.contiguous()).unwrap_or_default()
}

impl Answering<'_> {
    /// Answers a call; [`Broken`]: it is none.
    fn on_call(
        &mut self,
        call: &[u8],
        answers: &mut impl Answers<NfsContent>,
    ) -> Result<(), Broken> {
        let pieces = [Piece::bytes(call)];
        let mut cursor = Cursor::new(&pieces);
        let Header {
            xid: Some(xid),
            body: Body::Call(header),
        } = Header::decode(&mut cursor)
        else {
            return Err(Broken);
        };
        if header.rpc_version != Some(RPC_VERSION) && header.rpc_version.is_some() {
            let versions = Versions {
                low: Some(RPC_VERSION),
                high: Some(RPC_VERSION),
            };
            self.begin(xid, ReplyHeader::Denied(Rejection::RpcMismatch(versions)));
            self.end(0, answers);
            return Ok(());
        }
        if cursor.fault().is_some() {
            return Err(Broken);
        }
        let status = self.refusal(&header);
        self.begin(xid, accepted(status));
        if status != AcceptStatus::Success {
            self.end(0, answers);
            return Ok(());
        }
        let number = header.procedure.unwrap_or(0);
        let is_read = header.program == Some(v3::PROGRAM) && number == Procedure::Read.number();
        if is_read {
            let call = v3::Call::decode(Procedure::Read, &mut cursor);
            if let (v3::Call::Read(args), None) = (call, cursor.fault()) {
                self.read(&args, answers);
                return Ok(());
            }
        } else if self.results(&header, &mut cursor) {
            self.end(0, answers);
            return Ok(());
        }
        self.out.clear();
        self.begin(xid, accepted(AcceptStatus::GarbageArgs));
        self.end(0, answers);
        Ok(())
    }

    fn refusal(&self, header: &CallHeader<'_>) -> AcceptStatus {
        let number = header.procedure.unwrap_or(u32::MAX);
        let has_procedure = match header.program {
            Some(v3::PROGRAM) => Procedure::from_number(number).is_some(),
            Some(mount::PROGRAM) => mount::Procedure::from_number(number).is_some(),
            _ => return AcceptStatus::ProgUnavail,
        };
        match (header.version, has_procedure) {
            (Some(v3::VERSION), true) => AcceptStatus::Success,
            (Some(v3::VERSION), false) => AcceptStatus::ProcUnavail,
            _ => AcceptStatus::ProgMismatch(VERSIONS),
        }
    }

    fn begin(&mut self, xid: u32, reply: ReplyHeader<'_>) {
        self.out.extend_from_slice(&[0; 4]);
        let header = Header {
            xid: Some(xid),
            body: Body::Reply(reply),
        };
        header.encode(self.out);
    }

    /// The record is whole but for `data` bytes that follow what is here.
    fn end(&mut self, data: usize, answers: &mut impl Answers<NfsContent>) {
        let len = (self.out.len() - 4 + data) as u32;
        self.out[..4].copy_from_slice(&(len | LAST_FRAGMENT).to_be_bytes());
        answers.bytes(self.out);
    }

    /// Appends the results of a procedure; false if the arguments are not to be read.
    fn results(&mut self, header: &CallHeader<'_>, cursor: &mut Cursor<'_>) -> bool {
        let number = header.procedure.unwrap_or(0);
        if header.program == Some(mount::PROGRAM) {
            let Some(procedure) = mount::Procedure::from_number(number) else {
                return false;
            };
            let call = mount::Call::decode(procedure, cursor);
            return cursor.fault().is_none() && self.mount(&call);
        }
        let Some(procedure) = Procedure::from_number(number) else {
            return false;
        };
        let call = v3::Call::decode(procedure, cursor);
        if cursor.fault().is_some() {
            return false;
        }
        match &call {
            v3::Call::Write(args) => return self.write(args, cursor),
            v3::Call::ReadDir(_) | v3::Call::ReadDirPlus(_) => self.list(&call),
            call => self.nfs(call),
        }
        true
    }

    fn mount(&mut self, call: &mount::Call<'_>) -> bool {
        let flavors = [Flavor::SYS, Flavor::NONE];
        match call {
            mount::Call::Mnt(args) => {
                let handle = self.store.mounted(bytes_of(args.directory));
                let handle = handle.map(|place| self.store.handle(place));
                let outcome = match &handle {
                    Ok(handle) => {
                        let pieces = [Piece::bytes(handle)];
                        let mounted = mount::Mounted {
                            handle: Some(Handle::new(&pieces)),
                            flavors: Array::new(&flavors),
                        };
                        let reply = Outcome::<_, ()>::Ok(mounted);
                        reply.encode(self.out);
                        return true;
                    }
                    // mountstat3 has the numbers of nfsstat3.
                    Err(status) => Outcome::<mount::Mounted<'_>, ()>::Fail(status.0, ()),
                };
                outcome.encode(self.out);
            }
            mount::Call::Export(()) => {
                let export = [Piece::bytes(self.store.export().as_bytes())];
                let exports = [mount::Export {
                    directory: Some(Name::new(&export)),
                    groups: List::new(&[]),
                }];
                List::new(&exports).encode(self.out);
            }
            mount::Call::Dump(()) => List::<mount::Mount<'_>>::new(&[]).encode(self.out),
            mount::Call::Null(()) | mount::Call::Umnt(_) | mount::Call::UmntAll(()) => {}
        }
        true
    }

    fn place(&self, handle: Option<Handle<'_>>) -> Result<u32, Status> {
        let handle = handle
            .and_then(|handle| handle.contiguous())
            .unwrap_or_default();
        self.store.node(handle)
    }

    fn attributes(&self, place: Result<u32, Status>) -> Option<v3::Attributes> {
        place.ok().map(|place| self.store.attributes(place))
    }

    /// A call about one object that gives `body` if that is there; its attributes come with it.
    fn about<'a, T: Xdr<'a>>(
        &mut self,
        handle: Option<Handle<'_>>,
        attributes: &'a mut Option<v3::Attributes>,
        body: impl FnOnce(&Store, u32, v3::PostOpAttributes<'a>) -> Result<T, Status>,
    ) {
        let place = self.place(handle);
        *attributes = self.attributes(place);
        let attributes = post(attributes.as_ref());
        let outcome = place.and_then(|place| body(self.store, place, attributes));
        let outcome = match outcome {
            Ok(body) => Outcome::Ok(body),
            Err(status) => Outcome::Fail(status.0, v3::ObjectAttributes { attributes }),
        };
        outcome.encode(self.out);
    }

    /// Changes an object, and keeps what it was like before and after.
    fn change<T>(
        &mut self,
        handle: Option<Handle<'_>>,
        change: impl FnOnce(&mut Store, u32) -> Result<T, Status>,
    ) -> Changed<T> {
        let place = self.place(handle);
        let before = place.map_or(Optional::Absent, |place| {
            Optional::Present(self.store.wcc(place))
        });
        let outcome = place.and_then(|place| change(self.store, place));
        Changed {
            outcome,
            before,
            after: self.attributes(place),
        }
    }

    fn wcc_only<T>(&mut self, changed: &Changed<T>) {
        let wcc = changed.wcc();
        let outcome = match &changed.outcome {
            Ok(_) => Outcome::Ok(wcc),
            Err(status) => Outcome::Fail(status.0, wcc),
        };
        outcome.encode(self.out);
    }

    fn nfs(&mut self, call: &v3::Call<'_>) {
        let mut kept = None;
        match call {
            v3::Call::Null(()) => {}
            v3::Call::GetAttr(args) => {
                let place = self.place(args.file);
                let attributes = self.attributes(place);
                let outcome = match (&attributes, place) {
                    (Some(attributes), _) => Outcome::Ok(InPlace::from(attributes)),
                    (None, status) => Outcome::Fail(status.err().map_or(0, |it| it.0), ()),
                };
                outcome.encode(self.out);
            }
            v3::Call::SetAttr(args) => {
                let changed = self.change(args.file, |store, place| {
                    let guard = args.guard.present();
                    if guard.is_some_and(|guard| store.wcc(place).ctime != guard) {
                        return Err(Status::NOT_SYNC);
                    }
                    store.set_attributes(place, &args.attributes)
                });
                self.wcc_only(&changed);
            }
            v3::Call::Lookup(args) => self.look_up(args),
            v3::Call::Access(args) => {
                self.about(args.file, &mut kept, |store, place, attributes| {
                    // A file is not looked into, nor a directory executed.
                    let may = if store.is_directory(place) {
                        0x1f
                    } else {
                        0x2d
                    };
                    Ok(v3::AccessOk {
                        attributes,
                        access: args.access.map(|asked| asked & may),
                    })
                });
            }
            v3::Call::FsStat(args) => self.about(args.file, &mut kept, fs_stat),
            v3::Call::FsInfo(args) => self.about(args.file, &mut kept, fs_info),
            v3::Call::PathConf(args) => self.about(args.file, &mut kept, path_conf),
            v3::Call::Commit(args) => {
                let changed = self.change(args.file, |_, _| Ok(()));
                let outcome = match changed.outcome {
                    Ok(()) => Outcome::Ok(v3::CommitOk {
                        file: changed.wcc(),
                        verifier: Some(self.verifier),
                    }),
                    Err(status) => Outcome::Fail(status.0, changed.wcc()),
                };
                outcome.encode(self.out);
            }
            call => self.change_names(call),
        }
    }

    fn look_up(&mut self, args: &v3::DirOpArgs<'_>) {
        let directory = self.place(args.directory);
        let of_directory = self.attributes(directory);
        let found = directory.and_then(|it| self.store.look_up(it, bytes_of(args.name)));
        let attributes = self.attributes(found);
        let handle = found.map(|place| self.store.handle(place));
        let handle = handle.as_ref().map(|handle| [Piece::bytes(handle)]);
        let outcome = match &handle {
            Ok(handle) => Outcome::Ok(v3::LookupOk {
                object: Some(Handle::new(handle)),
                attributes: post(attributes.as_ref()),
                directory: post(of_directory.as_ref()),
            }),
            Err(status) => Outcome::Fail(
                status.0,
                v3::ObjectAttributes {
                    attributes: post(of_directory.as_ref()),
                },
            ),
        };
        outcome.encode(self.out);
    }

    fn change_names(&mut self, call: &v3::Call<'_>) {
        match call {
            v3::Call::Create(args) => {
                let (how, attributes) = match args.how {
                    v3::CreateHow::Guarded(attributes) => (How::Guarded, Some(attributes)),
                    v3::CreateHow::Exclusive(verifier) => {
                        (How::Exclusive(verifier.unwrap_or_default()), None)
                    }
                    v3::CreateHow::Unchecked(attributes) => (How::Unchecked, Some(attributes)),
                    v3::CreateHow::Unread => (How::Unchecked, None),
                };
                let changed = self.change(args.what.directory, |store, directory| {
                    let place = store.create(directory, bytes_of(args.what.name), how)?;
                    if let Some(attributes) = &attributes {
                        store.set_attributes(place, attributes)?;
                    }
                    Ok(place)
                });
                self.made(&changed);
            }
            v3::Call::MkDir(args) => {
                let changed = self.change(args.what.directory, |store, directory| {
                    let name = bytes_of(args.what.name);
                    let place = store.make_directory(directory, name)?;
                    // Whoever sets a directory's size is answered as if that were not asked.
                    let attributes = v3::SetAttributes {
                        size: Optional::Absent,
                        ..args.attributes
                    };
                    store.set_attributes(place, &attributes)?;
                    Ok(place)
                });
                self.made(&changed);
            }
            v3::Call::Remove(args) | v3::Call::RmDir(args) => {
                let is_directory = call.procedure() == Procedure::RmDir;
                let changed = self.change(args.directory, |store, directory| {
                    store.remove(directory, bytes_of(args.name), is_directory)
                });
                self.wcc_only(&changed);
            }
            v3::Call::Rename(args) => self.rename(args),
            call => self.not_supported(call),
        }
    }

    fn made(&mut self, changed: &Changed<u32>) {
        let place = changed.outcome;
        let attributes = self.attributes(place);
        let handle = place.map(|place| self.store.handle(place));
        let handle = handle.as_ref().map(|handle| [Piece::bytes(handle)]);
        let outcome = match &handle {
            Ok(handle) => Outcome::Ok(v3::CreateOk {
                object: Optional::Present(Some(Handle::new(handle))),
                attributes: post(attributes.as_ref()),
                directory: changed.wcc(),
            }),
            Err(status) => Outcome::Fail(status.0, changed.wcc()),
        };
        outcome.encode(self.out);
    }

    fn rename(&mut self, args: &v3::RenameArgs<'_>) {
        let to = self.place(args.to.directory);
        let before = to.map_or(Optional::Absent, |to| Optional::Present(self.store.wcc(to)));
        let from = self.change(args.from.directory, |store, from| {
            let old = (from, bytes_of(args.from.name));
            store.rename(old, (to?, bytes_of(args.to.name)))
        });
        let after = self.attributes(to);
        let both = v3::RenameResult {
            from: from.wcc(),
            to: v3::Wcc {
                before,
                after: post(after.as_ref()),
            },
        };
        let outcome = match from.outcome {
            Ok(()) => Outcome::Ok(both),
            Err(status) => Outcome::Fail(status.0, both),
        };
        outcome.encode(self.out);
    }

    fn not_supported(&mut self, call: &v3::Call<'_>) {
        let status = Status::NOTSUPP.0;
        let attributes = Optional::Absent;
        let wcc = v3::Wcc {
            before: Optional::Absent,
            after: attributes,
        };
        let reply = match call {
            v3::Call::ReadLink(_) => {
                v3::Reply::ReadLink(Outcome::Fail(status, v3::ObjectAttributes { attributes }))
            }
            v3::Call::Link(_) => v3::Reply::Link(Outcome::Fail(
                status,
                v3::LinkResult {
                    attributes,
                    directory: wcc,
                },
            )),
            v3::Call::MkNod(_) => v3::Reply::MkNod(Outcome::Fail(status, wcc)),
            _ => v3::Reply::SymLink(Outcome::Fail(status, wcc)),
        };
        reply.encode(self.out);
    }

    fn read(&mut self, args: &v3::ReadArgs<'_>, answers: &mut impl Answers<NfsContent>) {
        let place = self.place(args.file);
        let (offset, count) = (args.offset.unwrap_or(0), args.count.unwrap_or(0));
        let count = count.min(TRANSFER_MAX);
        let attributes = self.attributes(place);
        let attributes = post(attributes.as_ref());
        let read = place.and_then(|place| self.store.read(place, offset, count, |_| ()));
        let (len, eof) = match read {
            Ok(read) => read,
            Err(status) => {
                let body = v3::ObjectAttributes { attributes };
                let outcome = Outcome::<v3::ReadOk<'_>, _>::Fail(status.0, body);
                outcome.encode(self.out);
                return self.end(0, answers);
            }
        };
        let outcome = Outcome::<_, ()>::Ok(v3::ReadOk {
            attributes,
            count: Some(len),
            eof: Some(eof),
            data_len: Some(len),
        });
        outcome.encode(self.out);
        let pad = padding(len as usize);
        self.end(len as usize + pad, answers);
        let part = |part: Part<'_>| match part {
            Part::Synthetic { file, offset, len } => {
                let file = Some(file);
                answers.content(NfsContent { file, offset }, len);
            }
            Part::Zeros(len) => answers.content(ZEROS, len),
            Part::Written(bytes) => answers.bytes(bytes),
        };
        // It was read a moment ago.
        let _ = place.and_then(|place| self.store.read(place, offset, count, part));
        answers.bytes(&[0; 3][..pad]);
    }

    /// False if the data are not there.
    fn write(&mut self, args: &v3::WriteArgs<'_>, cursor: &mut Cursor<'_>) -> bool {
        let len = args.data_len.unwrap_or(0) as usize;
        let Some(data) = cursor.at_hand().get(..len) else {
            return false;
        };
        let data = &data[..len.min(args.count.unwrap_or(0) as usize)];
        let offset = args.offset.unwrap_or(0);
        let changed = self.change(args.file, |store, place| store.write(place, offset, data));
        let outcome = match changed.outcome {
            Ok(count) => Outcome::Ok(v3::WriteOk {
                file: changed.wcc(),
                count: Some(count),
                // There is no disk to wait for.
                committed: Some(v3::StableHow::FILE_SYNC),
                verifier: Some(self.verifier),
            }),
            Err(status) => Outcome::Fail(status.0, changed.wcc()),
        };
        outcome.encode(self.out);
        true
    }

    fn list(&mut self, call: &v3::Call<'_>) {
        let (handle, cookie, most, is_plus) = match call {
            v3::Call::ReadDir(args) => (args.directory, args.cookie, args.count, false),
            v3::Call::ReadDirPlus(args) => (args.directory, args.cookie, args.count_max, true),
            _ => return,
        };
        let cookie = cookie.unwrap_or(0);
        let most = most.unwrap_or(0).min(TRANSFER_MAX) as usize;
        let directory = self.place(handle);
        let attributes = self.attributes(directory);
        let attributes = post(attributes.as_ref());
        let entry_bytes = if is_plus {
            ENTRY_PLUS_BYTES
        } else {
            ENTRY_BYTES
        };
        let checked = directory.and_then(|directory| {
            if !self.store.is_directory(directory) {
                Err(Status::NOTDIR)
            } else if most < LIST_BYTES + entry_bytes + NAME_MAX + 1 {
                Err(Status::TOOSMALL)
            } else {
                Ok(directory)
            }
        });
        let directory = match checked {
            Ok(directory) => directory,
            Err(status) => {
                let body = v3::ObjectAttributes { attributes };
                return Outcome::<v3::ReadDirOk<'_>, _>::Fail(status.0, body).encode(self.out);
            }
        };
        Some(Status::OK).encode(self.out);
        attributes.encode(self.out);
        Some([0_u8; 8]).encode(self.out);
        let (store, out) = (&*self.store, &mut *self.out);
        let most = out.len() + most - LIST_BYTES;
        let dots = [
            (1, directory, &b"."[..]),
            (2, store.parent(directory), b".."),
        ];
        let dots = dots.into_iter().filter(|&(number, ..)| number > cookie);
        let from = u32::try_from(cookie.saturating_sub(DOTS)).unwrap_or(u32::MAX);
        let others = store.entries(directory, from);
        let others = others.map(|(place, name)| (u64::from(place) + DOTS + 1, place, name));
        let mut eof = true;
        for (cookie, place, name) in dots.chain(others) {
            if out.len() + entry_bytes + name.len().next_multiple_of(4) > most {
                eof = false;
                break;
            }
            Some(true).encode(out);
            entry(store, (cookie, place, name), is_plus, out);
        }
        Some(false).encode(out);
        Some(eof).encode(out);
    }
}

const ZEROS: NfsContent = NfsContent {
    file: None,
    offset: 0,
};

fn accepted<'a>(status: AcceptStatus) -> ReplyHeader<'a> {
    ReplyHeader::Accepted(AcceptedReply {
        verifier: Auth::none(),
        status,
    })
}

/// Appends an entry of a list.
fn entry(
    store: &Store,
    (cookie, place, name): (u64, u32, &[u8]),
    is_plus: bool,
    out: &mut Vec<u8>,
) {
    let (fileid, cookie) = (Some(store.file_id(place)), Some(cookie));
    let name = [Piece::bytes(name)];
    let name = Some(Name::new(&name));
    if !is_plus {
        return v3::Entry {
            fileid,
            name,
            cookie,
        }
        .encode(out);
    }
    let attributes = store.attributes(place);
    let handle = store.handle(place);
    let handle = [Piece::bytes(&handle)];
    let entry = v3::EntryPlus {
        fileid,
        name,
        cookie,
        attributes: post(Some(&attributes)),
        handle: Optional::Present(Some(Handle::new(&handle))),
    };
    entry.encode(out);
}

fn fs_stat<'a>(
    store: &Store,
    _: u32,
    attributes: v3::PostOpAttributes<'a>,
) -> Result<v3::FsStatOk<'a>, Status> {
    let [(files, files_left), (bytes, bytes_left)] = store.room();
    Ok(v3::FsStatOk {
        attributes,
        bytes_total: Some(bytes),
        bytes_free: Some(bytes_left),
        bytes_available: Some(bytes_left),
        files_total: Some(files),
        files_free: Some(files_left),
        files_available: Some(files_left),
        invariant_seconds: Some(0),
    })
}

fn fs_info<'a>(
    _: &Store,
    _: u32,
    attributes: v3::PostOpAttributes<'a>,
) -> Result<v3::FsInfoOk<'a>, Status> {
    Ok(v3::FsInfoOk {
        attributes,
        read_max: Some(TRANSFER_MAX),
        read_preferred: Some(TRANSFER_MAX),
        read_multiple: Some(4_096),
        write_max: Some(TRANSFER_MAX),
        write_preferred: Some(TRANSFER_MAX),
        write_multiple: Some(4_096),
        readdir_preferred: Some(64 << 10),
        file_size_max: Some(FILE_BYTES_MAX),
        time_delta: v3::Time {
            seconds: Some(0),
            nanoseconds: Some(1),
        },
        // Homogeneous, and times can be set.
        properties: Some(0x18),
    })
}

fn path_conf<'a>(
    _: &Store,
    _: u32,
    attributes: v3::PostOpAttributes<'a>,
) -> Result<v3::PathConfOk<'a>, Status> {
    Ok(v3::PathConfOk {
        attributes,
        links_max: Some(1),
        name_max: Some(NAME_MAX as u32),
        no_truncation: Some(true),
        chown_restricted: Some(false),
        case_insensitive: Some(false),
        case_preserving: Some(true),
    })
}
