//! Lists of entries that lie in one array, linked by their places there.

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// The neighbours of an entry in its list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    previous: u32,
    pub(super) next: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            previous: NONE,
            next: NONE,
        }
    }
}

/// What has neighbours in a list.
pub(super) trait Chain {
    fn link(&mut self) -> &mut Link;
}

/// The ends of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) first: u32,
    last: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    /// Adds an entry that is in no list at the end.
    #[inline]
    pub(super) fn push(&mut self, entries: &mut [impl Chain], at: u32) {
        let last = std::mem::replace(&mut self.last, at);
        *entries[at as usize].link() = Link {
            previous: last,
            next: NONE,
        };
        match entries.get_mut(last as usize) {
            Some(last) => last.link().next = at,
            None => self.first = at,
        }
    }

    /// Takes out an entry that is in this list.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut [impl Chain], at: u32) {
        let Link { previous, next } = *entries[at as usize].link();
        match entries.get_mut(previous as usize) {
            Some(previous) => previous.link().next = next,
            None => self.first = next,
        }
        match entries.get_mut(next as usize) {
            Some(next) => next.link().previous = previous,
            None => self.last = previous,
        }
    }
}
