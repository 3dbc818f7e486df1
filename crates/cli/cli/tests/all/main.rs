//! The `lineside` command from outside: its traces against tshark, against the oracle of
//! `lineside-testkit` under seeded harm, against the files of a real server, and on live wires; and
//! its manners.
//!
//! A test that cannot run prints one line that begins with `SKIP: ` and gives the reason; `./test`
//! counts these.

mod both_ends;
mod built;
mod bundle;
mod clock_steps;
mod compare;
mod compare_calls;
mod compare_kinds;
mod compounds;
mod cores;
mod csv;
mod decode_as;
mod doctor;
mod emulate;
mod failed;
mod failures;
mod filter;
mod findings;
mod findings_numbers;
mod follow;
mod forward_emulated;
mod fuzzed;
mod generated;
mod harm;
mod hostile;
mod image;
mod input;
#[path = "../../../../../fuzz/src/inputs.rs"]
mod inputs;
mod junit;
mod layers;
mod manual;
mod many_inputs;
mod measured;
mod monitored;
mod monitors;
mod package;
mod packets;
mod plan;
mod predict;
mod python;
mod rebuilt;
mod removed;
mod replay;
mod report;
#[path = "../../../../../fuzz/src/roles/mod.rs"]
mod roles;
mod runs;
mod servers;
mod services;
mod slow;
mod standing;
mod support;
mod tcp;
mod traffic;
mod tshark;
mod usage;
mod waits;
mod wall;
