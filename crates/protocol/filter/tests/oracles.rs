//! The frames that match must be those that tcpdump writes: a list of expressions, and others drawn
//! from the grammar, on crafted frames, on the example and on the captures that lie beside the
//! repository. And the kernel must take the programs.

use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use lineside_filter::{Filter, Instruction, Program};
use lineside_testkit::capture::{self, Frame};
use lineside_testkit::captures;
use lineside_time::Random;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::tcp::TcpOption;
use lineside_wire::{TcpFlags, arp};

const ETHERNET: u16 = 1;
const LINK_TYPES: [u16; 8] = [ETHERNET, 113, 276, 0, 108, 101, 228, 229];
/// Of a capture beside the repository, this many of its frames.
const FRAMES_MAX: usize = 300;
/// Expressions drawn from the grammar.
const DRAWN: usize = 240;

#[test]
fn the_frames_that_match_are_those_that_tcpdump_writes() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!(
            "SKIP: filters compared with tcpdump: it is not installed (Debian: apt-get install \
            tcpdump)"
        );
        return;
    }
    let expressions = expressions();
    let mut captures: Vec<_> = LINK_TYPES
        .iter()
        .map(|&link_type| (link_type, crafted(link_type)))
        .collect();
    for frame in recorded() {
        let capture = captures
            .iter_mut()
            .find(|(link_type, _)| *link_type == frame.link_type);
        if let Some((_, frames)) = capture {
            frames.push(frame);
        }
    }
    let (mut compared, mut matched, mut refused, mut none_or_all) = (0, 0, 0, 0);
    for (link_type, frames) in &mut captures {
        for (index, frame) in frames.iter_mut().enumerate() {
            frame.stamp_ns = Some(index as i64 * 1000);
        }
        // Where a snap length cut the headers, libpcap's optimiser changes what matches, since it
        // moves loads: there its plain program counts, which asks in the order of the text.
        let uncut = frames
            .iter()
            .filter(|frame| frame.bytes.len() == frame.wire_len as usize);
        let uncut: Vec<_> = uncut.cloned().collect();
        let files = [
            (capture::write(frames), &frames[..], "-O"),
            (capture::write(&uncut), &uncut[..], "-n"),
        ];
        for (expression, (file, frames, option)) in expressions
            .iter()
            .flat_map(|each| files.iter().map(move |file| (each, file)))
        {
            // One link type is enough for the optimiser.
            if *option == "-n" && *link_type != ETHERNET {
                continue;
            }
            // The optimiser also leaves out loads behind a frame's end whose value decides nothing.
            if *option == "-n" && expression.contains("tcp[((") {
                continue;
            }
            // tcpdump cannot, Lineside can: 802.1Q behind a cooked header.
            if expression.contains("vlan") && matches!(link_type, 113 | 276) {
                continue;
            }
            let what = format!("link type {link_type}, {option}: {expression}");
            let program = Filter::parse(expression).and_then(|filter| filter.compile(*link_type));
            let (program, theirs) = match (program, tcpdump(file, option, expression)) {
                (Ok(program), Ok(theirs)) => (program, theirs),
                (Err(_), Err(_)) => {
                    refused += 1;
                    continue;
                }
                (Ok(_), Err(why)) => panic!("{what}: only tcpdump refuses it: {why}"),
                (Err(why), Ok(_)) => panic!("{what}: only tcpdump takes it: {why}"),
            };
            let takes = |frame: &&Frame| program.matches(&frame.bytes, frame.wire_len);
            let ours: Vec<_> = frames
                .iter()
                .filter(takes)
                .filter_map(|frame| frame.stamp_ns)
                .collect();
            let differing = ours
                .iter()
                .find(|stamp| theirs.binary_search(stamp).is_err());
            let differing = differing.or_else(|| {
                theirs
                    .iter()
                    .find(|stamp| ours.binary_search(stamp).is_err())
            });
            if let Some(stamp) = differing {
                panic!(
                    "{what}: {} of ours, {} of tcpdump's match, but not {:02x?}",
                    ours.len(),
                    theirs.len(),
                    frames.iter().find(|frame| frame.stamp_ns == Some(*stamp))
                );
            }
            compared += 1;
            matched += ours.len();
            none_or_all += usize::from(ours.is_empty() || ours.len() == frames.len());
        }
    }
    println!(
        "{} expressions, {} frames: {compared} comparisons, {matched} matches, {refused} refused \
        by both, {none_or_all} with no frame or all",
        expressions.len(),
        captures
            .iter()
            .map(|(_, frames)| frames.len())
            .sum::<usize>()
    );
    assert!(
        none_or_all < compared * 2 / 3,
        "most comparisons match some frames and not others"
    );
}

