//! Interfaces, opened as one port: those that are named, or all that are up, each with the filter
//! that its kind of frames needs, as the kernel takes it.

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::LinkType;
use lineside_host::{Capability, Privileges};
use lineside_port::live::{FilterInstruction, Interface, LiveOptions, StampClock};
use lineside_port::{Merge, Method};

use crate::{Opened, RunError};

/// The name that stands for all interfaces that are up, as for tcpdump.
const ANY: &str = "any";

/// Interfaces to capture from.
#[derive(Debug, Clone)]
pub struct Interfaces {
    /// Their names, or `any` alone.
    pub names: Vec<String>,
    /// `None`: AF_XDP where it works and takes nothing from the host, else AF_PACKET.
    pub method: Option<Method>,
    /// Packet sockets that share the frames of an interface.
    pub sockets: usize,
    /// Capture also frames that are not for this host.
    pub promiscuous: bool,
    /// Bytes that are kept of a frame; 0: all. A method without a filter in the kernel keeps all.
    pub snap_len: u32,
}

impl Interfaces {
    /// Whether whatever is up is meant.
    pub fn are_all(&self) -> bool {
        self.names == [ANY]
    }

    /// The interfaces, and those that are up and cannot be read, each with the reason.
    fn named(&self) -> Result<(Vec<Interface>, Vec<String>), RunError> {
        if !self.are_all() {
            if self.names.iter().any(|name| name == ANY) {
                return Err(RunError::usage(
                    "'any' is all interfaces: leave the other names out",
                ));
            }
            let named = self.names.iter().map(|name| Interface::named(name));
            return Ok((named.collect::<Result<_, _>>()?, Vec::new()));
        }
        if !matches!(self.method, None | Some(Method::AfPacket)) {
            return Err(RunError::usage(
                "AF_XDP would keep all frames from this host: '-i any' takes AF_PACKET, leave \
                --method out",
            ));
        }
        let up = Interface::all()?.into_iter().filter(|each| each.is_up);
        let (known, unknown): (Vec<_>, Vec<_>) = up.partition(|each| each.link_type.is_some());
        if known.is_empty() {
            return Err(RunError::usage(
                "no interface is up: 'ip link set IF up' switches one on",
            ));
        }
        let left_out = unknown.iter();
        let left_out = left_out.map(|each| format!("'{}': its hardware is not known", each.name));
        Ok((known, left_out.collect()))
    }
}

/// Opens all interfaces as one port. Frames that `filter` rejects stay in the kernel where it can
/// tell.
pub fn open_interfaces(
    interfaces: &Interfaces,
    filter: Option<&Filter>,
    budget: &Budget,
) -> Result<Opened, RunError> {
    let needed: &[Capability] = match interfaces.method {
        Some(Method::AfXdpNative | Method::AfXdpGeneric) => {
            &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf]
        }
        _ => &[Capability::NetRaw],
    };
    Privileges::read()?.require(needed)?;
    let (named, mut left_out) = interfaces.named()?;
    // For all of them, nothing is taken from this host.
    let method = match interfaces.are_all() {
        true => Some(Method::AfPacket),
        false => interfaces.method,
    };
    let mut ports = Vec::new();
    for interface in &named {
        let link_type = interface.link_type.map(|link_type| link_type.0);
        let program = match kernel_filter(filter.zip(link_type), interfaces.snap_len) {
            // A filter for Ethernet cannot match where there is none.
            Err(_) if interfaces.are_all() && interface.link_type != Some(LinkType::ETHERNET) => {
                let name = &interface.name;
                left_out.push(format!("'{name}': the filter does not fit its frames"));
                continue;
            }
            program => program?,
        };
        let options = LiveOptions {
            method,
            sockets: interfaces.sockets,
            // All of them promiscuous would be seen by whoever watches this host: tcpdump does not.
            promiscuous: interfaces.promiscuous && !interfaces.are_all(),
            filter: program,
            budget: budget.clone(),
            // As for files: a quarter is for frames in flight.
            bytes_max: budget.limit_bytes() / 4 / named.len(),
            steering: None,
            flows: None,
            transmit_max: None,
            clock: StampClock::Wall,
        };
        ports.extend(lineside_port::live::open(interface, &options)?);
    }
    if ports.is_empty() {
        return Err(RunError::usage(
            "no interface is left: the filter fits the frames of none that is up",
        ));
    }
    let port = Merge::new(ports);
    Ok(Opened { port, left_out })
}

/// The filter for the kernel, which also keeps no more than `snap_len` bytes of a frame.
fn kernel_filter(
    filter: Option<(&Filter, u16)>,
    snap_len: u32,
) -> Result<Vec<FilterInstruction>, RunError> {
    const GIVE_BACK: u16 = 0x06;
    let kept = if snap_len == 0 { u32::MAX } else { snap_len };
    let Some((filter, link_type)) = filter else {
        let keep = FilterInstruction {
            code: GIVE_BACK,
            jump_true: 0,
            jump_false: 0,
            operand: kept,
        };
        return Ok(if snap_len == 0 {
            Vec::new()
        } else {
            vec![keep]
        });
    };
    let program = filter
        .compile_live(link_type)
        .map_err(|error| RunError::Usage(format!("filter: {error}")))?;
    let instructions = program.instructions().iter();
    let instructions = instructions.map(|each| FilterInstruction {
        code: each.code,
        jump_true: each.jump_true,
        jump_false: each.jump_false,
        operand: match (each.code, each.k) {
            (GIVE_BACK, u32::MAX) => kept,
            (_, k) => k,
        },
    });
    Ok(instructions.collect())
}
