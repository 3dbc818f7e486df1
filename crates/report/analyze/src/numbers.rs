//! Numbers as people read them.

use serde::{Serialize, Serializer};

/// The zone in which times are written. The default is UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(jiff::tz::TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(jiff::tz::TimeZone::UTC)
    }
}

impl Zone {
    /// The zone of this machine: that of `TZ`, or of `/etc/localtime`; UTC if there is none.
    pub fn local() -> Self {
        Self(jiff::tz::TimeZone::system())
    }

    fn at(&self, ns: i64) -> Option<jiff::Zoned> {
        let stamp = jiff::Timestamp::from_nanosecond(ns.into()).ok()?;
        Some(stamp.to_zoned(self.0.clone()))
    }

    /// `2026-11-21 13:35:02.123 +01:00`
    pub fn date(&self, ns: i64) -> String {
        self.at(ns).map_or_else(
            || format!("{ns} ns"),
            |at| {
                format!(
                    "{} {}",
                    at.strftime("%Y-%m-%d %H:%M:%S%.3f"),
                    self.offset(ns)
                )
            },
        )
    }

    /// `+01:00`, or `UTC`: how far a time is ahead of UTC.
    pub fn offset(&self, ns: i64) -> String {
        match self.at(ns) {
            Some(at) if !at.offset().is_zero() => at.strftime("%:z").to_string(),
            _ => "UTC".to_owned(),
        }
    }

    /// The time of day, as exact as steps of `step_ns` are; with the day, if they are long.
    pub fn clock(&self, ns: i64, step_ns: u64) -> String {
        let date = self.date(ns);
        let range = match step_ns {
            0..1_000_000_000 => 11..23,
            1_000_000_000..600_000_000_000 => 11..19,
            600_000_000_000..86_400_000_000_000 => 5..16,
            _ => 0..10,
        };
        date.get(range).unwrap_or(&date).to_owned()
    }

    /// The moment of a date and time of day in this zone.
    pub(crate) fn moment(&self, civil: jiff::civil::DateTime) -> Option<i64> {
        let zoned = civil.to_zoned(self.0.clone()).ok()?;
        i64::try_from(zoned.timestamp().as_nanosecond()).ok()
    }

    /// The day of a moment in this zone.
    pub fn day(&self, ns: i64) -> Option<jiff::civil::Date> {
        Some(self.at(ns)?.date())
    }

    /// Two moments as one text: the second leaves out what it has in common with the first.
    /// `2026-11-21 13:35:02.123 to 13:35:09.500 +01:00`
    pub fn span(&self, from: i64, to: i64) -> String {
        let (first, second) = (self.date(from), self.date(to));
        if self.offset(from) != self.offset(to) {
            return format!("{first} to {second}");
        }
        let bare = first
            .rsplit_once(' ')
            .map_or(first.as_str(), |(bare, _)| bare);
        let is_same_day = first.get(..10).is_some() && first.get(..10) == second.get(..10);
        let rest = if is_same_day { second.get(11..) } else { None };
        format!("{bare} to {}", rest.unwrap_or(&second))
    }
}

/// `2026-11-21 12:35:02.123 UTC`
pub(crate) fn date(ns: i64) -> String {
    Zone::default().date(ns)
}

/// The share that a part has at least: the lower end of Wilson's interval (E. B. Wilson, 1927),
/// which holds for few and for many alike. 3 of 5 are at least 23 %, 3 of 1,000 at least 0.1 %.
pub(crate) fn share_at_least(part: u64, whole: u64) -> f64 {
    // Of a normal distribution 95 % lie within so many standard deviations.
    const Z: f64 = 1.96;
    if whole == 0 {
        return 0.0;
    }
    let (n, p) = (whole as f64, share(part, whole).min(1.0));
    let middle = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half) / (1.0 + Z * Z / n)).max(0.0)
}

/// `number` of `whole`, 0 to 1; 0 if there is nothing.
pub fn share(number: u64, whole: u64) -> f64 {
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
pub fn file_name(path: &str, file_id: Option<i64>) -> String {
    match (path, file_id) {
        ("", Some(id)) => format!("file {id}"),
        ("", None) => "-".to_owned(),
        (path, _) => path.to_owned(),
    }
}

/// The end of a text that has to fit in `width` characters: of a path, the end is most telling.
pub fn tail(text: &str, width: usize) -> String {
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
        assert_eq!(date(1_500_000_000), "1970-01-01 00:00:01.500 UTC");
        assert_eq!(date(i64::MAX), "2262-04-11 23:47:16.854 UTC");
        assert_eq!(tail("/a/long/path", 6), "…/path");
    }
    #[test]
    fn times_are_local_and_show_their_offset() {
        let fixed = |hours| Zone(jiff::tz::TimeZone::fixed(jiff::tz::offset(hours)));
        let (east, west) = (fixed(1), fixed(-5));
        let noon = 1_795_348_800_000_000_000;
        assert_eq!(date(noon), "2026-11-22 12:00:00.000 UTC");
        assert_eq!(east.date(noon), "2026-11-22 13:00:00.000 +01:00");
        assert_eq!(west.clock(noon, 2_000_000_000), "07:00:00");
        let hour = 3_600_000_000_000;
        let text = "2026-11-22 13:00:00.000 to 14:00:00.000 +01:00";
        assert_eq!(east.span(noon, noon + hour), text);
        let text = "2026-11-22 13:00:00.000 to 2026-11-23 12:00:00.000 +01:00";
        assert_eq!(east.span(noon, noon + 23 * hour), text);
        let civil = "2026-11-22T13:00:00".parse().expect("a date");
        assert_eq!(east.moment(civil), Some(noon));
    }
}
