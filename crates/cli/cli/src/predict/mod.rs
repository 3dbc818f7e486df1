//! `lineside predict`: how long the workload of a trace would take over other networks.

mod figures;
mod flags;
mod grid;
mod output;
mod print;
mod workload;

use lineside_analyze::{plan, sizes};
use lineside_plan::Config;
use lineside_predict::{Defect, Network, predict};

pub(crate) use flags::Arguments;

use crate::confine;
use crate::exit::Exit;
use crate::print::{exit, print, print_csv, print_json, warn};
use crate::runs;
use crate::tables::Folder;
use figures::{LEAVES_OUT, OfPoint, Prediction};
use grid::Point;
use output::PREDICTION;
use workload::{Kept, Planned};

/// [`Prediction::predict_version`].
const PREDICT_VERSION: &str = "1.1";

/// The draw of which half took no longer, and how long the others took. Where nothing is drawn, one
/// is all.
fn of_point(point: &Point, planned: &Planned, draws: u16) -> Result<OfPoint, Defect> {
    let draw = |number: u16| {
        let network = Network {
            seed: point.network.seed.wrapping_add(number.into()),
            ..point.network.clone()
        };
        let outcome = predict(&planned.workload, &network)?;
        Ok(OfPoint::new(point, planned, &outcome))
    };
    let draws = if point.is_drawn { draws } else { 1 };
    let mut found = (0..draws).map(draw).collect::<Result<Vec<_>, _>>()?;
    found.sort_by_key(|draw| draw.elapsed_ns);
    let [least_ns, most_ns] = [0, found.len() - 1].map(|at| found[at].elapsed_ns);
    let median = found.swap_remove((found.len() - 1) / 2);
    Ok(OfPoint {
        draws,
        elapsed_least_ns: least_ns,
        elapsed_most_ns: most_ns,
        ..median
    })
}

pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<Exit> {
    let points = arguments.points()?;
    runs::choose(&mut arguments.trace);
    let folder = { arguments.output.as_deref() }
        .map(|path| Folder::make(path, &PREDICTION, arguments.force))
        .transpose()?;
    let named = confine::trace(&arguments.trace);
    let confining = arguments.confining;
    confining.enter_writing_below(named, arguments.output.as_deref())?;
    let made = predicted(&arguments, &points);
    let (prediction, unreadable) = made.inspect_err(|_| folder.iter().for_each(Folder::empty))?;
    if let Some(folder) = &folder {
        output::write(&prediction, folder)?;
    }
    match (arguments.json, arguments.csv) {
        (true, _) => print_json(&prediction)?,
        (false, true) => print_csv(&prediction.lines())?,
        _ => print(&print::text(&prediction))?,
    }
    unreadable.iter().for_each(|why| warn(why));
    Ok(exit(&unreadable))
}

/// What is predicted, and the parts of the trace that could not be read.
fn predicted(arguments: &Arguments, points: &[Point]) -> anyhow::Result<(Prediction, Vec<String>)> {
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
    for point in points {
        let found = of_point(point, &planned, arguments.draws)?;
        prediction.points.push(found);
    }
    Ok((prediction, of_plan.unreadable))
}
