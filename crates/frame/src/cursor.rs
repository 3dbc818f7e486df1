/// A link of a chain: bytes where they lie, or a hole of known length.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> Piece<'a> {
    /// Bytes that were seen.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            len: bytes.len(),
        }
    }

    /// `len` bytes that were not.
    pub fn hole(len: usize) -> Self {
        Self { bytes: &[], len }
    }

    /// Bytes spanned.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it spans nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn is_hole(&self) -> bool {
        self.bytes.len() < self.len
    }
}

/// Why a cursor stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The chain ends before the field does.
    End,
    /// The field lies in a hole, wholly or in part.
    Hole,
    /// The bytes are there but cannot be what the protocol says ([`Cursor::reject`]).
    Malformed,
}

/// Reads fields from a chain of pieces, wherever the pieces' borders lie.
///
/// The first fault sticks: every later read is `None` too, because after one wrong length nothing
/// behind it can be trusted. What was read before stays good.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    pieces: &'a [Piece<'a>],
    /// Bytes of `pieces[0]` that are already read.
    offset: usize,
    position: usize,
    remaining: usize,
    fault: Option<Fault>,
    needed: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first byte of the chain.
    pub fn new(pieces: &'a [Piece<'a>]) -> Self {
        let remaining = pieces.iter().map(Piece::len).sum();
        Self {
            pieces,
            offset: 0,
            position: 0,
            remaining,
            fault: None,
            needed: 0,
        }
    }

    /// Bytes before the cursor.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes behind the cursor, holes included.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Why reading stopped, if it did.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// After [`Fault::End`]: how long the chain must be at least for the field that failed.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Declares that what was read cannot be right; nothing further is read.
    pub fn reject(&mut self) {
        self.fail(Fault::Malformed);
    }

    /// A big-endian 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A big-endian 64-bit number (XDR's hyper).
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.fault.is_none()
            && let Some(first) = self.pieces.first()
            && let Some(bytes) = first.bytes.get(self.offset..self.offset + N)
        {
            let array = bytes.try_into().ok()?;
            self.offset += N;
            self.position += N;
            self.remaining -= N;
            return Some(array);
        }
        let view = self.view(N)?;
        let mut array = [0; N];
        let mut at = 0;
        for slice in view.slices() {
            array[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Some(array)
    }

    /// The next `len` bytes where they lie, all of them seen.
    pub fn view(&mut self, len: usize) -> Option<View<'a>> {
        let start = *self;
        self.skip(len)?;
        let view = View {
            cursor: Self {
                remaining: len,
                ..start
            },
        };
        if view.cursor.has_hole() {
            *self = start;
            self.fail(Fault::Hole);
            return None;
        }
        Some(view)
    }

    /// Passes over `len` bytes, seen or not.
    pub fn skip(&mut self, len: usize) -> Option<()> {
        if self.fault.is_some() {
            return None;
        }
        if len > self.remaining {
            self.needed = self.position.saturating_add(len);
            self.fail(Fault::End);
            return None;
        }
        self.position += len;
        self.remaining -= len;
        self.offset += len;
        while let Some(first) = self.pieces.first()
            && self.offset >= first.len
            && self.pieces.len() > 1
        {
            self.offset -= first.len;
            self.pieces = &self.pieces[1..];
        }
        Some(())
    }

    fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    fn has_hole(&self) -> bool {
        let (mut left, mut offset) = (self.remaining, self.offset);
        for piece in self.pieces {
            if left == 0 {
                break;
            }
            let here = (piece.len - offset.min(piece.len)).min(left);
            if here > 0 && piece.is_hole() {
                return true;
            }
            left -= here;
            offset = offset.saturating_sub(piece.len);
        }
        false
    }
}

/// A run of bytes in a chain, all of them seen: a handle, a name, file data.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    cursor: Cursor<'a>,
}

impl<'a> View<'a> {
    /// A view of no bytes.
    pub fn empty() -> Self {
        Self {
            cursor: Cursor::new(&[]),
        }
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.cursor.remaining
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, a slice for each piece that they lie in.
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (mut left, mut offset) = (self.cursor.remaining, self.cursor.offset);
        self.cursor.pieces.iter().filter_map(move |piece| {
            let bytes = piece.bytes.get(offset..).unwrap_or(&[]);
            offset = offset.saturating_sub(piece.len);
            let bytes = &bytes[..bytes.len().min(left)];
            left -= bytes.len();
            (!bytes.is_empty()).then_some(bytes)
        })
    }

    /// Appends the bytes to `out`.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        for slice in self.slices() {
            out.extend_from_slice(slice);
        }
    }

    /// The bytes in memory of their own.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.copy_to(&mut bytes);
        bytes
    }
}

impl PartialEq for View<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.slices().flatten().eq(other.slices().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut at = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            pieces.push(Piece::bytes(&bytes[at..cut]));
            at = cut;
        }
        pieces
    }

    #[test]
    fn fields_read_the_same_wherever_the_borders_lie() {
        let bytes: Vec<u8> = (0..20).collect();
        for first in 0..=20 {
            for second in first..=20 {
                let pieces = chain(&bytes, &[first, second]);
                let mut cursor = Cursor::new(&pieces);
                assert_eq!(cursor.u32(), Some(0x0001_0203));
                assert_eq!(cursor.skip(3), Some(()));
                assert_eq!(cursor.u64(), Some(0x0708_090a_0b0c_0d0e));
                let view = cursor.view(5).expect("the rest");
                assert_eq!(view.to_vec(), &bytes[15..]);
                assert_eq!((cursor.position(), cursor.remaining()), (20, 0));
                assert_eq!(cursor.u32(), None);
                assert_eq!((cursor.fault(), cursor.needed()), (Some(Fault::End), 24));
            }
        }
    }

    #[test]
    fn a_hole_can_be_passed_but_not_read() {
        let pieces = [Piece::bytes(b"abcd"), Piece::hole(4), Piece::bytes(b"efgh")];
        let mut cursor = Cursor::new(&pieces);
        assert_eq!(cursor.array(), Some(*b"abcd"));
        assert!(cursor.skip(4).is_some());
        assert_eq!(cursor.array(), Some(*b"efgh"));

        let mut cursor = Cursor::new(&pieces);
        cursor.skip(2);
        assert_eq!(cursor.u32(), None);
        assert_eq!((cursor.fault(), cursor.position()), (Some(Fault::Hole), 2));
        assert_eq!(cursor.skip(1), None, "the first fault sticks");
    }

    #[test]
    fn views_compare_by_content() {
        let (one, two) = (chain(b"handle", &[2]), chain(b"handle", &[0, 5]));
        assert_eq!(Cursor::new(&one).view(6), Cursor::new(&two).view(6));
        assert!(View::empty().is_empty());
    }
}
