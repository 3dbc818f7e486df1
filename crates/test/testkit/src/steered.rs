//! Frames of all kinds that concern steering, and expressions of pcap-filter(7) that say which of
//! them are taken: an oracle that knows nothing of the program that takes them.

use lineside_time::Random;

/// Blocks of addresses that a host does not have.
pub const BLOCKS: [&str; 4] = ["10.9.0.0/17", "192.0.2.9", "fd00:9::/36", "2001:db8::9"];
/// Addresses that the host has.
pub const OF_HOST: [&str; 2] = ["198.51.100.1", "2001:db8:1::1"];
/// Ports at them.
pub const PORTS: std::ops::RangeInclusive<u16> = 7000..=7999;

/// What is taken for [`BLOCKS`].
pub fn for_blocks() -> String {
    let v4 = "(dst net 10.9.0.0/17 or dst host 192.0.2.9)";
    let v6 = "((ip6[24:4] = 0xfd000009 and ip6[28:4] < 0x10000000) or (ip6[24:4] = 0x20010db8 and \
              ip6[28:4] = 0 and ip6[32:4] = 0 and ip6[36:4] = 9))";
    let about = v6
        .replace("ip6[24", "ip6[48")
        .replace("ip6[28", "ip6[52")
        .replace("ip6[32", "ip6[56")
        .replace("ip6[36", "ip6[60");
    let any = format!(
        "((ip and {v4}) or (arp and arp[2:4] = 0x08000604 and {v4}) or (ip6 and {v6}) or \
         (ip6 and ip6[6] = 58 and (ip6[40] = 135 or ip6[40] = 136) and {about}))"
    );
    // Each `vlan` moves the offsets of what follows it.
    format!("{any} or (vlan and {any}) or (vlan and {any})")
}

/// What is taken for [`PORTS`] of [`OF_HOST`].
pub fn for_ports() -> String {
    let (first, last) = (PORTS.start(), PORTS.end());
    let within = |port: &str| format!("{port} >= {first} and {port} <= {last}");
    let own_v4 = "0xc6336401";
    let v4 = format!(
        "(ip and ip[16:4] = {own_v4} and (ip[6:2] & 0x3fff) = 0 and \
         (((tcp or udp) and dst portrange {first}-{last}) or \
         ((icmp[0] = 3 or icmp[0] = 11 or icmp[0] = 12) and icmp[20:4] = {own_v4} and \
         (icmp[14:2] & 0x1fff) = 0 and (icmp[17] = 6 or icmp[17] = 17) and {})))",
        within("icmp[8 + 4 * (icmp[8] & 0xf):2]")
    );
    let is_own = |at: usize| {
        format!(
            "ip6[{}:4] = 0x20010db8 and ip6[{}:4] = 0x00010000 and ip6[{}:4] = 0 and \
             ip6[{}:4] = 1",
            at,
            at + 4,
            at + 8,
            at + 12
        )
    };
    let v6 = format!(
        "(ip6 and {} and (((ip6[6] = 6 or ip6[6] = 17) and {}) or \
         (ip6[6] = 58 and ip6[40] >= 1 and ip6[40] <= 4 and {} and \
         (ip6[54] = 6 or ip6[54] = 17) and {})))",
        is_own(24),
        within("ip6[42:2]"),
        is_own(56),
        within("ip6[88:2]")
    );
    format!("{v4} or {v6}")
}

/// A frame of Ethernet that may be for one of them, for the host or for others, perhaps with tags,
/// cut short, or nothing at all.
pub fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for _ in 0..one_of(random, &[0, 0, 0, 0, 1, 2]) {
        frame.extend(one_of(random, &[[0x81, 0x00, 0, 7], [0x88, 0xa8, 0x20, 9]]));
    }
    match random.below(8) {
        0..3 => {
            frame.extend([0x08, 0x00]);
            frame.extend(ipv4(random, 0));
        }
        3..6 => {
            frame.extend([0x86, 0xdd]);
            frame.extend(ipv6(random, 0));
        }
        6 => {
            frame.extend([0x08, 0x06]);
            frame.extend(arp(random));
        }
        _ => frame.extend([0x88, 0xb5, 1, 2, 3, 4]),
    }
    // No wire carries less than the addresses and a type.
    let end = match random.below(8) {
        0 => 14 + random.below(frame.len() as u64 - 13) as usize,
        _ => frame.len(),
    };
    frame.truncate(end);
    frame
}

