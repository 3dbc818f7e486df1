//! A client of NFSv3 and NFSv4.0 to 4.2 on kernel sockets: `lineside-nfs-client` is its engine, and
//! what it did is counted.
//!
//! It sends what a test asks for: record fragments of chosen sizes, TCP segments of a few bytes,
//! many calls at once, the same datagram twice. It is not a file system: it waits for replies, and
//! fails when one does not come.

mod client;
mod nfs3;
mod nfs4;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use lineside_frame::{Cursor, Piece};
use lineside_rpc::message::{Body, Header};
use lineside_rpc::xdr::Xdr;
use lineside_time::Random;
use serde_json::{Map, Value, json};

pub use nfs3::Session;
pub use nfs4::Session4;

/// 512 bytes: what the trace checksums.
const BLOCK_LEN: u64 = 512;

/// How calls look on the wire.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// UDP, not TCP.
    pub udp: bool,
    /// Sizes of a record's first fragments; the last one takes the rest.
    pub fragments: Vec<usize>,
    /// TCP is written in pieces of 1 to this many bytes, each a segment of its own.
    pub segment_len_max: Option<usize>,
    /// Probability that a datagram is sent twice.
    pub repeat: f64,
    /// Seeds xids, pieces and repetitions.
    pub seed: u64,
}

/// What was sent and received, by program and procedure; of NFSv4 by operation.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    procedures: BTreeMap<(&'static str, &'static str), Count>,
}

#[derive(Debug, Clone, Default)]
struct Count {
    calls: u64,
    repeats: u64,
    replies: u64,
    duplicate_replies: u64,
    bytes: u64,
    statuses: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, count) in &other.procedures {
            let mine = self.procedures.entry(*key).or_default();
            mine.calls += count.calls;
            mine.repeats += count.repeats;
            mine.replies += count.replies;
            mine.duplicate_replies += count.duplicate_replies;
            mine.bytes += count.bytes;
            for (status, times) in &count.statuses {
                *mine.statuses.entry(status.clone()).or_default() += times;
            }
        }
    }

    /// `{"nfs": {"READ": {"calls": 3, …}}}`. `repeats` are not in `calls`, nor `duplicate_replies`
    /// in `replies`; `bytes` are those that READ and WRITE moved.
    pub fn to_json(&self) -> Value {
        let mut programs = Map::new();
        for ((program, procedure), count) in &self.procedures {
            let row = json!({
                "calls": count.calls,
                "repeats": count.repeats,
                "replies": count.replies,
                "duplicate_replies": count.duplicate_replies,
                "bytes": count.bytes,
                "statuses": count.statuses,
            });
            let program = programs.entry(*program).or_insert_with(|| json!({}));
            program[*procedure] = row;
        }
        Value::Object(programs)
    }
}

/// What is counted together: a program, and its procedure or operation.
type Key = (&'static str, &'static str);

