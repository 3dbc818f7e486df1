//! Which calls a client makes, of which files, and of which bytes of them: functions of the seed
//! and of a request's number alone.

use lineside_nfs::v3::{Procedure, StableHow};
use lineside_time::Random;
use lineside_workload::{Keys, Purpose, Sizes, seed_for};

use super::tree::Tree;

/// Procedures that a mix may have, by the word for each. What would change which files there are is
/// not among them: every request of a run finds the files that were there before it.
pub const PROCEDURES: [(&str, Procedure); 13] = [
    ("null", Procedure::Null),
    ("getattr", Procedure::GetAttr),
    ("setattr", Procedure::SetAttr),
    ("lookup", Procedure::Lookup),
    ("access", Procedure::Access),
    ("read", Procedure::Read),
    ("write", Procedure::Write),
    ("readdir", Procedure::ReadDir),
    ("readdirplus", Procedure::ReadDirPlus),
    ("fsstat", Procedure::FsStat),
    ("fsinfo", Procedure::FsInfo),
    ("pathconf", Procedure::PathConf),
    ("commit", Procedure::Commit),
];

/// The names of [`PROCEDURES`] in the RFC, in the same order.
pub const NAMES: [&str; PROCEDURES.len()] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READ",
    "WRITE",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

/// Shares of procedures.
///
/// ```
/// use lineside_load::protocol::NfsShares;
///
/// let shares: NfsShares = "getattr:40%,lookup:20%,read:25%,write:10%,access:5%".parse().unwrap();
/// assert_eq!(shares.to_string(), "getattr:40%,lookup:20%,read:25%,write:10%,access:5%");
/// let error = "getattr:40%,write:10%".parse::<NfsShares>().unwrap_err();
/// assert!(error.to_string().contains("add up to 50 %"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// Places in [`PROCEDURES`], each with its percentage.
    parts: Vec<(usize, f64)>,
}

/// What is wrong with the words of a mix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MixError {
    /// A part is not `PROCEDURE:SHARE%`.
    #[error("mix: '{0}' is not a share: write getattr:40%")]
    NoPart(String),
    /// A procedure that no mix may have.
    #[error(
        "mix: no procedure '{0}': there are null, getattr, setattr, lookup, access, read, write, \
         readdir, readdirplus, fsstat, fsinfo, pathconf and commit"
    )]
    NoProcedure(String),
    /// The same one twice.
    #[error("mix: '{0}' is there twice")]
    Twice(String),
    /// Shares do not add up.
    #[error("mix: shares add up to {0} %, not to 100 %")]
    Sum(f64),
}

impl std::str::FromStr for Shares {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let mut parts: Vec<(usize, f64)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let no_part = || MixError::NoPart(part.to_owned());
            let (name, share) = part.split_once(':').ok_or_else(no_part)?;
            let share = share.strip_suffix('%').ok_or_else(no_part)?;
            let share: f64 = share.parse().map_err(|_| no_part())?;
            if !(0.0..=100.0).contains(&share) {
                return Err(no_part());
            }
            let place = PROCEDURES.iter().position(|&(each, _)| each == name);
            let place = place.ok_or_else(|| MixError::NoProcedure(name.to_owned()))?;
            if parts.iter().any(|&(each, _)| each == place) {
                return Err(MixError::Twice(name.to_owned()));
            }
            parts.push((place, share));
        }
        let sum = parts.iter().map(|part| part.1).sum::<f64>();
        match (sum - 100.0).abs() < 1e-6 {
            true => Ok(Self { parts }),
            false => Err(MixError::Sum(sum)),
        }
    }
}

impl std::fmt::Display for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, &(place, share)) in self.parts.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}:{share}%", PROCEDURES[place].0)?;
        }
        Ok(())
    }
}

/// Where in its file a READ or WRITE begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// At any multiple of its size that the file has, each as likely as the others.
    #[default]
    Random,
    /// Where the one before it ended: requests by their numbers go through a file from its start to
    /// its end, then through the next one. Procedures of the mix that move no data leave out the
    /// place of theirs.
    Sequential,
}

/// Which requests a client makes.
#[derive(Debug, Clone)]
pub struct NfsMix {
    /// Which procedures.
    pub shares: Shares,
    /// Which files; of a number beyond the tree's files the remainder counts.
    pub keys: Keys,
    /// Bytes of a READ.
    pub read_bytes: Sizes,
    /// Bytes of a WRITE.
    pub write_bytes: Sizes,
    /// Where READs and WRITEs begin.
    pub offsets: Offsets,
    /// How far a WRITE's data must have come before the reply: `UNSTABLE` or `FILE_SYNC`.
    pub stable: StableHow,
    /// User and group of AUTH_SYS.
    pub user: (u32, u32),
    /// Seeds all draws.
    pub seed: u64,
}

/// A request as it was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfsRequest {
    /// Its place in [`PROCEDURES`].
    pub place: usize,
    /// The procedure.
    pub procedure: Procedure,
    /// The number of its file in the tree.
    pub file: usize,
    /// The first byte that READ or WRITE moves; 0 otherwise.
    pub offset: u64,
    /// Bytes that READ asks for or WRITE brings; 0 otherwise.
    pub count: u32,
}

/// Draws requests of a mix over a tree.
#[derive(Debug)]
pub(super) struct Draws {
    mix: NfsMix,
    /// The end of each procedure's part, of 2^53.
    ends: Vec<(u64, usize)>,
    procedures_seed: u64,
    keys_seed: u64,
    sizes_seed: u64,
    offsets_seed: u64,
    /// Requests that go through a file one after the other.
    run: u64,
}

/// 2^53: shares of it are exact.
const WHOLE: f64 = (1_u64 << 53) as f64;

