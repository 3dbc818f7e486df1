//! memcached itself as the oracle: it and our store get the same commands over one connection each,
//! and answer the same bytes, which our reply parser reads.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command as Program, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lineside_memcached::{
    Command, Connection, Keys, Limits, Lines, Reply, ReplyParser, ReplySink, Store, Value, Verb,
};
use lineside_time::Random;

/// A memcached on a port of this host, which ends with the test.
struct Real {
    child: Child,
    port: u16,
}

impl Drop for Real {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Real {
    /// `None`, and a line that says why: there is none here.
    fn start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let (port_text, user) = (port.to_string(), ["-u", "nobody"]);
        // Its thread that keeps the order of items holds an item for a while after a get, and a
        // number that becomes shorter meanwhile is not padded.
        let options = ["-o", "no_lru_maintainer,no_lru_crawler"];
        let child = Program::new("memcached")
            .args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-p", &port_text])
            .args(user)
            .args(options)
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("SKIP: memcached against our store: there is no memcached");
            return None;
        };
        Some(Self { child, port })
    }

    fn connect(&self) -> TcpStream {
        for _ in 0..1000 {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => return stream,
                #[expect(clippy::disallowed_methods, reason = "it is a program that starts")]
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("memcached does not listen on port {}", self.port);
    }

    /// What it answers on a connection of its own.
    fn ask(&self, commands: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        let mut writer = stream.try_clone().expect("a second handle");
        let commands = commands.to_vec();
        let writer = thread::spawn(move || {
            writer.write_all(&commands)?;
            writer.shutdown(Shutdown::Write)
        });
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        writer.join().expect("no panic").expect("it reads all");
        answer
    }
}

/// What our store answers, in pieces of `len` bytes.
fn ours(store: &mut Store, commands: &[u8], len: usize) -> Vec<u8> {
    #[expect(clippy::disallowed_methods, reason = "memcached goes by this clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.expect("after 1970").as_secs() as i64;
    let (mut connection, mut lines, mut out) = (Connection::new(), Lines::new(1), Vec::new());
    for piece in commands.chunks(len) {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut more = Vec::new();
            let pushed = connection.push(now_s, 0, rest, &mut lines, store, &mut more);
            rest = &rest[pushed.expect("commands").taken..];
            out.append(&mut more);
        }
    }
    connection.release(&mut lines, store);
    out
}

/// Commands on few keys, most of them right.
fn commands(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..200 {
        let keys = ["a", "b", "counter", "a-longer-key", "n"];
        let key = keys[random.below(5) as usize].as_bytes();
        let noreply = random.below(8) == 0;
        let exptime = [0, 0, 1000, -1][random.below(4) as usize];
        let command = match random.below(12) {
            0 => Command::Delete { key, noreply },
            1 | 2 => Command::Add {
                key,
                delta: [1, 1000, u64::MAX, 77][random.below(4) as usize],
                down: random.below(2) == 0,
                noreply,
            },
            3 => Command::Touch {
                key,
                exptime,
                noreply,
            },
            4 | 5 => Command::Get {
                keys: Keys::new(b"a b none counter a-longer-key n"),
                with_cas: random.below(2) == 0,
                touch: [None, Some(1000)][random.below(2) as usize],
            },
            6 => {
                out.extend_from_slice(wrong(random));
                continue;
            }
            7 if random.below(10) == 0 => Command::FlushAll { delay: 0, noreply },
            _ => {
                let digits = random.below(3) == 0;
                let value: Vec<u8> = (0..random.below(12))
                    .map(|_| match digits {
                        true => b'0' + random.below(10) as u8,
                        false => random.bits() as u8,
                    })
                    .collect();
                let verb = match random.below(6) {
                    0 => Verb::Add,
                    1 => Verb::Replace,
                    2 => Verb::Append,
                    3 => Verb::Prepend,
                    4 => Verb::Cas(random.below(100)),
                    _ => Verb::Set,
                };
                let command = Command::Store {
                    verb,
                    key,
                    flags: random.bits() as u32,
                    exptime,
                    len: value.len() as u32,
                    noreply,
                };
                command.write(&mut out);
                out.extend_from_slice(&value);
                out.extend_from_slice(b"\r\n");
                continue;
            }
        };
        command.write(&mut out);
    }
    out
}

fn wrong(random: &mut Random) -> &'static [u8] {
    const WRONG: [&[u8]; 30] = [
        b"get\r\n",
        b"get \r\n",
        b"bogus a\r\n",
        b"\r\n",
        b"GET a\r\n",
        b" get  a \r\n",
        b"set a 0 0\r\n",
        b"set a 0 0 3 4 5\r\n",
        b"set a x 0 3\r\n",
        b"set a 0 x 3\r\n",
        b"set a 0 0 x\r\n",
        b"set a 0 0 -1\r\n",
        b"set a -1 0 1\r\n",
        b"set a 0 0 3\r\nabcd\r\n",
        b"set a 0 0 3\r\nab\r\n\n",
        b"set a 0 0 2147483647\r\n",
        b"set a 00 0 +1 bogus\r\nx\r\n",
        b"set  b 0 0 1\nx\r\n",
        b"cas a 0 0 1\r\n",
        b"cas a 0 0 1 x\r\n",
        b"incr a\r\n",
        b"incr a x\r\n",
        b"incr a -1\r\n",
        b"incr a 18446744073709551616\r\n",
        b"incr counter 1 2 3\r\n",
        b"delete a 0\r\n",
        b"delete a 5\r\n",
        b"delete\r\n",
        b"touch a x\r\n",
        b"touch a\r\n",
    ];
    WRONG[random.below(WRONG.len() as u64) as usize]
}

#[derive(Default)]
struct Count {
    replies: u64,
    errors: u64,
    items: u64,
    end: u64,
}

impl ReplySink for Count {
    fn on_item(&mut self, _: u64, _: Value<'_>) {
        self.items += 1;
    }

    fn on_reply(&mut self, at: u64, reply: Reply<'_>) {
        assert!(at > self.end);
        self.end = at;
        self.replies += 1;
        let is_error = matches!(reply, Reply::Error | Reply::ClientError(_));
        self.errors += u64::from(is_error);
    }
}

#[test]
fn answers_are_those_of_memcached() {
    let Some(real) = Real::start() else {
        return;
    };
    let mut store = Store::new(Limits::default());
    let mut count = Count::default();
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let commands = commands(&mut random);
        let theirs = real.ask(&commands);
        let ours = ours(&mut store, &commands, 1 + random.below(99) as usize);
        let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let around = |answers: &[u8]| {
            let part = &answers[same.saturating_sub(200)..(same + 80).min(answers.len())];
            part.escape_ascii().to_string()
        };
        let commands = commands.escape_ascii();
        assert_eq!(around(&ours), around(&theirs), "seed {seed}: {commands}");
        assert_eq!(ours.len(), theirs.len(), "seed {seed}");
        let (mut parser, mut lines) = (ReplyParser::new(), Lines::new(1));
        count.end = 0;
        for (at, piece) in theirs.chunks(7).enumerate() {
            let read = parser.push(at as u64 * 7, piece, &mut lines, &mut count);
            assert_eq!(read, Ok(()));
        }
        assert_eq!(count.end, theirs.len() as u64);
        assert_eq!(parser.finish(count.end, &mut lines), Ok(()));
    }
    assert!(count.replies > 10_000 && count.errors > 1000 && count.items > 1000);
}
