//! The certificate of a run in `trace.json`: what a role was asked, and what it did. A role fills
//! these types, and reports, comparisons and live statistics read the same ones.
//!
//! ```text
//!  role: fills a type ──► Judged ──► trace.json ──► Manifest::from_json: checked ──► of ──► reader
//! ```

pub mod forward;
mod judged;
pub mod link;
pub mod load;
pub mod replay;
pub mod run;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

pub use judged::{Certificate, Judged};

use crate::{Manifest, Role};

/// The certificate of a run, if it is one of this kind. A field that an older version did not
/// write is empty.
///
/// # Panics
///
/// If [`Manifest::from_json`] would have refused the certificate.
pub fn of<C: Certificate>(manifest: &Manifest) -> Option<C> {
    let certificate = manifest.certificate.as_ref()?;
    let read = || C::deserialize(certificate).expect("roles write, and from_json checks, the form");
    C::is_of(manifest.role()).then(read)
}

/// The certificate of a manifest as this version writes it, to compare it with what was read.
pub(crate) fn rewritten(manifest: &Manifest) -> serde_json::Result<Option<Value>> {
    fn of<C: Certificate>(role: Option<Role>, given: &Value) -> Option<serde_json::Result<Value>> {
        C::is_of(role).then(|| serde_json::to_value(Judged::<C>::deserialize(given)?))
    }
    let Some(given) = &manifest.certificate else {
        return Ok(None);
    };
    let role = manifest.role();
    { of::<link::Link>(role, given) }
        .or_else(|| of::<load::Load>(role, given))
        .or_else(|| of::<replay::Replay>(role, given))
        .or_else(|| of::<forward::Forward>(role, given))
        .transpose()
}
