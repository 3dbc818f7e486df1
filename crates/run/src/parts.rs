use lineside_account::Lease;
use lineside_host::{FolderError, PartWriter};
use lineside_trace::{Part, PartSink, TraceEncoder};

/// Passes parts of tables to the thread that writes them.
pub struct Parts(pub PartWriter);

impl PartSink for Parts {
    type Error = FolderError;

    fn part(&mut self, part: Part) -> Result<(), FolderError> {
        let file = part.file_name();
        self.0.submit(part.table.name(), &file, part.pieces)
    }
}

/// Draws what the encoder holds on the budget. Where it does not fit, the open parts end early.
pub fn bound_encoder<P: PartSink>(encoder: &mut TraceEncoder<P>, lease: &mut Option<Lease>) {
    let held = encoder.held_bytes();
    if !lease.as_mut().is_some_and(|lease| lease.resize(held)) {
        encoder.end_parts();
        let held = encoder.held_bytes();
        if let Some(lease) = lease {
            lease.resize(held);
        }
    }
}
