//! Attributes of NFSv4 that calls ask for, set and compare, as their rows have them.
//!
//! VERIFY and NVERIFY compare attributes with values that the client knows from replies. Most mean
//! the same on any server; some are a server's [`Own`]: its number of a file, how often it changed.
//! For those stands what this server showed where the source's showed the value.

use lineside_frame::{Cursor, Piece};
use lineside_nfs::v4::{self, AttributeList, Attributes, Bitmap};
use lineside_rpc::xdr::{Scalar, Xdr, pad};

use crate::call::{Facts, FileId};
use crate::own::{Own, Shown};
use crate::tables::{Lack, Tables};

/// Which attributes an operation asks for, if its row has that.
pub(crate) fn asked(facts: &Facts) -> Option<Bitmap> {
    let bytes = mask(facts)?;
    let pieces = [Piece::bytes(&bytes)];
    Bitmap::read(&mut Cursor::new(&pieces))
}

fn mask(facts: &Facts) -> Option<Vec<u8>> {
    let words = facts.attribute_bitmap.as_deref()?;
    let count = u32::try_from(words.len() / 4).ok()?;
    Some([&count.to_be_bytes(), words].concat())
}

/// The attributes that an operation gives, as on the wire, if its row has them.
pub(crate) fn given(facts: &Facts) -> Option<Vec<u8>> {
    let mut bytes = mask(facts)?;
    let values = facts.attribute_values.as_deref()?;
    bytes.extend_from_slice(&u32::try_from(values.len()).ok()?.to_be_bytes());
    bytes.extend_from_slice(values);
    pad(&mut bytes, values.len());
    Some(bytes)
}

/// The own values that a VERIFY or NVERIFY of a file compares.
pub fn compared(file: FileId, facts: &Facts) -> Vec<Shown> {
    let bytes = given(facts).unwrap_or_default();
    let pieces = [Piece::bytes(&bytes)];
    let values = AttributeList::decode(&mut Cursor::new(&pieces)).values();
    let own = Own::ALL.into_iter();
    own.filter_map(|own| Some((file, own, own.key(own.value(&values)?))))
        .collect()
}

/// What a VERIFY or NVERIFY compares, with this server's values. `holds`: in the source the file
/// had these values.
pub(crate) fn translated(
    tables: &Tables,
    file: Option<FileId>,
    facts: &Facts,
    holds: bool,
) -> Result<Vec<u8>, Lack> {
    let bytes = given(facts).ok_or(Lack::Arguments)?;
    let pieces = [Piece::bytes(&bytes)];
    let list = AttributeList::decode(&mut Cursor::new(&pieces));
    let mut values = list.values();
    let mut is_other = false;
    for own in Own::ALL {
        let Some(source) = own.value(&values) else {
            continue;
        };
        let known = file.and_then(|file| tables.own((file, own, own.key(source))));
        match known {
            Some(here) => own.set(&mut values, here),
            None if own.may_be_set() => continue,
            None => return Err(Lack::Value),
        }
        is_other = true;
    }
    let handle = tables.handle(file).unwrap_or_default();
    let handle = [Piece::bytes(handle)];
    if values.handle.is_some() {
        // A handle that was the file's own is so here, too; another one is of nobody knows what.
        if !holds || file.is_none() {
            return Err(Lack::Value);
        }
        values.handle = Some(v4::Handle::new(&handle));
        is_other = true;
    }
    match is_other {
        false => Ok(bytes),
        // What cannot be written again is left as it is, or not at all.
        true if Some(values.mask()) != list.mask => Err(Lack::Arguments),
        true => {
            let mut bytes = Vec::new();
            AttributeList::new(&values).encode(&mut bytes);
            Ok(bytes)
        }
    }
}

/// Learns what this server showed in the place of values of the source that are compared.
pub(crate) fn learn(tables: &mut Tables, shown: &[Shown], found: &Attributes<'_>) {
    for &of in shown {
        if let Some(value) = of.1.value(found) {
            tables.set_own(of, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(values: &Attributes<'_>) -> Facts {
        let mut bytes = Vec::new();
        AttributeList::new(values).encode(&mut bytes);
        let words = 4 * u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes")) as usize;
        Facts {
            attribute_bitmap: Some(bytes[4..4 + words].into()),
            attribute_values: Some(bytes[8 + words..].into()),
            ..Facts::default()
        }
    }

    fn read(bytes: &[u8], of: impl FnOnce(&Attributes<'_>)) {
        let pieces = [Piece::bytes(bytes)];
        of(&AttributeList::decode(&mut Cursor::new(&pieces)).values());
    }

    #[test]
    fn a_compared_value_is_the_one_that_this_server_showed() {
        let source = Attributes {
            change: Some(7),
            size: Some(100),
            fileid: Some(5),
            ..Attributes::default()
        };
        let facts = facts(&source);
        let wanted = compared(1, &facts);
        assert_eq!(wanted, [(1, Own::Change, 7), (1, Own::File, 5)]);
        let mut tables = Tables::default();
        let none = translated(&tables, Some(1), &facts, true);
        assert_eq!(none, Err(Lack::Value));
        let here = Attributes {
            change: Some(70),
            fileid: Some(50),
            size: Some(3),
            ..Attributes::default()
        };
        learn(&mut tables, &wanted, &here);
        let bytes = translated(&tables, Some(1), &facts, true).expect("all is known");
        read(&bytes, |values| {
            assert_eq!((values.change, values.fileid), (Some(70), Some(50)));
            assert_eq!(values.size, Some(100), "a size is no one's own");
        });
        let of_another = translated(&tables, Some(2), &facts, true);
        assert_eq!(of_another, Err(Lack::Value));
    }

    #[test]
    fn a_compared_handle_is_the_files_own_or_of_nobody_knows_what() {
        let handle = [Piece::bytes(b"source")];
        let facts = facts(&Attributes {
            handle: Some(v4::Handle::new(&handle)),
            ..Attributes::default()
        });
        let mut tables = Tables::default();
        tables.set_handle(1, b"here");
        let bytes = translated(&tables, Some(1), &facts, true).expect("it held");
        read(&bytes, |values| {
            assert_eq!(values.handle.expect("a handle").to_vec(), b"here");
        });
        let failed = translated(&tables, Some(1), &facts, false);
        assert_eq!(failed, Err(Lack::Value));
    }

    #[test]
    fn times_that_no_reply_showed_stay_as_they_are() {
        let time = Some(v4::Time {
            seconds: 9,
            nanoseconds: 1,
        });
        let set = facts(&Attributes {
            mtime: time,
            ..Attributes::default()
        });
        let tables = Tables::default();
        let bytes = translated(&tables, Some(1), &set, true).expect("as it is");
        read(&bytes, |values| assert_eq!(values.mtime, time));
        let changed = facts(&Attributes {
            ctime: time,
            ..Attributes::default()
        });
        let ctime = translated(&tables, Some(1), &changed, true);
        assert_eq!(ctime, Err(Lack::Value));
        assert_eq!(compared(3, &changed), [(3, Own::Ctime, 9_000_000_001)]);
    }

    #[test]
    fn what_cannot_be_written_again_is_left_out() {
        // A list with a charset capability (76), of which only the length is known, and `change`.
        let facts = Facts {
            attribute_bitmap: Some([0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x10, 0].into()),
            attribute_values: Some([0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1].into()),
            ..Facts::default()
        };
        let mut tables = Tables::default();
        tables.set_own((1, Own::Change, 7), [8, 0]);
        let cut = translated(&tables, Some(1), &facts, true);
        assert_eq!(cut, Err(Lack::Arguments));
    }
}
