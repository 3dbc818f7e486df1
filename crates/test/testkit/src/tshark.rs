//! tshark as a second opinion: each RPC message of a capture as it dissects it.
//!
//! Its `-T fields` lists the values of all messages of a frame together, and a message without a
//! name then shifts the names of the others. So this reads PDML, in which each message has elements
//! of its own: `<proto name="rpc">`, and behind it `<proto name="nfs">`, `<proto name="mount">` and
//! so on.

use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

/// A call or a reply as tshark dissects it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dissected {
    /// Number of the frame that completed it, from 1.
    pub frame: u64,
    /// That frame's stamp.
    pub stamp_ns: i64,
    /// Who sent it.
    pub source: Option<SocketAddr>,
    /// To whom.
    pub destination: Option<SocketAddr>,
    /// Over UDP, not TCP.
    pub udp: bool,
    /// The transaction.
    pub xid: u32,
    /// A call, not a reply.
    pub call: bool,
    /// Program, version and procedure; of a reply, only if tshark found its call.
    pub program: Option<u32>,
    /// See `program`.
    pub version: Option<u32>,
    /// See `program`.
    pub procedure: Option<u32>,
    /// Of a reply: the frame in which tshark saw its call.
    pub call_frame: Option<u64>,
    /// tshark takes it for a repetition of an earlier message.
    pub repeated: bool,
    /// tshark could not dissect it to its end.
    pub malformed: bool,
    /// Of a reply: accepted (0) or denied (1).
    pub reply_state: Option<u32>,
    /// Of an accepted reply: RFC 5531's accept_stat.
    pub accept_state: Option<u32>,
    /// NFSv2's stat, nfsstat3 or mountstat3.
    pub status: Option<u32>,
    /// File handles, in the order of the message.
    pub handles: Vec<Vec<u8>>,
    /// Names of directory entries in arguments or results, in that order.
    pub names: Vec<Vec<u8>>,
    /// offset3 of READ, WRITE and COMMIT.
    pub offset: Option<u64>,
    /// count3, the first of the message.
    pub count: Option<u64>,
    /// Path of a MOUNT call.
    pub path: Option<Vec<u8>>,
    /// The operations of an NFSv4 compound, of a callback's too.
    pub operations: Vec<DissectedOperation>,
    /// What a compound's reply says of all of it.
    pub compound_status: Option<u32>,
    /// A compound's tag and minor version.
    pub tag: Option<Vec<u8>>,
    /// See `tag`.
    pub minor_version: Option<u32>,
    /// The user of AUTH_SYS.
    pub user_id: Option<u32>,
    /// Of NFSv2 and the programs beside NFS: every field, in the order of the message.
    pub fields: Vec<Field>,
}

/// A field of a message as tshark shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Field {
    /// tshark's name of it: `nlm.lock.svid`.
    pub name: String,
    /// Its value as text; a number in decimal, or in hexadecimal behind `0x`.
    pub show: String,
    /// For people, with the name of the value: `stat: NLM_GRANTED (0)`.
    pub label: String,
    /// Its bytes in the message.
    pub bytes: Vec<u8>,
}

impl Field {
    /// Its value, if that is a number.
    pub fn number(&self) -> Option<u64> {
        number(&self.show)
    }
}

/// An operation of an NFSv4 compound, in its call or its reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DissectedOperation {
    /// Its number.
    pub number: u32,
    /// Of a reply: its status.
    pub status: Option<u32>,
    /// File handles, those within attributes and listings too.
    pub handles: Vec<Vec<u8>>,
    /// Names of directory entries and extended attributes.
    pub names: Vec<Vec<u8>>,
    /// Entries of a listing with their handles.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// State ids without their sequences.
    pub stateids: Vec<Vec<u8>>,
    /// The session.
    pub session: Option<Vec<u8>>,
    /// The session's slot, and the highest one in use.
    pub slot: Option<u64>,
    /// See `slot`.
    pub highest_slot: Option<u64>,
    /// Sequence ids, those of owners and of slots.
    pub sequences: Vec<u64>,
    /// The first offset4.
    pub offset: Option<u64>,
    /// The first count4.
    pub count: Option<u64>,
    /// File data of READ and WRITE.
    pub data: Option<Vec<u8>>,
}

