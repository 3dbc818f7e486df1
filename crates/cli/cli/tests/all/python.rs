//! pandas, DuckDB and pyarrow open every table, also one without rows.

use std::path::PathBuf;
use std::process::Command;

use lineside_testkit::capture;

use crate::support::{example, lineside, repository, talk};

/// A Python with the three readers: the one that `./test` names, or any.
pub(crate) fn python() -> Option<PathBuf> {
    let named = std::env::var_os("LINESIDE_PYTHON").map(PathBuf::from);
    let candidates = named.into_iter().chain([PathBuf::from("python3")]);
    { candidates }.find(|python| {
        let imports = Command::new(python)
            .args(["-c", "import duckdb, pandas, pyarrow"])
            .output();
        imports.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn duckdb_pandas_and_pyarrow_read_every_table() {
    let Some(python) = python() else {
        println!(
            "SKIP: no Python with duckdb, pandas and pyarrow (LINESIDE_PYTHON): ./test makes one"
        );
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pcap");
    std::fs::write(&empty, capture::write(&[])).expect("a capture without frames");
    for (input, out) in [(example(), "mix"), (empty, "empty")] {
        let trace = folder.path().join(out);
        let output = lineside()
            .arg("capture")
            .arg(&input)
            .arg("-o")
            .arg(&trace)
            .arg("-q")
            .output()
            .expect("lineside runs");
        assert!(output.status.success(), "{}", talk(&output));
        let reader = repository().join("crates/test/nfs-lab/read_trace.py");
        let output = Command::new(&python)
            .arg(reader)
            .arg(&trace)
            .output()
            .expect("Python runs");
        assert!(
            output.status.success(),
            "{out}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            talk(&output)
        );
    }
}
