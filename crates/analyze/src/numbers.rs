//! Numbers as people read them.

pub use lineside_account::{bytes, grouped, time};
pub(crate) use lineside_account::{harmless, harmless_json};
use serde::{Serialize, Serializer};

/// A share as `12.3 %`; what is neither nothing nor everything never reads 0.0 % or 100.0 %.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if share > 0.0 && value < 0.05 {
        "<0.1 %".to_owned()
    } else if share < 1.0 && value >= 99.95 {
        ">99.9 %".to_owned()
    } else {
        format!("{value:.1} %")
    }
}

/// `2026-11-21 12:35:02.123 UTC`
pub(crate) fn date(ns: i64) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(ns.into());
    stamp.map_or_else(
        |_| format!("{ns} ns"),
        |stamp| format!("{:.3}", stamp.strftime("%Y-%m-%d %H:%M:%S%.3f UTC")),
    )
}

/// `number` of `whole`, 0 to 1; 0 if there is nothing.
pub(crate) fn share(number: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        number as f64 / whole as f64
    }
}

/// Writes an id as a text of decimal digits: readers of JSON often have numbers of 53 bits.
pub(crate) fn digits<S: Serializer>(id: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(|id| id.to_string()).serialize(serializer)
}

/// A path or, where it is not known, the file's id as the tables have it.
pub(crate) fn file_name(path: &str, file_id: Option<i64>) -> String {
    match (path, file_id) {
        ("", Some(id)) => format!("file {id}"),
        ("", None) => "-".to_owned(),
        (path, _) => path.to_owned(),
    }
}

/// The end of a text that has to fit in `width` characters: of a path, the end is most telling.
pub(crate) fn tail(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(count - width.saturating_sub(1));
    std::iter::once('…').chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.000_1), "<0.1 %");
        assert_eq!(percent(0.999_9), ">99.9 %");
        assert_eq!(date(1_500_000_000), "1970-01-01 00:00:01.500 UTC");
        assert_eq!(tail("/a/long/path", 6), "…/path");
    }
}
