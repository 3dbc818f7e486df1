//! The tree of files as it was when a trace began.
//!
//! ```text
//!  parts of operations, by the first call in each ─► rows ─► merge by time of calls ─► Tree
//!   with their rows of nfs, nfs4                     names of files (READDIRPLUS) ─┘     └─► Image
//!                                                                                  └─► first READs
//!  checksums ─► those of first READs ─► blocks
//! ```
//!
//! A part is read when the calls have come to its first, as for a [plan](super::plan): memory is
//! that of the parts whose times overlap, of the tree, and 32 bytes a READ that shows blocks first.

mod contents;
mod left_out;
mod listed;
mod merge;
mod more;
mod rows;

use std::path::Path;

use lineside_image::Image;

use crate::numbers::Zone;
use crate::read::columns::Lexicon;
use crate::read::trace::{Trace, TraceError};
pub use contents::Contents;
use contents::Shown;
pub use left_out::ImageLeftOut;

/// Names of servers, statuses and operations that are kept.
const WORDS_MAX: usize = 65_536;

/// The image of a trace, and where its content is.
#[derive(Debug)]
pub struct ImageOfTrace {
    /// The tree.
    pub image: Image,
    /// Calls of NFS and MOUNT that it was made of.
    pub calls: u64,
    /// The trace's id.
    pub trace_id: Option<String>,
    /// When the first call was made.
    pub first_ns: Option<i64>,
    /// What is not in it.
    pub left_out: ImageLeftOut,
    shown: Shown,
    trace: Trace,
    words: Lexicon,
}

impl ImageOfTrace {
    /// Gives `take` the blocks that were seen, until it fails: the image, the entry, the place of
    /// the block, and its checksum.
    pub fn contents<E>(
        &mut self,
        take: impl FnMut(&Image, u32, u64, u64) -> Result<(), E>,
    ) -> Result<Contents, E> {
        contents::read(&mut self.trace, &self.shown, &self.image, take)
    }

    /// Where the root of a server's file systems is, as NFSv4 sees it.
    pub(crate) fn root_of(&self, server: &str) -> Option<Vec<u8>> {
        self.image.root_of(self.words.find(server)?)
    }

    /// Columns that an older lineside did not write.
    pub fn lacks(&self) -> Vec<String> {
        self.trace.lacks.iter().cloned().collect()
    }

    /// What of the trace could not be read.
    pub fn unreadable(&self) -> &[String] {
        &self.trace.warnings
    }
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing to make an image of.
    #[error("{trace} has no calls of NFS: capture a client and its server, from before it mounts")]
    NoCalls {
        /// The trace.
        trace: String,
    },
    /// What there was could not be read.
    #[error("{0}; what can be read is no image: make the trace anew with 'lineside capture'")]
    Unreadable(String),
    /// Calls without replies show nothing, and replies without calls neither.
    #[error(
        "{trace} has {seen} alone: the capture saw one direction; capture where both pass, at the \
        client or the server, or on both ports of a mirror"
    )]
    OneDirection {
        /// The trace.
        trace: String,
        /// `calls` or `replies`.
        seen: &'static str,
    },
    /// More than memory is for.
    #[error(
        "{trace}: parts with more than {mib} MiB of rows overlap in time, so they cannot be merged \
        within memory: make the trace anew with 'lineside capture', which writes rows in the order \
        of time"
    )]
    Overlap {
        /// The trace.
        trace: String,
        /// The bound.
        mib: usize,
    },
}

/// Makes the image of a trace. What is damaged is left out, and named.
pub fn image(path: &Path) -> Result<ImageOfTrace, ImageError> {
    let mut trace = Trace::open_all(path, &Zone::default())?;
    let mut words = Lexicon::new(WORDS_MAX);
    let shown_path = path.display().to_string();
    let done = merge::run(&mut trace, &mut words).map_err(|_| ImageError::Overlap {
        trace: shown_path.clone(),
        mib: merge::BYTES_MAX >> 20,
    })?;
    let merge::Done {
        tree,
        shown,
        calls,
        answered,
        first_ns,
        left_out,
    } = done;
    let none = match (calls, answered, left_out.calls_not_seen) {
        (0, _, 1..) => Some("replies"),
        (1.., 0, _) => Some("calls"),
        (0, _, 0) => {
            return Err(match trace.warnings.first() {
                Some(warning) => ImageError::Unreadable(warning.clone()),
                None => ImageError::NoCalls { trace: shown_path },
            });
        }
        _ => None,
    };
    if let Some(seen) = none {
        let trace = shown_path;
        return Err(ImageError::OneDirection { trace, seen });
    }
    Ok(ImageOfTrace {
        image: tree.finish(),
        calls,
        trace_id: { trace.manifest.as_ref() }.map(|manifest| manifest.trace_id.clone()),
        first_ns,
        left_out,
        shown,
        trace,
        words,
    })
}