#[test]
fn live_filters_take_the_frames_that_libpcaps_take() {
    let compiled = |expression: &str| {
        Command::new("tcpdump")
            .args(["-i", "lo", "-O", "-ddd", "--", expression])
            .output()
    };
    // Only where an interface is open does libpcap look for tags beside a frame.
    if !compiled("vlan").is_ok_and(|output| output.status.success()) {
        println!("SKIP: live filters compared with libpcap's: tcpdump may not open lo");
        return;
    }
    let mut frames = crafted(ETHERNET);
    frames.extend(
        recorded()
            .into_iter()
            .filter(|frame| frame.link_type == ETHERNET),
    );
    let (mut compared, mut matched, mut differing) = (0, 0, 0);
    // libpcap computes the operands before a `vlan` where it counts the bytes of tags, and then
    // looks at wrong places.
    let is_spoilt = |expression: &String| {
        let before = expression
            .rsplit_once("vlan")
            .map_or("", |(before, _)| before);
        before.contains(['=', '<', '>'])
    };
    for expression in expressions().into_iter().filter(|each| !is_spoilt(each)) {
        let output = compiled(&expression).expect("it ran before");
        let text = String::from_utf8_lossy(&output.stdout);
        let ours = Filter::parse(&expression).and_then(|filter| filter.compile_live(ETHERNET));
        let file = Filter::parse(&expression).and_then(|filter| filter.compile(ETHERNET));
        let (Ok(ours), Ok(file)) = (ours, file) else {
            assert!(
                !output.status.success(),
                "only tcpdump takes it: {expression}"
            );
            continue;
        };
        let instructions = text.lines().skip(1).map(|line| {
            let mut words = line
                .split(' ')
                .map(|word| word.parse::<u32>().expect("a number"));
            let mut next = || words.next().expect("four of them");
            Instruction {
                code: next() as u16,
                jump_true: next() as u8,
                jump_false: next() as u8,
                k: next(),
            }
        });
        let theirs = Program::new(instructions.collect()).expect("the kernel takes it");
        for frame in &frames {
            let takes = |program: &Program| program.matches_arriving(&frame.bytes, frame.wire_len);
            assert_eq!(
                takes(&ours),
                takes(&theirs),
                "{expression}: {:02x?}",
                frame.bytes
            );
            compared += 1;
            matched += usize::from(takes(&ours));
            differing += usize::from(takes(&ours) != file.matches(&frame.bytes, frame.wire_len));
        }
    }
    println!("{compared} comparisons, {matched} matches, {differing} other than in a file");
    assert!(matched > compared / 10 && differing > compared / 100);
}

#[test]
fn the_kernel_takes_the_programs() {
    let programs = expressions().into_iter().flat_map(|expression| {
        let filter = Filter::parse(&expression).expect("every expression is right");
        let live = filter.compile_live(ETHERNET).ok();
        let files = LINK_TYPES.map(|link_type| filter.compile(link_type).ok());
        files.into_iter().chain([live])
    });
    let mut hexadecimal = String::new();
    for program in programs.flatten() {
        for each in program.instructions() {
            let [code_low, code_high] = each.code.to_le_bytes();
            let bytes = [code_low, code_high, each.jump_true, each.jump_false];
            for byte in bytes.into_iter().chain(each.k.to_le_bytes()) {
                hexadecimal += &format!("{byte:02x}");
            }
        }
        hexadecimal.push('\n');
    }
    let python = Command::new("python3")
        .args(["-c", ATTACH])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        println!("SKIP: filters given to the kernel: python3 is not installed");
        return;
    };
    let mut input = python.stdin.take().expect("is piped");
    input
        .write_all(hexadecimal.as_bytes())
        .expect("python reads all first");
    drop(input);
    let output = python.wait_with_output().expect("python ends");
    let taken = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{taken}");
    assert_eq!(taken, hexadecimal.lines().count().to_string());
}

