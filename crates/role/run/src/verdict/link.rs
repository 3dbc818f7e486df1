//! The rules about an emulated link, and how much lateness figures bear.

use lineside_words::{grouped, time};

use super::Reason;
use super::load::percent;

/// One direction of an emulated link.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkEvidence {
    /// The direction's name.
    pub name: String,
    /// Frames that found a queue full whose limit was worked out rather than asked for, by that
    /// limit.
    pub dropped_by_derived_limit: Vec<(u64, String)>,
    /// Frames dropped because memory for frames under way was full.
    pub dropped_by_memory: u64,
    /// Frames that left.
    pub left: u64,
    /// Those of them that left more than a millisecond late. A stall of the machine that no frame
    /// waited for is none of them, and disturbs nothing.
    pub late: u64,
    /// The most that a frame was late.
    pub lateness_max_ns: i64,
    /// What is borne of that.
    pub limits: LateLimits,
}

/// How late frames and requests may leave before a run is disturbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LateLimits {
    /// The share that may leave more than a millisecond late.
    pub late: f64,
    /// How late one may leave; `None`: that is not judged.
    pub lateness_max_ns: Option<u64>,
}

impl Default for LateLimits {
    fn default() -> Self {
        Self {
            // No reported quantile is above 99.9 %.
            late: 0.001,
            lateness_max_ns: None,
        }
    }
}

/// How many of `count` may be wrong for the figures to hold: this share of them, or as many as the
/// rank of the highest quantile that is reported, 99.9 %, is uncertain by (twice its deviation);
/// and never one alone.
pub fn borne(count: u64, share: f64) -> u64 {
    const TAIL: f64 = 0.001;
    let count = count as f64;
    let of_rank = 1.96 * (count * TAIL * (1.0 - TAIL)).sqrt();
    (count * share).max(of_rank).max(1.0) as u64
}

/// A limit that was asked for is part of the link, and so is what it drops. A limit that was worked
/// out is not.
pub(super) fn derived_limit(link: &LinkEvidence) -> Vec<Reason> {
    let dropped = link.dropped_by_derived_limit.iter();
    let dropped = dropped.filter(|(count, _)| *count > 0);
    let reason = |(count, limit): &(u64, String)| {
        format!(
            "{}: {count} frames found a queue of {limit} full, which was worked out from rate and \
            delay: give the link's own with --limit",
            link.name
        )
    };
    dropped.map(reason).collect()
}

pub(super) fn memory_full(link: &LinkEvidence) -> Vec<Reason> {
    if link.dropped_by_memory == 0 {
        return Vec::new();
    }
    vec![format!(
        "{}: {} frames were dropped because memory for frames under way was full: give more with \
        --memory",
        link.name, link.dropped_by_memory
    )]
}

pub(super) fn late(link: &LinkEvidence) -> Vec<Reason> {
    let most_ns = link.lateness_max_ns.max(0).unsigned_abs();
    let limit_ns = link.limits.lateness_max_ns.filter(|limit| most_ns > *limit);
    if limit_ns.is_none() && link.late <= borne(link.left, link.limits.late) {
        return Vec::new();
    }
    let limit = match limit_ns {
        Some(limit_ns) => time(limit_ns),
        None => percent(link.limits.late),
    };
    vec![format!(
        "{}: {} of {} frames left more than 1 ms late, by up to {} (limit {limit}): a machine with \
        less to do, --wait spin, or 'chrt -f 50'",
        link.name,
        grouped(link.late),
        grouped(link.left),
        time(most_ns)
    )]
}