impl Draws {
    pub(super) fn new(mix: NfsMix, tree: &Tree) -> Self {
        let mut sum = 0.0;
        let parts = mix.shares.parts.iter();
        let mut ends: Vec<_> = parts
            .map(|&(place, share)| {
                sum += share;
                ((sum / 100.0 * WHOLE) as u64, place)
            })
            .collect();
        if let Some(last) = ends.last_mut() {
            last.0 = 1 << 53;
        }
        let mean = mix.read_bytes.mean().unwrap_or(65_536.0).max(1.0);
        let contents = seed_for(mix.seed, Purpose::Contents);
        Self {
            run: ((tree.mean_bytes() / mean).ceil() as u64).max(1),
            ends,
            procedures_seed: contents,
            offsets_seed: contents.rotate_left(32),
            keys_seed: seed_for(mix.seed, Purpose::Keys),
            sizes_seed: seed_for(mix.seed, Purpose::RequestSizes),
            mix,
        }
    }

    pub(super) fn mix(&self) -> &NfsMix {
        &self.mix
    }

    /// The place in [`PROCEDURES`] of a request's procedure.
    pub(super) fn place(&self, ordinal: u64) -> usize {
        let bits = random(self.procedures_seed, ordinal).bits() >> 11;
        let part = self.ends.partition_point(|&(end, _)| end <= bits);
        self.ends.get(part).map_or(0, |&(_, place)| place)
    }

    /// A request of a tree that has files.
    pub(super) fn request(&self, ordinal: u64, tree: &Tree) -> NfsRequest {
        let place = self.place(ordinal);
        let procedure = PROCEDURES[place].1;
        let (key, step) = match self.mix.offsets {
            Offsets::Random => (ordinal, 0),
            Offsets::Sequential => (ordinal / self.run, ordinal % self.run),
        };
        let file = self.mix.keys.draw(self.keys_seed, key) % tree.files().max(1) as u64;
        let mut request = NfsRequest {
            place,
            procedure,
            file: file as usize,
            offset: 0,
            count: 0,
        };
        let (sizes, most) = match procedure {
            Procedure::Read => (&self.mix.read_bytes, tree.read_max()),
            Procedure::Write => (&self.mix.write_bytes, tree.write_max()),
            _ => return request,
        };
        let asked = sizes
            .draw(self.sizes_seed, ordinal)
            .clamp(1, most.max(1).into());
        let size = tree.size(request.file);
        let count = if size > 0 { asked.min(size) } else { asked };
        let blocks = (size / count).max(1);
        let block = match self.mix.offsets {
            Offsets::Random => random(self.offsets_seed, ordinal).below(blocks),
            Offsets::Sequential => step % blocks,
        };
        (request.offset, request.count) = (block * count, count as u32);
        request
    }
}

fn random(seed: u64, ordinal: u64) -> Random {
    Random::new(seed ^ ordinal.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use lineside_workload::Unit;

    use super::*;

    fn draws(offsets: Offsets, shares: &str) -> (Draws, Tree) {
        let mut tree = Tree::new(b"root");
        let directory = tree.add_directory(b"directory");
        for _ in 0..10 {
            tree.add_file(directory, b"name", b"handle", 10_000);
        }
        let mix = NfsMix {
            shares: shares.parse().expect("shares"),
            keys: "uniform over 10".parse().expect("keys"),
            read_bytes: Sizes::constant(1_000, Unit::Bytes),
            write_bytes: Sizes::constant(3_000, Unit::Bytes),
            offsets,
            stable: StableHow::UNSTABLE,
            user: (0, 0),
            seed: 7,
        };
        (Draws::new(mix, &tree), tree)
    }

    #[test]
    fn shares_are_kept() {
        let (draws, tree) = draws(Offsets::Random, "getattr:40%,read:25.5%,write:34.5%");
        let mut counts = [0_u32; PROCEDURES.len()];
        for ordinal in 0..100_000 {
            let request = draws.request(ordinal, &tree);
            counts[request.place] += 1;
            assert_eq!(request, draws.request(ordinal, &tree));
            assert!(
                request.offset + u64::from(request.count) <= 10_000,
                "{request:?}"
            );
        }
        // Five deviations of a share of 40 %: 0.8 %.
        for (name, share) in [("getattr", 0.4), ("read", 0.255), ("write", 0.345)] {
            let place = PROCEDURES.iter().position(|&(each, _)| each == name);
            let seen = f64::from(counts[place.expect("a procedure")]) / 1e5;
            assert!((seen - share).abs() < 0.008, "{name}: {seen}");
        }
        assert_eq!(counts.iter().sum::<u32>(), 100_000);
    }

    #[test]
    fn sequential_requests_go_through_whole_files() {
        let (draws, tree) = draws(Offsets::Sequential, "read:100%");
        for run in 0..50 {
            let requests = (0..10).map(|step| draws.request(run * 10 + step, &tree));
            let requests: Vec<_> = requests.collect();
            let offsets: Vec<_> = requests.iter().map(|each| each.offset).collect();
            assert_eq!(
                offsets,
                (0..10).map(|step| step * 1_000).collect::<Vec<_>>()
            );
            assert!(requests.iter().all(|each| each.file == requests[0].file));
        }
    }

    #[test]
    fn procedures_have_the_names_of_the_rfc() {
        for ((word, procedure), name) in PROCEDURES.into_iter().zip(NAMES) {
            assert_eq!((word, procedure.name()), (&*name.to_lowercase(), name));
        }
        for text in [
            "",
            "getattr",
            "getattr:100",
            "getattr:-1%",
            "read:50%,read:50%",
            "a:100%",
        ] {
            assert!(text.parse::<Shares>().is_err(), "{text}");
        }
    }
}
