//! A record sink of one's own: bytes that each client read, counted while the capture passes.
//!
//!     cargo run -p lineside-capture --example own_sink -- examples/nfs-mix.pcapng.zst

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use lineside_account::Budget;
use lineside_actor::Schedule;
use lineside_capture::{Config, Cores, Step};
use lineside_port::{CaptureReader, Merge, PoolConfig};
use lineside_rows::{RecordSink, RowRef, Table, Word};

#[derive(Default)]
struct ReadBytes(BTreeMap<IpAddr, u64>);

impl RecordSink for ReadBytes {
    fn wants(&self, table: Table) -> bool {
        table == Table::Operations
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, row: RowRef<'_>) {
        if let RowRef::Operations(row) = row
            && row.operation == Word::Known("READ")
            && let (Some(client), Some(bytes)) = (row.client_address, row.transferred)
        {
            *self.0.entry(client).or_default() += bytes.cast_unsigned();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a capture file")?;
    let budget = Budget::new(256 << 20);
    let pool = PoolConfig::new(budget.clone(), 64 << 20);
    let reader = CaptureReader::open(Path::new(&path), &pool)?;
    // Without actors: `Pipeline::new(config, &budget, sink)` and `lineside_capture::run`.
    let cores = Cores {
        config: Config::default(),
        pipelines: 2,
        system: lineside_actor::Config::new(Schedule::stealing(2)),
        reader_helps: true,
        sinks: vec![("read-bytes".to_owned(), ReadBytes::default())],
        settle: |_, _| Ok(()),
    };
    let mut port = Merge::new([reader]);
    let done = cores.run(&mut port, &budget, u64::MAX, |_, _, _| Step::Continue)?;
    for (client, bytes) in done.sinks.iter().flat_map(|sink| &sink.0) {
        println!("{client:>40} {bytes:>16} bytes");
    }
    match done.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}
