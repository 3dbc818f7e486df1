//! What lies around the innermost packet of a frame.

use std::net::IpAddr;

/// VLAN tags and tunnels of a frame, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Layers {
    tags: [u16; Self::MAX],
    tags_len: u8,
    kinds: [TunnelKind; Self::MAX],
    ids: [u32; Self::MAX],
    /// Which of the tunnels have an id, a bit each.
    with_id: u8,
    tunnels_len: u8,
    outer: Option<(IpAddr, IpAddr)>,
    link: Option<u32>,
}

/// A tunnel, and what distinguishes it from others of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// How packets are wrapped.
    pub kind: TunnelKind,
    /// GRE's key, ERSPAN's session, VXLAN's and GENEVE's network identifier, MPLS's label, the
    /// session of PPPoE and L2TP, 802.1ah's service, GTP's endpoint.
    pub id: Option<u32>,
}

/// How packets are wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TunnelKind {
    /// IP in IP: RFC 2003, RFC 2473, RFC 4213.
    #[default]
    IpInIp,
    /// Generic routing encapsulation, of IP, Ethernet or MPLS: RFC 2784, RFC 2890.
    Gre,
    /// A switch's mirror session, type I: draft-foschiano-erspan-03, 4.1.
    ErspanI,
    /// Type II: 4.2.
    ErspanII,
    /// Type III: 4.3.
    ErspanIII,
    /// RFC 7348.
    Vxlan,
    /// draft-ietf-nvo3-vxlan-gpe-13.
    VxlanGpe,
    /// RFC 8926.
    Geneve,
    /// One label of a stack: RFC 3032.
    Mpls,
    /// PPP over Ethernet: RFC 2516.
    Pppoe,
    /// Ethernet in Ethernet, of a provider's backbone: IEEE 802.1ah.
    Backbone,
    /// A mobile network's user plane: 3GPP TS 29.281.
    Gtp,
    /// PPP (RFC 2661) or Ethernet (RFC 3931, RFC 4719).
    L2tp,
    /// Ethernet in IP: RFC 3378.
    EtherIp,
    /// RFC 9300.
    Lisp,
    /// TaZmen's sniffer protocol.
    Tzsp,
}

impl TunnelKind {
    /// Its name in the trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::IpInIp => "ipip",
            Self::Gre => "gre",
            Self::ErspanI => "erspan1",
            Self::ErspanII => "erspan2",
            Self::ErspanIII => "erspan3",
            Self::Vxlan => "vxlan",
            Self::VxlanGpe => "vxlan-gpe",
            Self::Geneve => "geneve",
            Self::Mpls => "mpls",
            Self::Pppoe => "pppoe",
            Self::Backbone => "pbb",
            Self::Gtp => "gtp",
            Self::L2tp => "l2tp",
            Self::EtherIp => "etherip",
            Self::Lisp => "lisp",
            Self::Tzsp => "tzsp",
        }
    }
}

impl Layers {
    /// The most tags, and the most tunnels, that are read: a frame with more of them is
    /// [`TooDeep`](crate::Dissected::TooDeep). Two tags are the standard's (IEEE 802.1ad), and a
    /// packet in three tunnels is a mirrored one of two overlays; the rest is for label stacks.
    pub const MAX: usize = 8;

    /// VLAN identifiers (12 bits each), outermost first, of all tunnels together.
    pub fn tags(&self) -> &[u16] {
        &self.tags[..usize::from(self.tags_len)]
    }

    /// Tunnels, outermost first.
    pub fn tunnels(&self) -> impl ExactSizeIterator<Item = Tunnel> + DoubleEndedIterator {
        (0..usize::from(self.tunnels_len)).map(|at| Tunnel {
            kind: self.kinds[at],
            id: (self.with_id >> at & 1 != 0).then_some(self.ids[at]),
        })
    }

    /// The network identifier of the innermost VXLAN or GENEVE tunnel that has one: networks with
    /// different ones may use the same addresses (RFC 7348, 4; RFC 8926, 3.4). Other tunnels have
    /// numbers that may differ each way, or from mirror to mirror.
    #[inline]
    pub fn virtual_network(&self) -> Option<u32> {
        if self.tunnels_len == 0 {
            return None;
        }
        let is_overlay = |tunnel: &Tunnel| {
            matches!(
                tunnel.kind,
                TunnelKind::Vxlan | TunnelKind::VxlanGpe | TunnelKind::Geneve
            )
        };
        let overlays = self.tunnels().rev().filter(is_overlay);
        { overlays }.find_map(|tunnel| tunnel.id)
    }

    /// A number made of all tags, that of a single tag if there is one; 0 without any. A tag of
    /// priority only (IEEE 802.1Q, 9.6) is none.
    #[inline]
    pub fn vlan(&self) -> u16 {
        let tags = self.tags().iter();
        tags.fold(0, |vlan, tag| vlan.rotate_left(5) ^ tag)
    }

    /// Source and destination of the outermost tunnel that has addresses: MPLS has none.
    pub fn outer(&self) -> Option<(IpAddr, IpAddr)> {
        self.outer
    }

    /// Offset of the innermost Ethernet header that is in a tunnel.
    pub fn link(&self) -> Option<usize> {
        self.link.map(|link| link as usize)
    }

    pub(crate) fn set_link(&mut self, offset: usize) {
        self.link = u32::try_from(offset).ok();
    }

    /// False if there are too many.
    #[inline]
    pub(crate) fn push_tag(&mut self, id: u16) -> bool {
        let Some(slot) = self.tags.get_mut(usize::from(self.tags_len)) else {
            return false;
        };
        *slot = id;
        self.tags_len += 1;
        true
    }

    /// False if there are too many.
    pub(crate) fn push_tunnel(&mut self, tunnel: Tunnel, outer: Option<(IpAddr, IpAddr)>) -> bool {
        let at = usize::from(self.tunnels_len);
        if at == Self::MAX {
            return false;
        }
        self.kinds[at] = tunnel.kind;
        self.ids[at] = tunnel.id.unwrap_or(0);
        self.with_id |= u8::from(tunnel.id.is_some()) << at;
        self.tunnels_len += 1;
        self.outer = self.outer.or(outer);
        true
    }
}
