//! What somebody who took over a process of any role would try, each refused: by `intruder.py`,
//! which makes the processes of each role call it, once they are in their sandboxes.

use std::process::Command;

use crate::support::{example, private_folder, repository, talk};
use crate::wall::wire::need_wire;

/// Of each verb that reads foreign bytes, also under a kernel without Landlock, or without its
/// scopes: a verb without a row fails.
#[test]
fn there_is_no_way_out_of_any_role() {
    need_wire!("ip", "python3");
    if !cfg!(target_arch = "x86_64") {
        println!("SKIP: walls: registers of another machine");
        return;
    }
    let folder = private_folder();
    let mut command = Command::new("python3");
    command.arg(repository().join("crates/cli/cli/tests/all/intruder.py"));
    command.arg(env!("CARGO_BIN_EXE_lineside")).arg(example());
    let output = command.arg(folder.path().join("tried")).output();
    let output = output.expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout);
    println!("{table}");
    assert!(output.status.success(), "{table}{}", talk(&output));
}
