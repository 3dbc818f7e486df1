//! What the words of a call and of a reply can be.

use crate::message::{is_registered, program_name};

/// RPC version 2, a program of the Internet's range or a transient one (RFC 5531 8.4), and numbers
/// as small as versions and procedures are; the NULL call of a program that travels with NFS may
/// have any version.
///
/// With `any_program`, also one of a range that is left to users, or reserved.
pub(crate) fn plausible_call(
    rpc_version: u32,
    program: u32,
    version: u32,
    procedure: u32,
    any_program: bool,
) -> bool {
    let known_range = any_program || is_registered(program);
    // Clients ask with an impossible version which ones there are: rpcinfo with 2^32 - 1.
    let known_version = version < 64 || procedure == 0 && program_name(program).is_some();
    rpc_version == 2 && known_range && known_version && procedure < 1024
}

pub(crate) fn plausible_reply(
    kind: u32,
    state: u32,
    third: u32,
    fourth: u32,
    fifth: u32,
    len: usize,
) -> bool {
    kind == 1
        && match state {
            // A verifier of a known flavor and at most 400 bytes; if it is empty, a known
            // accept_stat.
            0 => third <= 6 && fourth <= 400 && (fourth != 0 || fifth <= 5) && len >= 24,
            // RPC_MISMATCH with two versions, or AUTH_ERROR with its reason.
            1 => third <= 1 && fourth <= 64 && len <= 24,
            _ => false,
        }
}
