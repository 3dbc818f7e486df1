//! The files of a probe: a path file and a table of delays for each way, and the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use lineside_probe::{By, Findings, LOSS_SAMPLES, Sample, WayFound, path_file};

/// The report, as text.
const REPORT: &str = "report.txt";

/// The folder that a probe leaves.
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Makes the folder before anything is measured.
    pub(super) fn create(folder: &Path, force: bool) -> anyhow::Result<Self> {
        let name = folder.display();
        if folder.exists() && !force {
            bail!("{name} is there already: give another folder, or --force");
        }
        lineside_host::make_folders(folder).with_context(|| format!("{name}: cannot make it"))?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.folder.join(name);
        let shown = path.display().to_string();
        fs::write(&path, text).with_context(|| format!("{shown}: cannot write it"))?;
        Ok(shown)
    }

    /// Writes path files and tables; returns the flags by which `emulate` takes the path files.
    pub(super) fn write(
        &self,
        found: &Findings,
        by: By,
        step: Duration,
    ) -> anyhow::Result<Vec<String>> {
        let step_ns = step.as_nanos() as u64;
        if !matches!(by, By::Udp(_)) {
            let half = |sample: &Sample| Sample {
                took_ns: sample.took_ns.map(|took_ns| took_ns / 2),
                ..*sample
            };
            let halves: Vec<_> = found.trips.iter().map(half).collect();
            let path =
                path_file(&halves, step_ns, LOSS_SAMPLES, None).map_err(anyhow::Error::msg)?;
            let times: Vec<_> = halves.iter().filter_map(|sample| sample.took_ns).collect();
            self.put("both.times", &table(&times))?;
            // What a round trip loses is lost on one way or the other: here, on the way there.
            return Ok(vec![format!(
                "--path {}",
                self.put("both.path", &path.write())?
            )]);
        }
        let mut flags = Vec::new();
        for (way, name) in [(&found.out, "out"), (&found.back, "in")] {
            let path = way.path_file(step_ns).map_err(anyhow::Error::msg)?;
            let path = self.put(&format!("{name}.path"), &path.write())?;
            self.put(&format!("{name}.times"), &table(&way.delays_ns()))?;
            flags.push(format!("--path '{name}: {path}'"));
            flags.extend(bucket_flag(way, name));
        }
        Ok(flags)
    }

    /// Writes the report, as text and as JSON.
    pub(super) fn write_report(&self, text: &str, json: &str) -> anyhow::Result<()> {
        self.put(REPORT, text)?;
        self.put("report.json", json)?;
        Ok(())
    }
}

/// A path file has no word for a bucket: with one, the rate is a flag.
fn bucket_flag(way: &WayFound, name: &str) -> Option<String> {
    let rate = way
        .rate
        .filter(|rate| !rate.is_at_least && rate.bucket_bytes > 0)?;
    Some(format!(
        "--rate '{name}: {} burst {}b'",
        rate_word(rate.bits_per_second),
        rate.bucket_bytes
    ))
}

/// A rate as a flag has it, of four digits: it is not known more closely.
fn rate_word(bits_per_second: u64) -> String {
    let digits = bits_per_second.max(1).ilog10();
    let step = 10_u64.pow(digits.saturating_sub(3));
    let rounded = (bits_per_second + step / 2) / step * step;
    match rounded {
        _ if rounded.is_multiple_of(1_000_000) => format!("{}mbit", rounded / 1_000_000),
        _ if rounded.is_multiple_of(1_000) => format!("{}kbit", rounded / 1_000),
        _ => format!("{rounded}bit"),
    }
}

/// Times for `--delay '0 distribution FILE'`, one a line.
fn table(times_ns: &[i64]) -> String {
    times_ns.iter().map(|ns| format!("{ns}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_four_digits_and_a_unit() {
        let words = [19_999_995, 12_345_678, 1_234, 999, 0].map(rate_word);
        assert_eq!(words, ["20mbit", "12350kbit", "1234bit", "999bit", "0mbit"]);
    }
}
