//! NFSv2 and the programs beside NFS behind one entry: from program, version and procedure to what
//! a row says.
//!
//! ```text
//!  Procedure::find(100021, 4, 2) ─► NLM's LOCK
//!     .call(&mut cursor, &mut summary)     cursor behind the RPC header ─► Summary of the arguments, as far as seen
//!     .reply(&mut cursor, &mut summary)                                 ─► Summary of the results, as far as seen
//! ```
//!
//! Each program has a module with its types, field by field; a [`Summary`] is what of them fits one
//! row. Both decode the whole message, so the cursor's fault says whether all of it was there and
//! right; where [`Summary::data_len`] is set, the cursor stands at the first byte of file data.

use lineside_frame::Cursor;

pub mod klm;
pub mod mount;
mod nfs2;
pub mod nfsacl;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rpcbind;
pub mod rquota;
pub(crate) mod summary;
mod values;

pub use summary::{Named, Summary};

use crate::{mount as mount3, v2};

/// The procedures of each program, and how its messages are summarised.
macro_rules! programs {
    ($($(#[$meta:meta])* $variant:ident: $($module:ident)::+;)*) => {
        /// A procedure of one of these programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Procedure { $($(#[$meta])* $variant($($module)::+::Procedure),)* }

        impl Procedure {
            /// Its name in the specification, without the prefix.
            pub fn name(self) -> &'static str {
                match self {
                    // Version 4 has another name for it.
                    Self::Rpcbind4(rpcbind::Procedure::CallIt) => "BCAST",
                    $(Self::$variant(procedure) => procedure.name(),)*
                }
            }

            /// Reads the arguments that follow the header of a call into an empty summary.
            pub fn call<'a>(self, cursor: &mut Cursor<'a>, summary: &mut Summary<'a>) {
                match self {
                    $(Self::$variant(procedure) => {
                        $($module)::+::Call::decode(procedure, cursor).summarise(summary);
                    })*
                }
            }

            /// Reads the results that follow the header of an accepted reply into an empty summary.
            pub fn reply<'a>(self, cursor: &mut Cursor<'a>, summary: &mut Summary<'a>) {
                match self {
                    $(Self::$variant(procedure) => {
                        $($module)::+::Reply::decode(procedure, cursor).summarise(summary);
                    })*
                }
                // A list that was cut has more entries than were seen.
                summary.entries.take_if(|_| cursor.fault().is_some());
                summary.flavors.take_if(|_| cursor.fault().is_some());
            }
        }
    };
}

programs! {
    /// NFS version 2.
    Nfs2: v2;
    /// MOUNT versions 1 and 2.
    Mount1: mount;
    /// MOUNT version 3.
    Mount3: mount3;
    /// Portmap version 2.
    Portmap: portmap;
    /// rpcbind version 3.
    Rpcbind3: rpcbind;
    /// rpcbind version 4.
    Rpcbind4: rpcbind;
    /// NLM versions 1 to 3.
    Nlm1: nlm::v1;
    /// NLM version 4.
    Nlm4: nlm::v4;
    /// KLM version 1.
    Klm: klm;
    /// NSM version 1.
    Nsm: nsm;
    /// NFSACL version 2.
    NfsAcl2: nfsacl::v2;
    /// NFSACL version 3.
    NfsAcl3: nfsacl::v3;
    /// RQUOTA version 1.
    Rquota1: rquota::v1;
    /// RQUOTA version 2.
    Rquota2: rquota::v2;
}

impl Procedure {
    /// What a call's three numbers mean, if it is a procedure of these programs.
    pub fn find(program: u32, version: u32, procedure: u32) -> Option<Self> {
        match (program, version) {
            (v2::PROGRAM, v2::VERSION) => v2::Procedure::from_number(procedure).map(Self::Nfs2),
            // PATHCONF came with version 2.
            (mount::PROGRAM, 1) if procedure > 6 => None,
            (mount::PROGRAM, 1 | 2) => mount::Procedure::from_number(procedure).map(Self::Mount1),
            (mount3::PROGRAM, mount3::VERSION) => {
                mount3::Procedure::from_number(procedure).map(Self::Mount3)
            }
            (portmap::PROGRAM, portmap::VERSION) => {
                portmap::Procedure::from_number(procedure).map(Self::Portmap)
            }
            // GETVERSADDR and what follows came with version 4.
            (rpcbind::PROGRAM, 3) if procedure > 8 => None,
            (rpcbind::PROGRAM, 3) => rpcbind::Procedure::from_number(procedure).map(Self::Rpcbind3),
            (rpcbind::PROGRAM, 4) => rpcbind::Procedure::from_number(procedure).map(Self::Rpcbind4),
            // SHARE and what follows came with version 3.
            (nlm::PROGRAM, 1 | 2) if procedure > 16 => None,
            (nlm::PROGRAM, 1..=3) => nlm::v1::Procedure::from_number(procedure).map(Self::Nlm1),
            (nlm::PROGRAM, 4) => nlm::v4::Procedure::from_number(procedure).map(Self::Nlm4),
            (klm::PROGRAM, klm::VERSION) => klm::Procedure::from_number(procedure).map(Self::Klm),
            (nsm::PROGRAM, nsm::VERSION) => nsm::Procedure::from_number(procedure).map(Self::Nsm),
            (nfsacl::PROGRAM, 2) => {
                nfsacl::v2::Procedure::from_number(procedure).map(Self::NfsAcl2)
            }
            (nfsacl::PROGRAM, 3) => {
                nfsacl::v3::Procedure::from_number(procedure).map(Self::NfsAcl3)
            }
            (rquota::PROGRAM, 1) => {
                rquota::v1::Procedure::from_number(procedure).map(Self::Rquota1)
            }
            (rquota::PROGRAM, 2) => {
                rquota::v2::Procedure::from_number(procedure).map(Self::Rquota2)
            }
            _ => None,
        }
    }
}
