//! Link headers that few captures have: those around the header of another link, wireless, and
//! serial ones. Each is bounds-checked: its lengths are those that the frame claims.

use crate::Layers;
use crate::bytes::{array, u16_at};
use crate::ethernet::ether_type;
use crate::link::{self, Network, Unread, byte_at, ppp, tagged, tags};

/// As [`link::network`], of the link types that it does not know.
#[cold]
pub(crate) fn network(
    link_type: u16,
    bytes: &[u8],
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    match link_type {
        9 => ppp(bytes, 0),
        50 => match bytes {
            // Cisco's way to frame PPP's link: unicast or broadcast, then an EtherType.
            [0x0f | 0x8f, 0, ..] => tagged(bytes, 2, layers),
            _ => ppp(bytes, 0),
        },
        51 => tags(bytes, ether_type::PPPOE_SESSION, 0, layers),
        104 => tagged(bytes, 2, layers),
        105 => wireless(bytes, 0, false, layers),
        // IEEE 1394, with addresses of 8 bytes.
        138 => tagged(bytes, 16, layers),
        117 => packet_filter_log(bytes),
        119 if array(bytes, 0).is_some_and(|magic: &[u8; 4]| magic[..3] == [0x80, 0x21, 0x10]) => {
            radio_avs(bytes, layers)
        }
        119 => wireless(bytes, 144, false, layers),
        122 => tags(bytes, ether_type::LENGTH_MAX, 16, layers),
        127 => radiotap(bytes, layers),
        163 => radio_avs(bytes, layers),
        166 => match bytes {
            // A direction in the place of the address, or before it.
            [_, 3, ..] => ppp(bytes, 2),
            _ => ppp(bytes, 1),
        },
        192 => per_packet_information(bytes, layers),
        197 => erf(bytes, layers),
        204 => ppp(bytes, 1),
        205 => tagged(bytes, 3, layers),
        // Solaris: after version, family, hook, length, interfaces, zones.
        226 => match array::<24>(bytes, 0).ok_or(Unread::Malformed)? {
            [_, 2, ..] => Ok((Network::Ipv4, 24)),
            [_, 26, ..] => Ok((Network::Ipv6, 24)),
            _ => Err(Unread::NotIp),
        },
        239 => netfilter_log(bytes),
        // RFC 4391, 6: behind the global route header a type and two bytes reserved.
        242 => {
            let ether_type = array(bytes, 40).ok_or(Unread::Malformed)?;
            tags(bytes, u16::from_be_bytes(*ether_type), 44, layers)
        }
        258 => {
            let header: &[u8; 12] = array(bytes, 0).ok_or(Unread::Malformed)?;
            let [length, record, inner] = [0, 4, 8].map(|at| u32_le(header, at));
            // Version 1 has 108 bytes; a record of another kind is no packet.
            match (record, u16::try_from(inner)) {
                (1, Ok(inner)) if length >= 12 => inside(inner, bytes, length as usize, layers),
                _ => Err(Unread::NotIp),
            }
        }
        _ => Err(Unread::Unknown),
    }
}

/// The same of a frame that begins at `offset`.
pub(crate) fn inside(
    link_type: u16,
    bytes: &[u8],
    offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    // One wrapper in another is none that anybody writes, and would go on without end.
    if matches!(link_type, 192 | 197 | 258) {
        return Err(Unread::TooDeep);
    }
    let before = layers.link();
    let found = link::network(link_type, bytes.get(offset..).unwrap_or(&[]), layers);
    if let Some(link) = layers.link().filter(|_| layers.link() != before) {
        layers.set_link(offset + link);
    }
    found.map(|(network, at)| (network, offset + at))
}

fn u16_le(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).copied().map(u16::from_le_bytes)
}

fn u32_le<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from(bytes[at])
        | u32::from(bytes[at + 1]) << 8
        | u32::from(bytes[at + 2]) << 16
        | u32::from(bytes[at + 3]) << 24
}

