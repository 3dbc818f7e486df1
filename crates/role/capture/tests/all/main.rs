//! The whole path on harmed captures, and on every input that a fuzz target ever tripped over.
//!
//! A test that cannot run prints one line that begins with `SKIP: ` and says why; `./test` counts
//! these.

#[path = "../../../../../fuzz/src/inputs.rs"]
mod inputs;
mod layers;
mod mutants;
mod places;
mod replay;
#[path = "../../../../../fuzz/src/targets/mod.rs"]
mod targets;
