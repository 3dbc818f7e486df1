//! The testkit's own tests that need other programs or the whole workspace. One binary.

mod ancillary;
mod clock;
mod drill;
mod floors;
mod gate;
mod nfs;
mod oracle;
mod privileges;
mod prose;
mod sizes;
mod wall;
mod workspace;
