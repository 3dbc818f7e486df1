mod values;
mod vectors;

use lineside_frame::{Cursor, Fault, Piece};
use lineside_rpc::xdr::{List, Xdr};
use lineside_time::Random;
use proptest::prelude::*;

use crate::{mount, v3};
use values::Values;

/// Runs `$body` for a random value of each procedure's call and reply, both programs. In it `value`
/// is the value, and `decode(&mut cursor)` reads one of its kind.
macro_rules! for_each_message {
    ($seed:expr, |$value:ident, $decode:ident, $random:ident| $body:block) => {
        let mut values = Values(Random::new($seed));
        let mut random = Random::new($seed ^ 1);
        for &procedure in v3::Procedure::ALL {
            one_message!(
                values.v3_call(procedure),
                v3::Call,
                procedure,
                random,
                |$value, $decode, $random| $body
            );
            one_message!(
                values.v3_reply(procedure),
                v3::Reply,
                procedure,
                random,
                |$value, $decode, $random| $body
            );
        }
        for &procedure in mount::Procedure::ALL {
            one_message!(
                values.mount_call(procedure),
                mount::Call,
                procedure,
                random,
                |$value, $decode, $random| $body
            );
            one_message!(
                values.mount_reply(procedure),
                mount::Reply,
                procedure,
                random,
                |$value, $decode, $random| $body
            );
        }
    };
}

macro_rules! one_message {
    ($new:expr, $module:ident::$kind:ident, $procedure:ident, $rng:ident, |$value:ident, $decode:ident, $random:ident| $body:block) => {{
        fn decoder(
            procedure: $module::Procedure,
        ) -> impl for<'a> Fn(&mut Cursor<'a>) -> $module::$kind<'a> {
            move |cursor| $module::$kind::decode(procedure, cursor)
        }
        let ($value, $decode, $random) = ($new, decoder($procedure), &mut $rng);
        $body
    }};
}

/// `bytes` in pieces whose borders are anywhere, empty pieces included.
fn cut<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<Piece<'a>> {
    let mut borders: Vec<_> = (0..random.below(6))
        .map(|_| random.below(bytes.len() as u64 + 1) as usize)
        .collect();
    borders.push(bytes.len());
    borders.sort_unstable();
    let mut start = 0;
    let piece = |end| Piece::bytes(&bytes[std::mem::replace(&mut start, end)..end]);
    borders.into_iter().map(piece).collect()
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_wherever_it_is_cut(seed: u64) {
        for_each_message!(seed, |value, decode, random| {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            let len = bytes.len();
            prop_assert_eq!(len % 4, 0);
            bytes.extend_from_slice(b"what follows is not touched");
            let pieces = cut(&bytes, random);
            let mut cursor = Cursor::new(&pieces);
            prop_assert_eq!(decode(&mut cursor), value);
            prop_assert_eq!((cursor.fault(), cursor.position()), (None, len));
            let mut again = Vec::new();
            decode(&mut Cursor::new(&pieces)).encode(&mut again);
            prop_assert_eq!(&again, &bytes[..len]);
        });
    }

    #[test]
    fn a_prefix_tells_nothing_wrong(seed: u64) {
        for_each_message!(seed, |value, decode, random| {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            let step = 1 + bytes.len() / 400;
            for len in (0..bytes.len()).step_by(step) {
                let pieces = cut(&bytes[..len], random);
                let mut cursor = Cursor::new(&pieces);
                let seen = decode(&mut cursor);
                prop_assert!(seen.agrees(&value), "{seen:?}\n{value:?}");
                prop_assert_eq!(cursor.fault(), Some(Fault::End));
                prop_assert!((len + 1..=bytes.len()).contains(&cursor.needed()));
            }
        });
    }

    #[test]
    fn a_hole_tells_nothing_wrong(seed: u64) {
        for_each_message!(seed, |value, decode, random| {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            for _ in 0..20 {
                let start = random.below(bytes.len() as u64 + 1) as usize;
                let len = random.below((bytes.len() - start) as u64 + 1) as usize;
                let mut pieces = cut(&bytes[..start], random);
                pieces.push(Piece::hole(len));
                pieces.extend(cut(&bytes[start + len..], random));
                let mut cursor = Cursor::new(&pieces);
                let seen = decode(&mut cursor);
                prop_assert!(seen.agrees(&value), "{seen:?}\n{value:?}");
                prop_assert!(cursor.fault().is_some() || seen == value, "{seen:?}\n{value:?}");
            }
        });
    }

    #[test]
    fn foreign_bytes_do_no_harm(seed: u64) {
        for_each_message!(seed, |_value, decode, random| {
            let mut bytes = vec![0; 4 * random.below(200) as usize + random.below(4) as usize];
            for word in bytes.chunks_mut(4) {
                // Small numbers, so that what looks like lengths and booleans leads far in.
                let number = if random.chance(0.9) { random.below(4) } else { random.bits() };
                word.copy_from_slice(&(number as u32).to_be_bytes()[..word.len()]);
            }
            let pieces = cut(&bytes, random);
            let mut cursor = Cursor::new(&pieces);
            let seen = decode(&mut cursor);
            prop_assert!(cursor.position() <= bytes.len());
            prop_assert!(format!("{seen:?}").len() < 2_000 + 300 * bytes.len(), "iteration is bounded");
        });
    }
}

#[test]
fn a_list_ends_with_its_bytes() {
    let mut bytes = Vec::new();
    for _ in 0..1_000 {
        bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0]);
    }
    let pieces = [Piece::bytes(&bytes)];
    let mut cursor = Cursor::new(&pieces);
    let list: List<'_, Option<lineside_rpc::xdr::Name<'_>>> = List::decode(&mut cursor);
    assert_eq!(list.iter().count(), 1_000);
    assert_eq!(cursor.fault(), Some(Fault::End));

    let pieces = [Piece::bytes(&bytes[..12])];
    let list: List<'_, Option<lineside_rpc::xdr::Name<'_>>> =
        List::decode(&mut Cursor::new(&pieces));
    assert_eq!(list.iter().count(), 1, "nothing of the second was seen");
}