/// IEEE 802.11, 9.3.2.1: data, whose header is as long as its flags say; then LLC. `is_padded`: to
/// words.
fn wireless(
    bytes: &[u8],
    offset: usize,
    is_padded: bool,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    let [kind, flags] = *array(bytes, offset).ok_or(Unread::Malformed)?;
    let (is_data, has_body) = (kind & 0x0f == 0x08, kind & 0x40 == 0);
    if !is_data || !has_body {
        return Err(Unread::NotIp);
    }
    let sequence = u16_le(bytes, offset + 22).ok_or(Unread::Malformed)?;
    // Encrypted, or a part.
    if flags & 0x44 != 0 || sequence & 0x0f != 0 {
        return Err(Unread::Coded);
    }
    let mut len = 24 + 6 * usize::from(flags & 3 == 3);
    if kind & 0x80 != 0 {
        // Several frames in one.
        if byte_at(bytes, offset + len)? & 0x80 != 0 {
            return Err(Unread::Coded);
        }
        len += 2 + 4 * usize::from(flags >> 7);
    }
    if is_padded {
        len = len.next_multiple_of(4);
    }
    tags(bytes, ether_type::LENGTH_MAX, offset + len, layers)
}

/// <https://www.radiotap.org>: version, padding, length, words of what is present, fields.
fn radiotap(bytes: &[u8], layers: &mut Layers) -> Result<(Network, usize), Unread> {
    const TIME: u8 = 1;
    const FLAGS: u8 = 2;
    const PADDED: u8 = 0x20;
    let len = usize::from(u16_le(bytes, 2).ok_or(Unread::Malformed)?);
    let present = byte_at(bytes, 4)?;
    let mut fields = 8;
    // The highest bit of a word: one more follows.
    while byte_at(bytes, fields - 1)? & 0x80 != 0 {
        fields += 4;
    }
    if present & TIME != 0 {
        fields = fields.next_multiple_of(8) + 8;
    }
    let is_padded = present & FLAGS != 0 && byte_at(bytes, fields)? & PADDED != 0;
    wireless(bytes, len.max(8), is_padded, layers)
}

/// The header of the AVS drivers: a magic number, a length.
fn radio_avs(bytes: &[u8], layers: &mut Layers) -> Result<(Network, usize), Unread> {
    let header: &[u8; 8] = array(bytes, 0).ok_or(Unread::Malformed)?;
    wireless(bytes, usize::from(u16_at(header, 6)).max(8), false, layers)
}

/// PPI: version, flags, length, link type, fields.
fn per_packet_information(bytes: &[u8], layers: &mut Layers) -> Result<(Network, usize), Unread> {
    let header: &[u8; 8] = array(bytes, 0).ok_or(Unread::Malformed)?;
    let len = usize::from(u16_le(header, 2).ok_or(Unread::Malformed)?);
    match u16::try_from(u32_le(header, 4)) {
        Ok(inner) if len >= 8 => inside(inner, bytes, len, layers),
        _ => Err(Unread::NotIp),
    }
}

/// OpenBSD's packet filter: length, address family; the packet begins at a word.
fn packet_filter_log(bytes: &[u8]) -> Result<(Network, usize), Unread> {
    let [len, family] = *array(bytes, 0).ok_or(Unread::Malformed)?;
    let offset = usize::from(len).next_multiple_of(4);
    match family {
        2 => Ok((Network::Ipv4, offset)),
        24 | 28 | 30 => Ok((Network::Ipv6, offset)),
        _ => Err(Unread::NotIp),
    }
}

/// Linux's netfilter: family, version, group, then values with length and type, in the byte order
/// of the host that captured, which the file does not state: types are small.
fn netfilter_log(bytes: &[u8]) -> Result<(Network, usize), Unread> {
    const PAYLOAD: u16 = 9;
    let mut at = 4;
    loop {
        let [l0, l1, t0, t1] = *array(bytes, at).ok_or(Unread::Malformed)?;
        let (len, kind) = match [t0, t1] {
            [_, 0] => (u16::from_le_bytes([l0, l1]), u16::from(t0)),
            _ => (u16::from_be_bytes([l0, l1]), u16::from_be_bytes([t0, t1])),
        };
        if len < 4 {
            return Err(Unread::Malformed);
        }
        if kind & 0x3fff == PAYLOAD {
            return match byte_at(bytes, at + 4)? >> 4 {
                4 => Ok((Network::Ipv4, at + 4)),
                6 => Ok((Network::Ipv6, at + 4)),
                _ => Err(Unread::NotIp),
            };
        }
        at += usize::from(len).next_multiple_of(4);
    }
}

/// Bytes of an ERF record before its extensions.
const ERF_LEN: usize = 16;

