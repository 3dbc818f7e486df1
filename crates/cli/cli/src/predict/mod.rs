//! `lineside predict`: how long the workload of a trace would take over other networks.

mod figures;
mod flags;
mod grid;
mod print;
mod workload;

use lineside_analyze::{plan, sizes};
use lineside_plan::Config;
use lineside_predict::predict;

pub(crate) use flags::Arguments;

use crate::confine;
use crate::exit::Exit;
use crate::print::{exit, print, print_csv, print_json, warn};
use crate::runs;
use figures::{LEAVES_OUT, OfPoint, Prediction};
use workload::{Kept, Planned};

/// [`Prediction::predict_version`].
const PREDICT_VERSION: &str = "1.0";

pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<Exit> {
    let points = arguments.points()?;
    { arguments.confining }.enter(confine::trace(&arguments.trace), None)?;
    runs::choose(&mut arguments.trace);
    let config = Config {
        idle_ns: i64::try_from(arguments.idle).unwrap_or(i64::MAX),
        ..Config::default()
    };
    let (of_plan, kept) = plan(&arguments.trace, config, Kept::default())?;
    let planned = Planned::new(kept, &sizes(&arguments.trace)?);
    let mut prediction = Prediction {
        predict_version: PREDICT_VERSION,
        trace: arguments.trace.display().to_string(),
        calls: of_plan.figures.calls,
        clients: planned.clients,
        connections: planned.workload.connections.len() as u64,
        captured_ns: planned.captured_ns,
        doubts: planned.doubts,
        leaves_out: LEAVES_OUT,
        points: Vec::new(),
    };
    for point in &points {
        let outcome = predict(&planned.workload, &point.network)?;
        prediction
            .points
            .push(OfPoint::new(point, &planned, &outcome));
    }
    match (arguments.json, arguments.csv) {
        (true, _) => print_json(&prediction)?,
        (false, true) => print_csv(&prediction.lines())?,
        _ => print(&print::text(&prediction))?,
    }
    of_plan.unreadable.iter().for_each(|why| warn(why));
    Ok(exit(&of_plan.unreadable))
}
