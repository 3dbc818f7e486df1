//! Reading fields from a chain of pieces of frames, some of which are holes. Nothing is copied but
//! what crosses a border, and nothing is owned.

/// A link of a chain: bytes where they lie, or a hole of known length.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> Piece<'a> {
    /// Bytes that were seen.
    #[inline]
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            len: bytes.len(),
        }
    }

    /// `len` bytes that were not.
    #[inline]
    pub fn hole(len: usize) -> Self {
        Self { bytes: &[], len }
    }

    /// Bytes spanned.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it spans nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
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
///
/// ```text
///  piece   piece at hand          pieces
///          read | window | hole   ...
///               ^ position
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    /// What is unread of the piece at hand. Empty in a hole and after a fault, so that the way of
    /// nearly all reads asks for nothing else.
    window: &'a [u8],
    /// What is unread of the piece at hand if that is a hole.
    hole: usize,
    /// The pieces behind the one at hand.
    pieces: &'a [Piece<'a>],
    /// Where the window ends.
    window_end: usize,
    /// Where the chain ends.
    end: usize,
    fault: Option<Fault>,
    needed: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first byte of the chain.
    #[inline]
    pub fn new(pieces: &'a [Piece<'a>]) -> Self {
        match pieces {
            // As nearly all messages lie.
            [whole] if !whole.is_hole() => View {
                first: whole.bytes,
                rest: &[],
                len: whole.len,
            }
            .cursor(),
            _ => Self::of_chain(pieces),
        }
    }

    fn of_chain(pieces: &'a [Piece<'a>]) -> Self {
        Self {
            window: &[],
            hole: 0,
            pieces,
            window_end: 0,
            end: pieces.iter().map(Piece::len).sum(),
            fault: None,
            needed: 0,
        }
        .at_next_piece()
    }

    /// Bytes before the cursor.
    #[inline]
    pub fn position(&self) -> usize {
        self.window_end - self.window.len()
    }

    /// Bytes behind the cursor, holes included.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.position()
    }

    /// Why reading stopped, if it did.
    #[inline]
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

    /// What is unread of the piece at hand: nothing in a hole and after a fault.
    #[inline]
    pub fn at_hand(&self) -> &'a [u8] {
        self.window
    }

    /// A big-endian 32-bit number.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A big-endian 64-bit number (XDR's hyper).
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        match self.whole() {
            Some(array) => Some(*array),
            None => self.gather(),
        }
    }

    /// The next `N` bytes where they lie, if one piece has them all; else nothing is read.
    #[inline]
    pub fn whole<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.window.split_first_chunk()?;
        self.window = rest;
        Some(array)
    }

    /// The next `len` bytes where they lie, if one piece has them all; else nothing is read.
    #[inline]
    pub fn whole_view(&mut self, len: usize) -> Option<View<'a>> {
        let (first, rest) = self.window.split_at_checked(len)?;
        self.window = rest;
        Some(View {
            first,
            rest: &[],
            len,
        })
    }

    /// The next bytes where they lie, at most `max`, behind a big-endian 32-bit number that says
    /// how many, and over what fills them up to a multiple of four; if one piece has all that, else
    /// nothing is read.
    #[inline]
    pub fn whole_counted(&mut self, max: usize) -> Option<View<'a>> {
        let (count, bytes) = self.window.split_first_chunk()?;
        let len = u32::from_be_bytes(*count) as usize;
        if len > max {
            return None;
        }
        let rest = bytes.get(len.next_multiple_of(4)..)?;
        let first = bytes.get(..len)?;
        self.window = rest;
        Some(View {
            first,
            rest: &[],
            len,
        })
    }

    fn gather<const N: usize>(&mut self) -> Option<[u8; N]> {
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
    #[inline]
    pub fn view(&mut self, len: usize) -> Option<View<'a>> {
        if self.fault.is_none()
            && let Some((first, rest)) = self.window.split_at_checked(len)
        {
            self.window = rest;
            return Some(View {
                first,
                rest: &[],
                len,
            });
        }
        self.view_pieces(len)
    }

    fn view_pieces(&mut self, len: usize) -> Option<View<'a>> {
        let start = *self;
        self.skip_pieces(len)?;
        let first = &start.window[..start.window.len().min(len)];
        let mut left = len - first.len();
        let mut seen = left == 0 || start.hole == 0;
        for piece in start.pieces {
            if left == 0 {
                break;
            }
            seen &= !piece.is_hole();
            left -= piece.len.min(left);
        }
        if !seen {
            *self = start;
            self.fail(Fault::Hole);
            return None;
        }
        Some(View {
            first,
            rest: start.pieces,
            len,
        })
    }

    /// Passes over `len` bytes, seen or not.
    #[inline]
    pub fn skip(&mut self, len: usize) -> Option<()> {
        if self.fault.is_none()
            && let Some(rest) = self.window.get(len..)
        {
            self.window = rest;
            return Some(());
        }
        self.skip_pieces(len)
    }

    /// A cursor over the next `len` bytes alone, or over all that there are if they are fewer.
    pub fn limited(&self, len: usize) -> Self {
        let mut limited = *self;
        let position = self.position();
        limited.end = position + len.min(self.remaining());
        let window = self.window.len().min(limited.end - position);
        limited.window = &self.window[..window];
        limited.window_end = position + window;
        limited.hole = self.hole.min(limited.end - limited.window_end);
        if limited.window_end + limited.hole == limited.end {
            limited.pieces = &[];
        }
        limited
    }

    fn skip_pieces(&mut self, len: usize) -> Option<()> {
        if self.fault.is_some() {
            return None;
        }
        if len > self.remaining() {
            self.needed = self.position().saturating_add(len);
            self.fail(Fault::End);
            return None;
        }
        let mut left = len;
        loop {
            let seen = left.min(self.window.len());
            self.window = &self.window[seen..];
            let unseen = (left - seen).min(self.hole);
            self.hole -= unseen;
            self.window_end += unseen;
            left -= seen + unseen;
            *self = self.at_next_piece();
            if left == 0 {
                return Some(());
            }
        }
    }

    /// Goes on to the next piece if the one at hand is read.
    fn at_next_piece(mut self) -> Self {
        while self.window.is_empty()
            && self.hole == 0
            && let Some((first, rest)) = self.pieces.split_first()
        {
            // The chain of a view ends within its last piece.
            let len = first.len.min(self.end - self.window_end);
            self.pieces = rest;
            if first.is_hole() {
                self.hole = len;
            } else {
                self.window = &first.bytes[..len];
                self.window_end += len;
            }
        }
        self
    }

    #[cold]
    fn fail(&mut self, fault: Fault) {
        self.window_end = self.position();
        self.window = &[];
        self.fault.get_or_insert(fault);
    }
}

