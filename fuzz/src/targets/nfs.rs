//! NFSv3 and MOUNT: every procedure decoded from any bytes, cut and with holes; what was whole is
//! encoded and decoded again.

use std::fmt::{self, Debug, Write as _};

use lineside_frame::{Cursor, Piece};
use lineside_nfs::{mount, v3};

use super::Bytes;

/// Checks a message of one kind.
macro_rules! check {
    ($module:ident::$kind:ident, $number:expr, $input:expr) => {
        if let Some(procedure) = $module::Procedure::from_number($number) {
            let Input { body, cut, hole } = $input;
            let border = cut.min(body.len());
            let whole = [Piece::bytes(body)];
            let in_two = [Piece::bytes(&body[..border]), Piece::bytes(&body[border..])];
            let hole_end = (border + hole).min(body.len());
            let with_hole = [
                Piece::bytes(&body[..border]),
                Piece::hole(hole_end - border),
                Piece::bytes(&body[hole_end..]),
            ];
            let mut cursor = Cursor::new(&whole);
            let value = $module::$kind::decode(procedure, &mut cursor);
            bounded(&value, body.len());
            assert!(cursor.position() <= body.len());

            let mut cursor_in_two = Cursor::new(&in_two);
            assert_eq!($module::$kind::decode(procedure, &mut cursor_in_two), value);
            assert_eq!(cursor_in_two.fault(), cursor.fault());
            assert_eq!(cursor_in_two.position(), cursor.position());

            let mut cursor_with_hole = Cursor::new(&with_hole);
            let seen = $module::$kind::decode(procedure, &mut cursor_with_hole);
            assert!(seen.agrees(&value), "{seen:?}\n{value:?}");

            if cursor.fault().is_none() {
                let mut encoded = Vec::new();
                value.encode(&mut encoded);
                assert_eq!(encoded.len(), cursor.position());
                let pieces = [Piece::bytes(&encoded)];
                let mut cursor = Cursor::new(&pieces);
                assert_eq!($module::$kind::decode(procedure, &mut cursor), value);
                assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
            }
        }
    };
}

#[derive(Clone, Copy)]
struct Input<'a> {
    body: &'a [u8],
    cut: usize,
    hole: usize,
}

/// A message behind its procedure; two bytes of choices end the input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (cut, hole) = (usize::from(bytes.last()), usize::from(bytes.last()));
    let number = u32::from(bytes.u8());
    let input = Input {
        body: bytes.0,
        cut,
        hole,
    };
    check!(v3::Call, number, input);
    check!(v3::Reply, number, input);
    check!(mount::Call, number, input);
    check!(mount::Reply, number, input);
}

/// Iteration over what was decoded ends with the bytes.
fn bounded(value: &impl Debug, len: usize) {
    let mut room = Room(2_000 + 300 * len);
    assert!(write!(room, "{value:?}").is_ok(), "endless for {len} bytes");
}

/// Text that is only measured: this many bytes more may come.
struct Room(usize);

impl fmt::Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}
