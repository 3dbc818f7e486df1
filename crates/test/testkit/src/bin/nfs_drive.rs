//! nfs-drive: NFSv3 and MOUNT calls, or NFSv4's compounds, by our own encoder, in chosen shapes;
//! prints what it counted as JSON.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use lineside_testkit::drive::{Drive, Server, Session, Session4, Shape, Tally, Transfer};
use lineside_time::Random;

#[derive(Parser)]
#[command(about)]
struct Options {
    /// The server's address; the default is the lab's
    #[arg(long, default_value = "192.0.2.1")]
    server: IpAddr,
    /// The server's NFS port
    #[arg(long, default_value_t = 2049)]
    nfs_port: u16,
    /// The server's MOUNT port
    #[arg(long, default_value_t = 20048)]
    mount_port: u16,
    /// The path to mount
    #[arg(long, default_value = "/vfs")]
    export: String,
    /// NFS's version: 3, 4.0, 4.1 or 4.2
    #[arg(long, default_value = "3")]
    version: String,
    /// UDP, not TCP
    #[arg(long)]
    udp: bool,
    /// Sizes of the first fragments of each record, such as 160,1000
    #[arg(long, value_delimiter = ',')]
    fragments: Vec<usize>,
    /// Write TCP in segments of 1 to N bytes
    #[arg(long, value_name = "N")]
    segment: Option<usize>,
    /// Send a datagram twice with this probability
    #[arg(long, default_value_t = 0.0)]
    repeat: f64,
    /// Seeds every choice, and the files' contents
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Every procedure of NFSv3 and MOUNT, or the same by NFSv4
    Meta {
        #[arg(long, default_value_t = 1)]
        rounds: u64,
    },
    /// Write a file, COMMIT, read it back and compare
    Seq(Io),
    /// Write a file, then 70 % READs and 30 % WRITEs of up to the chunk's size anywhere in it
    Rand {
        #[arg(long, default_value_t = 100)]
        operations: usize,
        #[command(flatten)]
        io: Io,
    },
}

#[derive(clap::Args)]
struct Io {
    /// The file's name in the root of the export
    #[arg(long, default_value = "drive-file")]
    file: String,
    /// Bytes of the file
    #[arg(long, default_value_t = 1 << 20)]
    bytes: u64,
    /// Begin at this offset, so that calls are not aligned
    #[arg(long, default_value_t = 0)]
    skew: u64,
    /// Bytes of a call
    #[arg(long, default_value_t = 65_536)]
    chunk: usize,
    /// Calls outstanding at once
    #[arg(long, default_value_t = 1)]
    depth: usize,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let server = Server {
        nfs: SocketAddr::new(options.server, options.nfs_port),
        mount: SocketAddr::new(options.server, options.mount_port),
        export: options.export,
    };
    let shape = Shape {
        udp: options.udp,
        fragments: options.fragments,
        segment_len_max: options.segment,
        repeat: options.repeat,
        seed: options.seed,
    };
    let tally = match options.version.as_str() {
        "3" => drive(Session::open(&server, &shape)?, options.work, options.seed)?,
        "4.0" | "4.1" | "4.2" => {
            let minor = u32::from(options.version.as_bytes()[2] - b'0');
            let session = Session4::open(&server, &shape, minor)?;
            drive(session, options.work, options.seed)?
        }
        version => bail!("--version {version}: give 3, 4.0, 4.1 or 4.2"),
    };
    println!("{}", tally.to_json());
    Ok(())
}

fn drive<D: Drive>(mut session: D, work: Work, seed: u64) -> Result<Tally> {
    match work {
        Work::Meta { rounds } => {
            for round in 0..rounds {
                session.every_procedure(seed.wrapping_mul(1000) + round)?;
            }
        }
        Work::Seq(io) => {
            let file = sequence(&mut session, seed, &io)?;
            session.release(file)?;
        }
        Work::Rand { operations, io } => {
            let file = sequence(&mut session, seed, &io)?;
            let mut random = Random::new(seed);
            // What lies before the skew is a hole, which would read as zeros.
            let mut transfers =
                Transfer::random(&mut random, operations, io.bytes - io.skew, io.chunk);
            transfers
                .iter_mut()
                .for_each(|transfer| transfer.offset += io.skew);
            session.transfer(&file, seed, io.depth, &transfers)?;
            session.release(file)?;
        }
    }
    session.close()
}

/// Writes, commits and reads a file.
fn sequence<D: Drive>(session: &mut D, seed: u64, io: &Io) -> Result<D::File> {
    let file = session.create(&io.file)?;
    let (writes, reads) = Transfer::sequence(io.skew, io.bytes, io.chunk);
    session.transfer(&file, seed, io.depth, &writes)?;
    session.commit(&file)?;
    session.transfer(&file, seed, io.depth, &reads)?;
    Ok(file)
}
