//! NFSv2 (RFC 1094), NFSv3 and MOUNT (RFC 1813), NFSv4 (RFC 8881 and others): one description,
//! decoded and encoded.
//!
//! ```text
//!  Call::decode(procedure, &mut cursor)   cursor behind the RPC header ──► arguments, as far as seen
//!  Reply::decode(procedure, &mut cursor)                               ──► results, as far as seen
//! ```
//!
//! NFSv4 has an operation where the others have a procedure, and reads its number itself: see
//! [`v4`]. The programs beside NFS, and NFSv2, have one entry to what a row says of them: see
//! [`ancillary`].
//!
//! The types follow the RFC's, field by field, and say `None` or `Unread` for what the capture did
//! not see (see [`mod@lineside_rpc::xdr`]). After a WRITE call or a READ reply the cursor stands at
//! the first byte of file data, which is neither needed nor consumed.
#![forbid(unsafe_code)]

pub mod ancillary;
pub mod mount;
pub mod v2;
pub mod v3;
pub mod v4;

#[cfg(test)]
mod tests;
