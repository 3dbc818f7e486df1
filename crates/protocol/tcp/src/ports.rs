//! Who takes what comes to a port: connections of TCP, datagrams of UDP.

use std::net::IpAddr;

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Not an address of the stack.
    #[error("{0} is not an address of this stack")]
    NotOurs(IpAddr),
    /// Both addresses are to be of one family.
    #[error("{0} and {1} are addresses of different families")]
    Families(IpAddr, IpAddr),
    /// A group's address, or nobody's.
    #[error("{0} is not the address of one host")]
    NotUnicast(IpAddr),
    /// Neither on the link nor behind a router.
    #[error("no router leads to {0}: name one, or say that it is on the link")]
    NoRoute(IpAddr),
    /// Somebody listens there, or has a connection between the two ends.
    #[error("port {0} is in use there: choose another one, or 0")]
    InUse(u16),
    /// A datagram longer than a packet.
    #[error("{0} bytes do not fit into a packet, which carries at most {1}: send fewer")]
    TooLong(usize, usize),
    /// All ports are in use.
    #[error("all ports between the two addresses are in use: add an address")]
    NoPort,
    /// A bound or the budget is reached.
    #[error("there is no room for another connection: raise its bounds or the memory")]
    Full,
    /// There is no such connection, or it sends no more.
    #[error("the connection sends no more")]
    Over,
}

/// An owner's word, at a port of one address or of all.
#[derive(Debug, Clone, Copy)]
struct Entry {
    port: u16,
    /// `None`, which sorts first: all addresses.
    address: Option<IpAddr>,
    owner: u32,
}

/// The ports of a protocol that are taken, sorted.
#[derive(Debug, Default)]
pub(crate) struct Ports(Vec<Entry>);

impl Ports {
    fn place(&self, address: Option<IpAddr>, port: u16) -> Result<usize, usize> {
        self.0
            .binary_search_by_key(&(port, address), |entry| (entry.port, entry.address))
    }

    pub(crate) fn add(
        &mut self,
        address: Option<IpAddr>,
        port: u16,
        owner: u32,
    ) -> Result<(), Refused> {
        let Err(place) = self.place(address, port) else {
            return Err(Refused::InUse(port));
        };
        let entry = Entry {
            port,
            address,
            owner,
        };
        self.0.insert(place, entry);
        Ok(())
    }

    /// Whether somebody was there.
    pub(crate) fn remove(&mut self, address: Option<IpAddr>, port: u16) -> bool {
        let place = self.place(address, port);
        place.map(|place| self.0.remove(place)).is_ok()
    }

    /// Whose it is; an owner of that address comes before one of all.
    #[inline]
    pub(crate) fn owner(&self, address: IpAddr, port: u16) -> Option<u32> {
        let place = { self.place(Some(address), port) }.or_else(|_| self.place(None, port));
        place.ok().map(|place| self.0[place].owner)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_of_an_address_comes_before_one_of_all() {
        let [one, two] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let mut ports = Ports::default();
        assert_eq!(ports.add(None, 7, 1), Ok(()));
        assert_eq!(ports.add(Some(one), 7, 2), Ok(()));
        assert_eq!(ports.add(Some(one), 9, 3), Ok(()));
        assert_eq!(ports.add(None, 7, 4), Err(Refused::InUse(7)));
        let owner = |ports: &Ports, address, port| ports.owner(address, port);
        assert_eq!(owner(&ports, one, 7), Some(2));
        assert_eq!(owner(&ports, two, 7), Some(1));
        assert_eq!(owner(&ports, two, 9), None);
        assert!(ports.remove(Some(one), 7));
        assert!(!ports.remove(Some(one), 7));
        assert_eq!(owner(&ports, one, 7), Some(1));
    }
}
