//! Where a frame's delay on a link comes from: of a frame of a capture, or as settings have it.

mod account;
mod frame;
mod settings;

pub use account::{Explained, Part};
pub use frame::{ExplainError, of_frame};
pub use settings::of_settings;
