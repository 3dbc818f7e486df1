//! `./test` itself: what its runner does with tests that are broken on purpose.

use std::process::Command;

use lineside_testkit::captures::repository;

#[test]
fn the_gate_holds_where_its_tests_are_broken() {
    let has_python = Command::new("python3")
        .args(["-c", "import tomllib"])
        .status();
    if !has_python.is_ok_and(|status| status.success()) {
        println!("SKIP: the runner of ./test: no Python 3.11 or newer");
        return;
    }
    let check = repository().join(".ci/tests-check");
    let output = Command::new(check).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
}
