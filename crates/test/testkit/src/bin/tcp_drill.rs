//! tcp-drill: runs scripts in packetdrill's language against our TCP endpoint, in virtual time.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use lineside_testkit::drill::{self, Manner};

#[derive(Parser)]
#[command(about)]
struct Options {
    /// Scripts, and folders of them, whose names end with .pkt
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// For scripts of other stacks: PSH, and what leaves after the last expected segment, are free
    #[arg(long)]
    foreign: bool,
    /// What #ifdef lines know
    #[arg(long, default_value = "STANDARD")]
    define: Vec<String>,
    /// Writes name, outcome and reason of each script as a table in Markdown
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

fn main() -> ExitCode {
    run(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("tcp-drill: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode> {
    let defined: Vec<&str> = options.define.iter().map(String::as_str).collect();
    let manner = Manner {
        defined: &defined,
        is_foreign: options.foreign,
    };
    let mut table = String::from("| script | outcome | reason |\n|---|---|---|\n");
    let (mut passed, mut failed) = (0, 0);
    for root in &options.paths {
        let scripts = drill::scripts(root);
        let scripts = scripts.with_context(|| format!("cannot read {}", root.display()))?;
        ensure!(
            !scripts.is_empty(),
            "{} has no scripts: *.pkt",
            root.display()
        );
        for path in scripts {
            let outcome = drill::run_file(&path, manner);
            let outcome = outcome.with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(root).unwrap_or(&path).display();
            match outcome {
                Ok(()) => {
                    passed += 1;
                    println!("pass {}", path.display());
                    writeln!(table, "| {name} | passed | |")?;
                }
                Err(fault) => {
                    failed += 1;
                    println!("fail {}:{}: {}", path.display(), fault.line, fault.what);
                    let what = fault.what.replace('|', "\\|");
                    writeln!(table, "| {name} | failed | line {}: {what} |", fault.line)?;
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if let Some(path) = &options.table {
        std::fs::write(path, table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}
