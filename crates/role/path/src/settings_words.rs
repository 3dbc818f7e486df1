use lineside_link::{Limit, Loss, Schedule, Settings};
use lineside_trace::certificate::link::SettingsWords;

/// The settings of a direction in words.
pub(crate) fn settings_words(settings: &Settings, limit: Limit) -> SettingsWords {
    let (mut rate, mut path) = (settings.rate.map(|rate| rate.to_string()), None);
    let mut loss = settings.loss.to_string();
    match &settings.schedule {
        Some(Schedule::Path(file)) => {
            path = Some(file.name().to_owned());
            if file.steps()[0].loss.is_some() {
                loss = format!("path {}", file.name());
            }
        }
        Some(Schedule::Deliveries(trace)) => rate = Some(format!("trace {}", trace.name())),
        None => {}
    }
    SettingsWords {
        link: settings.state.to_string(),
        loss,
        duplicate: settings.duplicate.to_string(),
        corrupt: settings.corrupt.to_string(),
        reorder: settings.reorder.to_string(),
        delay: settings.delay.to_string(),
        rate,
        limit: limit.to_string(),
        path,
    }
}

/// Bytes of the words at most: those of names and lists, and what all others take.
pub(crate) fn len_bytes_max(settings: &Settings) -> usize {
    const OTHERS_BYTES: usize = 768;
    const NUMBER_BYTES: usize = 21;
    let listed = match &settings.loss {
        Loss::Frames(numbers) => numbers.len() * NUMBER_BYTES,
        _ => 0,
    };
    let table = settings.delay.jitter.table();
    let table = table.map_or(0, |(name, _)| name.len());
    // The name of a path may stand in two words.
    let schedule = match &settings.schedule {
        Some(Schedule::Path(path)) => 2 * path.name().len(),
        Some(Schedule::Deliveries(deliveries)) => deliveries.name().len(),
        None => 0,
    };
    OTHERS_BYTES + listed + table + schedule
}
