//! Calls as bytes, as a [`Shelf`](crate::Shelf) keeps them: each field that is there, in the order
//! of a list, behind bits that say which are.

use lineside_nfs::ancillary::portmap;
use lineside_nfs::{mount, v3, v4};

use crate::call::{Call, Facts, Operation, Procedure, Program, Why};

/// What stands in bytes.
pub(crate) trait Coded: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// `None`: the bytes are none of it.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

impl Coded for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = from.split_first()?;
            *from = rest;
            value |= Self::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

impl Coded for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        (self << 1 ^ self >> 63).cast_unsigned().put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let value = u64::take(from)?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

impl Coded for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Self::try_from(u64::take(from)?).ok()
    }
}

impl Coded for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(u64::take(from)? != 0)
    }
}

impl Coded for Box<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u64::take(from)?).ok()?;
        let (bytes, rest) = from.split_at_checked(len)?;
        *from = rest;
        Some(bytes.into())
    }
}

impl Coded for Box<str> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let bytes = Box::<[u8]>::take(from)?;
        std::str::from_utf8(&bytes).ok().map(Into::into)
    }
}

impl<T: Coded> Coded for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        T::take(from).map(Self::new)
    }
}

impl<T: Coded, U: Coded> Coded for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((T::take(from)?, U::take(from)?))
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match bool::take(from)? {
            true => T::take(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|each| each.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = u64::take(from)?;
        (0..len).map(|_| T::take(from)).collect()
    }
}

/// A number for each kind, and the place in its list.
impl Coded for Procedure {
    fn put(&self, out: &mut Vec<u8>) {
        fn place<T: PartialEq>(all: &[T], of: &T) -> u64 {
            all.iter().position(|it| it == of).unwrap_or(all.len()) as u64
        }
        let (kind, place) = match self {
            Self::Nfs3(of) => (0, place(v3::Procedure::ALL, of)),
            Self::Nfs4(of) => (1, place(v4::Operation::ALL, of)),
            Self::Mount(of) => (2, place(mount::Procedure::ALL, of)),
            Self::Portmap(of) => (3, place(portmap::Procedure::ALL, of)),
        };
        (place << 2 | kind).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        fn at<T: Copy>(all: &[T], place: u64) -> Option<T> {
            all.get(usize::try_from(place).ok()?).copied()
        }
        let value = u64::take(from)?;
        match value & 3 {
            0 => at(v3::Procedure::ALL, value >> 2).map(Self::Nfs3),
            1 => at(v4::Operation::ALL, value >> 2).map(Self::Nfs4),
            2 => at(mount::Procedure::ALL, value >> 2).map(Self::Mount),
            _ => at(portmap::Procedure::ALL, value >> 2).map(Self::Portmap),
        }
    }
}

impl Coded for Program {
    fn put(&self, out: &mut Vec<u8>) {
        let value: u64 = match self {
            Self::Nfs3 => 0,
            Self::Mount => 1,
            Self::Portmap => 2,
            Self::Nfs4(minor) => 3 + u64::from(*minor),
        };
        value.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u64::take(from)? {
            0 => Self::Nfs3,
            1 => Self::Mount,
            2 => Self::Portmap,
            more => Self::Nfs4(u32::try_from(more - 3).ok()?),
        })
    }
}

impl Coded for Why {
    fn put(&self, out: &mut Vec<u8>) {
        let place = Self::ALL.iter().position(|(why, _)| why == self);
        (place.unwrap_or_default() as u64).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let place = usize::try_from(u64::take(from)?).ok()?;
        Self::ALL.get(place).map(|(why, _)| *why)
    }
}

/// Fields that are options stand behind bits that say which are there.
macro_rules! coded {
    ($name:ident: $($field:ident),*; $($option:ident),*) => {
        impl Coded for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let bits = [$(self.$option.is_some()),*].into_iter().enumerate();
                let bits = bits.fold(0, |bits, (at, is)| bits | u64::from(is) << at);
                bits.put(out);
                $(self.$field.put(out);)*
                $(if let Some(value) = &self.$option {
                    value.put(out);
                })*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let mut bits = u64::take(from)?;
                let mut next = || {
                    let is_there = bits & 1 == 1;
                    bits >>= 1;
                    is_there
                };
                Some(Self {
                    $($field: Coded::take(from)?,)*
                    $($option: match next() {
                        true => Some(Coded::take(from)?),
                        false => None,
                    },)*
                })
            }
        }
    };
}

