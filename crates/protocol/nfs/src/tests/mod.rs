//! Tests over every message of every protocol: random values, cut anywhere, with holes, beside
//! vectors written by hand.

mod ancillary;
mod draw;
mod layouts;
mod values;
mod vectors;
mod vectors_v4;

use lineside_frame::{Cursor, Fault, Piece};
use lineside_rpc::xdr::{List, Xdr};
use lineside_time::Random;
use proptest::prelude::*;

use crate::v4::{self, callback};
use crate::{mount, v2, v3};
use draw::Draw;
use values::Values;

/// Runs `$body` for a random value of each procedure's or operation's call and reply, all programs.
/// In it `value` is the value, and `decode(&mut cursor)` reads one of its kind.
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
        let draws = &mut values.0;
        for &procedure in v2::Procedure::ALL {
            one_message!(
                draw::v2_call(procedure, draws),
                v2::Call,
                procedure,
                random,
                |$value, $decode, $random| $body
            );
            one_message!(
                draw::v2_reply(procedure, draws),
                v2::Reply,
                procedure,
                random,
                |$value, $decode, $random| $body
            );
        }
        for &operation in v4::Operation::ALL {
            one_operation!(
                draw::v4_call(operation, draws),
                v4::Call<'a>,
                random,
                |$value, $decode, $random| $body
            );
            one_operation!(
                draw::v4_reply(operation, draws),
                v4::Reply<'a>,
                random,
                |$value, $decode, $random| $body
            );
        }
        for &operation in callback::Operation::ALL {
            one_operation!(
                draw::callback_call(operation, draws),
                callback::Call<'a>,
                random,
                |$value, $decode, $random| $body
            );
            one_operation!(
                draw::callback_reply(operation, draws),
                callback::Reply<'a>,
                random,
                |$value, $decode, $random| $body
            );
        }
        one_operation!(
            v4::CallHeader::draw(draws),
            v4::CallHeader<'a>,
            random,
            |$value, $decode, $random| $body
        );
        one_operation!(
            v4::ReplyHeader::draw(draws),
            v4::ReplyHeader<'a>,
            random,
            |$value, $decode, $random| $body
        );
        one_operation!(
            v4::Segment::draw(draws),
            v4::Segment,
            random,
            |$value, $decode, $random| $body
        );
        one_operation!(
            callback::CallHeader::draw(draws),
            callback::CallHeader<'a>,
            random,
            |$value, $decode, $random| $body
        );
    };
}

macro_rules! one_message {
    ($new:expr, $module:ident::$kind:ident, $procedure:ident, $rng:ident, |$value:ident,
    $decode:ident, $random:ident| $body:block) => {{
        fn decoder(
            procedure: $module::Procedure,
        ) -> impl for<'a> Fn(&mut Cursor<'a>) -> $module::$kind<'a> {
            move |cursor| $module::$kind::decode(procedure, cursor)
        }
        let ($value, $decode, $random) = ($new, decoder($procedure), &mut $rng);
        $body
    }};
}

macro_rules! one_operation {
    ($new:expr, $type:ty, $rng:ident, |$value:ident, $decode:ident, $random:ident| $body:block) => {{
        fn decoder<'a>(cursor: &mut Cursor<'a>) -> $type {
            <$type>::decode(cursor)
        }
        let ($value, $decode, $random) = ($new, decoder, &mut $rng);
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
    fn encoded_messages_are_decoded_wherever_they_are_cut(seed: u64) {
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
    fn a_prefix_never_gives_a_wrong_field(seed: u64) {
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
    fn a_hole_never_gives_a_wrong_field(seed: u64) {
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
        for_each_message!(seed, |value, decode, random| {
            // The number of the operation, so that it is not most often an unknown one.
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            bytes.truncate(4);
            bytes.resize(4 * random.below(200) as usize + random.below(4) as usize, 0);
            for word in bytes.chunks_mut(4).skip(1) {
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
