//! `--decode-as LAYER==VALUE,PROTOCOL`, in tshark's form.

use std::ops::RangeInclusive;

use lineside_account::{Counter, Counters};
use lineside_capture::{DecodeAs, PortRule, Transport, program_name};
use lineside_wire::DeclaredTunnel;
use lineside_words::{grouped, nearest};

/// The layers of rules.
const LAYERS: [&str; 3] = ["tcp.port", "udp.port", "rpc.program"];

/// The protocols that a port can carry.
const PORT_RULES: [(&str, PortRule); 2] = [("rpc", PortRule::Rpc), ("none", PortRule::None)];

/// The tunnels that a port of UDP can carry.
const TUNNELS: [(&str, DeclaredTunnel); 2] = [
    ("vxlan", DeclaredTunnel::Vxlan),
    ("geneve", DeclaredTunnel::Geneve),
];

/// The protocols that a program can have: with `rpc` only headers are read.
const PROGRAMS: [(&str, u32); 10] = [
    ("nfs", 100_003),
    ("nfs_cb", 0x4000_0000),
    ("mount", 100_005),
    ("nlm", 100_021),
    ("klm", 100_020),
    ("nsm", 100_024),
    ("portmap", 100_000),
    ("rquota", 100_011),
    ("nfsacl", 100_227),
    ("rpc", 0),
];

/// Reads rules; if several match, the last one counts.
pub(crate) fn parse(rules: &[String]) -> Result<DecodeAs, String> {
    let mut decode_as = DecodeAs::default();
    for rule in rules {
        add(rule, &mut decode_as).map_err(|why| format!("'{rule}': {why}"))?;
    }
    Ok(decode_as)
}

/// Warnings about rules that do not match the capture.
pub(crate) fn warnings(decode_as: &DecodeAs, counters: &Counters) -> Vec<String> {
    let value = |counter| counters.value(counter);
    let has = |rule| decode_as.ports.iter().any(|&(.., each)| each == rule);
    let mut warnings = Vec::new();
    let in_vain = value(Counter::ConnectionsForcedInVain);
    if in_vain > 0 {
        warnings.push(format!(
            "--decode-as: {} of {} connections that should carry RPC have none",
            grouped(in_vain),
            grouped(value(Counter::ConnectionsForced))
        ));
    }
    let began_as_rpc = value(Counter::ConnectionsLeftAloneRpc);
    if began_as_rpc > 0 {
        warnings.push(format!(
            "--decode-as: {} of {} connections that were left alone began like RPC",
            grouped(began_as_rpc),
            grouped(value(Counter::ConnectionsLeftAlone))
        ));
    }
    for (is_given, counter, what) in [
        (
            has(PortRule::Rpc),
            Counter::ConnectionsForced,
            "no connection has a port that should carry RPC",
        ),
        (
            has(PortRule::None),
            Counter::ConnectionsLeftAlone,
            "no connection has a port that should be left alone",
        ),
        (
            !decode_as.programs.is_empty(),
            Counter::CallsDecodedAs,
            "no call has a program number that was named",
        ),
    ] {
        if is_given && value(counter) == 0 {
            warnings.push(format!("--decode-as: {what}"));
        }
    }
    warnings
}

