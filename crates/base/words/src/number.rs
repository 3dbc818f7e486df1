//! Numbers as people read them.

/// `1,234,567`: digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.5 MiB`: bytes in the largest unit that leaves a whole part.
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (number.max(1).ilog2() / 10) as usize;
    let unit = units[power];
    let value = number as f64 / (1u64 << (10 * power)) as f64;
    if power == 0 || number.trailing_zeros() >= 10 * power as u32 {
        return format!("{value:.0} {unit}");
    }
    let digits = usize::from(value < 99.95);
    format!("{value:.digits$} {unit}")
}

/// Three digits and a unit: `12.3 ms`.
pub fn time(ns: u64) -> String {
    // Where three digits of a unit would be 1000, the next one begins.
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (ns as f64 / 1e3, "us"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        999_500_000..120_000_000_000 => (ns as f64 / 1e9, "s"),
        120_000_000_000..7_200_000_000_000 => (ns as f64 / 60e9, "min"),
        _ => (ns as f64 / 3600e9, "h"),
    };
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// The same of a time that may lie below 0: `-4.00 s`.
pub fn signed_time(ns: f64) -> String {
    let rounded = time(ns.abs().round() as u64);
    match ns {
        ..=-0.5 => format!("-{rounded}"),
        _ => rounded,
    }
}

/// A time as it was asked for, to the nanosecond: `10 ms`, `12.875001 ms`.
pub fn exact_time(ns: f64) -> String {
    let (factor, unit) = match ns.abs().round() {
        ..1e3 => (1.0, "ns"),
        ..1e6 => (1e3, "us"),
        ..1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!(
        "{} {unit}",
        without_zeros(&format!("{:.9}", ns.round() / factor))
    )
}

/// Three digits of a value, or all before its point: `2,000`, `12.5`, `0.05`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size > 0.0 && size < 1.0 => (2.0 - size.log10().floor()).min(9.0) as usize,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => {
            let sign = if value < 0.0 { "-" } else { "" };
            return format!("{sign}{}", grouped(size.round() as u64));
        }
    };
    without_zeros(&format!("{value:.digits$}")).to_owned()
}

/// `2,000/s`
pub fn rate(per_second: f64) -> String {
    format!("{}/s", number(per_second))
}

/// `2.5 Gb/s`: bits a second in the largest unit that leaves a whole part.
pub fn bit_rate(bits_per_second: f64) -> String {
    let units = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s", "Eb/s"];
    let (mut value, mut power) = (bits_per_second, 0);
    while value >= 999.5 && power + 1 < units.len() {
        (value, power) = (value / 1e3, power + 1);
    }
    format!("{} {}", number(value), units[power])
}

/// A share as `12.3 %`; what is neither nothing nor everything never reads 0.0 % or 100.0 %.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if share > 0.0 && value < 0.05 {
        "<0.1 %".to_owned()
    } else if share < 1.0 && value >= 99.95 {
        ">99.9 %".to_owned()
    } else {
        format!("{value:.1} %")
    }
}

/// The share that `12.5%` is: from 0 to 100 percent.
pub fn share(text: &str) -> Option<f64> {
    let percent = text.strip_suffix('%')?.trim().parse::<f64>().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// A share as `1%` or as `0.01`.
pub fn parse_share(text: &str) -> Option<f64> {
    let bare = || {
        text.parse()
            .ok()
            .filter(|share| (0.0..=1.0).contains(share))
    };
    share(text).or_else(bare)
}

/// A fraction without the zeros at its end.
fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(bytes(1_033_000), "1009 KiB");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(12_340_000), "12.3 ms");
        let times = [999_499, 999_500, 9_996_000, 99_960_000].map(time);
        assert_eq!(times, ["999 us", "1.00 ms", "10.0 ms", "100 ms"]);
        let signed = [-4e9, -0.2, 977.548, 47_439.0].map(signed_time);
        assert_eq!(signed, ["-4.00 s", "0 ns", "978 ns", "47.4 us"]);
        let exact = [10e6, 12_875_001.0, -1_500.0, 0.0].map(exact_time);
        assert_eq!(exact, ["10 ms", "12.875001 ms", "-1.5 us", "0 ns"]);
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.000_1), "<0.1 %");
        assert_eq!(percent(0.999_9), ">99.9 %");
    }

    #[test]
    fn rates_have_three_digits_and_no_zeros_at_their_end() {
        let rates = [0.0, 0.05, 0.001_234, 12.5, 99.96, 1_000.0, 19_999.6].map(rate);
        assert_eq!(
            rates,
            [
                "0/s",
                "0.05/s",
                "0.00123/s",
                "12.5/s",
                "100/s",
                "1,000/s",
                "20,000/s"
            ]
        );
        assert_eq!(number(-0.5), "-0.5");
        let bits = [0.0, 1e8, 2.5e9, 1e10, 19_999_995.0, 999_950_000.0].map(bit_rate);
        assert_eq!(
            bits,
            [
                "0 b/s", "100 Mb/s", "2.5 Gb/s", "10 Gb/s", "20 Mb/s", "1 Gb/s"
            ]
        );
    }
}