/// Attaches each program on standard input to a socket (SO_ATTACH_FILTER is 26), then one that the
/// kernel must refuse.
const ATTACH: &str = "
import ctypes, socket, struct, sys
def attach(program):
    code = ctypes.create_string_buffer(program, len(program))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        count = len(program) // 8
        one.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HxxxxxxP', count, ctypes.addressof(code)))
programs = sys.stdin.read().split()
for each in programs:
    attach(bytes.fromhex(each))
try:
    attach(bytes(8))
    sys.exit('a program without an end was taken')
except OSError:
    print(len(programs))
";

/// The list, and what is drawn.
fn expressions() -> Vec<String> {
    let mut random = Random::new(0x66_69_6c);
    let drawn = (0..DRAWN).map(|_| draw_expression(&mut random, 3));
    LIST.iter()
        .map(|each| (*each).to_owned())
        .chain(drawn)
        .collect()
}

/// The stamps of the frames that tcpdump writes.
fn tcpdump(file: &[u8], option: &str, expression: &str) -> Result<Vec<i64>, String> {
    let mut child = Command::new("tcpdump")
        .args([option, "-r", "-", "-w", "-", "--", expression])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tcpdump starts");
    let mut input = child.stdin.take().expect("is piped");
    let output = std::thread::scope(|scope| {
        // It may refuse the expression and not read at all.
        scope.spawn(move || input.write_all(file));
        child.wait_with_output().expect("tcpdump ends")
    });
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let why = stderr.lines().last().unwrap_or_default();
        return if why.ends_with("expression rejects all packets") {
            Ok(Vec::new())
        } else {
            Err(why.to_owned())
        };
    }
    let mut stamps = Vec::new();
    let mut rest = &output.stdout[24..];
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let word =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("is 4 bytes"));
        stamps.push((i64::from(word(0)) * 1_000_000 + i64::from(word(4))) * 1000);
        rest = &behind[word(8) as usize..];
    }
    Ok(stamps)
}

/// Frames of the example `nfs-mix` and of the small captures at hand.
fn recorded() -> Vec<Frame> {
    let mut paths = captures::all();
    paths.retain(|path| {
        let is_small = path.metadata().is_ok_and(|facts| facts.len() < 100_000);
        is_small || path.ends_with("examples/nfs-mix.pcapng.zst")
    });
    let read = paths.iter().flat_map(|path| capture::read(path));
    read.flat_map(|frames| frames.into_iter().take(FRAMES_MAX))
        .collect()
}

