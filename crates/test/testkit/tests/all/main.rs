//! The testkit's own tests that need other programs or the whole workspace. One binary.

mod ancillary;
mod clock;
mod drill;
mod gate;
mod nfs;
mod oracle;
mod privileges;
mod prose;
mod wall;
mod workspace;