/// Behind the header of a reply to a call that was executed.
fn success<'a>(pieces: &'a [Piece<'a>]) -> Result<Cursor<'a>> {
    let mut cursor = Cursor::new(pieces);
    match Header::decode(&mut cursor).body {
        Body::Reply(reply) if reply.is_success() => Ok(cursor),
        Body::Reply(reply) => bail!(
            "the call was refused: {}",
            reply.status_name().unwrap_or("unreadable")
        ),
        _ => bail!("not a reply"),
    }
}

/// Where the server is.
#[derive(Debug, Clone)]
pub struct Server {
    /// NFS's address and port.
    pub nfs: SocketAddr,
    /// MOUNT's.
    pub mount: SocketAddr,
    /// The path to mount.
    pub export: String,
}

/// Lends a handle or a name as an argument: `let name = piece(b"x"); … Opaque::new(&name)`.
fn piece(bytes: &[u8]) -> [Piece<'_>; 1] {
    [Piece::bytes(bytes)]
}

/// A mounted export, by one version of NFS.
pub trait Drive: Sized {
    /// A file to read and write.
    type File;

    /// Creates an empty file in the root, or empties one.
    fn create(&mut self, name: &str) -> Result<Self::File>;

    /// Sends a READ, or a WRITE of `data`, perhaps while others are unanswered; returns its xid.
    fn begin(&mut self, file: &Self::File, transfer: &Transfer, data: &[u8]) -> Result<u32>;

    /// Waits for the next reply to these: its xid, and the data of READ.
    fn end(&mut self) -> Result<(u32, Vec<u8>)>;

    /// COMMITs all of a file.
    fn commit(&mut self, file: &Self::File) -> Result<()>;

    /// The file is not needed any more.
    fn release(&mut self, file: Self::File) -> Result<()>;

    /// Makes, names, changes, reads and removes objects by all that the version has for it, with
    /// successes and failures.
    fn every_procedure(&mut self, round: u64) -> Result<()>;

    /// Unmounts, and returns what was counted.
    fn close(self) -> Result<Tally>;

    /// WRITEs and READs, `depth` at a time, at the offsets that `transfers` says. Bytes are a
    /// function of `seed` and of their place in the file ([`fill`]); what is read is compared.
    fn transfer(
        &mut self,
        file: &Self::File,
        seed: u64,
        depth: usize,
        transfers: &[Transfer],
    ) -> Result<()> {
        let mut running: HashMap<u32, Transfer> = HashMap::new();
        let mut next = transfers.iter();
        loop {
            while running.len() < depth.max(1)
                && let Some(&transfer) = next.next()
            {
                let mut data = vec![0; if transfer.write { transfer.len } else { 0 }];
                fill(seed, transfer.offset, &mut data);
                running.insert(self.begin(file, &transfer, &data)?, transfer);
            }
            if running.is_empty() {
                return Ok(());
            }
            let (xid, data) = self.end()?;
            let transfer = running.remove(&xid).context("a reply to another call")?;
            let mut expected = vec![0; data.len().min(transfer.len)];
            fill(seed, transfer.offset, &mut expected);
            ensure!(
                expected == data,
                "READ at {} returned other bytes than were written",
                transfer.offset
            );
        }
    }
}

/// A READ or a WRITE.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// WRITE, not READ.
    pub write: bool,
    /// FILE_SYNC, not UNSTABLE.
    pub stable: bool,
    /// The first byte of the file.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

impl Transfer {
    /// A WRITE.
    pub fn write(offset: u64, len: usize, stable: bool) -> Self {
        Self {
            write: true,
            stable,
            offset,
            len,
        }
    }

    /// A READ.
    pub fn read(offset: u64, len: usize) -> Self {
        Self {
            write: false,
            stable: false,
            offset,
            len,
        }
    }

    /// WRITEs of `chunk` bytes that fill `skew..len`, then READs of them.
    pub fn sequence(skew: u64, len: u64, chunk: usize) -> (Vec<Self>, Vec<Self>) {
        let offsets = (skew..len).step_by(chunk.max(1));
        let sized = offsets.map(|offset| (offset, chunk.min((len - offset) as usize)));
        let writes = sized
            .clone()
            .map(|(offset, len)| Self::write(offset, len, false))
            .collect();
        (
            writes,
            sized.map(|(offset, len)| Self::read(offset, len)).collect(),
        )
    }

    /// READs and WRITEs of up to `chunk` bytes within `len`, at any offset, by seed.
    pub fn random(random: &mut Random, operations: usize, len: u64, chunk: usize) -> Vec<Self> {
        let one = |_| {
            let size = 1 + random.below(chunk as u64);
            let offset = random.below(len.saturating_sub(size) + 1);
            // Half at the boundaries that file systems like, half anywhere.
            let offset = if random.chance(0.5) {
                offset / 4096 * 4096
            } else {
                offset
            };
            let size = size.min(len - offset) as usize;
            if random.chance(0.7) {
                Self::read(offset, size)
            } else {
                Self::write(offset, size, random.chance(0.5))
            }
        };
        (0..operations).map(one).collect()
    }
}

/// The bytes of a file from `offset`: a function of the seed and of the place alone. A quarter of
/// the blocks are zeros and a quarter come from a set of 16, so that checksums repeat as they do in
/// life.
pub fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let (number, within) = (place / BLOCK_LEN, place % BLOCK_LEN);
        let len = ((BLOCK_LEN - within) as usize).min(bytes.len() - at);
        let part = &mut bytes[at..at + len];
        match Random::new(seed ^ (number / 8)).below(4) {
            0 => part.fill(0),
            1 => fill_part(Random::new(number % 16), within, part),
            _ => fill_part(Random::new(seed.wrapping_mul(31) ^ number), within, part),
        }
        at += len;
    }
}

/// The bytes of a stream of words from an offset on.
fn fill_part(mut random: Random, offset: u64, bytes: &mut [u8]) {
    let front = (offset % 8) as usize;
    random.skip(offset / 8);
    let (head, rest) = bytes.split_at_mut(((8 - front) % 8).min(bytes.len()));
    if !head.is_empty() {
        head.copy_from_slice(&random.bits().to_le_bytes()[front..][..head.len()]);
    }
    random.fill(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_depend_on_their_place_alone() {
        let mut whole = vec![0; 20_000];
        fill(7, 0, &mut whole);
        for (offset, len) in [(0, 1), (511, 2), (513, 4000), (4096, 512), (19_999, 1)] {
            let mut part = vec![0; len];
            fill(7, offset as u64, &mut part);
            assert_eq!(part, whole[offset..offset + len]);
        }
    }

    #[test]
    fn transfers_stay_within_the_file() {
        let (writes, reads) = Transfer::sequence(100, 10_000, 4096);
        assert_eq!(writes.iter().map(|each| each.len).sum::<usize>(), 9_900);
        assert_eq!(reads.len(), 3);
        let mut random = Random::new(3);
        let transfers = Transfer::random(&mut random, 1000, 50_000, 9000);
        assert!(
            transfers
                .iter()
                .all(|each| each.offset + each.len as u64 <= 50_000 && each.len > 0)
        );
    }
}
