//! Links: any words and any file of a table, a path or a trace are read or refused, what was read
//! is written as it was, and a link that was set so keeps account of each frame.

use lineside_frame::{Descriptor, Frame, LinkType};
use lineside_link::{Deliveries, Link, PathFile, Schedule, Settings, Table, Unit, format, words};

use super::Bytes;

/// Frames that one input sends: enough for a queue, few enough that a slow rate is soon over.
const FRAMES_MAX: usize = 64;

/// A text up to a 0, then a frame, of which each byte is a time and a length, then a byte that says
/// what the text is.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.last();
    let end = bytes.0.iter().position(|&byte| byte == 0);
    let text = bytes.take(end.unwrap_or(bytes.0.len()));
    let sent = bytes.0.get(1..).unwrap_or_default();
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let mut settings = Settings::default();
    match choice % 10 {
        0 => {
            let Ok(delay) = words::delay(text, &mut table) else {
                return;
            };
            assert_eq!(
                words::delay(&delay.to_string(), &mut table),
                Ok(delay.clone())
            );
            settings.delay = delay;
        }
        1 => {
            let Ok(loss) = words::loss(text) else { return };
            assert_eq!(
                words::loss(&loss.to_string()).map(|loss| loss.to_string()),
                Ok(loss.to_string())
            );
            settings.loss = loss;
        }
        2 => {
            let Ok(rate) = words::rate(text) else { return };
            assert_eq!(words::rate(&rate.to_string()), Ok(rate));
            settings.rate = Some(rate);
        }
        3 => {
            let Ok(limit) = words::limit(text) else {
                return;
            };
            settings.limit = limit;
        }
        4 => {
            let Ok(state) = words::state(text) else {
                return;
            };
            assert_eq!(words::state(&state.to_string()), Ok(state));
            settings.state = state;
        }
        5 => {
            let Ok(chance) = words::chance("duplicate", text) else {
                return;
            };
            settings.duplicate = chance;
            settings.corrupt = chance;
            settings.reorder = chance;
        }
        6 => {
            let Ok(path) = PathFile::read("path", text) else {
                return;
            };
            let again = PathFile::read("path", &path.write()).expect("it was written");
            assert_eq!(again.write(), path.write());
            let _ = Deliveries::of_path(&path);
            settings.schedule = Some(Schedule::Path(path));
        }
        7 => {
            let Ok(trace) = Deliveries::read("trace", text) else {
                return;
            };
            assert_eq!(Deliveries::read("trace", &trace.write()), Ok(trace.clone()));
            let _ = trace.path_file(1_000_000_000);
            settings.schedule = Some(Schedule::Deliveries(trace));
        }
        8 => {
            let Ok(table) = format::read(text) else {
                return;
            };
            assert_eq!(
                format::read(&format::write_dist(&table, "")),
                Ok(table.clone())
            );
            assert_eq!(format::read(&format::write_coe(&table)), Ok(table));
            return;
        }
        _ => {
            let Ok(samples) = format::read_samples(text, 1.0) else {
                return;
            };
            let table = Table::from_samples(samples, 64).expect("there are some");
            let _ = format::write_coe(&table);
            return;
        }
    }
    pass(settings, sent);
}

/// Frames through the link: each is accounted for, and instants rise.
fn pass(settings: Settings, sent: &[u8]) {
    let mut link = Link::new(settings, 1, 0, 1 << 16);
    link.warnings();
    let (mut now, mut out) = (1_700_000_000_000_000_000_i64, Vec::new());
    for (number, &byte) in sent.iter().take(FRAMES_MAX).enumerate() {
        now += i64::from(byte) * 10_000;
        let descriptor = Descriptor {
            number: number as u64,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        link.push(now, Frame::copied(&sent[number..], descriptor), &mut out);
        assert!(link.counters().is_whole(link.held()));
    }
    for _ in 0..2 * FRAMES_MAX {
        let Some(deadline) = link.next_deadline() else {
            break;
        };
        now = now.max(deadline);
        link.on_timer(now, &mut out);
    }
    assert!(link.counters().is_whole(link.held()));
    assert!(out.is_sorted_by_key(|departure| departure.at_ns));
    assert!(
        out.iter()
            .all(|departure| departure.at_ns >= departure.due_ns
                && departure.due_ns >= departure.entered_ns)
    );
}

/// A table that is not built in.
fn table(name: &str) -> Result<Table, String> {
    match name {
        "t" => Table::new(vec![i64::MIN, -5, 7, i64::MAX], Unit::Nanoseconds)
            .map_err(|error| error.to_string()),
        _ => Err("there is no such file".to_owned()),
    }
}
