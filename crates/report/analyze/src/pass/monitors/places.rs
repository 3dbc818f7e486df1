//! Where monitors measure: a monitor at a point of a port, with what the rows of their tables
//! share.

use hashbrown::HashMap;
use lineside_trace::read::{Column, ReadError};

use crate::read::columns::{Integers, Lexicon, Word, Words};

/// The place of a row, and the columns after those that say it.
pub(super) struct Rows<'a> {
    pub(super) monitor: Words<'a>,
    pub(super) port: Words<'a>,
    pub(super) point: Words<'a>,
    pub(super) flow_id: Integers<'a>,
    pub(super) columns: &'a [Column],
    pub(super) len: usize,
}

/// The columns that say where.
pub(super) const PLACE: [&str; 4] = ["monitor", "port", "point", "flow_id"];

/// A row of a table about a place, or about a flow there.
pub(super) type Key = (usize, Option<i64>);

/// Places, in the order in which they come.
#[derive(Default)]
pub(super) struct Places {
    words: Option<Lexicon>,
    numbers: HashMap<[Word; 3], usize>,
    pub(super) names: Vec<[Word; 3]>,
    /// Rows of places beyond the bound.
    pub(super) not_listed: u64,
}

impl Places {
    pub(super) fn words(&mut self) -> &mut Lexicon {
        self.words.get_or_insert_with(|| Lexicon::new(WORDS_MAX))
    }

    /// A batch whose first columns are those of [`PLACE`].
    pub(super) fn rows<'a>(&mut self, batch: &'a [Column]) -> Result<Option<Rows<'a>>, ReadError> {
        let [monitor, port, point, flow_id, columns @ ..] = batch else {
            return Ok(None);
        };
        Ok(Some(Rows {
            len: monitor.len(),
            monitor: Words::of("monitor", monitor, self.words())?,
            port: Words::of("port", port, self.words())?,
            point: Words::of("point", point, self.words())?,
            flow_id: Integers::of("flow_id", flow_id)?,
            columns,
        }))
    }

    /// The place of a row; `None` if there is no room for it.
    pub(super) fn of(&mut self, rows: &Rows<'_>, row: usize) -> Option<usize> {
        let name = [&rows.monitor, &rows.port, &rows.point].map(|words| words.get(row));
        if let Some(&number) = self.numbers.get(&name) {
            return Some(number);
        }
        if self.names.len() >= PLACES_MAX || name.contains(&Lexicon::OTHER) {
            self.not_listed += 1;
            return None;
        }
        let number = self.names.len();
        self.names.push(name);
        self.numbers.insert(name, number);
        Some(number)
    }

    pub(super) fn name(&self, number: usize) -> [String; 3] {
        self.names[number].map(|word| self.text(word).to_owned())
    }

    pub(super) fn text(&self, word: Word) -> &str {
        self.words.as_ref().map_or("", |words| words.text(word))
    }
}

/// A number of a table that is not negative.
pub(super) fn amount(number: Option<i64>) -> u64 {
    number.map_or(0, |number| u64::try_from(number).unwrap_or(0))
}

/// Monitors, ports, points and metrics that are distinguished, each.
const WORDS_MAX: usize = 1_024;

/// Places: a monitor at a point of a port.
const PLACES_MAX: usize = 64;
