//! What an image leaves out.

use serde::Serialize;

/// What of a trace is not in its image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImageLeftOut {
    /// Replies whose call was not seen, or has no time.
    pub calls_not_seen: u64,
    /// Calls whose reply was not seen: what they did is not known.
    pub replies_not_seen: u64,
    /// READs of which some data was not seen: their blocks are not in the image.
    pub reads_incomplete: u64,
    /// Blocks that READs showed when there was no more memory for them.
    pub blocks_without_room: u64,
}
