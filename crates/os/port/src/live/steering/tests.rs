//! Steering beside expressions of pcap-filter(7), and what is refused.

use lineside_filter::{Filter, Program};
use lineside_testkit::steered;
use lineside_time::Random;
use proptest::prelude::*;

use super::*;
use crate::live::LiveOptions;

fn blocks(texts: &[&str]) -> Vec<AddressBlock> {
    let parsed = texts.iter().map(|text| text.parse().expect("a block"));
    parsed.collect()
}

fn host_ports() -> Steering {
    let addresses = steered::OF_HOST.map(|text| text.parse().expect("an address"));
    Steering::HostPorts {
        addresses: addresses.into(),
        ports: steered::PORTS,
    }
}

/// As the crate `filter` runs it.
fn checked(program: &[FilterInstruction]) -> Program {
    let instructions = program.iter().map(|each| lineside_filter::Instruction {
        code: each.code,
        jump_true: each.jump_true,
        jump_false: each.jump_false,
        k: each.operand,
    });
    Program::new(instructions.collect()).expect("the kernel takes it")
}

fn compiled(expression: &str) -> Program {
    let filter = Filter::parse(expression).expect("an expression");
    filter.compile(1).expect("Ethernet")
}

#[test]
fn frames_are_taken_as_an_expression_says() {
    let cases = [
        (
            Steering::Addresses(blocks(&steered::BLOCKS)),
            steered::for_blocks(),
        ),
        (host_ports(), steered::for_ports()),
    ];
    for (steering, expression) in cases {
        let (program, expected) = (checked(&steering.program()), compiled(&expression));
        let mut taken = 0;
        for seed in 0..20_000 {
            let frame = steered::frame(&mut Random::new(seed));
            let (is_taken, len) = (program.matches(&frame, frame.len() as u32), frame.len());
            let is_expected = expected.matches(&frame, len as u32);
            assert_eq!(is_taken, is_expected, "seed {seed}: {frame:02x?}");
            taken += u32::from(is_taken);
        }
        assert!((600..15_000).contains(&taken), "{taken} of 20,000 frames");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_left(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for steering in [Steering::Addresses(blocks(&steered::BLOCKS)), host_ports()] {
            checked(&steering.program()).matches(&bytes, bytes.len() as u32);
        }
    }

    #[test]
    fn a_block_has_the_addresses_that_its_bounds_have(
        own in any::<u128>(),
        other in any::<u128>(),
        shared in 0_u32..=128,
        len in 1_u8..=128,
    ) {
        // Often near each other.
        let other = other & u128::MAX.checked_shr(shared).unwrap_or(0);
        let other = IpAddr::from((own ^ other).to_be_bytes());
        let block = AddressBlock { address: IpAddr::from(own.to_be_bytes()), len };
        let words = AddressBlock::from(other).bounds();
        let is_within = block.bounds().iter().zip(words).all(|([first, last], [word, _])| {
            (*first..=*last).contains(&word)
        });
        prop_assert_eq!(block.contains(other), is_within);
    }
}

#[test]
fn the_most_blocks_fit_the_kernels_limit() {
    let block = |at: u32| AddressBlock {
        address: IpAddr::from((0x2001_0db8_u128 << 96 | u128::from(at)).to_be_bytes()),
        len: 127,
    };
    let steering = Steering::Addresses((0..BLOCKS_MAX as u32).map(block).collect());
    assert!(checked(&steering.program()).instructions().len() <= INSTRUCTIONS_MAX);
    assert_eq!(steering.fault(&[]), None);
    let steering = Steering::Addresses((0..=BLOCKS_MAX as u32).map(block).collect());
    let fault = steering.fault(&[]).expect("one too many");
    assert!(
        fault.starts_with("65 blocks of addresses: name from 1 to 64"),
        "{fault}"
    );
}

#[test]
fn what_the_host_has_and_lacks_is_named() {
    let of_host: Vec<IpAddr> = ["10.9.0.1", "fd00::1"]
        .map(|text| text.parse().expect("an address"))
        .into();
    let fault = |steering: Steering| steering.fault(&of_host).expect("a fault");
    let taken = fault(Steering::Addresses(blocks(&["10.8.0.0/15"])));
    assert!(
        taken.starts_with("the host has 10.9.0.1, which is in 10.8.0.0/15"),
        "{taken}"
    );
    let nothing = fault(Steering::Addresses(Vec::new()));
    assert!(nothing.starts_with("0 blocks"), "{nothing}");
    let ports = |address: &str, ports| Steering::HostPorts {
        addresses: vec![address.parse().expect("an address")],
        ports,
    };
    let lacks = fault(ports("10.9.0.2", 1..=2));
    assert!(
        lacks.starts_with("the host does not have 10.9.0.2"),
        "{lacks}"
    );
    #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
    let empty = fault(ports("10.9.0.1", 9..=8));
    assert!(empty.starts_with("no port lies from 9 to 8"), "{empty}");
    assert_eq!(ports("fd00::1", 9..=9).fault(&of_host), None);
}

#[test]
fn blocks_are_read_and_written() {
    for text in ["10.9.0.0/16", "fd00:9::/64", "192.0.2.7/32"] {
        assert_eq!(blocks(&[text])[0].to_string(), text);
    }
    assert_eq!(blocks(&["::1"])[0].len, 128);
    for text in [
        "",
        "10.9.0.0/33",
        "10.9.0.0/0",
        "fd00::/129",
        "10.9/16",
        "a/b",
        "10.9.0.0/",
    ] {
        let error = text.parse::<AddressBlock>().expect_err("no block");
        assert!(
            error.to_string().contains("is no block of addresses"),
            "{error}"
        );
    }
}

#[test]
fn reserved_ports_are_known() {
    let list = "22,8000-8099,8100,9000-9999\n";
    assert!(are_reserved(&(8000..=8100), list));
    assert!(are_reserved(&(9000..=9999), list));
    assert!(!are_reserved(&(8000..=8101), list));
    assert!(!are_reserved(&(21..=22), list));
    assert!(!are_reserved(&(1..=65_535), ""));
    assert!(are_reserved(&(1..=65_535), "1-65535"));
}

#[test]
fn a_filter_goes_on_with_what_is_ours() {
    let options = LiveOptions {
        method: None,
        sockets: 1,
        promiscuous: false,
        filter: vec![FilterInstruction {
            code: RET_K.into(),
            jump_true: 0,
            jump_false: 0,
            operand: 96,
        }],
        steering: Some(host_ports()),
        flows: None,
        transmit_max: None,
        clock: crate::live::StampClock::Wall,
        budget: lineside_account::Budget::new(0),
        bytes_max: 0,
    };
    let (both, steering) = (options.program(), host_ports().program());
    let (both, alone) = (checked(&both), checked(&steering));
    let last = both.instructions().last().expect("one");
    assert_eq!((last.code, last.k), (RET_K.into(), 96));
    for seed in 0..2_000 {
        let frame = steered::frame(&mut Random::new(seed));
        let len = frame.len() as u32;
        assert_eq!(both.matches(&frame, len), alone.matches(&frame, len));
    }
}
