"""Compares the counts of `lineside compare --calls --json` with DuckDB's: compare_calls.py FOLDER, which has the traces a
and b, and compare.json"""

import json
import sys

import duckdb

folder = sys.argv[1]
ours = json.load(open(f"{folder}/compare.json"))
calls = ours["calls"]
duckdb.sql("set threads = 1")
for name in "ab":
    duckdb.sql(f"""
        create view {name} as select o.*, s.data,
            call_time_ns - min(call_time_ns) over () as since,
            coalesce(reply_time_ns - call_end_ns, 0) as server
        from '{folder}/{name}/operations/*.parquet' o
        left join (select operation_id, list(checksum order by block) as data
            from '{folder}/{name}/checksums/*.parquet' group by all) s using (operation_id)""")
join = "using (client_address, xid, operation)"
by = "(b.since - a.since)"
content = """(a."offset", a.count, a.name, a.transferred, a.data) is distinct from
    (b."offset", b.count, b.name, b.transferred, b.data)"""
queries = {
    "pairs": f"select count(*) from a join b {join}",
    "missing": f"select count(*) from a anti join b {join}",
    "added": f"select count(*) from b anti join a {join}",
    "other_status": f"select count(*) from a join b {join} where a.status is distinct from b.status",
    "other_content": f"select count(*) from a join b {join} where a.status = b.status and {content}",
    "later": f"select count(*) from a join b {join} where {by} > 100000",
    "earlier": f"select count(*) from a join b {join} where {by} < -100000",
}
for name, query in queries.items():
    theirs = duckdb.sql(query).fetchall()[0][0]
    if calls[name] != theirs or theirs == 0 and name != "earlier":
        sys.exit(f"{name}: lineside {calls[name]}, DuckDB {theirs}")
for at, name in enumerate("ab"):
    elapsed, response = duckdb.sql(f"""
        select (select max(reply_end_ns) - min(call_time_ns) from {name}),
            (select sum({name}.reply_end_ns - {name}.call_time_ns) from a join b {join})""").fetchall()[0]
    for what, number, theirs in [
        ("elapsed", calls["elapsed"][at]["total_ns"], elapsed),
        ("elapsed of the side", ours[name]["elapsed_ns"], elapsed),
        ("response", calls["response"][at]["total_ns"], int(response)),
    ]:
        if number != theirs:
            sys.exit(f"{what} of {name}: lineside {number}, DuckDB {theirs}")
    rtt = duckdb.sql(f"""
        select quantile_disc(c + s, 0.5)::bigint from (select min(client_rtt_min_ns) as c, min(server_rtt_min_ns) as s
        from '{folder}/{name}/connections/*.parquet' where program is not null group by connection_id)""").fetchall()[0][0]
    if ours[name]["round_trip_ns"] != rtt:
        sys.exit(f"round trip of {name}: lineside {ours[name]['round_trip_ns']}, DuckDB {rtt}")
