//! How reports look: in words, on a terminal and as a page.
//!
//! ```text
//!  Report ──► page: summary, sections of blocks ──┬─► terminal   lines of text, one screen or all
//!  (analyze)                                      └─► html       one page: charts, SVG, JSON
//!  Comparison, Slow, Failed, Series ──────────────► comparison · slow · failed · intervals · csv
//! ```
//!
//! `section` puts what a report holds into blocks, every number in words; `terminal` and `html`
//! draw blocks and decide nothing but how they look. No clock, no file and no output here: every
//! function returns a text.
#![forbid(unsafe_code)]

pub mod adapter;
mod block;
mod chart;
mod compared_calls;
mod comparison;
mod contours;
mod csv;
mod cuts;
mod doctor;
mod explained;
pub mod failed;
mod forward_plan;
mod forwarder_lines;
pub mod html;
mod intervals;
mod lines;
mod link_certificate;
mod link_line;
mod monitored;
mod monitors_svg;
mod monitors_text;
mod page;
mod plan;
pub mod points;
mod probe;
mod run_stats;
mod scale;
mod section;
mod share_curve;
pub mod slow;
mod summary;
mod svg;
mod table;
pub mod terminal;
mod text;

pub use compared_calls::compared_calls;
pub use comparison::comparison;
pub use csv::csv;
pub use doctor::{doctor, facts};
pub use explained::explained_lines;
pub use forward_plan::forward_plan;
pub use forwarder_lines::forwarder_lines;
pub use intervals::intervals;
pub use lines::{spread_text, verdict_lines, verdict_word};
pub use link_certificate::link_certificate;
pub use link_line::{link_line, nothing_passed};
pub use plan::plan;
pub use probe::probe_lines;
pub use run_stats::run_stats_lines;
pub use table::{path_figures, path_lines, table_figures, table_lines};
pub use text::{Style, WIDTH};
