#!/usr/bin/env python3
"""Frames and bytes of each flow at each point, as a drop-in monitor of lineside.

    lineside capture -r FILE -o RUN --drop-in flow_bytes='python3 flow_bytes.py'

Reads Arrow IPC on standard input, a row a frame, and writes the table monitor_flow_bytes: a row a
flow (source, destination, ports, transport) at a port and a point. Needs pyarrow.
"""

import sys

import pyarrow as pa

KEYS = [
    "port",
    "point",
    "source_address",
    "destination_address",
    "source_port",
    "destination_port",
    "transport",
]
# Batches that are grouped alone before they are put together: enough to make grouping cheap, few
# enough to keep memory to the flows.
BATCHES = 64


def first(heads):
    """The counts of a batch's own flows."""
    grouped = heads.group_by(KEYS).aggregate(
        [("wire_bytes", "count"), ("wire_bytes", "sum"), ("payload_bytes", "sum")]
    )
    return grouped.rename_columns(
        {
            "wire_bytes_count": "packets",
            "wire_bytes_sum": "bytes",
            "payload_bytes_sum": "payload_bytes",
        }
    ).select(KEYS + ["packets", "bytes", "payload_bytes"])


def together(parts):
    """The counts of several, added."""
    columns = ["packets", "bytes", "payload_bytes"]
    grouped = pa.concat_tables(parts).group_by(KEYS)
    added = grouped.aggregate([(column, "sum") for column in columns])
    added = added.select(KEYS + [column + "_sum" for column in columns])
    return added.rename_columns(KEYS + columns)


def main():
    parts, missed = [], 0
    with pa.ipc.open_stream(sys.stdin.buffer) as heads:
        # Where no frame comes, the table has no rows.
        parts.append(first(heads.schema.empty_table()))
        for batch, metadata in heads.iter_batches_with_custom_metadata():
            if metadata:
                missed += int(metadata[b"dropped_heads"])
            parts.append(first(pa.Table.from_batches([batch])))
            if len(parts) >= BATCHES:
                parts = [together(parts)]
    flows = together(parts)
    if missed:
        print(f"flow_bytes: {missed} heads were missed", file=sys.stderr)
    with pa.ipc.new_stream(sys.stdout.buffer, flows.schema) as out:
        out.write_table(flows)


if __name__ == "__main__":
    main()
