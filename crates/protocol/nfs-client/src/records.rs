//! One direction of a stream of RPC records (RFC 5531, 11), of which as much is kept as is read.

use lineside_rpc::message::LAST_FRAGMENT;

use crate::header::Broken;

/// Fragments without bytes that a record may have: the RFC allows them, but not without end.
const EMPTY_MAX: u8 = 16;
/// A head that grew beyond this is not kept for the next record.
const RETAINED_BYTES: usize = 64 << 10;

/// How much of each record is kept, and how long one may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes from its start that are read.
    pub head: usize,
    /// Bytes of it.
    pub record: u64,
}

/// Heads of records that come in pieces, each used again for another one.
#[derive(Debug, Default)]
pub struct Heads {
    all: Vec<Vec<u8>>,
    free: Vec<u32>,
    bytes: usize,
    bytes_max: usize,
}

impl Heads {
    /// At most this many bytes of heads that are not over.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Vec::with_capacity(256));
            // One more place there, so that giving back allocates nothing.
            self.free.reserve(self.all.len());
            self.all.len() as u32 - 1
        })
    }

    fn append(&mut self, place: u32, bytes: &[u8]) -> Result<(), Broken> {
        if self.bytes + bytes.len() > self.bytes_max {
            return Err(Broken);
        }
        self.bytes += bytes.len();
        self.all[place as usize].extend_from_slice(bytes);
        Ok(())
    }

    fn give_back(&mut self, place: u32, mut head: Vec<u8>) {
        self.bytes -= head.len();
        head.clear();
        head.shrink_to(RETAINED_BYTES);
        self.all[place as usize] = head;
        self.free.push(place);
    }
}

/// What is known of a record that is not over.
#[derive(Debug, Default)]
pub struct Records {
    mark: [u8; 4],
    /// Bytes of the mark that have come; all four within a fragment.
    mark_len: u8,
    is_last: bool,
    empty: u8,
    /// Bytes of the fragment that are still to come.
    left: u32,
    /// Bytes of the record so far.
    len: u64,
    /// Its place among the heads, if it has one.
    head: Option<u32>,
}

impl Records {
    /// Whether nothing of a record has come.
    pub fn is_between(&self) -> bool {
        self.mark_len == 0 && self.len == 0 && self.empty == 0
    }

    /// Takes all bytes; `each` gets the head and the length of each record that ends in them. After
    /// an error nothing that comes can be trusted.
    pub fn push<E: From<Broken>>(
        &mut self,
        mut bytes: &[u8],
        heads: &mut Heads,
        limits: Limits,
        mut each: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.is_between()
                && let Some((record, rest)) = whole(bytes)
            {
                if record.len() as u64 > limits.record {
                    return Err(Broken.into());
                }
                each(
                    &record[..record.len().min(limits.head)],
                    record.len() as u64,
                )?;
                bytes = rest;
                continue;
            }
            if self.mark_len < 4 {
                self.mark[usize::from(self.mark_len)] = bytes[0];
                self.mark_len += 1;
                bytes = &bytes[1..];
                if self.mark_len < 4 {
                    continue;
                }
                self.begin(limits)?;
            }
            let taken = bytes.len().min(self.left as usize);
            let (fragment, rest) = bytes.split_at(taken);
            self.keep(fragment, heads, limits)?;
            (self.left, bytes) = (self.left - taken as u32, rest);
            if self.left == 0 {
                self.mark_len = 0;
                if self.is_last {
                    self.finish(heads, &mut each)?;
                }
            }
        }
        Ok(())
    }

    /// A mark is whole.
    fn begin(&mut self, limits: Limits) -> Result<(), Broken> {
        let mark = u32::from_be_bytes(self.mark);
        self.is_last = mark & LAST_FRAGMENT != 0;
        self.left = mark & !LAST_FRAGMENT;
        if self.left == 0 {
            self.empty += 1;
        }
        let is_within = self.len + u64::from(self.left) <= limits.record;
        (is_within && self.empty <= EMPTY_MAX)
            .then_some(())
            .ok_or(Broken)
    }

    fn keep(&mut self, bytes: &[u8], heads: &mut Heads, limits: Limits) -> Result<(), Broken> {
        let wanted = (limits.head as u64).saturating_sub(self.len);
        let wanted = bytes.len().min(wanted as usize);
        self.len += bytes.len() as u64;
        if wanted == 0 {
            return Ok(());
        }
        let place = *self.head.get_or_insert_with(|| heads.take());
        heads.append(place, &bytes[..wanted])
    }

    fn finish<E>(
        &mut self,
        heads: &mut Heads,
        each: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { len, head, .. } = std::mem::take(self);
        let Some(place) = head else {
            return each(&[], len);
        };
        let head = std::mem::take(&mut heads.all[place as usize]);
        let outcome = each(&head, len);
        heads.give_back(place, head);
        outcome
    }

    /// Nothing more comes.
    pub fn release(self, heads: &mut Heads) {
        if let Some(place) = self.head {
            let head = std::mem::take(&mut heads.all[place as usize]);
            heads.give_back(place, head);
        }
    }
}

/// A record of one fragment that is there whole, and what is behind it.
fn whole(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mark, rest) = bytes.split_first_chunk()?;
    let mark = u32::from_be_bytes(*mark);
    let len = (mark & !LAST_FRAGMENT) as usize;
    if mark & LAST_FRAGMENT == 0 {
        return None;
    }
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use lineside_rpc::message::encode_record;
    use lineside_time::Random;

    use super::*;

    const LIMITS: Limits = Limits {
        head: 100,
        record: 1_000,
    };

    #[test]
    fn records_are_the_same_however_they_are_cut() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let mut message = vec![0; random.below(600) as usize];
                random.fill(&mut message);
                let sizes = [(); 3].map(|()| random.below(200) as usize);
                encode_record(&sizes[..random.below(4) as usize], &message, &mut stream);
                let head = message[..message.len().min(LIMITS.head)].to_vec();
                expected.push((head, message.len() as u64));
            }
            let (mut records, mut heads) = (Records::default(), Heads::new(LIMITS.head));
            let (mut seen, mut rest) = (Vec::new(), &stream[..]);
            while !rest.is_empty() {
                let len = rest.len().min(1 + random.below(300) as usize);
                let (piece, behind) = rest.split_at(len);
                let outcome = records.push::<Broken>(piece, &mut heads, LIMITS, |head, len| {
                    seen.push((head.to_vec(), len));
                    Ok(())
                });
                assert_eq!(outcome, Ok(()), "seed {seed}");
                rest = behind;
            }
            assert_eq!(seen, expected, "seed {seed}");
            assert!(records.is_between() && heads.bytes == 0, "seed {seed}");
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_at_its_mark() {
        for bytes in [&[0x80, 0, 3, 0xe9][..], &[0, 0, 3, 0xe9], &[0xff; 4]] {
            let (mut records, mut heads) = (Records::default(), Heads::new(1_000));
            let outcome = records.push::<Broken>(bytes, &mut heads, LIMITS, |_, _| Ok(()));
            assert_eq!(outcome, Err(Broken), "{bytes:?}");
        }
        let (mut records, mut heads) = (Records::default(), Heads::new(1_000));
        let zeros = [0; 200];
        let outcome = records.push::<Broken>(&zeros, &mut heads, LIMITS, |_, _| Ok(()));
        assert_eq!(outcome, Err(Broken), "empty fragments without end");
    }
}
