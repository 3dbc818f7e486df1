//! The engine between simulated clients and nodes.
mod bench;
mod changes;
mod choices;
mod control;
mod errors;
mod floods;
mod forward;
mod fragments;
mod hostile;
mod saved;
mod settings;
mod spliced;
mod table;
mod tshark;