/// Endace's extensible record format: a stamp, type, flags, lengths; extensions; then what its type
/// says.
fn erf(bytes: &[u8], layers: &mut Layers) -> Result<(Network, usize), Unread> {
    let header: &[u8; ERF_LEN] = array(bytes, 0).ok_or(Unread::Malformed)?;
    let kind = header[8];
    let mut at = ERF_LEN;
    let mut goes_on = kind & 0x80 != 0;
    while goes_on {
        goes_on = byte_at(bytes, at)? & 0x80 != 0;
        at += 8;
    }
    match kind & 0x7f {
        // HDLC, of four kinds; behind a channel's header.
        1 | 10 | 15 | 19 => inside(50, bytes, at, layers),
        5 | 17 => inside(50, bytes, at + 4, layers),
        // Ethernet, of four kinds, behind an offset and padding.
        2 | 11 | 16 | 20 => inside(1, bytes, at + 2, layers),
        22 => Ok((Network::Ipv4, at)),
        23 => Ok((Network::Ipv6, at)),
        _ => Err(Unread::NotIp),
    }
}

#[cfg(test)]
mod tests {
    use crate::build::FrameBuilder;
    use crate::{Dissected, dissect};

    const DATA: &[u8] = b"what is inside";

    /// A frame of Ethernet, and the packet in it.
    fn plain(is_ipv6: bool) -> (Vec<u8>, Vec<u8>) {
        let builder = match is_ipv6 {
            false => FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            true => FrameBuilder::new([0xfd; 16].into(), [0xfe; 16].into()),
        };
        let frame = builder.udp(700, 2049, DATA);
        (frame.clone(), frame[14..].to_vec())
    }

    fn of_wireless(kind: u8, flags: u8, len: usize, llc: &[u8]) -> Vec<u8> {
        let mut header = vec![0; len];
        (header[0], header[1]) = (kind, flags);
        [&header[..], &[0xaa, 0xaa, 3, 0, 0, 0], llc].concat()
    }

    /// Each link type around a packet, and whether the packet is read.
    fn frames(is_ipv6: bool) -> Vec<(u16, Vec<u8>)> {
        let (ethernet, packet) = plain(is_ipv6);
        let ether_type: &[u8] = if is_ipv6 { &[0x86, 0xdd] } else { &[8, 0] };
        let ppp: &[u8] = if is_ipv6 { &[0, 0x57] } else { &[0, 0x21] };
        let typed = [ether_type, &packet].concat();
        let in_ppp = [ppp, &packet].concat();
        let data = of_wireless(8, 1, 24, &typed);
        let of = |parts: &[&[u8]]| parts.concat();
        let filled = |len: usize, begin: &[u8]| {
            let mut bytes = begin.to_vec();
            bytes.resize(len, 0);
            bytes
        };
        let family = |v4: u8, v6: u8| if is_ipv6 { v6 } else { v4 };
        vec![
            (9, of(&[&[0xff, 3], &in_ppp])),
            (9, in_ppp.clone()),
            (50, of(&[&[0xff, 3], &in_ppp])),
            (50, of(&[&[0x0f, 0], &typed])),
            (51, of(&[&[0x11, 0, 0, 1, 0, 99], &in_ppp])),
            (104, of(&[&[0x8f, 0], &typed])),
            (105, data.clone()),
            (105, of_wireless(0x88, 3, 32, &typed)),
            (105, of_wireless(0x88, 0x81, 30, &typed)),
            (117, of(&[&filled(64, &[61, family(2, 24)]), &packet])),
            (119, of(&[&[0x44; 144], &data])),
            (
                119,
                of(&[&filled(64, &[0x80, 0x21, 0x10, 1, 0, 0, 0, 64]), &data]),
            ),
            (122, of(&[&[0; 16], &[0xaa, 0xaa, 3, 0, 0, 0], &typed])),
            (127, of(&[&filled(12, &[0, 0, 12, 0, 4]), &data])),
            // Padded behind 26 bytes, as its flags say behind a time and two words of presence.
            (127, {
                let mut header = filled(32, &[0, 0, 32, 0, 3, 0, 0, 0x80]);
                header[24] = 0x20;
                let mut data = of_wireless(0x88, 1, 26, &typed);
                data.splice(26..26, [0, 0]);
                of(&[&header, &data])
            }),
            (138, of(&[&[0; 16], &typed])),
            (
                163,
                of(&[&filled(64, &[0x80, 0x21, 0x10, 1, 0, 0, 0, 64]), &data]),
            ),
            (166, of(&[&[1, 3], &in_ppp])),
            (166, of(&[&[1, 0xff, 3], &in_ppp])),
            (192, of(&[&[0, 0, 20, 0, 105, 0, 0, 0], &[0; 12], &data])),
            (192, of(&[&[0, 0, 8, 0, 1, 0, 0, 0], &ethernet])),
            (
                197,
                of(&[
                    &filled(16, &[0, 0, 0, 0, 0, 0, 0, 0, 2]),
                    &[0, 0],
                    &ethernet,
                ]),
            ),
            (197, {
                let header = filled(16, &[0, 0, 0, 0, 0, 0, 0, 0, 0x82]);
                of(&[
                    &header,
                    &[0x83, 0, 0, 0, 0, 0, 0, 0],
                    &[3; 8],
                    &[0, 0],
                    &ethernet,
                ])
            }),
            (
                197,
                of(&[
                    &filled(16, &[0, 0, 0, 0, 0, 0, 0, 0, 1]),
                    &[0xff, 3],
                    &in_ppp,
                ]),
            ),
            (
                197,
                of(&[
                    &filled(16, &[0, 0, 0, 0, 0, 0, 0, 0, family(22, 23)]),
                    &packet,
                ]),
            ),
            (204, of(&[&[0, 0xff, 3], &in_ppp])),
            (205, of(&[&[1, 0x0f, 0], &typed])),
            (226, of(&[&filled(24, &[1, family(2, 26)]), &packet])),
            (
                239,
                of(&[
                    &[2, 0, 0, 0],
                    &[8, 0, 1, 0, 8, 0, 1, 0],
                    &[0xff, 0, 9, 0],
                    &packet,
                ]),
            ),
            (
                239,
                of(&[
                    &[2, 0, 0, 0],
                    &[0, 7, 0, 10, b'x', b'y', 0, 0],
                    &[0, 99, 0, 9],
                    &packet,
                ]),
            ),
            (242, of(&[&[0; 40], ether_type, &[0, 0], &packet])),
            (
                258,
                of(&[&filled(108, &[108, 0, 0, 0, 1, 0, 0, 0, 1]), &ethernet]),
            ),
            (
                258,
                of(&[&filled(120, &[120, 0, 0, 0, 1, 0, 0, 0, 12]), &packet]),
            ),
        ]
    }

