//! Parts of a trace: Parquet files, read as reports do.

use lineside_trace::read::PartReader;

/// Rows in a batch.
const BATCH_ROWS: usize = 64;
/// Batches that are read: a damaged count of rows may claim more than anybody reads.
const BATCHES_MAX: usize = 64;

/// A part as it stands.
pub(crate) fn run(data: &[u8]) {
    let data = data.to_vec();
    let Ok(part) = PartReader::open(data.clone()) else {
        return;
    };
    let names: Vec<_> = part.column_names().map(str::to_owned).collect();
    let columns: Vec<_> = names.iter().map(String::as_str).collect();
    let _ = (part.row_count(), part.metadata("lineside.trace_id"));
    for column in &columns {
        if let Some((least, greatest)) = part.range(column) {
            std::hint::black_box(least.wrapping_sub(greatest));
        }
    }
    if let Ok(batches) = part.batches(&columns, BATCH_ROWS) {
        for batch in batches.take(BATCHES_MAX) {
            let Ok(read) = batch else { break };
            assert_eq!(read.len(), columns.len());
        }
    }
    if let Ok(part) = PartReader::open(data)
        && let Ok(rows) = part.rows(&columns)
    {
        for row in rows.take(BATCH_ROWS * BATCHES_MAX) {
            let Ok(values) = row else { break };
            assert_eq!(values.len(), columns.len());
        }
    }
}
