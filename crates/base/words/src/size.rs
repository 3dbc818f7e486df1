//! Sizes in bytes.

use crate::is_negative;

/// Bytes of a text such as `64KiB`, `256MiB`, `1GiB`, `4096` (tc's and IEC's words; `K`, `M`, `G`
/// are binary), and of `10MB`, which is decimal.
pub fn parse_size(text: &str) -> Result<usize, String> {
    if is_negative(text) {
        return Err(format!("'{text}' must not be negative"));
    }
    let (digits, unit) = split(text, |c| c.is_ascii_digit());
    let bytes = digits.parse::<usize>().ok().zip(factor(unit));
    let bytes = bytes.and_then(|(number, factor)| number.checked_mul(factor));
    bytes.ok_or_else(|| {
        format!(
            "'{text}' is not a size: write bytes or a number with KiB, MiB or GiB, such as 256MiB"
        )
    })
}

/// Bytes of a size that may have a fraction: `1.4MiB`.
pub fn parse_fractional_size(text: &str) -> Option<f64> {
    let (number, unit) = split(text, |c| c.is_ascii_digit() || c == '.');
    Some(number.parse::<f64>().ok()? * factor(unit)? as f64)
}

/// Bytes as tc(8) reads them: k, m and g are binary, with or without b.
pub fn parse_tc_size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = split(&lower, |c| c.is_ascii_digit());
    let factor = match unit {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number and its unit.
fn split(text: &str, is_of_number: impl Fn(char) -> bool) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    (number, unit.trim())
}

fn factor(unit: &str) -> Option<usize> {
    Some(match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("10MB"), Ok(10_000_000));
        assert!(parse_size("12 parsecs").is_err());
        assert!(parse_size("99999999999999999999").is_err());
        assert!(parse_size("99999999999TiB").is_err());
    }
}
