//! What a stack answers to a peer that is written down: each test reads as a sequence chart.

mod chart;
mod closing;
mod cookies;
mod datagrams;
mod duplicates;
mod ecn;
mod frto;
mod guesses;
mod handshake;
mod hosts;
mod limited;
mod rack;
mod reduction;
mod refusals;
mod requirements;
mod segment;
mod tail;
mod text;
mod timers;
mod waits;
mod windows;
