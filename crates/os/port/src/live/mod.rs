//! Live ports: frames from and to interfaces (packet(7), AF_XDP).

mod bpf;
mod checksum_offload;
mod classic;
mod clock;
mod ethtool;
mod filter;
mod flows;
mod generator;
mod interface;
mod link_end;
mod loopback;
mod mapping;
mod offers;
mod options;
mod packet_socket;
mod socket_options;
mod steering;
mod tap;
mod tpacket_v2;
mod tpacket_v3;
mod xdp;

use lineside_frame::LinkType;

pub use classic::FilterInstruction;
pub use clock::StampClock;
pub use flows::{FlowCounts, FlowError, FlowKey, FlowOutcomes, FlowRule, FlowTable};
pub use generator::{Departures, Generator, GeneratorError, drop_all, pass_all};
pub use interface::Interface;
pub use link_end::{LinkEnd, open_end, open_tap};
pub use loopback::open_loopback;
pub use offers::Offers;
pub use options::{EndOptions, LiveOptions};
pub use steering::{AddressBlock, AddressBlockError, Steering};

use crate::{LivePort, Method, PortError, Transmit};

use xdp::Wanted;

/// Opens an interface to receive: a port for each of its sockets.
pub fn open(
    interface: &Interface,
    options: &LiveOptions,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    must_be_up(interface)?;
    must_be_steered(interface, options)?;
    let (method, reason) = match options.method {
        None if options.steering.is_some() => (
            Method::AfXdpNative,
            "the host keeps all other frames".to_owned(),
        ),
        None => match choice(interface) {
            (Method::AfXdpNative, _) if options.looks_at_tags() && interface.takes_out_tags() => {
                let reason = "the filter asks for VLAN tags, which the adapter takes out of frames";
                (Method::AfPacket, reason.to_owned())
            }
            chosen => chosen,
        },
        Some(method) => (method, "asked for".to_owned()),
    };
    if method == Method::AfPacket {
        return tpacket_v3::open(interface, options, &reason);
    }
    let wanted = Wanted {
        interface,
        options,
        reason: &reason,
        sends: false,
    };
    match xdp::open(wanted) {
        Err(error) if options.may_be_by_packets() => tpacket_v3::open(
            interface,
            options,
            &format!("AF_XDP cannot be had: {error}"),
        ),
        opened => opened,
    }
}

/// Opens an interface to receive and send each frame at once: a port for each of its queues, or of
/// packet sockets for each of [`LiveOptions::sockets`].
///
/// Without a method in the options it is AF_XDP, or where that cannot be had AF_PACKET, by which
/// the host gets the frames too. Of `n` packet sockets the one with number `k` has what comes for
/// the local ports `p` with `p % n == k`, of TCP and UDP; fragments, ARP, ICMP and all else come to
/// the first. The queue of AF_XDP is the driver's choice.
pub fn open_each(
    interface: &Interface,
    options: &LiveOptions,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    let ports = open_all(&[(interface, options)])?;
    Ok(ports.into_iter().flatten().collect())
}

/// The same for several interfaces, between which frames go, in their order. Those that are had by
/// AF_XDP share one memory: a frame that one received another sends where it lies, and the memory
/// comes back to the port that received into it. It is as much as the options give all of them, and
/// drawn on the budget of the first.
pub fn open_all(
    wanted: &[(&Interface, &LiveOptions)],
) -> Result<Vec<Vec<Box<dyn LivePort>>>, PortError> {
    for (interface, options) in wanted {
        must_be_up(interface)?;
        must_be_steered(interface, options)?;
    }
    // Why AF_XDP is not tried, by interface.
    let mut by_packets: Vec<Option<String>> = wanted
        .iter()
        .map(|(_, options)| {
            (options.method == Some(Method::AfPacket)).then(|| reason_to_open(options).to_owned())
        })
        .collect();
    let shared = loop {
        let left = { wanted.iter().zip(0..) }.filter(|(_, at)| by_packets[*at].is_none());
        let (left, places): (Vec<Wanted<'_>>, Vec<usize>) = left
            .map(|(&(interface, options), at)| {
                let reason = reason_to_open(options);
                let wanted = Wanted {
                    interface,
                    options,
                    reason,
                    sends: true,
                };
                (wanted, at)
            })
            .unzip();
        match xdp::open_all(&left) {
            Ok(ports) => break ports,
            Err((at, error)) if left[at].options.may_be_by_packets() => {
                by_packets[places[at]] = Some(format!("AF_XDP cannot be had: {error}"));
            }
            Err((_, error)) => return Err(error),
        }
    };
    let mut shared = shared.into_iter();
    let opened = { wanted.iter().zip(by_packets) }.map(|((interface, options), why)| match why {
        Some(reason) => tpacket_v3::open_each(interface, options, &reason),
        None => Ok(shared.next().expect("the others are had by AF_XDP")),
    });
    opened.collect()
}

fn reason_to_open(options: &LiveOptions) -> &'static str {
    match (options.method, &options.steering) {
        (Some(_), _) => "asked for",
        (None, None) => "the host gets no frame besides",
        (None, Some(_)) => "the host keeps all other frames",
    }
}

/// How an interface is listened at by default, and why. Where native AF_XDP is named but
/// cannot be had, it is generic AF_XDP, and then AF_PACKET.
pub fn choice(interface: &Interface) -> (Method, String) {
    let packet = |reason: String| (Method::AfPacket, reason);
    if interface.is_loopback {
        return packet("the host talks to itself on it".to_owned());
    }
    if let Some(address) = interface.addresses.first() {
        return packet(format!(
            "the host needs its frames: it has the address {address}"
        ));
    }
    if let Some(master) = &interface.master {
        return packet(format!("{master} needs its frames"));
    }
    if interface.has_xdp {
        return packet("another XDP program is attached to it".to_owned());
    }
    if interface.link_type != Some(LinkType::ETHERNET) {
        return packet("it is no Ethernet".to_owned());
    }
    (
        Method::AfXdpNative,
        "nothing of the host's passes it".to_owned(),
    )
}

/// Opens an interface to send, where something is at its other end.
pub fn open_to_send(interface: &Interface) -> Result<Box<dyn Transmit>, PortError> {
    must_carry(interface)?;
    packet_socket::open_to_send(interface)
}

/// Fails if what is sent there is lost: it is switched off, or has no carrier.
pub fn must_carry(interface: &Interface) -> Result<(), PortError> {
    must_be_up(interface)?;
    if interface.is_running {
        return Ok(());
    }
    Err(PortError::NoCarrier {
        name: interface.name.clone(),
    })
}

/// Fails if frames cannot be steered as asked.
fn must_be_steered(interface: &Interface, options: &LiveOptions) -> Result<(), PortError> {
    let Some(steering) = &options.steering else {
        return Ok(());
    };
    steering.check(interface)?;
    match options.method {
        Some(method) if !steering.can_be_by(method) => Err(PortError::Steering {
            name: interface.name.clone(),
            why: format!(
                "by {method} the host's kernel sees frames for its own address as well, and resets \
                 their connections: take AF_XDP, or an address that the host does not have"
            ),
        }),
        _ => Ok(()),
    }
}

fn must_be_up(interface: &Interface) -> Result<(), PortError> {
    if interface.is_up {
        return Ok(());
    }
    Err(PortError::InterfaceDown {
        name: interface.name.clone(),
    })
}
