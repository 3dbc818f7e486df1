use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_host::{Capability, Privileges};
use lineside_port::live::{
    FilterInstruction, Interface, LiveOptions, StampClock, VLAN_TAG_PRESENT,
};
use lineside_port::{Merge, Method};

use crate::RunError;

/// Interfaces to capture from.
#[derive(Debug, Clone)]
pub struct Interfaces {
    /// Their names.
    pub names: Vec<String>,
    /// `None`: AF_XDP where it works and takes nothing from the host, else AF_PACKET.
    pub method: Option<Method>,
    /// Packet sockets that share the frames of an interface.
    pub sockets: usize,
    /// Capture also frames that are not for this host.
    pub promiscuous: bool,
}

/// Opens all interfaces as one port. Frames that `filter` rejects stay in the kernel where it can
/// tell.
pub fn open_interfaces(
    interfaces: &Interfaces,
    filter: Option<&Filter>,
    budget: &Budget,
) -> Result<Merge, RunError> {
    let needed: &[Capability] = match interfaces.method {
        Some(Method::AfXdpNative | Method::AfXdpGeneric) => {
            &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf]
        }
        _ => &[Capability::NetRaw],
    };
    Privileges::read()?.require(needed)?;
    let mut ports = Vec::new();
    for name in &interfaces.names {
        let interface = Interface::named(name)?;
        let link_type = interface.link_type.map(|link_type| link_type.0);
        let program = filter.zip(link_type);
        let program = program
            .map(|(filter, link_type)| kernel_filter(filter, link_type))
            .transpose()?;
        let options = LiveOptions {
            method: interfaces.method,
            sockets: interfaces.sockets,
            promiscuous: interfaces.promiscuous,
            filter: program.unwrap_or_default(),
            budget: budget.clone(),
            // As for files: a quarter is for frames in flight.
            bytes_max: budget.limit_bytes() / 4 / interfaces.names.len(),
            clock: StampClock::Wall,
        };
        ports.extend(lineside_port::live::open(&interface, &options)?);
    }
    Ok(Merge::new(ports))
}

/// The filter for the kernel. The kernel sees a frame without the VLAN tag that the adapter
/// removed, so this lets every tagged frame pass: the filter behind the port decides on those.
fn kernel_filter(filter: &Filter, link_type: u16) -> Result<Vec<FilterInstruction>, RunError> {
    let program = filter
        .compile(link_type)
        .map_err(|error| RunError::Usage(format!("filter: {error}")))?;
    let instruction = |code, jump_true, jump_false, operand| FilterInstruction {
        code,
        jump_true,
        jump_false,
        operand,
    };
    let (load_word, jump_if_equal, give_back) = (0x20, 0x15, 0x06);
    let mut instructions = vec![
        instruction(load_word, 0, 0, VLAN_TAG_PRESENT),
        instruction(jump_if_equal, 1, 0, 0),
        instruction(give_back, 0, 0, u32::MAX),
    ];
    let own = program.instructions().iter();
    instructions
        .extend(own.map(|each| instruction(each.code, each.jump_true, each.jump_false, each.k)));
    Ok(instructions)
}
