//! Calls of MOUNT and of the port mapper.

use lineside_frame::Piece;
use lineside_nfs::ancillary::portmap;
use lineside_nfs::mount;
use lineside_nfs_client::{Request, Results};
use lineside_rpc::xdr::{Name, Outcome};

use crate::call::{Facts, Operation};
use crate::tables::{Lack, Tables};

/// Gives `make` a call of MOUNT. What is mounted is the export, whatever the source's was, or what
/// the source's server did not mount.
pub(crate) fn mount<T>(
    operation: &Operation,
    procedure: mount::Procedure,
    export: &[u8],
    make: impl FnOnce(Request<'_>) -> T,
) -> T {
    let is_refused = operation
        .status
        .as_deref()
        .is_some_and(|it| it != "MNT3_OK");
    let refused = operation.names[0].as_deref().filter(|_| is_refused);
    let refused = refused.filter(|path| path.len() <= Name::LEN_MAX);
    let path = [Piece::bytes(refused.unwrap_or(export))];
    let directory = Some(Name::new(&path));
    let arguments = mount::DirectoryArgs { directory };
    let call = match procedure {
        mount::Procedure::Null => mount::Call::Null(()),
        mount::Procedure::Mnt => mount::Call::Mnt(arguments),
        mount::Procedure::Dump => mount::Call::Dump(()),
        // It would end the mounts of others on this machine, too.
        mount::Procedure::UmntAll | mount::Procedure::Umnt => mount::Call::Umnt(arguments),
        mount::Procedure::Export => mount::Call::Export(()),
    };
    make(Request::Mount(&call))
}

/// Learns what a reply of MOUNT has: what was mounted is a directory that is known. Its status.
pub(crate) fn on_mount(
    tables: &mut Tables,
    operation: &Operation,
    procedure: mount::Procedure,
    top: &[u8],
    results: Results<'_>,
) -> Option<u32> {
    let mut cursor = results.cursor();
    let reply = mount::Reply::decode(procedure, &mut cursor);
    if let (mount::Reply::Mnt(Outcome::Ok(_)), Some(made)) = (&reply, operation.made)
        && tables.handle(Some(made)).is_err()
    {
        tables.set_handle(made, top);
    }
    reply.status()
}

/// Gives `make` a call of the port mapper.
pub(crate) fn portmap<T>(
    procedure: portmap::Procedure,
    facts: Option<&Facts>,
    make: impl FnOnce(Request<'_>) -> T,
) -> Result<T, Lack> {
    let call = match procedure {
        portmap::Procedure::Null => portmap::Call::Null(()),
        portmap::Procedure::Dump => portmap::Call::Dump(()),
        portmap::Procedure::GetPort => {
            let facts = facts.ok_or(Lack::Arguments)?;
            portmap::Call::GetPort(portmap::Mapping {
                program: Some(facts.target_program.ok_or(Lack::Arguments)?),
                version: Some(facts.target_version.ok_or(Lack::Arguments)?),
                protocol: Some(facts.target_protocol.ok_or(Lack::Arguments)?),
                port: Some(facts.target_port.unwrap_or(0)),
            })
        }
        // They would change what others find there.
        portmap::Procedure::Set | portmap::Procedure::Unset | portmap::Procedure::CallIt => {
            return Err(Lack::Kind);
        }
    };
    Ok(make(Request::Portmap(&call)))
}
