"""Makes a small trace a busy one: multiply.py TRACE. Each operation becomes 200, of several clients and users, so that
files are shared, few clients do most, and GETATTRs come in storms."""

import sys

import duckdb

trace = sys.argv[1]
duckdb.sql(f"create table operations as from '{trace}/operations/*.parquet'")
duckdb.sql(f"""
    copy (
        select * replace (operation_id * 200 + copy as operation_id, rpc_id * 200 + copy as rpc_id,
            call_time_ns + copy * 1000 as call_time_ns,
            call_end_ns + copy * 1100 as call_end_ns, reply_time_ns + copy * 2000 as reply_time_ns,
            reply_end_ns + copy * 2100 as reply_end_ns, "offset" + copy % 3 * 512 as "offset",
            '10.0.0.' || if(copy < 120, 1, copy % 40) as client_address,
            if(copy = 199, null, 1000 + copy % 33)::bigint as user_id)
        from operations, (select unnest(range(200))::int as copy) order by reply_end_ns, call_time_ns, operation_id)
    to '{trace}/operations/part-000000.parquet' (format parquet, compression zstd)""")