impl Dissected {
    /// The fields of a name.
    pub fn fields_of(&self, name: &str) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.name == name)
    }

    /// The first field of a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// NFSv3 or MOUNT v3, as far as tshark knows.
    pub fn is_nfs3(&self) -> bool {
        matches!(
            (self.program, self.version),
            (Some(100_003 | 100_005), Some(3))
        )
    }
}

/// True if there is a tshark to run.
pub fn available() -> bool {
    let output = Command::new("tshark").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs tshark on a capture (plain or compressed). With `complete`, segments out of order are put
/// in order; on a capture with gaps that makes tshark wait for ever.
pub fn dissect(capture: &Path, complete: bool) -> io::Result<Vec<Dissected>> {
    // tshark reads gzip itself, but zstd only in some builds.
    let mut unpacked = None;
    if capture
        .extension()
        .is_some_and(|extension| extension == "zst")
    {
        let mut file = tempfile::NamedTempFile::new()?;
        io::Write::write_all(&mut file, &crate::capture::bytes(capture)?)?;
        unpacked = Some(file);
    }
    let path = unpacked.as_ref().map_or(capture, |file| file.path());
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(path);
    tshark.args([
        "-o",
        &format!(
            "tcp.reassemble_out_of_order:{}",
            if complete { "TRUE" } else { "FALSE" }
        ),
    ]);
    // Clients of root take ports below 1024, which belong to other protocols.
    for ports in ["111", "512-1023", "2049", "20048-20051"] {
        tshark.args([
            "-d",
            &format!("tcp.port=={ports},rpc"),
            "-d",
            &format!("udp.port=={ports},rpc"),
        ]);
    }
    tshark.args([
        "-Y",
        "rpc.msgtyp",
        "-T",
        "pdml",
        "-J",
        "ip ipv6 tcp udp rpc nfs mount nlm klm stat portmap rquota nfsacl",
    ]);
    let mut child = tshark
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().map(BufReader::new);
    let messages = output.map_or_else(|| Ok(vec![]), parse);
    let status = child.wait()?;
    // 2: the file is cut in its last frame, up to which everything was read.
    if !status.success() && status.code() != Some(2) {
        return Err(io::Error::other(format!(
            "tshark on {}: {status}",
            capture.display()
        )));
    }
    messages
}

/// What the elements around a message say.
#[derive(Default)]
struct Surroundings {
    frame: u64,
    stamp_ns: i64,
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    udp: bool,
}

/// tshark writes each start tag on a line of its own, so a line is the unit.
fn parse(mut input: impl BufRead) -> io::Result<Vec<Dissected>> {
    let mut messages: Vec<Dissected> = Vec::new();
    let mut around = Surroundings::default();
    let mut in_message = false;
    let mut line = Vec::new();
    while {
        line.clear();
        input.read_until(b'\n', &mut line)?
    } > 0
    {
        let text = String::from_utf8_lossy(&line);
        let indented = text.len();
        let text = text.trim_start();
        // A token of GSS-API stands within the message.
        let is_nested = indented - text.len() > 2;
        if let Some(proto) = text.strip_prefix("<proto ") {
            let name = attribute(proto, "name").unwrap_or_default();
            match name {
                "geninfo" => (around, in_message) = (Surroundings::default(), false),
                "rpc" => {
                    let [source, destination] = [0, 1].map(|end| {
                        Some(SocketAddr::new(around.addresses[end]?, around.ports[end]?))
                    });
                    messages.push(Dissected {
                        frame: around.frame,
                        stamp_ns: around.stamp_ns,
                        udp: around.udp,
                        source,
                        destination,
                        ..Dissected::default()
                    });
                    in_message = true;
                }
                "nfs" | "mount" | "nlm" | "klm" | "stat" | "portmap" | "rquota" | "nfsacl" => {}
                _ if is_nested && !name.starts_with("_ws.") => {}
                "_ws.malformed" | "_ws.short" if in_message => {
                    messages.last_mut().expect("in a message").malformed = true;
                }
                _ => in_message = false,
            }
        } else if let Some(field) = text.strip_prefix("<field ") {
            let name = attribute(field, "name").unwrap_or_default();
            if in_message && let Some(message) = messages.last_mut() {
                message.learn(name, field);
            } else {
                around.learn(name, field);
            }
        }
    }
    // A continuation of a record has an element of its own, without a message in it.
    messages.retain(|message| {
        message.xid != 0 || message.program.is_some() || message.reply_state.is_some()
    });
    Ok(messages)
}

impl Surroundings {
    fn learn(&mut self, name: &str, field: &str) {
        let show = attribute(field, "show").unwrap_or_default();
        match name {
            "num" => self.frame = show.parse().unwrap_or(0),
            "timestamp" => self.stamp_ns = attribute(field, "value").and_then(stamp).unwrap_or(0),
            "ip.src" | "ipv6.src" => self.addresses[0] = show.parse().ok(),
            "ip.dst" | "ipv6.dst" => self.addresses[1] = show.parse().ok(),
            "tcp.srcport" | "udp.srcport" => {
                (self.ports[0], self.udp) = (show.parse().ok(), name.starts_with("udp"))
            }
            "tcp.dstport" | "udp.dstport" => self.ports[1] = show.parse().ok(),
            _ => {}
        }
    }
}

impl Dissected {
    fn learn(&mut self, name: &str, field: &str) {
        let number = || number(attribute(field, "show")?);
        let word = || number().map(|number| number as u32);
        let bytes = || hex(attribute(field, "value").unwrap_or_default());
        // NFSv3 and NFSv4 have too many messages and fields to keep them all.
        let many = matches!((self.program, self.version), (Some(100_003), Some(3 | 4)));
        if self.program.is_some() && !many && !name.is_empty() && !name.starts_with("rpc.") {
            self.fields.push(Field {
                name: name.to_owned(),
                show: attribute(field, "show").unwrap_or_default().to_owned(),
                label: attribute(field, "showname").unwrap_or_default().to_owned(),
                bytes: bytes(),
            });
        }
        match name {
            "rpc.xid" => self.xid = word().unwrap_or(0),
            "rpc.msgtyp" => self.call = word() == Some(0),
            "rpc.program" => self.program = word(),
            "rpc.programversion" => self.version = word(),
            "rpc.procedure" => self.procedure = word(),
            "rpc.repframe" => self.call_frame = number(),
            "rpc.dup" => self.repeated = true,
            "rpc.replystat" => self.reply_state = word(),
            "rpc.state_accept" => self.accept_state = word(),
            "nfs.status2" | "nfs.status3" | "nfs.nfsstat3" | "mount.status" => {
                self.status = self.status.or_else(word)
            }
            "nfs.fhandle" => self.handles.push(bytes()),
            "nfs.name" => self.names.push(bytes()),
            "nfs.offset3" => self.offset = self.offset.or_else(number),
            "nfs.count3" => self.count = self.count.or_else(number),
            "mount.path" => self.path = Some(bytes()),
            "nfs.tag" => self.tag = Some(bytes()),
            "nfs.minorversion" => self.minor_version = self.minor_version.or_else(word),
            "rpc.auth.uid" => self.user_id = self.user_id.or_else(word),
            "nfs.nfsstat4" if self.operations.is_empty() => self.compound_status = word(),
            "nfs.opcode" | "nfs.cb.operation" => {
                self.operations
                    .extend(word().map(|number| DissectedOperation {
                        number,
                        ..DissectedOperation::default()
                    }));
            }
            _ => {}
        }
        // tshark nests what an operation has in its number.
        if let Some(operation) = self.operations.last_mut() {
            operation.learn(name, field);
        }
    }
}

impl DissectedOperation {
    fn learn(&mut self, name: &str, field: &str) {
        let number = || number(attribute(field, "show")?);
        let bytes = || hex(attribute(field, "value").unwrap_or_default());
        match name {
            // Others may follow, within attributes.
            "nfs.nfsstat4" => {
                self.status = self.status.or_else(|| number().map(|number| number as u32));
            }
            "nfs.fhandle" => {
                self.handles.push(bytes());
                let name = self.names.last().cloned();
                self.entries.extend(name.map(|name| (name, bytes())));
            }
            "nfs.pathname.component" | "nfs.xattr.key" | "nfs.entry_name" => {
                self.names.push(bytes())
            }
            "nfs.stateid.other" => self.stateids.push(bytes()),
            "nfs.session_id4" => self.session = Some(bytes()),
            "nfs.slotid" => self.slot = self.slot.or_else(number),
            "nfs.high_slotid" => self.highest_slot = self.highest_slot.or_else(number),
            "nfs.seqid" => self.sequences.extend(number()),
            "nfs.offset4" => self.offset = self.offset.or_else(number),
            "nfs.count4" => self.count = self.count.or_else(number),
            "nfs.data" => self.data = Some(bytes()),
            _ => {}
        }
    }
}

/// The value of an attribute in the rest of a start tag. tshark escapes `"` in it as `&quot;`.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        if key.trim_start() == name {
            return Some(value);
        }
        rest = after;
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Nanoseconds of `1795255189.245135624`.
fn stamp(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(seconds * 1_000_000_000 + fraction)
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_frame_stay_apart() {
        let pdml = r#"<packet>
  <proto name="geninfo" pos="0">
    <field name="num" pos="0" show="7" value="7"/>
    <field name="timestamp" pos="0" show="Nov 21" value="12.000000345" size="1"/>
  </proto>
  <proto name="ip"><field name="ip.src" show="10.0.0.1"/>
    <field name="ip.src" showname="Source &quot;x&quot;" show="10.0.0.1"/>
    <field name="ip.dst" show="10.0.0.2"/>
  </proto>
  <proto name="tcp">
    <field name="tcp.srcport" show="700"/>
    <field name="tcp.dstport" show="2049"/>
  </proto>
  <proto name="rpc">
    <field name="rpc.xid" show="0x0000000a"/>
    <field name="rpc.msgtyp" show="0"/>
    <field name="rpc.program" show="100003"/>
    <field name="rpc.programversion" show="3"/>
    <field name="rpc.procedure" show="1"/>
  </proto>
  <proto name="nfs">
    <field name="nfs.fhandle" show="00:01" value="0001"/>
  </proto>
  <proto name="rpc">
    <field name="rpc.xid" show="0x0000000b"/>
    <field name="rpc.msgtyp" show="0"/>
    <field name="rpc.program" show="100003"/>
    <field name="rpc.procedure" show="3"/>
  </proto>
  <proto name="nfs">
    <field name="nfs.fhandle" show="02" value="02"/>
    <field name="nfs.name" show="a" value="61"/>
  </proto>
</packet>
"#;
        let messages = parse(pdml.as_bytes()).expect("in memory");
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].handles, [vec![0, 1]]);
        assert!(messages[0].names.is_empty() && messages[0].is_nfs3());
        assert_eq!(
            (messages[1].xid, &messages[1].names),
            (11, &vec![b"a".to_vec()])
        );
        assert_eq!(
            (messages[1].frame, messages[1].stamp_ns),
            (7, 12_000_000_345)
        );
        assert_eq!(messages[1].source, "10.0.0.1:700".parse().ok());
        assert_eq!(messages[1].destination, "10.0.0.2:2049".parse().ok());
    }
}
