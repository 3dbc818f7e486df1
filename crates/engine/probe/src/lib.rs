//! A probe of the path between two hosts: what it does to datagrams each way.
//!
//! ```text
//!  Client ──► Hello ──────────────────────► Server      a cookie first: no stranger gets more
//!         ◄── Welcome ◄────────────────────             bytes than it sent
//!         ──► Echo, Echo, ... ─────────────►            delay, loss, order of each way
//!         ◄── Echoed, Echoed, ... ◄─────────
//!         ──► Filler Filler Filler ... ────►            rate and bucket of the way there
//!         ──► Ask ──► ... ◄── Arrivals ◄────
//!         ──► Wanted ──────────────────────►            rate and bucket of the way back
//!         ◄── Filler Filler Filler ... ◄────
//! ```
//!
//! [`Client`] and [`Server`] are given the time and what comes; they say what to send and when to
//! be called again. [`Findings`] has the figures, and makes path files of them.
//!
//! * Clocks of the two hosts need not agree: see [`Ways`] for what can be known then.
//! * Nothing exceeds the budget, counted in bytes of IP packets.
//! * The client sends to one address; the server answers those that showed that they have theirs.
//!
//! Not here: sockets, clocks, probes by ICMP and TCP, which are round trips alone.
#![forbid(unsafe_code)]

mod by;
mod client;
mod findings;
mod message;
mod plan;
mod server;
mod settings;
mod stages;
mod train;
mod ways;

pub use by::By;
pub use client::{Client, ECHOES_MAX, ProbeError};
pub use findings::{Findings, LOSS_SAMPLES, Loaded, WayFound, path_file};
pub use message::{Arrivals, Foreign, Head, LEN_MAX, LEN_MIN, Message, VERSION};
pub use server::{ARRIVALS_MAX, Limits, Server, ServerCounters};
pub use settings::Settings;
pub use train::{Fit, Passed, RateFound};
pub use ways::{Answered, Echoes, Order, Sample, Sent, Share, Ways, spread};
