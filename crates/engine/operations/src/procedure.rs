//! Which protocol reads a call, and what it keeps until the call has its rows.
//!
//! Here are only the numbers, the names and the data: what is done with them is in
//! [`protocol`](crate::protocol). To all else, [`Procedure`] and [`State`] are opaque.

use lineside_nfs::v4::{self, callback};
use lineside_nfs::{ancillary, v3};
use lineside_rows::Word;

use crate::slot::Slot;

/// A procedure of an RPC program, or the procedures that are read alike.
pub(crate) trait Numbered: Copy {
    /// The procedure that a call's three numbers name, if this protocol has it.
    fn find(program: u32, version: u32, number: u32) -> Option<Self>;

    /// The word of the column `operation`.
    fn name(self) -> Word;
}

/// The list of the protocols, of which the first that has a call's numbers reads it, with the state
/// that an operation has in some: a variant of [`State`].
macro_rules! for_each_protocol {
    ($each:ident) => {
        $each! {
            /// NFSv3.
            Nfs3,
            /// Compounds of NFSv4, and those of its callbacks.
            Nfs4 { Nfs4(CompoundLink) },
            /// NFSv2 and the programs beside NFS.
            Service,
            /// Everything else: only RPC's header is read.
            Unread,
        }
    };
}

macro_rules! procedures {
    ($($(#[$doc:meta])* $protocol:ident $({ $state_of:ident($state:ident) })?,)*) => {
        /// A procedure as its protocol has it.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Procedure {
            $($(#[$doc])* $protocol($protocol),)*
        }

        /// What its protocol keeps of an operation beside its rows.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) enum State {
            #[default]
            None,
            $($($state_of($state),)?)*
        }

        impl Procedure {
            /// The procedure that a call's three numbers name, by the first protocol that has it.
            #[inline]
            pub(crate) fn find(program: u32, version: u32, number: u32) -> Self {
                $(if let Some(protocol) = $protocol::find(program, version, number) {
                    return Self::$protocol(protocol);
                })*
                Self::default()
            }

            #[inline]
            pub(crate) fn name(self) -> Word {
                match self { $(Self::$protocol(protocol) => protocol.name(),)* }
            }
        }
    };
}

for_each_protocol!(procedures);
pub(crate) use for_each_protocol;

impl Default for Procedure {
    fn default() -> Self {
        Self::Unread(Unread::default())
    }
}

/// A procedure of NFSv3.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nfs3(pub(crate) v3::Procedure);

impl Numbered for Nfs3 {
    #[inline]
    fn find(program: u32, version: u32, number: u32) -> Option<Self> {
        match (program, version) {
            (v3::PROGRAM, v3::VERSION) => v3::Procedure::from_number(number).map(Self),
            _ => None,
        }
    }

    #[inline]
    fn name(self) -> Word {
        Word::Known(self.0.name())
    }
}

/// A procedure whose rows can be made at once: not those that report more files than the call's and
/// the one that was found or made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastProcedure(v3::Procedure);

impl Default for FastProcedure {
    fn default() -> Self {
        Self(v3::Procedure::GetAttr)
    }
}

impl From<FastProcedure> for Procedure {
    fn from(procedure: FastProcedure) -> Self {
        Self::Nfs3(Nfs3(procedure.0))
    }
}

impl FastProcedure {
    #[inline]
    pub(crate) fn find(program: u32, version: u32, number: u32) -> Option<Self> {
        use v3::Procedure::{Null, ReadDir, ReadDirPlus, Rename};
        let Nfs3(procedure) = Nfs3::find(program, version, number)?;
        let is_fast = !matches!(procedure, Null | Rename | ReadDir | ReadDirPlus);
        is_fast.then_some(Self(procedure))
    }

    #[inline]
    pub(crate) fn get(self) -> v3::Procedure {
        self.0
    }

    /// Its number in its program.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) fn name(self) -> Word {
        Nfs3(self.0).name()
    }
}

/// Compounds of the client, or of the server's callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nfs4 {
    Compound,
    Callback,
}

impl Numbered for Nfs4 {
    #[inline]
    fn find(program: u32, version: u32, number: u32) -> Option<Self> {
        match (program, version) {
            _ if number != v4::COMPOUND => None,
            (v4::PROGRAM, v4::VERSION) => Some(Self::Compound),
            (program, callback::VERSION) if callback::PROGRAMS.contains(&program) => {
                Some(Self::Callback)
            }
            _ => None,
        }
    }

    fn name(self) -> Word {
        Word::Known(match self {
            Self::Compound => "COMPOUND",
            Self::Callback => "CB_COMPOUND",
        })
    }
}

/// An operation's place in a compound.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompoundLink {
    /// The operation's number, once its call or its result was read.
    pub(crate) number: Option<u32>,
    /// The slot of the next operation.
    pub(crate) next: Option<Slot>,
    /// In the first slot: how many operations the server has answered.
    pub(crate) results: Option<u32>,
    /// In the first slot: a result is that of another call.
    pub(crate) contradicts: bool,
}

/// How far a message with a compound was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Operations still to be read, and those that were.
    pub(crate) left: u32,
    pub(crate) index: u32,
    /// The slot of the one read last.
    pub(crate) last: Slot,
    /// Segments of its READ_PLUS still to be read.
    pub(crate) segments: u32,
}

/// An object that is the current one for some operations of a compound.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Object {
    /// Its id, if its handle was on the wire.
    pub(crate) id: Option<i64>,
    /// The operation that has its handle.
    pub(crate) holder: Option<Slot>,
    /// The operation that made it the current one by its name.
    pub(crate) maker: Option<Slot>,
    /// The operation that has its attributes.
    pub(crate) attributes: Option<Slot>,
}

/// The objects of one compound; its memory is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct FilesOfCompound {
    pub(crate) objects: Vec<Object>,
    pub(crate) met: usize,
    pub(crate) current: Option<usize>,
    pub(crate) saved: Option<usize>,
}

/// A procedure of NFSv2 or of the programs beside NFS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service(pub(crate) ancillary::Procedure);

impl Numbered for Service {
    #[inline]
    fn find(program: u32, version: u32, number: u32) -> Option<Self> {
        ancillary::Procedure::find(program, version, number).map(Self)
    }

    fn name(self) -> Word {
        Word::Known(self.0.name())
    }
}

/// A procedure that is not read, by its numbers: an unknown or encrypted one, or NULL of NFSv4.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unread {
    program: u32,
    version: u32,
    number: u32,
}

impl Numbered for Unread {
    fn find(program: u32, version: u32, number: u32) -> Option<Self> {
        Some(Self {
            program,
            version,
            number,
        })
    }

    fn name(self) -> Word {
        match (self.program, self.version, self.number) {
            (v4::PROGRAM, v4::VERSION, 0) => Word::Known("NULL"),
            (program, callback::VERSION, 0) if callback::PROGRAMS.contains(&program) => {
                Word::Known("CB_NULL")
            }
            _ => Word::Number(i64::from(self.number)),
        }
    }
}