/// A run of bytes in a chain, all of them seen: a handle, a name, file data.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The bytes that lie in one piece: all of them, as a rule.
    first: &'a [u8],
    /// The pieces that have the rest, and perhaps more.
    rest: &'a [Piece<'a>],
    len: usize,
}

impl<'a> View<'a> {
    /// A view of no bytes.
    pub fn empty() -> Self {
        Self {
            first: &[],
            rest: &[],
            len: 0,
        }
    }

    /// Bytes in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A cursor over these bytes alone.
    #[inline]
    pub fn cursor(&self) -> Cursor<'a> {
        Cursor {
            window: self.first,
            hole: 0,
            pieces: self.rest,
            window_end: self.first.len(),
            end: self.len,
            fault: None,
            needed: 0,
        }
    }

    /// The bytes, if they lie in the piece where the view begins, as they nearly always do.
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        self.first.get(..self.len)
    }

    /// The bytes, a slice for each piece that they lie in.
    #[inline]
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut left = self.len;
        let rest = self.rest.iter().map(|piece| piece.bytes);
        std::iter::once(self.first)
            .chain(rest)
            .map(move |bytes| {
                let bytes = &bytes[..bytes.len().min(left)];
                left -= bytes.len();
                bytes
            })
            .filter(|bytes| !bytes.is_empty())
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
                let cut = |range: std::ops::Range<usize>| {
                    range.contains(&first) || range.contains(&second)
                };
                match view.contiguous() {
                    Some(whole) => assert!(whole == &bytes[15..] && !cut(16..20)),
                    None => assert!(cut(15..20)),
                }
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
    fn a_limited_cursor_reads_the_same_and_ends_earlier() {
        let bytes: Vec<u8> = (0..12).collect();
        for first in 0..=12 {
            for second in first..=12 {
                let mut pieces = chain(&bytes, &[first, second]);
                let mut cursor = Cursor::new(&pieces);
                cursor.skip(2);
                for len in 0..=12 {
                    let mut limited = cursor.limited(len);
                    let len = len.min(10);
                    assert_eq!((limited.position(), limited.remaining()), (2, len));
                    let view = limited.view(len).expect("all of them");
                    assert_eq!(view.to_vec(), &bytes[2..2 + len]);
                    assert_eq!(limited.u32(), None);
                    assert_eq!(limited.fault(), Some(Fault::End));
                }
                pieces[1] = Piece::hole(second - first);
                for len in 0..=12 {
                    let mut limited = Cursor::new(&pieces).limited(len);
                    assert_eq!(limited.remaining(), len);
                    let view = limited.view(len).map(|view| view.to_vec());
                    let seen = len <= first || first == second;
                    assert_eq!(view, seen.then(|| bytes[..len].to_vec()));
                    assert_eq!(Cursor::new(&pieces).limited(len).skip(len), Some(()));
                    assert_eq!(Cursor::new(&pieces).limited(len).skip(len + 1), None);
                }
            }
        }
    }

    #[test]
    fn the_cursor_of_a_view_ends_with_it() {
        let bytes: Vec<u8> = (0..12).collect();
        for first in 0..=12 {
            for second in first..=12 {
                let pieces = chain(&bytes, &[first, second]);
                let mut whole = Cursor::new(&pieces);
                whole.skip(1);
                let view = whole.view(7).expect("there");
                let mut cursor = view.cursor();
                assert_eq!((cursor.position(), cursor.remaining()), (0, 7));
                assert_eq!(cursor.u32(), Some(0x0102_0304));
                assert_eq!(cursor.array(), Some([5, 6]));
                assert_eq!(cursor.u32(), None, "{first} {second}");
                assert_eq!((cursor.fault(), cursor.needed()), (Some(Fault::End), 10));
                assert_eq!(whole.u32(), Some(0x0809_0a0b));
            }
        }
    }

    #[test]
    fn views_compare_by_content() {
        let (one, two) = (chain(b"handle", &[2]), chain(b"handle", &[0, 5]));
        assert_eq!(Cursor::new(&one).view(6), Cursor::new(&two).view(6));
        assert!(View::empty().is_empty());
    }
}
