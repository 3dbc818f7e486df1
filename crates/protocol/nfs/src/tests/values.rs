//! Random values of every type, written by hand, so that no test derives them from the description
//! under test. What they refer to is leaked: a test's process ends soon.

use lineside_frame::Piece;
use lineside_rpc::message::Flavor;
use lineside_rpc::xdr::{Array, InPlace, List, Opaque, Optional, Outcome};
use lineside_time::Random;

use crate::{mount, v3};

pub(super) struct Values(pub(super) Random);

impl Values {
    fn leak<T>(&mut self, items: Vec<T>) -> &'static [T] {
        Box::leak(items.into_boxed_slice())
    }

    fn u32(&mut self) -> Option<u32> {
        Some(self.0.bits() as u32)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(self.0.bits())
    }

    fn bool(&mut self) -> Option<bool> {
        Some(self.0.chance(0.5))
    }

    fn verifier(&mut self) -> Option<[u8; 8]> {
        Some(self.0.bits().to_be_bytes())
    }

    fn opaque<const MAX: usize>(&mut self) -> Option<Opaque<'static, MAX>> {
        let usual = self.0.below(20) as usize;
        let len = if self.0.chance(0.01) { MAX } else { usual };
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        let bytes = self.leak(bytes);
        let (one, two) = bytes.split_at(len / 3);
        let pieces = self.leak(vec![Piece::bytes(one), Piece::bytes(two)]);
        Some(Opaque::new(pieces))
    }

    fn optional<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Optional<T> {
        if self.0.chance(0.3) {
            return Optional::Absent;
        }
        Optional::Present(value(self))
    }

    fn list<T: Copy + lineside_rpc::xdr::Xdr<'static>>(
        &mut self,
        value: impl Fn(&mut Self) -> T,
    ) -> List<'static, T> {
        let len = self.0.below(4);
        let items = (0..len).map(|_| value(self)).collect();
        List::new(self.leak(items))
    }

    fn outcome<O, F>(
        &mut self,
        ok: impl FnOnce(&mut Self) -> O,
        fail: impl FnOnce(&mut Self) -> F,
    ) -> Outcome<O, F> {
        if self.0.chance(0.8) {
            return Outcome::Ok(ok(self));
        }
        Outcome::Fail(1 + self.0.below(20_000) as u32, fail(self))
    }

    fn time(&mut self) -> v3::Time {
        v3::Time {
            seconds: self.u32(),
            nanoseconds: self.u32(),
        }
    }

    fn device(&mut self) -> v3::Device {
        v3::Device {
            major: self.u32(),
            minor: self.u32(),
        }
    }

    fn attributes(&mut self) -> InPlace<'static, v3::Attributes> {
        let attributes = v3::Attributes {
            file_type: Some(v3::FileType(self.0.below(9) as u32)),
            mode: self.u32(),
            link_count: self.u32(),
            uid: self.u32(),
            gid: self.u32(),
            size: self.u64(),
            used: self.u64(),
            device: self.device(),
            fsid: self.u64(),
            fileid: self.u64(),
            atime: self.time(),
            mtime: self.time(),
            ctime: self.time(),
        };
        (&*Box::leak(Box::new(attributes))).into()
    }

    fn object_attributes(&mut self) -> v3::ObjectAttributes<'static> {
        v3::ObjectAttributes {
            attributes: self.optional(Self::attributes),
        }
    }

    fn wcc(&mut self) -> v3::Wcc<'static> {
        v3::Wcc {
            before: self.optional(|v| v3::WccAttributes {
                size: v.u64(),
                mtime: v.time(),
                ctime: v.time(),
            }),
            after: self.optional(Self::attributes),
        }
    }

    fn set_time(&mut self) -> v3::SetTime {
        match self.0.below(3) {
            0 => v3::SetTime::DontChange,
            1 => v3::SetTime::ServerTime,
            _ => v3::SetTime::ClientTime(self.time()),
        }
    }

    fn set_attributes(&mut self) -> v3::SetAttributes {
        v3::SetAttributes {
            mode: self.optional(Self::u32),
            uid: self.optional(Self::u32),
            gid: self.optional(Self::u32),
            size: self.optional(Self::u64),
            atime: self.set_time(),
            mtime: self.set_time(),
        }
    }

    fn file(&mut self) -> v3::FileArgs<'static> {
        v3::FileArgs {
            file: self.opaque(),
        }
    }

    fn what(&mut self) -> v3::DirOpArgs<'static> {
        v3::DirOpArgs {
            directory: self.opaque(),
            name: self.opaque(),
        }
    }

    fn create_how(&mut self) -> v3::CreateHow {
        match self.0.below(3) {
            0 => v3::CreateHow::Unchecked(self.set_attributes()),
            1 => v3::CreateHow::Guarded(self.set_attributes()),
            _ => v3::CreateHow::Exclusive(self.verifier()),
        }
    }

    fn device_node(&mut self) -> v3::DeviceNode {
        v3::DeviceNode {
            attributes: self.set_attributes(),
            device: self.device(),
        }
    }

    fn node(&mut self) -> v3::Node {
        match self.0.below(5) {
            0 => v3::Node::Block(self.device_node()),
            1 => v3::Node::Character(self.device_node()),
            2 => v3::Node::Socket(self.set_attributes()),
            3 => v3::Node::Fifo(self.set_attributes()),
            _ => v3::Node::Other(8 + self.0.below(9) as u32),
        }
    }

    fn create_ok(&mut self) -> v3::CreateOk<'static> {
        v3::CreateOk {
            object: self.optional(Self::opaque),
            attributes: self.optional(Self::attributes),
            directory: self.wcc(),
        }
    }

    fn stable_how(&mut self) -> Option<v3::StableHow> {
        Some(v3::StableHow(self.0.below(4) as u32))
    }

    pub(super) fn v3_call(&mut self, procedure: v3::Procedure) -> v3::Call<'static> {
        use v3::Procedure as P;
        match procedure {
            P::Null => v3::Call::Null(()),
            P::GetAttr => v3::Call::GetAttr(self.file()),
            P::SetAttr => v3::Call::SetAttr(v3::SetAttrArgs {
                file: self.opaque(),
                attributes: self.set_attributes(),
                guard: self.optional(Self::time),
            }),
            P::Lookup => v3::Call::Lookup(self.what()),
            P::Access => v3::Call::Access(v3::AccessArgs {
                file: self.opaque(),
                access: self.u32(),
            }),
            P::ReadLink => v3::Call::ReadLink(self.file()),
            P::Read => v3::Call::Read(v3::ReadArgs {
                file: self.opaque(),
                offset: self.u64(),
                count: self.u32(),
            }),
            P::Write => v3::Call::Write(v3::WriteArgs {
                file: self.opaque(),
                offset: self.u64(),
                count: self.u32(),
                stable: self.stable_how(),
                data_len: self.u32(),
            }),
            P::Create => v3::Call::Create(v3::CreateArgs {
                what: self.what(),
                how: self.create_how(),
            }),
            P::MkDir => v3::Call::MkDir(v3::MkDirArgs {
                what: self.what(),
                attributes: self.set_attributes(),
            }),
            P::SymLink => v3::Call::SymLink(v3::SymLinkArgs {
                what: self.what(),
                attributes: self.set_attributes(),
                target: self.opaque(),
            }),
            P::MkNod => v3::Call::MkNod(v3::MkNodArgs {
                what: self.what(),
                node: self.node(),
            }),
            P::Remove => v3::Call::Remove(self.what()),
            P::RmDir => v3::Call::RmDir(self.what()),
            P::Rename => v3::Call::Rename(v3::RenameArgs {
                from: self.what(),
                to: self.what(),
            }),
            P::Link => v3::Call::Link(v3::LinkArgs {
                file: self.opaque(),
                link: self.what(),
            }),
            P::ReadDir => v3::Call::ReadDir(v3::ReadDirArgs {
                directory: self.opaque(),
                cookie: self.u64(),
                cookie_verifier: self.verifier(),
                count: self.u32(),
            }),
            P::ReadDirPlus => v3::Call::ReadDirPlus(v3::ReadDirPlusArgs {
                directory: self.opaque(),
                cookie: self.u64(),
                cookie_verifier: self.verifier(),
                directory_count: self.u32(),
                count_max: self.u32(),
            }),
            P::FsStat => v3::Call::FsStat(self.file()),
            P::FsInfo => v3::Call::FsInfo(self.file()),
            P::PathConf => v3::Call::PathConf(self.file()),
            P::Commit => v3::Call::Commit(v3::CommitArgs {
                file: self.opaque(),
                offset: self.u64(),
                count: self.u32(),
            }),
        }
    }

    pub(super) fn v3_reply(&mut self, procedure: v3::Procedure) -> v3::Reply<'static> {
        use v3::Procedure as P;
        match procedure {
            P::Null => v3::Reply::Null(()),
            P::GetAttr => v3::Reply::GetAttr(self.outcome(Self::attributes, |_| ())),
            P::SetAttr => v3::Reply::SetAttr(self.outcome(Self::wcc, Self::wcc)),
            P::Lookup => v3::Reply::Lookup(self.outcome(
                |v| v3::LookupOk {
                    object: v.opaque(),
                    attributes: v.optional(Self::attributes),
                    directory: v.optional(Self::attributes),
                },
                Self::object_attributes,
            )),
            P::Access => v3::Reply::Access(self.outcome(
                |v| v3::AccessOk {
                    attributes: v.optional(Self::attributes),
                    access: v.u32(),
                },
                Self::object_attributes,
            )),
            P::ReadLink => v3::Reply::ReadLink(self.outcome(
                |v| v3::ReadLinkOk {
                    attributes: v.optional(Self::attributes),
                    target: v.opaque(),
                },
                Self::object_attributes,
            )),
            P::Read => v3::Reply::Read(self.outcome(
                |v| v3::ReadOk {
                    attributes: v.optional(Self::attributes),
                    count: v.u32(),
                    eof: v.bool(),
                    data_len: v.u32(),
                },
                Self::object_attributes,
            )),
            P::Write => v3::Reply::Write(self.outcome(
                |v| v3::WriteOk {
                    file: v.wcc(),
                    count: v.u32(),
                    committed: v.stable_how(),
                    verifier: v.verifier(),
                },
                Self::wcc,
            )),
            P::Create => v3::Reply::Create(self.outcome(Self::create_ok, Self::wcc)),
            P::MkDir => v3::Reply::MkDir(self.outcome(Self::create_ok, Self::wcc)),
            P::SymLink => v3::Reply::SymLink(self.outcome(Self::create_ok, Self::wcc)),
            P::MkNod => v3::Reply::MkNod(self.outcome(Self::create_ok, Self::wcc)),
            P::Remove => v3::Reply::Remove(self.outcome(Self::wcc, Self::wcc)),
            P::RmDir => v3::Reply::RmDir(self.outcome(Self::wcc, Self::wcc)),
            P::Rename => {
                let result = |v: &mut Self| v3::RenameResult {
                    from: v.wcc(),
                    to: v.wcc(),
                };
                v3::Reply::Rename(self.outcome(result, result))
            }
            P::Link => {
                let result = |v: &mut Self| v3::LinkResult {
                    attributes: v.optional(Self::attributes),
                    directory: v.wcc(),
                };
                v3::Reply::Link(self.outcome(result, result))
            }
            P::ReadDir => v3::Reply::ReadDir(self.outcome(
                |v| v3::ReadDirOk {
                    directory: v.optional(Self::attributes),
                    cookie_verifier: v.verifier(),
                    entries: v.list(|v| v3::Entry {
                        fileid: v.u64(),
                        name: v.opaque(),
                        cookie: v.u64(),
                    }),
                    eof: v.bool(),
                },
                Self::object_attributes,
            )),
            P::ReadDirPlus => v3::Reply::ReadDirPlus(self.outcome(
                |v| v3::ReadDirPlusOk {
                    directory: v.optional(Self::attributes),
                    cookie_verifier: v.verifier(),
                    entries: v.list(|v| v3::EntryPlus {
                        fileid: v.u64(),
                        name: v.opaque(),
                        cookie: v.u64(),
                        attributes: v.optional(Self::attributes),
                        handle: v.optional(Self::opaque),
                    }),
                    eof: v.bool(),
                },
                Self::object_attributes,
            )),
            P::FsStat => v3::Reply::FsStat(self.outcome(
                |v| v3::FsStatOk {
                    attributes: v.optional(Self::attributes),
                    bytes_total: v.u64(),
                    bytes_free: v.u64(),
                    bytes_available: v.u64(),
                    files_total: v.u64(),
                    files_free: v.u64(),
                    files_available: v.u64(),
                    invariant_seconds: v.u32(),
                },
                Self::object_attributes,
            )),
            P::FsInfo => v3::Reply::FsInfo(self.outcome(
                |v| v3::FsInfoOk {
                    attributes: v.optional(Self::attributes),
                    read_max: v.u32(),
                    read_preferred: v.u32(),
                    read_multiple: v.u32(),
                    write_max: v.u32(),
                    write_preferred: v.u32(),
                    write_multiple: v.u32(),
                    readdir_preferred: v.u32(),
                    file_size_max: v.u64(),
                    time_delta: v.time(),
                    properties: v.u32(),
                },
                Self::object_attributes,
            )),
            P::PathConf => v3::Reply::PathConf(self.outcome(
                |v| v3::PathConfOk {
                    attributes: v.optional(Self::attributes),
                    links_max: v.u32(),
                    name_max: v.u32(),
                    no_truncation: v.bool(),
                    chown_restricted: v.bool(),
                    case_insensitive: v.bool(),
                    case_preserving: v.bool(),
                },
                Self::object_attributes,
            )),
            P::Commit => v3::Reply::Commit(self.outcome(
                |v| v3::CommitOk {
                    file: v.wcc(),
                    verifier: v.verifier(),
                },
                Self::wcc,
            )),
        }
    }

    pub(super) fn mount_call(&mut self, procedure: mount::Procedure) -> mount::Call<'static> {
        use mount::Procedure as P;
        let mut directory = || mount::DirectoryArgs {
            directory: self.opaque(),
        };
        match procedure {
            P::Null => mount::Call::Null(()),
            P::Mnt => mount::Call::Mnt(directory()),
            P::Dump => mount::Call::Dump(()),
            P::Umnt => mount::Call::Umnt(directory()),
            P::UmntAll => mount::Call::UmntAll(()),
            P::Export => mount::Call::Export(()),
        }
    }

    pub(super) fn mount_reply(&mut self, procedure: mount::Procedure) -> mount::Reply<'static> {
        use mount::Procedure as P;
        match procedure {
            P::Null => mount::Reply::Null(()),
            P::Mnt => mount::Reply::Mnt(self.outcome(
                |v| {
                    let len = v.0.below(5);
                    let flavors = (0..len).map(|_| Flavor(v.0.below(9) as u32)).collect();
                    mount::Mounted {
                        handle: v.opaque(),
                        flavors: Array::new(v.leak(flavors)),
                    }
                },
                |_| (),
            )),
            P::Dump => mount::Reply::Dump(self.list(|v| mount::Mount {
                host: v.opaque(),
                directory: v.opaque(),
            })),
            P::Umnt => mount::Reply::Umnt(()),
            P::UmntAll => mount::Reply::UmntAll(()),
            P::Export => mount::Reply::Export(self.list(|v| mount::Export {
                directory: v.opaque(),
                groups: v.list(Self::opaque),
            })),
        }
    }
}
