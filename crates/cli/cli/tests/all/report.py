"""Compares `lineside report --json` with what DuckDB says of the same Parquet: report.py TRACE < report.json"""

import json
import sys

import duckdb

trace = sys.argv[1]
report = json.load(sys.stdin)
duckdb.sql("set threads = 1")
duckdb.sql(f"create view operations as from '{trace}/operations/*.parquet'")
duckdb.sql(f"create view losses as from '{trace}/losses/*.parquet'")
# What `failed` means: the protocol's status, or RPC's where there is none, is not success.
duckdb.sql("""
    create view judged as select *, coalesce(status, rpc_status) as outcome,
        outcome is not null and outcome <> 'SUCCESS' and not ends_with(outcome, '_OK')
            and not ends_with(outcome, '_GRANTED') and outcome <> 'STAT_SUCC' as failed,
        program = 'nfs' and operation = 'READ' as is_read,
        case when operation_id = coalesce(rpc_id, operation_id) and not coalesce(not_executed, false)
            and reply_end_ns >= call_time_ns then reply_end_ns - call_time_ns else 0 end as waited_ns,
        program = 'nfs' and operation = 'WRITE' as is_write,
        coalesce(call_time_ns, reply_time_ns) as time_ns
    from operations""")
# What a file is: by its attributes or, where none were seen, by what succeeded on it.
duckdb.sql(f"""
    create view objects as with
        typed as (select file_id, arg_max(file_type, operation_id) as type
            from '{trace}/files/*.parquet' where file_type is not null group by 1),
        acted as (select file_id, max(case
                when operation in ('READ', 'WRITE', 'COMMIT') then 'REG' when operation = 'READLINK' then 'LNK'
                when operation in ('LOOKUP', 'READDIR', 'READDIRPLUS', 'CREATE', 'MKDIR', 'SYMLINK', 'MKNOD', 'REMOVE',
                    'RMDIR', 'RENAME') then 'DIR' end) filter (program = 'nfs' and not failed and not reply_missing) as type
            from judged where file_id is not null group by 1)
    select file_id, case coalesce(typed.type, acted.type) when 'REG' then 'files' when 'DIR' then 'directories'
        else 'objects' end as class
    from acted left join typed using (file_id)""")


def rows(query):
    return duckdb.sql(query).fetchall()


