/// Rows of one table whose memory is used again.
pub(crate) struct ReusedRows<R> {
    rows: Vec<R>,
    len: usize,
}

impl<R> Default for ReusedRows<R> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            len: 0,
        }
    }
}

impl<R: Clone> ReusedRows<R> {
    #[inline]
    pub(crate) fn push(&mut self, row: &R) {
        match self.rows.get_mut(self.len) {
            Some(old) => old.clone_from(row),
            None => self.rows.push(row.clone()),
        }
        self.len += 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &R> {
        self.rows[..self.len].iter()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Rows beyond `rows_max` free their memory.
    pub(crate) fn clear(&mut self, rows_max: usize) {
        self.rows.truncate(rows_max);
        self.rows.shrink_to(4 * rows_max);
        self.len = 0;
    }
}