fn add(rule: &str, decode_as: &mut DecodeAs) -> Result<(), String> {
    let parts = rule.split_once("==").and_then(|(layer, rest)| {
        let (value, protocol) = rest.split_once(',')?;
        Some([layer, value, protocol].map(str::trim))
    });
    let [layer, value, protocol] = parts.ok_or(
        "write LAYER==VALUE,PROTOCOL, such as tcp.port==20490,rpc or rpc.program==0x20000003,nfs",
    )?;
    let transport = match layer {
        "tcp.port" => Transport::Tcp,
        "udp.port" => Transport::Udp,
        "rpc.program" => return add_program(value, protocol, decode_as),
        _ => {
            let nearest = nearest(layer, LAYERS);
            return Err(format!(
                "layer '{layer}' is unknown; the nearest known one is {nearest}"
            ));
        }
    };
    let ports = ports(value)
        .ok_or_else(|| format!("'{value}' is neither a port nor a range such as 2049-2051"))?;
    if let Some(&(_, tunnel)) = TUNNELS.iter().find(|(word, _)| *word == protocol) {
        if transport == Transport::Tcp {
            return Err(format!(
                "{protocol} is a tunnel in UDP: write udp.port=={value},{protocol}"
            ));
        }
        decode_as.tunnels.push((ports, tunnel));
        return Ok(());
    }
    if !PORT_RULES.iter().any(|(word, _)| *word == protocol)
        && PROGRAMS.iter().any(|(word, _)| *word == protocol)
    {
        return Err(format!(
            "a port carries RPC, whose calls name their program: write {layer}=={value},rpc"
        ));
    }
    let rule = find(&PORT_RULES, protocol)?;
    decode_as.ports.push((transport, ports, rule));
    Ok(())
}

fn add_program(value: &str, protocol: &str, decode_as: &mut DecodeAs) -> Result<(), String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => value.parse(),
    };
    let number = number.map_err(|_| {
        format!("'{value}' is not a program number: write one such as 536870915 or 0x20000003")
    })?;
    // A program that is known by its number cannot be redefined, so that a wrong rule loses
    // nothing.
    if let Some(name) = program_name(number).filter(|name| *name != "nfs_cb") {
        return Err(format!("program {number} is {name}, and nothing else"));
    }
    let meant = find(&PROGRAMS, protocol)?;
    decode_as.programs.push((number, meant));
    Ok(())
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

fn find<T: Copy>(known: &[(&str, T)], word: &str) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|&(_, found)| found).ok_or_else(|| {
        let nearest = nearest(word, known.iter().map(|(name, _)| *name));
        format!("protocol '{word}' is unknown here; the nearest known one is {nearest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rule: &str) -> Result<DecodeAs, String> {
        parse(&[rule.to_owned()])
    }

    #[test]
    fn rules_are_read() {
        let ports = |rule: &str| parsed(rule).expect(rule).ports;
        assert_eq!(
            ports("tcp.port==20490,rpc"),
            [(Transport::Tcp, 20490..=20490, PortRule::Rpc)]
        );
        assert_eq!(
            ports("udp.port == 53-54, none"),
            [(Transport::Udp, 53..=54, PortRule::None)]
        );
        let rules = parsed("udp.port==10800,vxlan").expect("a rule");
        assert_eq!(rules.tunnels, [(10800..=10800, DeclaredTunnel::Vxlan)]);
        let rules = parsed("rpc.program==0x20000003,nfs").expect("a rule");
        assert_eq!(rules.programs, [(536_870_915, 100_003)]);
        let rules = parsed("rpc.program==1073746484,rpc").expect("a rule");
        assert_eq!(rules.programs, [(0x4000_1234, 0)]);
    }

    #[test]
    fn wrong_rules_are_refused_with_the_nearest_known() {
        for (rule, way_out) in [
            ("2049", "LAYER==VALUE,PROTOCOL"),
            ("tcp.port=2049,rpc", "LAYER==VALUE,PROTOCOL"),
            ("tcp.prt==2049,rpc", "tcp.port"),
            ("tcp.port==65536,rpc", "2049-2051"),
            ("tcp.port==5-3,rpc", "2049-2051"),
            ("tcp.port==80,non", "none"),
            ("tcp.port==2050,nfs", "tcp.port==2050,rpc"),
            ("tcp.port==2050,geneve", "udp.port==2050,geneve"),
            ("rpc.program==many,nfs", "0x20000003"),
            ("rpc.program==7,mnt", "mount"),
            ("rpc.program==100005,nfs", "is mount"),
        ] {
            let error = parsed(rule).expect_err(rule);
            assert!(error.starts_with(&format!("'{rule}': ")), "{error}");
            assert!(error.contains(way_out), "{error}");
        }
    }
}
