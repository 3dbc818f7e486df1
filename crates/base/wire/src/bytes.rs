//! Reading and writing numbers in network byte order at an offset.

/// The `N` bytes at `offset`, if all are there.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

/// Panics outside `bytes`, as an index does.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, offset))
}

/// Panics outside `bytes`, as an index does.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, offset))
}

/// Panics outside `bytes`, as an index does.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    *bytes[offset..]
        .first_chunk()
        .expect("a header's length was checked")
}

#[inline]
pub(crate) fn set_u16(bytes: &mut [u8], offset: usize, value: u16) {
    set(bytes, offset, &value.to_be_bytes());
}

#[inline]
pub(crate) fn set_u32(bytes: &mut [u8], offset: usize, value: u32) {
    set(bytes, offset, &value.to_be_bytes());
}

#[inline]
pub(crate) fn set(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}
