"""Compares `lineside compare --json` with what DuckDB says of the same Parquet: compare.py FOLDER, which has the traces
a and b, and compare.json"""

import json
import math
import re
import sys

import duckdb

folder = sys.argv[1]
comparison = json.load(open(f"{folder}/compare.json"))
duckdb.sql("set threads = 1")
for name in "ab":
    duckdb.sql(f"""
        create view {name} as select *, reply_end_ns - call_time_ns as ns, status not like '%\\_OK' escape '\\' as failed
        from '{folder}/{name}/operations/*.parquet'""")


def value(query):
    return duckdb.sql(query).fetchall()[0][0]


def near(what, ours, theirs, error):
    if ours is None or theirs is None:
        if ours is not theirs:
            sys.exit(f"{what}: lineside {ours}, DuckDB {theirs}")
    elif abs(ours - theirs) > error * abs(theirs) + 1e-12:
        sys.exit(f"{what}: lineside {ours}, DuckDB {theirs}")


def where(subject):
    conditions = ["true"]
    if subject["client"]:
        conditions.append(f"client_address = '{subject['client']}'")
    if subject["file_id"]:
        conditions.append(f"file_id = {subject['file_id']}")
    if subject["operation"] == "other":
        conditions.append("operation not in ('READ', 'WRITE')")
    elif subject["operation"]:
        conditions.append(f"operation = '{subject['operation'].split()[-1]}'")
    return " and ".join(conditions)


seconds = {name: value(f"select (max(call_time_ns) - min(call_time_ns)) / 1e9 from {name}") for name in "ab"}
measures = {
    "latency_p50_ns": ("quantile_disc(ns, 0.5)", 0.01),
    "latency_p99_ns": ("quantile_disc(ns, 0.99)", 0.01),
    "latency_geometric_mean_ns": ("exp(avg(ln(ns)))", 1e-6),
    "operations_per_second": ("count(*) / {seconds}", 0.001),
    "read_bytes_per_second": ("sum(transferred) filter (operation = 'READ') / {seconds}", 0.001),
    "written_bytes_per_second": ("sum(transferred) filter (operation = 'WRITE') / {seconds}", 0.001),
    "operations_share": ("count(*) / (select count(*) from {name})", 1e-6),
    "outcome_share": ("avg((status = '{outcome}')::int)", 1e-6),
    # Times are seen in steps of 1.6 %, which moves a share of 1 % by some of itself.
    "latency_tail_share": ("avg((ns > bound)::int)", 0.1),
}
# The bound of each kind is the 99th percentile of both traces, each weighing the same; kinds whose median is news are not of the tail.
news = [figure["subject"]["operation"].split()[-1] for change in comparison["changes"] for figure in change["figures"]
        if figure["measure"] == "latency_p50_ns" and figure["subject"]["operation"]
        and not any(figure["subject"][name] for name in ["client", "server", "file_id"])]
weighed = " union all ".join(f"select operation, ns, 1 / count(*) over (partition by operation) as weight from {name}" for name in "ab")
duckdb.sql(f"""
    create table bounds as select operation, min(ns) as bound from (
        select operation, ns, sum(weight) over (partition by operation order by ns) as below from ({weighed}))
    where below >= 2 * 0.99 - 1e-9 and operation not in ({", ".join(f"'{name}'" for name in news + [""])})
        and operation in (select operation from a) and operation in (select operation from b) group by 1""")
for name in "ab":
    duckdb.sql(f"create view tail_{name} as from {name} join bounds using (operation)")
figures = [figure for change in comparison["changes"] for figure in change["figures"]] + comparison["unchanged"]
seen = set()
for figure in figures:
    subject = figure["subject"]
    expression, error = measures[figure["measure"]]
    seen.add(figure["measure"])
    is_tail = figure["measure"] == "latency_tail_share"
    for name in "ab":
        query = expression.format(seconds=seconds[name], name=name, outcome=subject["outcome"])
        # What came while B went on is of the time since then.
        since = f"call_time_ns >= {figure['since_ns']}" if name == "b" and figure["since_ns"] else "true"
        if since != "true" and figure["measure"].endswith(("_second", "s_share")):
            continue
        table = f"tail_{name}" if is_tail else name
        query = f"select {query} from {table} where {where(subject)} and {since}"
        near(f"{figure['measure']} of {subject}", figure[name], value(query), error)
    count = [value(f"select count(*) from {'tail_' * is_tail}{name} where {where(subject)}") for name in "ab"]
    if figure["operations"] != count:
        sys.exit(f"operations of {figure}: DuckDB {count}")
    # An interval holds its ratio, and news leaves 1 out.
    low, high = figure["ratio_low"] or 0, figure["ratio_high"] or math.inf
    if not low <= figure["ratio"] <= high or figure["changed"] and low <= 1 <= high:
        sys.exit(f"interval of {figure}")
if len(seen) != len(measures):
    sys.exit(f"only {seen} were compared")

files = {name: set(row[0] for row in duckdb.sql(f"select distinct file_id from {name}").fetchall()) for name in "ab"}
for one, other in ["ab", "ba"]:
    near("files only in " + one, comparison[f"only_in_{one}"]["files"], len(files[one] - files[other]), 0)

metrics = {
    "mean": "floor(avg(ns))", "max": "max(ns)", "count": "count(*)", "rate": "count(*) / {seconds}",
    "errors": "avg(failed::int)", "throughput": "sum(transferred) / {seconds}",
    "unanswered": "avg(reply_missing::int)", "retransmissions": "sum(retransmissions)::bigint",
}
for assertion in comparison["assertions"]:
    side, metric, selection = re.match(r"(\w+)\.(\w+)(?:\((.*)\))? >=", assertion["assertion"]).groups()
    conditions = ["true"]
    for item in (selection or "").split(", "):
        key, _, text = item.partition("=")
        columns = {"client": f"client_address = '{text}'", "user": f"user_id = {text}", "": "true"}
        conditions.append(columns.get(key, f"operation = '{key}'"))
    error = 1e-6
    if re.match(r"p\d+$", metric):
        expression, error = f"quantile_disc(ns, {float('0.' + metric[1:])})", 0.001
    else:
        expression = metrics[metric]
    theirs = {name: value(f"select {expression.format(seconds=seconds[name])} from {name} where {' and '.join(conditions)}") for name in "ab"}
    if side == "ratio":
        equal = theirs["a"] == theirs["b"]
        theirs["ratio"], error = 1 if equal else theirs["b"] / theirs["a"], 2 * error
    near(assertion["assertion"], assertion["value"], theirs[side.lower()], error)
