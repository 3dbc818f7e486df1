//! NFSv3, MOUNT and NFSv4: every procedure and every operation decoded from any bytes, cut and with
//! holes; what was whole is encoded and decoded again.

use std::fmt::{self, Debug, Write as _};

use lineside_frame::{Cursor, Piece};
use lineside_nfs::v4::{self, callback};
use lineside_nfs::{mount, v3};
use lineside_rpc::xdr::Xdr;

use super::Bytes;

/// Checks what an expression reads from a cursor: from whole bytes, from two pieces, with a hole,
/// and again from what is encoded. Gives the cursor behind it.
macro_rules! check {
    ($input:expr, |$cursor:ident| $decode:expr) => {{
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
        let $cursor = &mut Cursor::new(&whole);
        let value = $decode;
        bounded(&value, body.len());
        let (fault, position) = ($cursor.fault(), $cursor.position());
        assert!(position <= body.len());

        let $cursor = &mut Cursor::new(&in_two);
        assert_eq!($decode, value);
        assert_eq!(($cursor.fault(), $cursor.position()), (fault, position));

        let $cursor = &mut Cursor::new(&with_hole);
        let seen = $decode;
        assert!(seen.agrees(&value), "{seen:?}\n{value:?}");

        if fault.is_none() {
            let mut encoded = Vec::new();
            value.encode(&mut encoded);
            assert_eq!(encoded.len(), position);
            let pieces = [Piece::bytes(&encoded)];
            let $cursor = &mut Cursor::new(&pieces);
            assert_eq!($decode, value);
            assert_eq!(($cursor.fault(), $cursor.remaining()), (None, 0));
        }
    }};
}

/// Checks a message of a procedure, if there is one of this number.
macro_rules! check_procedure {
    ($module:ident::$kind:ident, $number:expr, $input:expr) => {
        if let Some(procedure) = $module::Procedure::from_number($number) {
            check!($input, |cursor| $module::$kind::decode(procedure, cursor));
        }
    };
}

pub(crate) use {check, check_procedure};

/// A message, and where it is cut and how long the hole behind that is: two bytes at its end.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) cut: usize,
    pub(crate) hole: usize,
}

/// A message behind its procedure, or behind 255 and a kind the operations of a compound; two bytes
/// of choices end the input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (cut, hole) = (usize::from(bytes.last()), usize::from(bytes.last()));
    let number = u32::from(bytes.u8());
    let kind = if number == COMPOUND { bytes.u8() } else { 0 };
    let input = Input {
        body: bytes.0,
        cut,
        hole,
    };
    if number == COMPOUND {
        return compound(kind, input);
    }
    check_procedure!(v3::Call, number, input);
    check_procedure!(v3::Reply, number, input);
    check_procedure!(mount::Call, number, input);
    check_procedure!(mount::Reply, number, input);
}

/// No procedure's number.
const COMPOUND: u32 = 255;

/// Operations one after another, up to the first that cannot be read.
fn compound(kind: u8, mut input: Input<'_>) {
    match kind % 8 {
        0 => check!(input, |cursor| v4::CallHeader::decode(cursor)),
        1 => check!(input, |cursor| v4::ReplyHeader::decode(cursor)),
        2 => check!(input, |cursor| callback::CallHeader::decode(cursor)),
        3 => check!(input, |cursor| v4::Segment::decode(cursor)),
        _ => {}
    }
    loop {
        let pieces = [Piece::bytes(input.body)];
        let mut cursor = Cursor::new(&pieces);
        match kind % 8 {
            4 => {
                check!(input, |cursor| v4::Call::decode(cursor));
                let call = v4::Call::decode(&mut cursor);
                v4::skip_data(&mut cursor, call.data_len().unwrap_or(0));
                bounded(
                    &call.attributes().map(|list| list.values()),
                    input.body.len(),
                );
            }
            5 => {
                check!(input, |cursor| v4::Reply::decode(cursor));
                let reply = v4::Reply::decode(&mut cursor);
                v4::skip_data(&mut cursor, reply.data_len().unwrap_or(0));
                if let v4::Reply::LayoutGet(v4::LayoutGetResult::Ok(ok)) = reply {
                    bounded(
                        &ok.layouts.first().map(|layout| layout.content()),
                        input.body.len(),
                    );
                }
            }
            6 => {
                check!(input, |cursor| callback::Call::decode(cursor));
                callback::Call::decode(&mut cursor);
            }
            7 => {
                check!(input, |cursor| callback::Reply::decode(cursor));
                callback::Reply::decode(&mut cursor);
            }
            _ => return,
        }
        if cursor.fault().is_some() {
            return;
        }
        input.body = &input.body[cursor.position()..];
    }
}

/// Iteration over what was decoded ends with the bytes.
pub(crate) fn bounded(value: &impl Debug, len: usize) {
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
