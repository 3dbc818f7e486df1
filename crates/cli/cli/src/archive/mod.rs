//! Archives that leave this machine: how they are made, and what stands in them for names,
//! addresses and paths.

pub(crate) mod scrub;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::Context as _;
use lineside_trace::open_file;
use serde_json::Value;

use scrub::Scrub;

/// Of the end of a log.
const LOG_BYTES: u64 = 64 << 10;

/// Has an archive written that was made when the sandbox was entered; its length.
pub(crate) fn write_new(
    out: &Path,
    write: impl FnOnce(File) -> anyhow::Result<u64>,
) -> anyhow::Result<u64> {
    let opened = OpenOptions::new().write(true).open(out);
    // It was made for this, unless it could not be.
    let file = opened.or_else(|_| File::create_new(out));
    let file =
        file.map_err(|error| anyhow::anyhow!("{}: cannot be made: {error}", out.display()))?;
    let half = file.try_clone()?;
    let written = write(file);
    if written.is_err() {
        // Half of an archive is none, and goes when it is empty; the error of writing is the one to
        // report.
        let _ = half.set_len(0);
    }
    written.with_context(|| format!("{}: not written", out.display()))
}

/// Fails if an archive is there already.
pub(crate) fn must_be_new(out: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        out.symlink_metadata().is_err(),
        "{}: exists already and is not replaced: name another with -o",
        out.display()
    );
    Ok(())
}

/// JSON as an archive has it.
pub(crate) fn text_of(value: &Value) -> Vec<u8> {
    let text = serde_json::to_string_pretty(value).expect("every key is a text");
    (text + "\n").into_bytes()
}

/// `trace.json` without what must not stand. Versions have points, which texts may not have.
pub(crate) fn of_trace(manifest: &Value, scrub: &mut Scrub) -> Value {
    let mut out = scrub.json(manifest);
    let places = [
        ("/tool/version", false),
        ("/schema_version", false),
        ("/machine/kernel", true),
    ];
    for (place, is_begin) in places {
        let was = manifest.pointer(place).and_then(Value::as_str);
        if let (Some(was), Some(now)) = (was, out.pointer_mut(place)) {
            // Of a kernel the distributor's part stays out.
            let was = match is_begin {
                true => was.split(['-', '+']).next().unwrap_or_default(),
                false => was,
            };
            *now = scrub::version(was).into();
        }
    }
    out
}

/// The last whole lines of a log.
pub(crate) fn end_of(path: &Path) -> io::Result<String> {
    let mut file = open_file(path)?;
    let len = file.metadata()?.len();
    let begin = len.saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end).into_owned();
    // The first line is not whole.
    Ok(match begin {
        0 => end,
        _ => end.split_once('\n').map_or("", |(_, rest)| rest).to_owned(),
    })
}

/// What was replaced, in a line.
pub(crate) fn replaced(are_kept: bool, scrub: &Scrub) -> String {
    let counts = scrub.counts();
    let replaced: Vec<String> = { counts.iter() }
        .map(|(kind, count)| match (*kind, *count) {
            (kind, 1) => format!("1 {kind}"),
            ("address", count) => format!("{count} different addresses"),
            (kind, count) => format!("{count} different {kind}s"),
        })
        .collect();
    match (are_kept, replaced.is_empty()) {
        (true, _) => "kept         every name, address and path (--with-names)\n".to_owned(),
        (false, true) => "replaced     nothing: there was nothing to replace\n".to_owned(),
        (false, false) => format!("replaced     {}\n", replaced.join(", ")),
    }
}
