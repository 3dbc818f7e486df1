//! `privileged drop RUN PCAP`, `privileged require CAPABILITY...`: a process of one thread, for
//! tests of what a process with privileges may and what is left when it dropped them.
#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use lineside_account::Budget;
use lineside_frame::{Descriptor, Frame, LinkType};
use lineside_host::{Capability, FileMaker, Privileges, drop_privileges};
use lineside_port::{CaptureWriter, Rotation, WriterConfig};
use lineside_store::{NewPart, PartWriter, RunFolder};
use rustix::net::{AddressFamily, SocketType, socket};

/// Reports what it may do
#[derive(Parser)]
enum Arguments {
    /// Opens a run folder and rotated capture files, drops all privileges, and writes into them
    Drop { run: PathBuf, pcap: PathBuf },
    /// Asks for capabilities by their names, then opens an AF_PACKET socket
    Require { names: Vec<String> },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse() {
        Arguments::Drop { run, pcap } => {
            let folder = RunFolder::create(&run, None)?;
            folder.replace("trace.json", b"begun as root")?;
            let config = WriterConfig {
                budget: Budget::new(64 << 20),
                interfaces: Vec::new(),
                application: "privileged".to_owned(),
                comment: None,
                rotation: Rotation::parse(&["packets:1", "files:3"])?,
                replaces: false,
            };
            let maker = FileMaker::start(&pcap, false, 3)?;
            let mut writer = CaptureWriter::create_by(&pcap, config, Some(0), Some(maker))?;
            let file = writer.file().context("it was opened")?;
            // Standard output is here to show that it stays whose it is.
            let dropped = drop_privileges(Some(&folder), &[file, std::io::stdout().as_fd()])?;
            println!("{dropped:?}");
            println!("{}", std::fs::read_to_string("/proc/self/status")?);
            tell_socket();
            folder.replace("trace.json", b"ended as somebody else")?;
            let mut parts = PartWriter::new(&folder).start()?;
            for index in 0..3 {
                parts.submit(NewPart {
                    table: "operations".to_owned(),
                    file: format!("part-{index:06}.parquet"),
                    rows: 1,
                    window_ns: None,
                    bytes: vec![b'x'; 1000].into(),
                })?;
            }
            parts.finish()?;
            for stamp_ns in 0..5 {
                let descriptor = Descriptor {
                    stamp_ns: Some(stamp_ns),
                    link_type: LinkType::ETHERNET,
                    ..Descriptor::default()
                };
                writer.write(&[Frame::copied(&[0; 60], descriptor)])?;
            }
            writer.finish()?;
        }
        Arguments::Require { names } => {
            let all = [
                Capability::NetRaw,
                Capability::NetAdmin,
                Capability::Bpf,
                Capability::IpcLock,
            ];
            let mut wanted = all.to_vec();
            wanted.retain(|capability| names.iter().any(|name| name == capability.name()));
            Privileges::read()?.require(&wanted)?;
            tell_socket();
        }
    }
    println!("done");
    Ok(())
}

fn tell_socket() {
    match socket(AddressFamily::PACKET, SocketType::RAW, None) {
        Ok(_) => println!("AF_PACKET: opened"),
        Err(error) => println!("AF_PACKET: {error}"),
    }
}
