#!/usr/bin/env node
// Names that DNS queries ask for, as a drop-in monitor of lineside.
//
//     lineside capture -r FILE -o RUN --drop-in-bytes 512 \
//         --drop-in dns_names='csv:node dns_names.mjs'
//
// Reads CSV on standard input, a line a frame with its first bytes in hexadecimal, and writes the
// table monitor_dns_names: how often each name was asked for at each point. Needs nothing but Node.

import { createInterface } from "node:readline";

// The payload of a datagram in an Ethernet frame, or nothing.
function payload(frame) {
    let at = 12;
    while ([0x8100, 0x88a8].includes(frame.readUInt16BE(at))) at += 4;
    const type = frame.readUInt16BE(at);
    at += 2;
    if (type === 0x0800) return frame.subarray(at + 4 * (frame[at] & 15) + 8);
    if (type === 0x86dd && frame[at + 6] === 17) return frame.subarray(at + 40 + 8);
}

// The name and type of the first question of a query (RFC 1035, 4.1).
function question(message) {
    const isResponse = message[2] >> 7;
    if (isResponse || message.readUInt16BE(4) === 0) return;
    const labels = [];
    let at = 12;
    while (message[at] > 0 && message[at] < 64) {
        labels.push(message.toString("latin1", at + 1, at + 1 + message[at]));
        at += 1 + message[at];
    }
    const name = labels.join(".").toLowerCase().replace(/[^!-~]/g, "?");
    return { name: name || ".", type: message.readUInt16BE(at + 1) };
}

const quoted = (text) => '"' + text.replaceAll('"', '""') + '"';

const counts = new Map();
let columns;
for await (const line of createInterface({ input: process.stdin })) {
    // What was missed since the lines before.
    if (line.startsWith("#")) continue;
    const fields = line.split(",");
    if (!columns) {
        columns = Object.fromEntries(fields.map((name, at) => [name, at]));
        continue;
    }
    if (fields[columns.transport] !== "udp" || fields[columns.destination_port] !== "53") continue;
    try {
        const asked = question(payload(Buffer.from(fields[columns.bytes], "hex")));
        if (!asked) continue;
        const { name, type } = asked;
        const key = [fields[columns.port], fields[columns.point], quoted(name), type].join(",");
        counts.set(key, (counts.get(key) ?? 0) + 1);
    } catch {
        // Cut, or no DNS.
    }
}
console.log("port,point,name,type:integer,count:integer");
for (const [key, count] of counts) console.log(`${key},${count}`);
