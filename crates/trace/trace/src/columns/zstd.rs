//! Compresses pages.

use std::io;

use ::zstd::bulk::Compressor;

/// Compresses pages.
pub(crate) struct Zstd {
    context: Compressor<'static>,
    level: i32,
    /// The page that is made.
    pub(super) page: Vec<u8>,
    /// The last input, and its compressed form: a column often has the page of the one
    /// before.
    latest: Vec<u8>,
    compressed: Vec<u8>,
}

impl Zstd {
    pub(super) const LEVEL: i32 = 1;

    /// For values as they are: what zstd finds in them is what came before, at about the same size
    /// as with [`LEVEL`](Self::LEVEL) in half the time (`docs/decisions/0010`).
    pub(super) const FAST: i32 = -3;

    pub(crate) fn new() -> Self {
        Self {
            context: Compressor::new(Self::LEVEL).expect("zstd has this level"),
            level: Self::LEVEL,
            page: Vec::new(),
            latest: Vec::new(),
            compressed: Vec::new(),
        }
    }

    /// Whether the first `len` bytes of the page become shorter by an eighth.
    pub(super) fn shortens(&mut self, len: usize, level: i32) -> io::Result<bool> {
        // The page is often as long.
        self.latest.clear();
        self.latest.extend_from_slice(&self.page[..len]);
        self.run(level)?;
        Ok(self.compressed.len() < len - len / 8)
    }

    /// The page's bytes, compressed or not.
    pub(super) fn page(&mut self, is_compressed: bool, level: i32) -> io::Result<&[u8]> {
        if !is_compressed {
            return Ok(&self.page);
        }
        if level != self.level || self.page != self.latest {
            std::mem::swap(&mut self.page, &mut self.latest);
            self.run(level)?;
        }
        Ok(&self.compressed)
    }

    /// Compresses `latest`.
    fn run(&mut self, level: i32) -> io::Result<()> {
        if level != self.level {
            self.context.set_compression_level(level)?;
            self.level = level;
        }
        self.compressed.clear();
        let bound = ::zstd::zstd_safe::compress_bound(self.latest.len());
        self.compressed.reserve(bound);
        let context = &mut self.context;
        context.compress_to_buffer(self.latest.as_slice(), &mut self.compressed)?;
        Ok(())
    }
}