fn arp(random: &mut Random) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1 + random.below(2) as u8];
    if random.below(8) == 0 {
        packet[5] = 16;
    }
    packet.extend([2, 0, 0, 0, 0, 2]);
    packet.extend(address_v4(random));
    packet.extend([0; 6]);
    packet.extend(address_v4(random));
    packet
}

fn ipv4(random: &mut Random, depth: u32) -> Vec<u8> {
    let options_len = one_of(random, &[0, 0, 4, 40]);
    let protocol = one_of(random, &[6, 6, 17, 17, 1, 1, 47]);
    let fragment: u16 = one_of(random, &[0, 0, 0, 0, 0x4000, 0x4000, 0x2000, 0x0010]);
    let payload = match protocol {
        1 => icmp(random, depth, &[3, 3, 11, 12, 8, 0, 5], ipv4),
        _ => ports(random),
    };
    let len = (20 + options_len + payload.len()) as u16;
    let mut packet = vec![0x45 + (options_len / 4) as u8, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(address_v4(random));
    packet.extend(address_v4(random));
    packet.resize(20 + options_len, 1);
    packet.extend(payload);
    packet
}

fn ipv6(random: &mut Random, depth: u32) -> Vec<u8> {
    let next_header = one_of(random, &[6, 6, 17, 17, 58, 58, 58, 44, 0]);
    let payload = match next_header {
        58 if random.below(2) == 0 => {
            let mut message = vec![one_of(random, &[135, 136, 133]), 0, 0, 0, 0, 0, 0, 0];
            message.extend(address_v6(random));
            message.extend([1, 1, 2, 0, 0, 0, 0, 2]);
            message
        }
        58 => icmp(random, depth, &[1, 2, 3, 4, 0, 5, 128, 129], ipv6),
        _ => ports(random),
    };
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next_header, 255]);
    packet.extend(address_v6(random));
    packet.extend(address_v6(random));
    packet.extend(payload);
    packet
}

fn icmp(
    random: &mut Random,
    depth: u32,
    kinds: &[u8],
    quoted: fn(&mut Random, u32) -> Vec<u8>,
) -> Vec<u8> {
    let mut message = vec![one_of(random, kinds), 0, 0, 0, 0, 0, 0, 0];
    if depth == 0 {
        message.extend(quoted(random, 1));
    }
    message
}

fn ports(random: &mut Random) -> Vec<u8> {
    const NEAR: [u16; 8] = [6999, 7000, 7001, 7500, 7998, 7999, 8000, 22];
    let mut segment = Vec::new();
    for _ in 0..2 {
        segment.extend(one_of(random, &NEAR).to_be_bytes());
    }
    segment.resize(28, 0);
    segment
}

fn address_v4(random: &mut Random) -> [u8; 4] {
    one_of(
        random,
        &[
            [10, 9, 0, 0],
            [10, 9, 127, 255],
            [10, 9, 128, 0],
            [10, 8, 255, 255],
            [192, 0, 2, 9],
            [192, 0, 2, 8],
            [198, 51, 100, 1],
            [198, 51, 100, 1],
            [198, 51, 100, 1],
            [198, 51, 100, 1],
            [198, 51, 100, 1],
            [198, 51, 100, 1],
            [255, 255, 255, 255],
        ],
    )
}

fn address_v6(random: &mut Random) -> [u8; 16] {
    let mut address = one_of(
        random,
        &[
            [0xfd, 0, 0, 9, 0x00, 0, 0, 0],
            [0xfd, 0, 0, 9, 0x0f, 0xff, 0xff, 0xff],
            [0xfd, 0, 0, 9, 0x10, 0, 0, 0],
            [0xfd, 0, 0, 8, 0xff, 0xff, 0xff, 0xff],
            [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0],
            [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
            [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
            [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
            [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
            [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
            [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
            [0xff, 2, 0, 0, 0, 0, 0, 0],
        ],
    )
    .to_vec();
    address.extend([0; 7]);
    address.push(one_of(random, &[9, 9, 1, 1, 1, 1, 8]));
    address.try_into().expect("16 bytes")
}

fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}
