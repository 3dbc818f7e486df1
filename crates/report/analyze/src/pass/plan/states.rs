//! State ids and sessions of NFSv4 rows.

use hashbrown::HashMap;
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError, Values};

use super::rows::{Row, hash};
use crate::read::columns::Integers;
use crate::read::parts_by_id::PartsById;
use crate::read::trace::Trace;

const COLUMNS: [&str; 5] = [
    "operation_id",
    "session",
    "stateid",
    "reply_stateid",
    "delegation_stateid",
];

/// What a row names, what it makes.
type State = (u64, u64);

/// The parts of `nfs4`.
pub(super) struct States(PartsById);

impl States {
    pub(super) fn of(trace: &mut Trace) -> Self {
        Self(PartsById::of(trace, Table::Nfs4))
    }

    /// Gives rows, in the order of their ids or not, their states.
    pub(super) fn add_to(&self, trace: &mut Trace, rows: &mut [Row]) {
        let ids = rows.iter().map(|row| row.operation_id);
        let Some((first, last)) = ids.clone().min().zip(ids.max()) else {
            return;
        };
        let mut states: HashMap<i64, State> = HashMap::new();
        self.0.near(trace, (first, last), &COLUMNS, |batch| {
            let ids = Integers::of(COLUMNS[0], &batch[0])?;
            for row in 0..batch[0].len() {
                let Some(id) = ids.get(row).filter(|id| (first..=last).contains(id)) else {
                    continue;
                };
                let state = state(batch, row)?;
                if state != (0, 0) {
                    states.insert(id, state);
                }
            }
            Ok(())
        });
        for row in rows {
            if let Some(state) = states.get(&row.operation_id) {
                (row.state, row.made_state) = *state;
            }
        }
    }
}

fn state(batch: &[Column], row: usize) -> Result<State, ReadError> {
    let number = |at: usize| -> Result<u64, ReadError> {
        let bytes = blob(COLUMNS[at], &batch[at], row)?;
        Ok(bytes.map_or(0, |bytes| hash(at.min(2) as i64, bytes)))
    };
    let or = |first: u64, second: u64| if first == 0 { second } else { first };
    Ok((or(number(2)?, number(1)?), or(number(3)?, number(4)?)))
}

fn blob<'a>(name: &str, column: &'a Column, row: usize) -> Result<Option<&'a [u8]>, ReadError> {
    match column.values() {
        Values::Bytes(places, texts) => {
            let is_present = column.present().get(row).is_none_or(|present| *present);
            let place = places.get(row).filter(|_| is_present);
            Ok(place.and_then(|&place| texts.bytes(place as usize)))
        }
        _ => Err(ReadError::Foreign {
            column: name.to_owned(),
        }),
    }
}