coded!(
    Call: id, call_ns, took_ns, connection, client, server, is_answered, is_kerberos, is_udp,
    operations; program, left_out, user
);

coded!(
    Operation: id, names, sums, not_executed;
    procedure, file, file2, made, offset, count, length, status, facts
);

coded!(
    Facts: ;
    stable_how, create_mode, create_verifier, access_requested, cookie, cookie_verifier,
    directory_bytes, bytes_max, set_mode, set_uid, set_gid, set_size, set_atime_how, set_atime_ns,
    set_mtime_how, set_mtime_ns, attribute_bitmap, attribute_values, guard_ctime_ns, node_type,
    device_major, device_minor, symlink_target, minor_version, tag, owner, stateid,
    stateid_sequence, reply_stateid, share_access, share_deny, claim, delegation_stateid, lock_type,
    content, source_offset, target_program, target_version, target_protocol, target_port
);

impl Coded for [Option<Box<[u8]>>; 2] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|name| name.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some([Coded::take(from)?, Coded::take(from)?])
    }
}

/// Checksums of blocks that follow each other stand in a row.
impl Coded for Box<[(u64, u64)]> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        let mut before = 0_u64;
        for (block, sum) in self {
            block.wrapping_sub(before).cast_signed().put(out);
            out.extend_from_slice(&sum.to_le_bytes());
            before = block.wrapping_add(1);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = u64::take(from)?;
        let mut before = 0_u64;
        let mut next = || {
            let block = i64::take(from)?.cast_unsigned().wrapping_add(before);
            let (sum, rest) = from.split_first_chunk()?;
            *from = rest;
            before = block.wrapping_add(1);
            Some((block, u64::from_le_bytes(*sum)))
        };
        (0..len).map(|_| next()).collect()
    }
}

impl Call {
    /// The call as bytes, behind what is there.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// The call of bytes that [`encode`](Self::encode) wrote.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        Self::take(&mut bytes)
    }
}

impl Facts {
    /// The facts as bytes, behind what is there.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// The facts of bytes that [`encode`](Self::encode) wrote.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        Self::take(&mut bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, -1, 63, 64, -65, i64::MAX, i64::MIN];
        numbers.iter().for_each(|number| number.put(&mut bytes));
        let mut from = &bytes[..];
        let read: Vec<_> = numbers.iter().map_while(|_| i64::take(&mut from)).collect();
        assert_eq!((read, from.len()), (numbers.to_vec(), 0));
        for operation in v4::Operation::ALL {
            let call = Call {
                id: 1 << 50,
                call_ns: 1_790_000_000_000_000_000,
                took_ns: -5,
                connection: 3,
                program: Some(Program::Nfs4(2)),
                left_out: Some(Why::Value),
                user: Some((0, u32::MAX)),
                is_answered: true,
                operations: vec![Operation {
                    procedure: Some(Procedure::Nfs4(*operation)),
                    file: Some(-7),
                    names: [None, Some(b"name".as_slice().into())],
                    length: Some(u64::MAX),
                    status: Some("NFS4_OK".into()),
                    sums: vec![(7, u64::MAX), (8, 1), (3, 0)].into(),
                    facts: Some(Box::new(Facts {
                        stable_how: Some("UNSTABLE".into()),
                        target_port: Some(2049),
                        ..Facts::default()
                    })),
                    ..Operation::default()
                }],
                ..Call::default()
            };
            bytes.clear();
            call.encode(&mut bytes);
            let read = Call::decode(&bytes).expect("a call");
            assert_eq!(format!("{read:?}"), format!("{call:?}"));
            for len in 0..bytes.len() {
                assert!(Call::decode(&bytes[..len]).is_none(), "{len}");
            }
        }
    }
}
