//! Which call of the source a call of the run is.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use lineside_capture::Amend;
use lineside_rows::OperationRow;

/// The source's calls by port and xid of the run's. Sets `source_operation_id`.
#[derive(Debug, Default)]
pub struct Sources(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    under_way: HashMap<(u16, u32), i64>,
    /// The call whose rows come: those of a compound follow each other.
    last: Option<((u16, u32), i64)>,
}

impl Sources {
    /// A call leaves from a port.
    pub(crate) fn insert(&self, port: u16, xid: u32, source: i64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.under_way.insert((port, xid), source);
    }
}

impl Amend for Sources {
    fn amend(&self, row: &mut OperationRow) {
        let port = row.client_port.and_then(|port| u16::try_from(port).ok());
        let xid = row.xid.and_then(|xid| u32::try_from(xid).ok());
        let Some(key) = port.zip(xid) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A compound has a row for each of its operations, and so has the source's.
        let source = all.under_way.remove(&key);
        if let Some(source) = source {
            all.last = Some((key, source));
        }
        let last = all
            .last
            .filter(|(last, _)| *last == key && row.compound_index.is_some());
        let source = source.or_else(|| last.map(|(_, source)| source));
        let place = row.operation_id.saturating_sub(row.rpc_id);
        row.source_operation_id = source.map(|source| source.saturating_add(place));
    }
}
