//! `lineside emulate --tap`: what leaves the path, as a trace in the folder of the run.

use lineside_account::Budget;
use lineside_capture::{Config, Pipeline, Step};
use lineside_host::{PartWriter, RunFolder};
use lineside_path::TapPort;
use lineside_trace::{EncoderConfig, Table, TraceEncoder};

use crate::outputs::{Output, Seen, bound_encoder};

/// Takes frames until the loop lets go of its end; what was written, or why it could not be.
pub(crate) fn run(
    mut port: TapPort,
    folder: &RunFolder,
    trace_id: &str,
    budget: &Budget,
) -> anyhow::Result<Seen> {
    let output = Output(PartWriter::start(folder)?);
    // As `capture` has it by default.
    let wanted = |table: &Table| *table != Table::Packets;
    let tables: Vec<_> = Table::ALL.iter().copied().filter(wanted).collect();
    let encoder = EncoderConfig::new(&tables, trace_id);
    let mut memory = budget.lease(0);
    let sink = TraceEncoder::new(&encoder, output);
    let mut pipeline = Pipeline::new(Config::default(), budget, sink);
    let mut failure = None;
    let mut between = |pipeline: &mut Pipeline<TraceEncoder<Output>>| {
        let encoder = pipeline.sink_mut();
        bound_encoder(encoder, &mut memory);
        failure = encoder.error().map(ToString::to_string);
        match failure {
            Some(_) => Step::Stop,
            None => Step::Continue,
        }
    };
    lineside_capture::run(&mut port, &mut pipeline, u64::MAX, |_, pipeline, _| {
        between(pipeline)
    });
    if let Some(failure) = failure {
        anyhow::bail!("the tap's trace cannot be written: {failure}");
    }
    let spans = pipeline.spans().to_vec();
    let (encoder, counters) = pipeline.finish();
    let (output, summaries) = encoder.finish()?;
    output.0.finish()?;
    Ok(Seen {
        counters,
        spans,
        summaries,
    })
}