/// Frames with everything that an expression looks at, whole and cut by snap lengths.
fn crafted(link_type: u16) -> Vec<Frame> {
    let four: [[IpAddr; 2]; 3] = [
        [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        [[10, 0, 0, 2].into(), [10, 0, 0, 1].into()],
        [[192, 168, 1, 7].into(), [224, 0, 0, 251].into()],
    ];
    let six: [[IpAddr; 2]; 2] = [
        [
            [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
            [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into(),
        ],
        [
            [0xfe80, 0, 0, 0, 0, 0, 0, 1].into(),
            [0xff02, 0, 0, 0, 0, 0, 0, 0xfb].into(),
        ],
    ];
    let pairs = match link_type {
        228 => four.to_vec(),
        229 => six.to_vec(),
        _ => [&four[..], &six[..]].concat(),
    };
    let tags: &[&[(u16, u16)]] = if link_type == ETHERNET {
        &[
            &[],
            &[(ether_type::VLAN, 5)],
            &[(ether_type::SERVICE_VLAN, 100), (ether_type::VLAN, 42)],
            &[(ether_type::OLD_SERVICE_VLAN, 42)],
        ]
    } else {
        &[&[]]
    };
    let mut whole = Vec::new();
    for tags in tags {
        for [source, destination] in &pairs {
            let mut builder = FrameBuilder::new(*source, *destination).with_link_type(link_type);
            for &(kind, id) in *tags {
                builder = builder.with_tag(kind, id);
            }
            whole.extend(of_pair(&builder));
            if source.is_ipv4() {
                whole.extend(of_pair(&builder.with_options(&[1; 8])));
            } else {
                whole.extend(of_pair(&builder.with_extension(0, &[0; 8])));
            }
        }
    }
    match link_type {
        // tcpdump knows the families of the BSDs only.
        0 => whole
            .iter_mut()
            .filter(|frame| frame[0] == 10)
            .for_each(|frame| frame[0] = 30),
        108 => whole
            .iter_mut()
            .filter(|frame| frame[3] == 10)
            .for_each(|frame| frame[3] = 24),
        ETHERNET => whole.extend(not_ip()),
        _ => {}
    }
    let frame = |bytes: &[u8], kept: usize| Frame {
        stamp_ns: None,
        wire_len: bytes.len() as u32,
        link_type,
        bytes: bytes[..kept.min(bytes.len())].to_vec(),
    };
    let mut frames: Vec<_> = whole
        .iter()
        .map(|bytes| frame(bytes, bytes.len()))
        .collect();
    // A prime step, so that every kind is cut somewhere.
    for (index, bytes) in whole.iter().enumerate() {
        frames.push(frame(bytes, 1 + index * 7 % 75));
    }
    frames
}

fn of_pair(builder: &FrameBuilder) -> Vec<Vec<u8>> {
    let ports = [
        (700, 2049),
        (2049, 700),
        (40_000, 80),
        (443, 40_001),
        (53, 53),
    ];
    let flags = [0x02, 0x12, 0x10, 0x18, 0x11];
    let mut mss = [0; 4];
    TcpOption::Mss(1460).emit(&mut mss);
    let mut frames = Vec::new();
    for ((source_port, destination_port), flags) in ports.into_iter().zip(flags) {
        let fields = TcpFields {
            source_port,
            destination_port,
            flags: TcpFlags(flags),
            options: if flags == 0x02 { &mss } else { &[] },
            ..TcpFields::default()
        };
        frames.push(builder.tcp(&fields, &[0x5a; 40]));
        frames.push(builder.udp(source_port, destination_port, b"datagram"));
    }
    let sctp = [&700u16.to_be_bytes()[..], &2049u16.to_be_bytes(), &[0; 8]].concat();
    let plain: [(u8, &[u8]); 8] = [
        (132, &sctp),
        (1, &[8, 0, 0, 0, 0, 1, 0, 2]),
        (1, &[3, 1, 0, 0, 0, 0, 0, 0]),
        (2, &[0x16, 0, 0, 0, 224, 0, 0, 1]),
        (58, &[128, 0, 0, 0, 0, 1, 0, 2]),
        (58, &[135, 0, 0, 0, 0, 0, 0, 0]),
        (50, &[7; 24]),
        (112, &[0x21, 1, 100, 1]),
    ];
    frames.extend(
        plain
            .iter()
            .map(|(protocol, payload)| builder.packet(*protocol, payload)),
    );
    frames.extend(builder.fragments(17, &builder.udp_datagram(700, 2049, &[3; 60]), 32));
    let segment = builder.tcp_segment(
        &TcpFields {
            source_port: 80,
            ..TcpFields::default()
        },
        &[4; 50],
    );
    frames.extend(builder.fragments(6, &segment, 40));
    frames
}

/// ARP, RARP, 802.2, an EtherType that the filter does not know, and broadcasts.
fn not_ip() -> Vec<Vec<u8>> {
    let sender = [2, 0, 0, 0, 0, 1];
    let ethernet = |to: [u8; 6], ether_type: u16, payload: &[u8]| {
        let mut bytes = vec![0; ethernet::HEADER_LEN + payload.len()];
        let mut frame = ethernet::Frame::new_unchecked(&mut bytes);
        frame.set_destination(to);
        frame.set_source(sender);
        frame.set_ether_type(ether_type);
        frame.payload_mut().copy_from_slice(payload);
        bytes
    };
    let arp = |from: [u8; 4], to: [u8; 4]| {
        // Padded to the shortest frame.
        let mut bytes = [0; 46];
        arp::Packet::emit(
            &mut bytes,
            arp::REQUEST,
            (sender, from.into()),
            ([0; 6], to.into()),
        );
        bytes
    };
    let all = [0xff; 6];
    let to = [2, 0, 0, 0, 0, 2];
    vec![
        ethernet(all, ether_type::ARP, &arp([10, 0, 0, 1], [10, 0, 0, 2])),
        ethernet(to, ether_type::ARP, &arp([10, 0, 0, 2], [192, 168, 1, 7])),
        ethernet(all, ether_type::RARP, &arp([0, 0, 0, 0], [10, 0, 0, 1])),
        ethernet([1, 0x80, 0xc2, 0, 0, 0], 38, &[0x42, 0x42, 3, 0, 0]),
        ethernet([1, 0, 0x5e, 0, 0, 0xfb], 0x88cc, &[2, 7, 4]),
        ethernet(
            to,
            ether_type::VLAN,
            &[&[0x60, 5, 8, 6][..], &arp([10, 0, 0, 1], [10, 0, 0, 2])].concat(),
        ),
    ]
}

const ADDRESSES: [&str; 9] = [
    "10.0.0.1",
    "10.0.0.2",
    "192.168.1.7",
    "224.0.0.251",
    "10.77.0.1",
    "127.0.0.1",
    "2001:db8::1",
    "fe80::1",
    "ff02::fb",
];
const NETS: [&str; 9] = [
    "10.0.0.0/8",
    "10",
    "192.168.1",
    "10.0.0.0 mask 255.255.255.254",
    "224.0.0.0/4",
    "0.0.0.0/0",
    "2001:db8::/32",
    "fe80::/10",
    "::/0",
];
const PORTS: [&str; 8] = ["2049", "80", "443", "700", "53", "111", "0x50", "40000"];
const PROTOCOLS: [&str; 14] = [
    "ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "esp", "ah", "pim",
    "vrrp",
];
const LOADS: [&str; 12] = [
    "ip[0] & 0xf",
    "ip[6:2] & 0x1fff",
    "ip[8]",
    "tcp[tcpflags]",
    "tcp[0:2]",
    "udp[4:2]",
    "icmp[icmptype]",
    "icmp6[icmp6type]",
    "ip6[6]",
    "len",
    "ip[2:2] - ((ip[0] & 0xf) << 2)",
    "tcp[((tcp[12] & 0xf0) >> 2)]",
];
const NUMBERS: [&str; 9] = ["0", "2", "5", "6", "8", "18", "64", "2049", "100"];

fn draw<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

fn draw_expression(random: &mut Random, depth: u64) -> String {
    if depth == 0 {
        return draw_primitive(random);
    }
    match random.below(8) {
        0 => format!("not {}", draw_primitive(random)),
        1 => format!("! ({})", draw_expression(random, depth - 1)),
        2 | 3 => {
            let (left, right) = (
                draw_expression(random, depth - 1),
                draw_expression(random, depth - 1),
            );
            format!("{left} {} {right}", draw(random, &["and", "&&"]))
        }
        4 | 5 => {
            let (left, right) = (
                draw_expression(random, depth - 1),
                draw_expression(random, depth - 1),
            );
            format!("({left}) {} {right}", draw(random, &["or", "||"]))
        }
        6 => format!("({})", draw_expression(random, depth - 1)),
        _ => draw_primitive(random),
    }
}

fn draw_primitive(random: &mut Random) -> String {
    let direction = draw(
        random,
        &["", "", "src ", "dst ", "src or dst ", "src and dst "],
    );
    let transport = draw(random, &["", "", "tcp ", "udp "]);
    let joined = draw(random, &["or", "or", "and", "and not"]);
    match random.below(13) {
        0 => format!("{direction}host {}", draw(random, &ADDRESSES)),
        1 => format!(
            "{direction}host {} {joined} {}",
            draw(random, &ADDRESSES),
            draw(random, &ADDRESSES)
        ),
        2 => format!("{direction}net {}", draw(random, &NETS)),
        3 => format!("{transport}{direction}port {}", draw(random, &PORTS)),
        4 => format!(
            "{transport}{direction}port {} {joined} {}",
            draw(random, &PORTS),
            draw(random, &PORTS)
        ),
        5 => format!(
            "{transport}{direction}portrange {}",
            draw(random, &["80-443", "2049-700", "0-65535", "53"])
        ),
        6 | 7 => draw(random, &PROTOCOLS).to_owned(),
        8 => format!(
            "{}proto {}",
            draw(random, &["", "ip ", "ip6 "]),
            draw(random, &["6", "17", "44", "\\tcp", "1"])
        ),
        9 => format!(
            "{} {}",
            draw(random, &["less", "greater"]),
            draw(random, &["60", "100", "90"])
        ),
        10 => draw(
            random,
            &["vlan", "vlan 5", "vlan 42", "vlan 100 and vlan 42"],
        )
        .to_owned(),
        11 => draw(
            random,
            &[
                "ip multicast",
                "ip6 multicast",
                "ether broadcast",
                "ether proto 0x800",
            ],
        )
        .to_owned(),
        _ => format!(
            "{} {} {}",
            draw(random, &LOADS),
            draw(random, &["=", "==", "!=", ">", "<", ">=", "<="]),
            draw(random, &NUMBERS)
        ),
    }
}

const LIST: [&str; 118] = [
    "",
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "esp",
    "ah",
    "pim",
    "vrrp",
    "host 10.0.0.1",
    "src host 10.0.0.1",
    "dst 10.0.0.1",
    "src or dst 10.0.0.1",
    "src and dst host 10.0.0.1",
    "dst or src net 10",
    "ip host 10.0.0.1",
    "arp host 10.0.0.1",
    "arp src 10.0.0.2",
    "rarp dst host 10.0.0.1",
    "ip6 host 2001:db8::1",
    "host 2001:db8::1",
    "src 2001:db8::1 and dst 2001:db8::2",
    "not host 2001:db8::1",
    "host (10.0.0.1 or 192.168.1.7)",
    "host 10.0.0.1 or 192.168.1.7",
    "host not 10.0.0.1",
    "host 10.0.0.1 and not 10.0.0.2",
    "src host 10.0.0.1 or dst host 10.0.0.1 and port 80",
    "net 10.0.0.0/8",
    "net 10.0.0.0/31",
    "net 10.0.0",
    "net 192.168",
    "src net 10 and dst net 10",
    "net 10.0.0.0 mask 255.0.0.0",
    "net 0.0.0.0/0",
    "net 2001:db8::/32",
    "dst net ff00::/8",
    "net fe80::/65",
    "not net 10",
    "port 2049",
    "port nfs",
    "src port 2049",
    "dst port 2049",
    "src and dst port 53",
    "tcp port 2049",
    "udp port 2049",
    "sctp port 2049",
    "tcp src port 443 or 80",
    "port 80 or 443",
    "port (80 or 443) and host 10.0.0.1",
    "port 80 or 443 and 53",
    "tcp port 2049 and not host 10.0.0.1",
    "portrange 53-80",
    "portrange 443-80",
    "udp dst portrange 2000-3000",
    "src portrange 0-65535",
    "not port 2049",
    "ip proto 6",
    "ip proto \\tcp",
    "ip6 proto 17",
    "ip6 proto 44",
    "proto 17",
    "proto \\icmp",
    "ether proto 0x0806",
    "ether proto \\ip6",
    "ether proto 0x88cc",
    "ether host 02:00:00:00:00:01",
    "ether src 2:0:0:0:0:1",
    "ether dst host ff:ff:ff:ff:ff:ff",
    "broadcast",
    "ether multicast",
    "multicast and not broadcast",
    "ip multicast",
    "ip6 multicast",
    "vlan",
    "vlan 5",
    "vlan 5 and tcp",
    "vlan and vlan",
    "vlan 100 and vlan 42 and port 2049",
    "vlan 42 or ip",
    "not vlan and ip",
    "ip or vlan 5 and host 10.0.0.1",
    "vlan 5 and arp host 10.0.0.1",
    "vlan and tcp[13] & 2 != 0",
    "less 60",
    "greater 100",
    "len > 90 and len <= 120",
    "len - 14 = 40",
    "tcp[13] & 2 != 0",
    "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
    "tcp[tcpflags] = tcp-syn|tcp-ack",
    "icmp[icmptype] = icmp-echo",
    "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
    "icmp6[icmp6type] = icmp6-echo",
    "icmp6[0] == 135",
    "ip[0] & 0xf != 5",
    "ip[6:2] & 0x3fff != 0",
    "ip[12:4] = 0x0a000001",
    "ip6[6] = 44",
    "udp[0:2] = 700 or udp[2:2] = 700",
    "ether[0] & 1 = 0 and ip[16] >= 224",
    "ether[12:2] = 0x0806",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x5a5a5a5a",
    "port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    "ip[ip[0] & 0xf] = 6",
    "ip[2:2] * 2 + 1 > 100 + len",
    "1 = 1",
    "-1 > 5 and tcp",
    "ip[8] % 10 = 4 or ip[8] ^ 64 = 0",
    "ip[2:2] / ip[9] > 10",
    "tcp[100] = 0 or udp",
    "not (tcp[100] = 0) and not udp",
];
