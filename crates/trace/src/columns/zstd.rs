//! Compresses pages.

use ::zstd::bulk::Compressor;
use parquet::errors::ParquetError;

/// Compresses pages.
pub(crate) struct Zstd {
    context: Compressor<'static>,
    level: i32,
    /// What was compressed last, and what became of it: a column often has the page of the one
    /// before.
    latest: Vec<u8>,
    pub(super) compressed: Vec<u8>,
    /// Memory of an earlier page, for the next one.
    pub(super) page: Vec<u8>,
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
            latest: Vec::new(),
            compressed: Vec::new(),
            page: Vec::new(),
        }
    }

    /// Whether `sample` becomes shorter by an eighth.
    pub(super) fn shortens(&mut self, sample: &[u8], level: i32) -> Result<bool, ParquetError> {
        self.run(sample, level)?;
        // The page is often the same.
        self.latest.clear();
        self.latest.extend_from_slice(sample);
        Ok(self.compressed.len() < sample.len() - sample.len() / 8)
    }

    /// A page, compressed.
    pub(super) fn compress(&mut self, page: Vec<u8>, level: i32) -> Result<Vec<u8>, ParquetError> {
        if level != self.level || page != self.latest {
            self.run(&page, level)?;
        }
        self.page = std::mem::replace(&mut self.latest, page);
        Ok(std::mem::take(&mut self.compressed))
    }

    fn run(&mut self, bytes: &[u8], level: i32) -> Result<(), ParquetError> {
        let failed = |error: std::io::Error| ParquetError::General(error.to_string());
        if level != self.level {
            self.context.set_compression_level(level).map_err(failed)?;
            self.level = level;
        }
        self.compressed.clear();
        let bound = ::zstd::zstd_safe::compress_bound(bytes.len());
        self.compressed.reserve(bound);
        let written = self.context.compress_to_buffer(bytes, &mut self.compressed);
        written.map(drop).map_err(failed)
    }
}
