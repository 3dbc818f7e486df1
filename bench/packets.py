"""Packets for the benchmarks: Ethernet, IPv4, TCP with its checksum, ONC RPC's records, NFSv3, and the
headers of a pcap with nanoseconds. An end is (address of 4 bytes, port)."""
import struct

FIN, SYN, PSH, ACK = 1, 2, 8, 16
ETHERNET = b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0"
PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
GETATTR, LOOKUP, READ, WRITE = 1, 3, 6, 7


def checksum(data):
    """RFC 1071: a sum of 16-bit words with end-around carry is the number modulo 0xffff."""
    return 0xFFFF ^ int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 0xFFFF


def ip(source, target, protocol, payload, identification=0, fragment=0x4000):
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), identification, fragment, 64, protocol, 0)
    header += source + target
    return ETHERNET + header[:10] + struct.pack(">H", checksum(header)) + header[12:] + payload


def tcp(source, target, flags, sequence, acknowledged, payload=b"", options=b""):
    offset = (20 + len(options)) // 4 << 4
    acknowledged = acknowledged if flags & ACK else 0
    header = struct.pack(">HHIIBBHHH", source[1], target[1], sequence & 0xFFFFFFFF, acknowledged & 0xFFFFFFFF,
                         offset, flags, 65535, 0, 0) + options
    pseudo = source[0] + target[0] + struct.pack(">BBH", 0, 6, len(header) + len(payload))
    sum_ = checksum(pseudo + header + payload)
    return ip(source[0], target[0], 6, header[:16] + struct.pack(">H", sum_) + header[18:] + payload)


def frame(source, target, sequence, acknowledged, payload):
    return tcp(source, target, PSH | ACK, sequence, acknowledged, payload)


def pcap_record(at_ns, packet):
    return struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, len(packet), len(packet)) + packet


def record(body):
    return struct.pack(">I", 0x8000_0000 | len(body)) + body


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def attributes(fileid, size=1 << 20):
    return struct.pack(">IIIIIQQQQQIIIIII", 1, 0o644, 1, 0, 0, size, size, 0, 1, fileid, 1, 0, 1, 0, 1, 0)


def handle(fileid):
    return struct.pack(">QQQQ", 1, fileid, 0, 0)


def nfs(xid, procedure, fileid, data=b"", offset=0):
    """The records of an NFSv3 call and its reply. READ and WRITE are of `data`."""
    call = struct.pack(">IIIIII", xid, 0, 2, 100003, 3, procedure) + bytes(16) + opaque(handle(fileid))
    reply = struct.pack(">IIIIIII", xid, 1, 0, 0, 0, 0, 0)
    if procedure == GETATTR:
        reply += attributes(fileid)
    elif procedure == LOOKUP:
        call += opaque(b"file-%d" % fileid)
        reply += opaque(handle(fileid + 1)) + struct.pack(">I", 1) + attributes(fileid + 1) + bytes(4)
    elif procedure == READ:
        call += struct.pack(">QI", offset, len(data))
        reply += struct.pack(">I", 1) + attributes(fileid) + struct.pack(">II", len(data), 0) + opaque(data)
    elif procedure == WRITE:
        call += struct.pack(">QII", offset, len(data), 2) + opaque(data)
        reply += struct.pack(">II", 0, 1) + attributes(fileid) + struct.pack(">II", len(data), 2) + bytes(8)
    return record(call), record(reply)
