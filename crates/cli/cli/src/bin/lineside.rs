//! The program: all of it is in the library, so that it is compiled once however it is linked.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    lineside_cli::main()
}
