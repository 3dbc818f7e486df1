//! The `lineside` command from outside: its traces against tshark, against the oracle of
//! `lineside-testkit` under seeded harm, against the files of a real server, and on live wires; and
//! its manners.
//!
//! A test that cannot run prints one line that begins with `SKIP: ` and gives the reason; `./test`
//! counts these.

mod any;
mod beside;
mod between;
mod bundle;
mod carrier;
mod commands;
mod compare;
mod compounds;
mod confined;
mod control;
mod cores;
mod csv;
mod decode_as;
mod doctor;
mod documents;
mod drop_ins;
mod emulate;
mod filter;
mod findings;
mod follow;
mod forward;
mod forward_checks;
mod forward_emulated;
mod forward_modes;
mod forward_report;
mod full_disks;
mod halves;
mod harm;
mod hostile;
mod input;
mod iperf;
mod kept_runs;
mod lab;
mod layers;
mod live;
mod load;
mod load_bulk;
mod load_devices;
mod load_ends;
mod load_leaves;
mod manual;
mod many_inputs;
mod measured;
mod merging;
mod monitored;
mod monitors;
mod nfs_load;
mod on;
mod package;
mod packets;
mod peer;
mod probe;
mod python;
mod removed;
mod report;
mod rotate;
mod runs;
mod services;
mod slow;
mod star;
mod stats;
mod steps;
mod support;
mod tags;
mod tcp;
mod traffic;
mod troubles;
mod tshark;
mod usage;
mod wire;
mod written;
