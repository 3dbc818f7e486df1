//! What a driver is set to (linux/ethtool.h).

use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::Interface;

/// Receive queues that the driver uses; the kernel's list of interfaces has only how many it made
/// room for.
pub(super) fn queues_in_use(interface: &Interface) -> u32 {
    /// `struct ethtool_channels`.
    #[derive(Default)]
    #[repr(C)]
    struct Channels {
        command: u32,
        max: [u32; 4],
        receive: u32,
        transmit: u32,
        other: u32,
        combined: u32,
    }
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = Channels {
        command: GET_CHANNELS,
        ..Channels::default()
    };
    let asked = ask(&interface.name, &mut channels);
    match channels.receive + channels.combined {
        in_use @ 1.. if asked => in_use.min(interface.receive_queues.max(1)),
        _ => interface.receive_queues.max(1),
    }
}

/// Bits a second that the driver claims, if it does.
pub(super) fn speed_bps(name: &str) -> Option<u64> {
    /// `struct ethtool_cmd`, which old kernels fill too.
    #[derive(Default)]
    #[repr(C)]
    struct Settings {
        command: u32,
        modes: [u32; 2],
        speed: u16,
        kinds: [u8; 6],
        packets_max: [u32; 2],
        speed_high: u16,
        crossing: [u8; 2],
        rest: [u32; 3],
    }
    const GET_SETTINGS: u32 = 0x1;
    let mut settings = Settings {
        command: GET_SETTINGS,
        ..Settings::default()
    };
    let megabits = match ask(name, &mut settings) {
        true => u32::from(settings.speed_high) << 16 | u32::from(settings.speed),
        false => 0,
    };
    // All ones, in either width: not known, as without a carrier.
    let is_known = !matches!(megabits, 0 | 0xffff | u32::MAX);
    is_known.then(|| u64::from(megabits) * 1_000_000)
}

/// Whether the kernel stamps frames that arrive, and whether the adapter does; `None` where neither
/// answers.
pub(super) fn stamps(name: &str) -> Option<(bool, bool)> {
    /// `struct ethtool_ts_info`.
    #[derive(Default)]
    #[repr(C)]
    struct Stamps {
        command: u32,
        kinds: u32,
        clock: i32,
        sent: [u32; 4],
        received: [u32; 4],
    }
    const GET_TS_INFO: u32 = 0x41;
    let mut stamps = Stamps {
        command: GET_TS_INFO,
        ..Stamps::default()
    };
    let has = |stamps: &Stamps, kind: u32| stamps.kinds & kind != 0;
    ask(name, &mut stamps).then(|| {
        (
            has(&stamps, libc::SOF_TIMESTAMPING_RX_SOFTWARE),
            has(&stamps, libc::SOF_TIMESTAMPING_RX_HARDWARE),
        )
    })
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Has the kernel compute the checksums of what is sent, and so cut it to the MTU; whether it does.
pub(super) fn leave_nothing_to_the_adapter(name: &str) -> bool {
    const SET_TX_CHECKSUMS: u32 = 0x17;
    let mut value = Value {
        command: SET_TX_CHECKSUMS,
        data: 0,
    };
    ask(name, &mut value)
}

impl Interface {
    /// Whether frames of a stream are joined before the kernel's network stack gets them (generic
    /// receive offload), and so before packet sockets and generic XDP do.
    pub fn joins_frames(&self) -> bool {
        const GET_GRO: u32 = 0x2b;
        let mut value = Value {
            command: GET_GRO,
            data: 0,
        };
        ask(&self.name, &mut value) && value.data != 0
    }

    /// Whether the adapter takes VLAN tags out of frames that it receives. A packet socket learns
    /// them all the same; AF_XDP does not.
    pub(super) fn takes_out_tags(&self) -> bool {
        const GET_FLAGS: u32 = 0x25;
        const RECEIVE_VLAN: u32 = 1 << 8;
        let mut value = Value {
            command: GET_FLAGS,
            data: 0,
        };
        ask(&self.name, &mut value) && value.data & RECEIVE_VLAN != 0
    }
}

/// Has the driver of an interface fill `what`, which begins with the command; whether it did.
fn ask<T>(name: &str, what: &mut T) -> bool {
    // SAFETY: all zeros is a value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: a name is shorter than its field.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(what).cast();
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    socket.is_ok_and(|socket| {
        // SAFETY: the request names an interface, and points to what the kernel fills by its
        // command; both live.
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) == 0 }
    })
}