    #[test]
    fn each_link_type_leads_to_its_packet() {
        for is_ipv6 in [false, true] {
            for (at, (link_type, frame)) in frames(is_ipv6).into_iter().enumerate() {
                let found = dissect(link_type, &frame, frame.len());
                let Dissected::Udp(_, udp) = found else {
                    panic!("case {at} of {link_type}, IPv6 {is_ipv6}: {found:?}");
                };
                assert_eq!(&frame[udp.payload..][..udp.captured_len], DATA);
                assert!(crate::link_type::is_read(link_type));
            }
        }
    }

    /// Also where a snap length cut it, whatever the length on the wire.
    #[test]
    fn headers_cut_at_each_length_are_no_packet() {
        for (link_type, frame) in frames(false) {
            for len in 0..frame.len() {
                for wire_len in [len, frame.len()] {
                    let found = dissect(link_type, &frame[..len], wire_len);
                    let is_whole = len + DATA.len() >= frame.len();
                    let is_udp = matches!(found, Dissected::Udp(..));
                    assert!(is_whole || !is_udp, "{link_type} {len}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_encrypted_in_parts_or_no_data_is_not_read() {
        let (_, packet) = plain(false);
        let typed = [&[8, 0][..], &packet].concat();
        let found = |kind, flags, len| {
            let frame = of_wireless(kind, flags, len, &typed);
            dissect(105, &frame, frame.len())
        };
        assert_eq!(found(8, 0x41, 24), Dissected::IpUnread);
        assert_eq!(found(8, 0x05, 24), Dissected::IpUnread);
        for kind in [0x80, 0xb4, 0x48, 0x0a] {
            assert!(
                !matches!(found(kind, 0, 24), Dissected::Udp(..)),
                "{kind:x}"
            );
        }
        // A wrapper in a wrapper.
        let inner = [&[108_u8, 0, 0, 0, 1, 0, 0, 0, 2, 1][..], &[0; 98]].concat();
        assert_eq!(dissect(258, &inner, inner.len()), Dissected::TooDeep);
    }
}
