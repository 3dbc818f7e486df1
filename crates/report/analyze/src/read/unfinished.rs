//! A trace whose run goes on or was killed: what it has, and what the run held in memory.

use lineside_rows::Table;
use lineside_trace::{InMemory, Role, State};
use lineside_words::{grouped, time};
use serde::Serialize;

use crate::numbers::Zone;
use crate::read::trace::Trace;
use crate::read::waits::HANG_MIN_NS;

/// What an unfinished trace has, and what its run held in memory when it last said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unfinished {
    /// The run goes on. Else it was killed, and what it held in memory is lost.
    pub is_running: bool,
    /// Operations in complete parts.
    pub written: u64,
    /// Operations that were in memory at `time_ns` and are in no part.
    pub in_memory: u64,
    /// Further ones without a row yet, at `time_ns`: their reply, or a copy of it, may have come
    /// later.
    pub waiting: u64,
    /// Calls whose reply had not come at `time_ns`, on connections that had not ended.
    pub calls_waiting: u64,
    /// How long the oldest of these calls had waited.
    pub oldest_wait_ns: u64,
    /// When `trace.json` was last written, nanoseconds since the Unix epoch, by the machine's
    /// clock.
    pub time_ns: i64,
    /// The latest time of the operations in parts: those in memory ended later. Null: no part has
    /// one.
    pub since_ns: Option<i64>,
    /// Where the run's parts end, as `--rotate` has it.
    pub rotate: Vec<String>,
    /// When its rows can be read, as `--flush` has it; empty of a load, whose parts end by
    /// themselves.
    pub flush: String,
    /// It is of no operations: its certificate has what it counted.
    #[serde(skip)]
    pub has_counts_alone: bool,
}

impl Unfinished {
    /// What is known of a trace; `None` if it is finished, or says nothing of its memory. Whether
    /// the run goes on is for the caller to know.
    pub fn of(trace: &mut Trace) -> Option<Self> {
        let manifest = trace.manifest.as_ref()?;
        if manifest.verdict.state != State::Unfinished {
            return None;
        }
        let InMemory {
            time_ns,
            operations,
            waiting,
            calls_waiting,
            oldest_wait_ns,
        } = manifest.in_memory?;
        let counted = manifest.tables.get(Table::Operations.name());
        let counted = counted
            .map_or(0, |summary| summary.rows)
            .saturating_add(operations);
        let rotate = manifest.configuration.pointer("/capture/rotate");
        let rotate = rotate.and_then(|words| serde_json::from_value(words.clone()).ok());
        let flush = manifest.configuration.pointer("/capture/flush");
        let flush = flush
            .and_then(|word| word.as_str())
            .unwrap_or_else(|| match manifest.role() {
                Some(Role::Load) => "",
                _ => "none",
            })
            .to_owned();
        let is_of_frames = matches!(manifest.role(), Some(Role::Emulate | Role::Forward));
        let parts = trace.parts(Table::Operations);
        let rows = parts.iter().filter_map(|path| trace.open_part(path));
        let written = rows.map(|part| part.row_count()).sum();
        let range = trace.time_range(&["call_time_ns", "reply_time_ns"]);
        Some(Self {
            is_running: false,
            written,
            // Parts that ended since took theirs with them.
            in_memory: counted.saturating_sub(written),
            waiting,
            calls_waiting,
            oldest_wait_ns,
            time_ns,
            since_ns: range.map(|(_, last)| last),
            rotate: rotate.unwrap_or_default(),
            flush,
            has_counts_alone: is_of_frames && parts.is_empty(),
        })
    }

    /// When rows are in a part.
    fn ends(&self) -> String {
        match &*self.flush {
            "" => "rows are in a part after half a second".to_owned(),
            "none" => format!("parts end by --rotate {}", self.rotate.join(",")),
            flush => format!("rows are in a part after --flush {flush}"),
        }
    }

    /// In a sentence.
    pub fn text(&self, zone: &Zone) -> String {
        let clock = |ns| zone.clock(ns, 1_000_000_000);
        if self.has_counts_alone {
            let at = clock(self.time_ns);
            return match self.is_running {
                true => format!("the run goes on: its counts are those at {at}"),
                false => format!(
                    "the run was killed: its counts are those at {at}, and what came later is lost"
                ),
            };
        }
        let since = self.since_ns.map(|ns| format!(", since {},", clock(ns)));
        let last = match self.in_memory {
            0 => None,
            1 => Some("the last operation".to_owned()),
            count => Some(format!("the last {} operations", grouped(count))),
        };
        let last = last.map(|last| last + &since.unwrap_or_default());
        let waiting = (self.waiting > 0).then(|| match last {
            Some(_) => format!("{} that wait for a reply", grouped(self.waiting)),
            None => format!("{} operations that wait for a reply", grouped(self.waiting)),
        });
        let what: Vec<_> = last.into_iter().chain(waiting).collect();
        let (what, at) = (what.join(" and "), clock(self.time_ns));
        let is_one = self.in_memory.saturating_add(self.waiting) == 1;
        let mut text = match (self.is_running, what.is_empty()) {
            (true, true) => format!(
                "the run goes on: as of {at} every operation was in a part; {}",
                self.ends()
            ),
            (true, false) => format!(
                "the run goes on: {what} {} still in memory as of {at}; {}",
                if is_one { "is" } else { "are" },
                self.ends()
            ),
            (false, true) => format!(
                "the run was killed: at {at} every operation was in a part; what came later is lost"
            ),
            (false, false) => format!(
                "the run was killed: {what} {} in memory at {at}, and {} lost with what came later",
                if is_one { "was" } else { "were" },
                if is_one { "is" } else { "are" },
            ),
        };
        if self.oldest_wait_ns >= HANG_MIN_NS {
            text += &format!(
                "; {} calls had no reply then, the oldest for {}",
                grouped(self.calls_waiting),
                time(self.oldest_wait_ns)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_a_sentence() {
        let mut unfinished = Unfinished {
            is_running: true,
            written: 1_000,
            in_memory: 1_234,
            waiting: 0,
            calls_waiting: 0,
            oldest_wait_ns: 0,
            time_ns: 1_700_000_013_000_000_000,
            since_ns: Some(1_700_000_003_000_000_000),
            rotate: vec!["64MiB".to_owned(), "10s".to_owned()],
            flush: "none".to_owned(),
            has_counts_alone: false,
        };
        let zone = Zone::default();
        assert_eq!(
            unfinished.text(&zone),
            "the run goes on: the last 1,234 operations, since 22:13:23, are still in memory as of \
            22:13:33; parts end by --rotate 64MiB,10s"
        );
        unfinished.flush = "1s".to_owned();
        let text = unfinished.text(&zone);
        assert!(
            text.ends_with("22:13:33; rows are in a part after --flush 1s"),
            "{text}"
        );
        (unfinished.is_running, unfinished.in_memory) = (false, 1);
        (unfinished.waiting, unfinished.since_ns) = (2, None);
        assert_eq!(
            unfinished.text(&zone),
            "the run was killed: the last operation and 2 that wait for a reply were in memory at \
            22:13:33, and are lost with what came later"
        );
        (unfinished.in_memory, unfinished.waiting) = (0, 0);
        assert_eq!(
            unfinished.text(&zone),
            "the run was killed: at 22:13:33 every operation was in a part; what came later is lost"
        );
        unfinished.has_counts_alone = true;
        assert_eq!(
            unfinished.text(&zone),
            "the run was killed: its counts are those at 22:13:33, and what came later is lost"
        );
    }
}
