//! Two stacks of smoltcp, of one socket each.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use crate::{MESSAGE, TEXT_LEN, cpu, each, fill, sum, text};

const PORT: u16 = 7;
/// As ours: a window of 1 MiB.
const BUFFER: usize = 1 << 20;

/// Frames that are under way, and memory of frames that were.
#[derive(Default)]
struct Wire {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

struct Link {
    from: Rc<RefCell<Wire>>,
    to: Rc<RefCell<Wire>>,
}

struct Taken {
    frame: Vec<u8>,
    wire: Rc<RefCell<Wire>>,
}

struct Sent(Rc<RefCell<Wire>>);

impl RxToken for Taken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        let result = take(&self.frame);
        self.wire.borrow_mut().spare.push(self.frame);
        result
    }
}

impl TxToken for Sent {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = self.0.borrow_mut().spare.pop().unwrap_or_default();
        frame.resize(len, 0);
        let result = write(&mut frame);
        self.0.borrow_mut().frames.push_back(frame);
        result
    }
}

impl Device for Link {
    type RxToken<'a> = Taken;
    type TxToken<'a> = Sent;

    fn receive(&mut self, _: Instant) -> Option<(Taken, Sent)> {
        let frame = self.from.borrow_mut().frames.pop_front()?;
        let wire = Rc::clone(&self.from);
        Some((Taken { frame, wire }, Sent(Rc::clone(&self.to))))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent> {
        Some(Sent(Rc::clone(&self.to)))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

struct End {
    interface: Interface,
    link: Link,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl End {
    fn new(number: u8, sockets: u64, from: &Rc<RefCell<Wire>>, to: &Rc<RefCell<Wire>>) -> Self {
        let mut link = Link {
            from: Rc::clone(from),
            to: Rc::clone(to),
        };
        let address = EthernetAddress([2, 0, 0, 0, 0, number]);
        let config = Config::new(HardwareAddress::Ethernet(address));
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let own = IpCidr::new(IpAddress::v4(10, 0, 0, number), 24);
            addresses.push(own).expect("there is room");
        });
        let mut set = SocketSet::new(Vec::new());
        let buffer = |len: usize| SocketBuffer::new(vec![0; len]);
        let handle = set.add(Socket::new(buffer(BUFFER), buffer(BUFFER)));
        for _ in 1..sockets {
            set.add(Socket::new(buffer(64), buffer(64)));
        }
        Self {
            interface,
            link,
            sockets: set,
            handle,
        }
    }

    fn poll(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.link, &mut self.sockets);
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut::<Socket<'_>>(self.handle)
    }

    /// Sends as many bytes of a stream as there is room for, up to `to`.
    fn send(&mut self, text: &[u8; 2 * TEXT_LEN], from: &mut u64, to: u64) {
        while *from < to {
            let sent = self.socket().send(|room| {
                let len = room.len().min((to - *from) as usize).min(TEXT_LEN);
                fill(text, *from, &mut room[..len]);
                (len, len)
            });
            match sent.expect("it is open") {
                0 => return,
                len => *from += len as u64,
            }
        }
    }

    /// Takes and sums what came; returns how much it was.
    fn take(&mut self, total: &mut u64) -> usize {
        let mut came = 0;
        while self.socket().can_recv() {
            let taken = self
                .socket()
                .recv(|bytes| (bytes.len(), (bytes.len(), sum(bytes))));
            let (len, sum) = taken.expect("it is open");
            *total = total.wrapping_add(sum);
            came += len;
        }
        came
    }
}

struct Pair {
    client: End,
    server: End,
    now: Instant,
    text: [u8; 2 * TEXT_LEN],
    port: u16,
}

impl Pair {
    /// `sockets`: of both together, all but one each without a connection.
    fn new(sockets: u64) -> Self {
        let wires = [(); 2].map(|()| Rc::new(RefCell::new(Wire::default())));
        Self {
            client: End::new(1, sockets.div_ceil(2), &wires[0], &wires[1]),
            server: End::new(2, sockets.div_ceil(2), &wires[1], &wires[0]),
            now: Instant::ZERO,
            text: text(),
            port: 1024,
        }
    }

    fn poll(&mut self) {
        self.client.poll(self.now);
        self.server.poll(self.now);
    }

    fn connect(&mut self) {
        self.server.socket().listen(PORT).expect("it is closed");
        self.port = if self.port == u16::MAX {
            1024
        } else {
            self.port + 1
        };
        let End {
            interface,
            sockets,
            handle,
            ..
        } = &mut self.client;
        let socket = sockets.get_mut::<Socket<'_>>(*handle);
        let remote = (IpAddress::v4(10, 0, 0, 2), PORT);
        let connected = socket.connect(interface.context(), remote, self.port);
        connected.expect("it is closed");
        while self.server.socket().state() != State::Established {
            self.poll();
        }
    }

    fn trip(&mut self, from: &mut u64, back: &mut u64, total: &mut u64) {
        let to = *from + MESSAGE as u64;
        self.client.send(&self.text, from, to);
        self.client.poll(self.now);
        self.server.poll(self.now);
        assert_eq!(self.server.take(total), MESSAGE);
        self.server.send(&self.text, back, to);
        self.server.poll(self.now);
        self.client.poll(self.now);
        assert_eq!(self.client.take(total), MESSAGE);
    }
}

pub(crate) fn trips(sockets: u64) -> f64 {
    let mut pair = Pair::new(sockets);
    pair.connect();
    let (mut from, mut back, mut total) = (0, 0, 0);
    let mut turn = || {
        pair.now += smoltcp::time::Duration::from_micros(1);
        pair.trip(&mut from, &mut back, &mut total);
    };
    each(20_000 / sockets, &mut turn);
    each(2_000_000 / sockets, &mut turn)
}

pub(crate) fn bulk() -> f64 {
    const BYTES: u64 = 1 << 30;
    let mut pair = Pair::new(2);
    pair.connect();
    let (mut from, mut came, mut total) = (0, 0, 0);
    let began = cpu();
    while came < BYTES {
        pair.now += smoltcp::time::Duration::from_micros(100);
        pair.client.send(&pair.text, &mut from, BYTES);
        pair.poll();
        came += pair.server.take(&mut total) as u64;
        pair.server.poll(pair.now);
    }
    BYTES as f64 * 8.0 / (cpu() - began).as_secs_f64() / 1e9
}

pub(crate) fn opens() -> f64 {
    let mut pair = Pair::new(2);
    let mut total = 0;
    let mut turn = || {
        pair.now += smoltcp::time::Duration::from_micros(3);
        pair.connect();
        let (mut from, mut back) = (0, 0);
        pair.trip(&mut from, &mut back, &mut total);
        pair.client.socket().close();
        pair.poll();
        pair.server.socket().close();
        pair.server.poll(pair.now);
        pair.poll();
        assert_eq!(pair.server.socket().state(), State::Closed);
        // It has no TIME_WAIT apart from its sockets.
        pair.client.socket().abort();
        pair.poll();
    };
    each(1_000, &mut turn);
    each(200_000, &mut turn)
}
