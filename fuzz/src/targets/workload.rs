//! Models of a load: any words and any file of gaps or sizes are read or refused, what was read is
//! written as it was, and what it draws keeps to its bounds.

use lineside_workload::{Arrivals, Keys, Profile, Schedule, Share, Sizes, Template, Unit};

use super::Bytes;

/// Draws that one input makes.
const DRAWS: usize = 64;

/// A text up to a 0, then a file that it may name, then a byte that says what the text is.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.last();
    let end = bytes.0.iter().position(|&byte| byte == 0);
    let text = bytes.take(end.unwrap_or(bytes.0.len()));
    let file = bytes.0.get(1..).unwrap_or_default();
    let (Ok(text), Ok(file)) = (std::str::from_utf8(text), std::str::from_utf8(file)) else {
        return;
    };
    let seed = u64::from(choice);
    match choice % 6 {
        0 => arrivals(text, file, seed),
        1 => rate(text, seed),
        2 => sizes(text, file, Unit::Bytes, seed),
        3 => sizes(text, file, Unit::Time, seed),
        4 => keys(text, seed),
        _ => template(text, seed),
    }
}

fn arrivals(text: &str, file: &str, seed: u64) {
    let mut load = |_: &str| Ok(file.to_owned());
    let Ok(arrivals) = Arrivals::parse(text, &mut load) else {
        return;
    };
    let again = Arrivals::parse(&arrivals.to_string(), &mut load);
    assert_eq!(again.as_ref(), Ok(&arrivals));
    let rate = "3000".parse().expect("a rate");
    for rate in [None, Some(&rate)] {
        if let Ok(schedule) = Schedule::new(&arrivals, rate, seed, Share::of(1, 2)) {
            rise(schedule);
        }
    }
}

fn rate(text: &str, seed: u64) {
    let Ok(rate) = text.parse::<Profile>() else {
        return;
    };
    assert_eq!(rate.to_string().parse().as_ref(), Ok(&rate));
    let mut load = |_: &str| Err(String::new());
    for words in ["constant", "poisson", "on-off 5 for 1s, 0 for 1s"] {
        let arrivals = Arrivals::parse(words, &mut load).expect(words);
        if let Ok(schedule) = Schedule::new(&arrivals, Some(&rate), seed, Share::ALL) {
            rise(schedule);
        }
    }
}

/// Instants never go back, and ordinals are the share's.
fn rise(schedule: Schedule) {
    let mut latest = None;
    for arrival in schedule.take(DRAWS) {
        assert!(arrival.at_ns >= 0);
        let (ordinal, at_ns) = latest.unwrap_or((arrival.ordinal, 0));
        assert!(arrival.at_ns >= at_ns && arrival.ordinal >= ordinal);
        latest = Some((arrival.ordinal, arrival.at_ns));
    }
}

fn sizes(text: &str, file: &str, unit: Unit, seed: u64) {
    let mut load = |_: &str| Ok(file.to_owned());
    let Ok(sizes) = Sizes::parse("size", text, unit, &mut load) else {
        return;
    };
    let words = sizes.to_string();
    // Shares are printed to twelve digits, which may just miss 100 %.
    if let Ok(again) = Sizes::parse("size", &words, unit, &mut load) {
        assert_eq!(again.to_string(), words);
    } else {
        assert!(words.starts_with("table"), "{words}");
    }
    assert!((0..DRAWS as u64).all(|ordinal| sizes.draw(seed, ordinal) <= sizes.max()));
    assert!(sizes.mean().is_none_or(|mean| mean >= 0.0));
}

fn keys(text: &str, seed: u64) {
    let Ok(keys) = text.parse::<Keys>() else {
        return;
    };
    assert_eq!(keys.to_string().parse(), Ok(keys));
    assert!((0..DRAWS as u64).all(|ordinal| keys.draw(seed, ordinal) < keys.count()));
}

fn template(text: &str, seed: u64) {
    let keys = "zipf 1 over 1000".parse().expect("keys");
    let Ok(template) = Template::parse(text, Some(keys), seed) else {
        return;
    };
    let mut out = Vec::new();
    for ordinal in [0, 1, u64::MAX] {
        out.clear();
        template.write(ordinal, ordinal, &mut out);
        assert!(out.len() <= template.len_max());
    }
}