def agree(what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{what}:\n  lineside {ours}\n  DuckDB   {theirs}")


totals = report["totals"]
names = ["operations", "failed", "unanswered", "without_call", "incomplete", "repeated", "retransmissions",
         "duplicate_replies", "read_bytes", "written_bytes", "first_ns", "last_ns", "files", "directories", "objects",
         "clients", "servers", "users", "without_user", "waited_ns"]
agree("totals", [totals[name] for name in names], list(rows("""
    select count(*), count(*) filter (failed), count(*) filter (reply_missing), count(*) filter (call_missing),
        count(*) filter (call_incomplete or reply_incomplete or data_incomplete), count(*) filter (repeat),
        coalesce(sum(retransmissions), 0)::bigint, coalesce(sum(duplicate_replies), 0)::bigint,
        coalesce(sum(transferred) filter (is_read), 0)::bigint,
        coalesce(sum(transferred) filter (is_write), 0)::bigint, min(time_ns), max(time_ns),
        (select count(*) from objects where class = 'files'), (select count(*) from objects where class = 'directories'),
        (select count(*) from objects where class = 'objects'), count(distinct client_address),
        count(distinct server_address), count(distinct user_id),
        count(*) filter (user_id is null), sum(waited_ns)::bigint from judged""")[0]))

kinds = {(each["program"], each["version"], each["operation"]): each for each in report["operations"]}
theirs = rows("""
    select coalesce(program, ''), version, coalesce(operation, ''), count(*), count(*) filter (failed),
        count(*) filter (reply_missing), coalesce(sum(transferred), 0)::bigint from judged group by 1, 2, 3""")
agree("kinds", len(kinds), len(theirs))
for program, version, operation, *numbers in theirs:
    ours = kinds[program, version, operation]
    agree(operation, [ours[name] for name in ["operations", "failed", "unanswered", "moved_bytes"]], numbers)

bound = report["parameters"]["quantile_error_share"]
for name, span in [("server_time", "reply_time_ns - call_end_ns"), ("call_transfer_time", "call_end_ns - call_time_ns"),
                   ("reply_transfer_time", "reply_end_ns - reply_time_ns")]:
    for program, version, operation, count, least, most, mean, *quantiles in rows(f"""
            select coalesce(program, ''), version, coalesce(operation, ''), count(ns), min(ns), max(ns),
                (sum(ns) // count(ns))::bigint, quantile_disc(ns, 0.5), quantile_disc(ns, 0.9),
                quantile_disc(ns, 0.99), quantile_disc(ns, 0.999)
            from (select *, {span} as ns from judged where not not_executed) where ns >= 0 group by 1, 2, 3"""):
        ours = kinds[program, version, operation][name]
        exact = [ours[each] for each in ["operations", "min_ns", "max_ns", "mean_ns"]]
        agree(f"{operation} {name}", exact, [count, least, most, mean])
        for each, quantile in zip(["p50_ns", "p90_ns", "p99_ns", "p999_ns"], quantiles):
            if abs(ours[each] - quantile) > bound * quantile:
                sys.exit(f"{operation} {name} {each}: lineside {ours[each]}, exactly {quantile}")

for name, way in [("reads", "is_read"), ("writes", "is_write")]:
    ours = report[name]
    agree(name, [ours[each] for each in ["operations", "moved_bytes", "placed", "aligned_512", "aligned_4096"]],
          list(rows(f"""
            select count(*), coalesce(sum(transferred), 0)::bigint, count("offset" + count),
                count(*) filter ("offset" % 512 = 0 and ("offset" + count) % 512 = 0),
                count(*) filter ("offset" % 4096 = 0 and ("offset" + count) % 4096 = 0) from judged where {way}""")[0]))
    order = ["sequential", "random", "first_of_file", "small_sequential", "random_misaligned"]
    agree(f"{name} in order", [ours[each] for each in order], list(rows(f"""
        with places as (
            select "offset", coalesce(count, transferred) as size, lag("offset" + coalesce(transferred, count))
                over (partition by file_id order by operation_id) as before
            from judged where {way} and file_id is not null and "offset" + coalesce(transferred, count) is not null)
        select count(*) filter ("offset" = before), count(*) filter ("offset" <> before),
            count(*) filter (before is null), count(*) filter ("offset" = before and size <= 8192),
            count(*) filter ("offset" <> before and "offset" % 4096 <> 0) from places""")[0]))
    agree(f"sizes of {name}", [tuple(each.values()) for each in ours["sizes"]], rows(f"""
        select (case when size = 0 then 0 else 2 ** ceil(log2(size)) end)::bigint as class, count(*),
            coalesce(sum(transferred), 0)::bigint
        from (select *, coalesce(count, transferred) as size from judged where {way}) where size is not null
        group by class order by class"""))

for name, columns in [("files", ["file_id"]), ("directories", ["file_id"]), ("objects", ["file_id"]), ("clients", ["client_address"]), ("servers", ["server_address"]), ("users", ["user_id"]),
                      ("pairs", ["client_address", "file_id"])]:
    ours = report[name]
    shape = ["operations", "failed", "read_bytes", "written_bytes"] + ["waited_ns"] * (name == "servers")
    known = " and ".join(f"{column} is not null" for column in columns)
    if "file_id" in columns:
        known += f" and file_id in (select file_id from objects where class = '{'files' if name == 'pairs' else name}')"
    theirs = {row[:len(columns)]: list(row[len(columns):]) for row in rows(f"""
        select {", ".join(columns)}, count(*), count(*) filter (failed),
            coalesce(sum(transferred) filter (is_read), 0)::bigint,
            coalesce(sum(transferred) filter (is_write), 0)::bigint
            {", sum(waited_ns)::bigint" if name == "servers" else ""} from judged where {known} group by {", ".join(columns)}""")}
    agree(f"number of {name}", ours["count"], len(theirs))
    for each in ours["by_operations"] + ours["by_bytes"]:
        keys = {"files": ["file_id"], "directories": ["file_id"], "objects": ["file_id"], "clients": ["name"], "servers": ["name"], "users": ["user_id"], "pairs": ["client", "file_id"]}
        key = tuple(int(each[key]) if key == "file_id" else each[key] for key in keys[name])
        agree(f"{name} {key}", [each[column] for column in shape], theirs[key])
    for order, value, whole in [
            ("operations", lambda numbers: numbers[0], totals["operations"]),
            ("bytes", lambda numbers: numbers[2] + numbers[3], totals["read_bytes"] + totals["written_bytes"])]:
        most = sorted(map(value, theirs.values()), reverse=True)
        listed = [value([each[column] for column in shape]) for each in ours[f"by_{order}"]]
        agree(f"busiest {name} by {order}", listed, [number for number in most if number > 0][:25])
        for point in ours["concentration"]:
            share = sum(most[:point["first"]]) / max(whole, 1)
            if abs(point[f"{order}_share"] - share) > 1e-9:
                sys.exit(f"concentration of {name} by {order}: lineside {point}, DuckDB {share}")
    if name == "servers":
        most = sorted((numbers[4] for numbers in theirs.values()), reverse=True)
        for point in ours["concentration"]:
            share = sum(most[:point["first"]]) / max(totals["waited_ns"], 1)
            if abs(point["waited_share"] - share) > 1e-9:
                sys.exit(f"concentration of waiting: lineside {point}, DuckDB {share}")

aligned = "\"offset\" % {0} = 0 and (\"offset\" + count) % {0} = 0"
theirs = rows(f"""
    select client_address, count(*), count(*) filter ({aligned.format(512)}), count(*) filter ({aligned.format(4096)}) as good
    from judged where (is_read or is_write) and "offset" + count is not null and client_address is not null
    group by 1 having good < count(*) order by count(*) - good desc""")
ours = [tuple(each[name] for name in ["client", "placed", "aligned_512", "aligned_4096"]) for each in report["misaligned_clients"]]
agree("misaligned operations", [each[1] - each[3] for each in ours], [row[1] - row[3] for row in theirs][:25])
for each in ours:
    agree(f"alignment of {each[0]}", each in theirs, True)

thresholds = report["parameters"]["thresholds"]
storms = {}
for file, bound in [("file_id", thresholds["getattr_storm_file_per_second"]),
                    ("null::bigint", thresholds["getattr_storm_client_per_second"])]:
    where = "file_id is not null" if file == "file_id" else "true"
    storms |= {row[:2]: row[2:] for row in rows(f"""
        with seconds as (
            select client_address, {file} as file, time_ns // 1000000000 as second, count(*) as calls from judged
            where program = 'nfs' and operation = 'GETATTR' and {where} group by 1, 2, 3)
        select client_address, file, count(*), sum(calls)::bigint, max(calls) from seconds where calls >= {bound} group by 1, 2""")}
ours = {(each["client"], each["file_id"] and int(each["file_id"])): (each["seconds"], each["operations"], each["peak_per_second"])
        for each in report["getattr_storms"]}
agree("number of storms", len(ours) + report["getattr_storms_not_listed"], len(storms))
for key, numbers in ours.items():
    agree(f"storm {key}", numbers, storms[key])

agree("errors", sorted((each["program"], each["operation"], each["status"], each["failed"]) for each in report["errors"]),
      rows("""select coalesce(program, ''), coalesce(operation, ''), outcome, count(*) from judged where failed
              group by 1, 2, 3, version order by 1, 2, 3, 4"""))
steps = report["over_time"]
theirs = dict(rows(f"select (time_ns - {steps['start_ns']}) // {steps['step_ns']}, count(*) from judged where time_ns is not null group by 1"))
ours = [sum(step) for step in zip(steps["reads"], steps["writes"], steps["others"])]
agree("over time", ours, [theirs.get(step, 0) for step in range(len(ours))])
agree("losses", sorted((each["direction"], each["cause"], each["holes"], each["lost_bytes"]) for each in report["missing"]["losses"]),
      rows("select coalesce(direction, ''), cause, count(*), coalesce(sum(bytes), 0)::bigint from losses group by 1, 2 order by 1, 2"))
