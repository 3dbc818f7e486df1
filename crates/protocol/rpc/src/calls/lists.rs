//! Lists of the entries of an array, by their places there. Each entry is in one of them.

/// Calls that wait, replies that came before their calls, answered and expired calls, those that
/// linger: from the oldest to the latest. And the places that are free.
pub(super) const WAITING: u32 = 0;
pub(super) const EARLY: u32 = 1;
pub(super) const ENDED: u32 = 2;
pub(super) const LINGERING: u32 = 3;
pub(super) const FREE: u32 = 4;
pub(super) const LISTS: u32 = 5;

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

/// First the ends of the lists, then the links of the entries: rings, so that nothing has to ask
/// whether there is a neighbour.
#[derive(Debug, Default)]
pub(super) struct Lists {
    links: Vec<Link>,
}

impl Lists {
    /// Makes room for this many entries.
    pub(super) fn reserve(&mut self, entries: usize) {
        let more = LISTS as usize + entries - self.links.len();
        self.links.reserve_exact(more);
        if self.links.is_empty() {
            let ends = (0..LISTS).map(|end| Link {
                previous: end,
                next: end,
            });
            self.links.extend(ends);
        }
    }

    /// Adds the entry at the next place to a list; returns the place.
    pub(super) fn add(&mut self, list: u32) -> u32 {
        let link = self.links.len() as u32;
        self.links.push(Link {
            previous: link,
            next: link,
        });
        self.move_to(list, link - LISTS);
        link - LISTS
    }

    /// Moves an entry to the end of a list.
    #[inline]
    pub(super) fn move_to(&mut self, list: u32, entry: u32) {
        let links = self.links.as_mut_slice();
        let link = entry + LISTS;
        let Link { previous, next } = links[link as usize];
        links[previous as usize].next = next;
        links[next as usize].previous = previous;
        let last = std::mem::replace(&mut links[list as usize].previous, link);
        links[last as usize].next = link;
        links[link as usize] = Link {
            previous: last,
            next: list,
        };
    }

    #[inline]
    pub(super) fn first(&self, list: u32) -> Option<u32> {
        let end = self.links.get(list as usize)?;
        end.next.checked_sub(LISTS)
    }

    #[inline]
    pub(super) fn last(&self, list: u32) -> Option<u32> {
        let end = self.links.get(list as usize)?;
        end.previous.checked_sub(LISTS)
    }

    pub(super) fn iter(&self, list: u32) -> impl Iterator<Item = u32> {
        let next = move |&at: &u32| self.links[(at + LISTS) as usize].next.checked_sub(LISTS);
        std::iter::successors(self.first(list), next)
    }
}
