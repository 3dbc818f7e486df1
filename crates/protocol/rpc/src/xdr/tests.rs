//! Tests of what the macro `xdr!` makes: each form is read, skipped, written and compared.

use super::*;
use lineside_frame::Fault;

crate::xdr! {
    pub struct Fixed { number: Option<u32>, wide: Option<u64>, flag: Option<bool> }

    pub scalar struct Stamp { seconds: i64, tag: [u8; 4], flag: bool }

    pub enum Colour { RED = 1, "red"; BLUE = 4, "blue"; }

    pub union Choice<'a> {
        0 => Nothing,
        1 => Text(text: Option<Opaque<'a, 8>>),
        2 => Both(both: Fixed),
        _ => Other,
    }

    pub struct All<'a> {
        fixed: Fixed,
        colour: Option<Colour>,
        choice: Choice<'a>,
        list: List<'a, Option<Opaque<'a, 8>>>,
        array: Array<'a, u32, 3>,
        maybe: Optional<Fixed>,
        stamp: Option<Stamp>,
        counted: Counted<'a, Option<Opaque<'a, 8>>, 3>,
    }
}

const FIXED: Fixed = Fixed {
    number: Some(1),
    wide: Some(2),
    flag: Some(true),
};

const STAMP: Stamp = Stamp {
    seconds: -5,
    tag: *b"abcd",
    flag: true,
};

#[test]
fn every_form_is_read_skipped_and_written() {
    assert_eq!(Fixed::SIZE, Some(16));
    assert_eq!(All::SIZE, None);
    let (text, one, two) = (
        [Piece::bytes(b"abcde")],
        [Piece::bytes(b"one")],
        [Piece::bytes(b"")],
    );
    let names = [Some(Opaque::new(&one)), Some(Opaque::new(&two))];
    for choice in [
        Choice::Nothing,
        Choice::Text(Some(Opaque::new(&text))),
        Choice::Both(FIXED),
        Choice::Other(9),
    ] {
        for maybe in [Optional::Absent, Optional::Present(FIXED)] {
            let all = All {
                fixed: FIXED,
                colour: Some(Colour::BLUE),
                choice,
                list: List::new(&names),
                array: Array::new(&[7, 8]),
                maybe,
                stamp: Some(STAMP),
                counted: Counted::new(&names),
            };
            let mut bytes = Vec::new();
            all.encode(&mut bytes);
            let pieces = [Piece::bytes(&bytes[..9]), Piece::bytes(&bytes[9..])];
            let (mut read, mut skipped) = (Cursor::new(&pieces), Cursor::new(&pieces));
            assert_eq!(All::decode(&mut read), all);
            All::skip(&mut skipped);
            for cursor in [read, skipped] {
                assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
            }
            for len in 0..bytes.len() {
                let pieces = [Piece::bytes(&bytes[..len])];
                let (mut read, mut skipped) = (Cursor::new(&pieces), Cursor::new(&pieces));
                assert!(All::decode(&mut read).agrees(&all));
                All::skip(&mut skipped);
                for cursor in [read, skipped] {
                    assert_eq!(cursor.fault(), Some(Fault::End));
                }
            }
        }
    }
}

#[test]
fn agreement_sees_each_difference() {
    let other = Fixed {
        wide: Some(3),
        ..FIXED
    };
    let partial = Fixed {
        number: Some(1),
        ..Fixed::default()
    };
    assert!(partial.agrees(&FIXED) && !FIXED.agrees(&partial));
    assert!(!Optional::Present(other).agrees(&Optional::Present(FIXED)));
    assert!(!Optional::<Fixed>::Absent.agrees(&Optional::Present(FIXED)));
    assert!(!Choice::Both(other).agrees(&Choice::Both(FIXED)));
    assert!(!Choice::Nothing.agrees(&Choice::Other(4)));
    assert!(!Choice::Other(3).agrees(&Choice::Other(4)));
    assert!(Choice::Unread.agrees(&Choice::Nothing));
    let (one, two) = ([Some(1u32), Some(2)], [Some(1), Some(3)]);
    assert!(List::new(&one[..1]).agrees(&List::new(&two)));
    assert!(!List::new(&one).agrees(&List::new(&two)));
    assert!(!List::new(&one).agrees(&List::new(&two[..1])));
    let array = Array::<u32, 4>::new(&[1, 2]);
    let counted = Counted::<'_, Option<u32>>::new(&one);
    assert!(Counted::default().agrees(&counted) && counted == Counted::new(&one));
    assert!(!counted.agrees(&Counted::new(&two)) && !counted.agrees(&Counted::new(&one[..1])));
    assert!(!Some(STAMP).agrees(&Some(Stamp {
        seconds: 5,
        ..STAMP
    })));
    assert!(Array::default().agrees(&array));
    assert!(!array.agrees(&Array::new(&[1, 3])) && !array.agrees(&Array::new(&[1, 2, 3])));
    assert!(!Outcome::<Fixed, ()>::Fail(2, ()).agrees(&Outcome::Fail(3, ())));
}

/// A count is any number; a value that was not seen is none.
#[test]
fn a_count_beyond_the_bytes_makes_no_values() {
    let bytes = [u32::MAX, 1, 2].map(u32::to_be_bytes).concat();
    let pieces = [Piece::bytes(&bytes)];
    let counted = Counted::<'_, Option<u32>>::decode(&mut Cursor::new(&pieces));
    assert_eq!(counted.count(), Some(u32::MAX));
    assert_eq!(counted.iter().collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[test]
fn entries_after_a_hole_in_a_list_are_not_invented() {
    let mut bytes = Vec::new();
    let (one, two) = ([Piece::bytes(b"one!")], [Piece::bytes(b"two!")]);
    let names: [Option<Opaque<'_, 8>>; 2] = [Some(Opaque::new(&one)), Some(Opaque::new(&two))];
    List::new(&names).encode(&mut bytes);
    let pieces = [
        Piece::bytes(&bytes[..8]),
        Piece::hole(4),
        Piece::bytes(&bytes[12..]),
    ];
    let mut cursor = Cursor::new(&pieces);
    let list: List<'_, Option<Opaque<'_, 8>>> = List::decode(&mut cursor);
    assert_eq!(cursor.fault(), Some(Fault::Hole));
    assert_eq!(list.iter().collect::<Vec<_>>(), [None]);
}

#[test]
fn lengths_beyond_the_maximum_are_malformed() {
    let pieces = [Piece::bytes(&[
        0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0,
    ])];
    let mut cursor = Cursor::new(&pieces);
    assert_eq!(Opaque::<8>::read(&mut cursor), None);
    assert_eq!(cursor.fault(), Some(Fault::Malformed));
    let mut cursor = Cursor::new(&pieces);
    assert_eq!(Array::<u32, 8>::decode(&mut cursor).count(), None);
    assert_eq!(cursor.fault(), Some(Fault::Malformed));
    let mut cursor = Cursor::new(&pieces);
    assert_eq!(Counted::<Option<u32>, 8>::decode(&mut cursor).count(), None);
    assert_eq!(cursor.fault(), Some(Fault::Malformed));
    assert_eq!(Colour(2).name(), None);
    assert_eq!(Colour::ALL.len(), 2);
}
