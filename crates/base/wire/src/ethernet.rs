//! Ethernet II headers and VLAN tags: IEEE 802.3, 3.2; IEEE 802.1Q, 9.

use crate::bytes::{array_at, set, set_u16, u16_at};

/// Offsets in a frame.
pub mod field {
    /// The receiver's address.
    pub const DESTINATION: usize = 0;
    /// The sender's address.
    pub const SOURCE: usize = 6;
    /// Names the header or the tag that follows.
    pub const ETHER_TYPE: usize = 12;
    /// What follows a header without tags.
    pub const PAYLOAD: usize = 14;
}

/// Offsets in a VLAN tag, after the EtherType that announces it.
mod tag_field {
    pub(super) const CONTROL: usize = 0;
    pub(super) const ETHER_TYPE: usize = 2;
}

/// Numbers of the IEEE's registry that are read or written here.
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// Address resolution: RFC 826.
    pub const ARP: u16 = 0x0806;
    /// Reverse address resolution: RFC 903.
    pub const RARP: u16 = 0x8035;
    /// "Transparent Ethernet bridging": an Ethernet frame. RFC 1701.
    pub const BRIDGED: u16 = 0x6558;
    /// A customer's VLAN tag: IEEE 802.1Q.
    pub const VLAN: u16 = 0x8100;
    /// A provider's VLAN tag: IEEE 802.1ad.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// A provider's VLAN tag, as switches wrote it before 802.1ad.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
    /// The same of a second tag, by some switches.
    pub const OLD_SERVICE_VLAN_2: u16 = 0x9200;
    /// The same of a third.
    pub const OLD_SERVICE_VLAN_3: u16 = 0x9300;
    /// The greatest number that is a length instead: IEEE 802.3, 3.2.6.
    pub const LENGTH_MAX: u16 = 1500;
    /// An LLC header in a frame that is too long for a length.
    pub const LLC: u16 = 0x8870;
    /// A packet of PPP, behind a header of PPPoE: RFC 2516, 4.
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// A customer's frame in a provider's: the I-TAG of IEEE 802.1Q, 9.7 (802.1ah).
    pub const BACKBONE_SERVICE: u16 = 0x88e7;
    /// A tag between a port extender and its switch: Cisco's VN-Tag.
    pub const VN_TAG: u16 = 0x8926;
    /// The same as standardised: the E-TAG of IEEE 802.1BR, 7.
    pub const E_TAG: u16 = 0x893f;
    /// A security group in front of the packet: Cisco metadata (draft-smith-kandula-sxp, 3).
    pub const CISCO_METADATA: u16 = 0x8909;
    /// The tag of a ring that is seamlessly redundant: IEC 62439-3, 5.
    pub const HSR: u16 = 0x892f;
    /// A stamp that a switch of Arista adds in front of the type.
    pub const ARISTA: u16 = 0xd28b;
    /// A network service header: RFC 8300, 2.2.
    pub const SERVICE_HEADER: u16 = 0x894f;
    /// A frame that is secured, and perhaps encrypted: IEEE 802.1AE, 9.
    pub const MACSEC: u16 = 0x88e5;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS with a downstream-assigned label: RFC 5332, 3.
    pub const MPLS: u16 = 0x8847;
    /// MPLS with an upstream-assigned label: RFC 5332, 3.
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// A packet of PPP, in GRE: RFC 2637, 4.1.
    pub const PPP: u16 = 0x880b;
    /// ERSPAN, types I and II.
    pub const ERSPAN: u16 = 0x88be;
    /// ERSPAN, type III.
    pub const ERSPAN_III: u16 = 0x22eb;
    /// For experiments on one's own network: IEEE 802, 9.2.3.
    pub const LOCAL_EXPERIMENT: u16 = 0x88b5;
}

/// Whether an Ethernet frame begins with a VLAN tag.
pub fn is_tagged(frame: &[u8]) -> bool {
    use ether_type::{OLD_SERVICE_VLAN, SERVICE_VLAN, VLAN};
    frame.len() >= HEADER_LEN
        && matches!(
            u16_at(frame, field::ETHER_TYPE),
            VLAN | SERVICE_VLAN | OLD_SERVICE_VLAN
        )
}

/// Bytes of the header without tags.
pub const HEADER_LEN: usize = field::PAYLOAD;
/// Bytes that a VLAN tag adds to the header.
pub const TAG_LEN: usize = 4;

/// A frame in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Frame<T>(T);

impl<T: AsRef<[u8]>> Frame<T> {
    /// The getters panic if the buffer is shorter than the header.
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// `None` if the buffer is shorter than the header.
    #[inline]
    pub fn new_checked(buffer: T) -> Option<Self> {
        (buffer.as_ref().len() >= HEADER_LEN).then_some(Self(buffer))
    }

    /// The receiver's address.
    #[inline]
    pub fn destination(&self) -> [u8; 6] {
        array_at(self.0.as_ref(), field::DESTINATION)
    }

    /// The sender's address.
    #[inline]
    pub fn source(&self) -> [u8; 6] {
        array_at(self.0.as_ref(), field::SOURCE)
    }

    /// Names what follows: see [`ether_type`].
    #[inline]
    pub fn ether_type(&self) -> u16 {
        u16_at(self.0.as_ref(), field::ETHER_TYPE)
    }

    /// What follows the header; with tags, the first tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[field::PAYLOAD..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the receiver's address.
    pub fn set_destination(&mut self, address: [u8; 6]) {
        set(self.0.as_mut(), field::DESTINATION, &address);
    }

    /// Sets the sender's address.
    pub fn set_source(&mut self, address: [u8; 6]) {
        set(self.0.as_mut(), field::SOURCE, &address);
    }

    /// Sets what follows.
    pub fn set_ether_type(&mut self, ether_type: u16) {
        set_u16(self.0.as_mut(), field::ETHER_TYPE, ether_type);
    }

    /// What follows the header, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[field::PAYLOAD..]
    }
}

/// A VLAN tag in a buffer, from its control information on.
#[derive(Debug, Clone, Copy)]
pub struct Tag<T>(T);

impl<T: AsRef<[u8]>> Tag<T> {
    /// The getters panic if the buffer is shorter than [`TAG_LEN`].
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// The VLAN identifier, 12 bits.
    #[inline]
    pub fn id(&self) -> u16 {
        u16_at(self.0.as_ref(), tag_field::CONTROL) & 0x0fff
    }

    /// Names what follows the tag.
    #[inline]
    pub fn ether_type(&self) -> u16 {
        u16_at(self.0.as_ref(), tag_field::ETHER_TYPE)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    /// Sets priority (3 bits), drop eligibility (1 bit) and VLAN identifier (12 bits).
    pub fn set_control(&mut self, control: u16) {
        set_u16(self.0.as_mut(), tag_field::CONTROL, control);
    }

    /// Sets what follows the tag.
    pub fn set_ether_type(&mut self, ether_type: u16) {
        set_u16(self.0.as_mut(), tag_field::ETHER_TYPE, ether_type);
    }
}
