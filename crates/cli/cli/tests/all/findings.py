"""Works out the numbers of each finding anew, by SQL over the same Parquet: findings.py GUIDE FOLDER...

Each FOLDER has a trace in `trace` and `lineside report --json` of it in `report.json`; GUIDE is
docs/guide/trace.md, whose SQL of waits is the definition of how long a call waited. A number of `basis`
that is no bound, the begin, the end, the time lost and the share of operations are compared. A kind
without a function here is an error, but for those of LEFT. Prints how often each kind was compared."""

import collections
import glob
import json
import math
import sys

import duckdb

# What compares one with others step by step, or reads a certificate: their own tests have numbers that
# were put there.
LEFT = {"slow_client", "slow_file", "slow_one_of_servers", "slow_one_of_connections", "latency_jump", "queue", "stall",
        "full_link", "table_full", "node_down", "share", "half_open", "forward_drops", "unsent", "idle_driver"}
# What a finding is about, by which its numbers are looked up here.
KEYS = {"program", "version", "server_port"}
# Names in `basis` of what a number must be at least, or at most.
BOUNDS = ("_min", "_max", "_min_ns", "_max_bytes", "_bound_ns", "_min_bytes")
IDLE = "('', 'SEQUENCE', 'CB_SEQUENCE', 'PUTFH', 'PUTROOTFH', 'PUTPUBFH', 'SAVEFH', 'RESTOREFH')"
SECOND = 1_000_000_000


class Trace:
    def __init__(self, guide, folder):
        self.folder = folder
        self.sql = duckdb.connect()
        self.sql.sql("set threads = 1")
        self.report = json.load(open(f"{folder}/report.json"))
        self.manifest = json.load(open(f"{folder}/trace/trace.json"))
        self.waits_sql = guide.replace("TRACE/", f"{folder}/trace/")
        for table in ["operations", "connections", "nfs", "nfs4", "services", "losses"]:
            files = f"{folder}/trace/{table}/*.parquet"
            if glob.glob(files):
                self.sql.sql(f"create view {table} as from '{files}'")
        self.sql.sql(f"""
            create view judged as select *, coalesce(status, rpc_status) as outcome,
                outcome is not null and outcome <> 'SUCCESS' and not ends_with(outcome, '_OK')
                    and not ends_with(outcome, '_GRANTED') and outcome <> 'STAT_SUCC' as failed,
                operation_id = coalesce(rpc_id, operation_id) as is_call,
                coalesce(call_time_ns, reply_time_ns) as time_ns from operations;
            -- A row each that its compound is for, if all of its times are known and in order.
            create table calls as select *, call_end_ns - call_time_ns as call_ns, reply_time_ns - call_end_ns as server_ns,
                    reply_end_ns - reply_time_ns as reply_ns, reply_end_ns - call_time_ns as latency_ns,
                    operation in ('READ', 'WRITE') and coalesce(count, 0) > 32768 as is_large from (
                select *, row_number() over (partition by coalesce(rpc_id, operation_id) order by operation_id) as place
                from judged where not coalesce(not_executed, false) and coalesce(operation, '') not in {IDLE})
            where place = 1 and call_time_ns <= call_end_ns and call_end_ns <= reply_time_ns and reply_time_ns <= reply_end_ns""")
        self.operations, self.all_calls, self.last_ns = self.row("""
            select count(*), count(*) filter (is_call), max(greatest(coalesce(reply_end_ns, time_ns), time_ns)) from judged""")

    def rows(self, query):
        return self.sql.sql(query).fetchall()

    def row(self, query):
        return self.rows(query)[0]

    def connections(self):
        """TCP connections with calls, all intervals together."""
        ends = ", ".join(f"sum({end}_{name})::bigint as {end}_{name}" for end in ["client", "server"] for name in [
            "packets", "bytes", "retransmissions", "fast_retransmissions", "timeout_retransmissions",
            "spurious_retransmissions", "out_of_order_packets", "zero_windows", "full_windows", "window_waits"])
        return f"""
            (select * from (select connection_id, any_value(client_address) as client, any_value(server_address) as server,
                max(outstanding_max) as outstanding, min(client_rtt_min_ns) as client_rtt, min(server_rtt_min_ns) as server_rtt,
                {ends} from connections where transport = 'tcp' group by 1)
            join (select connection_id, count(*) as operations, sum(server_ns)::bigint as server_ns, sum(call_ns)::bigint as call_ns,
                sum(reply_ns)::bigint as reply_ns, min(call_time_ns) as first_ns, max(reply_end_ns) as last_ns,
                sum(coalesce(call_recovery_ns, 0) + coalesce(reply_recovery_ns, 0))::bigint as recovery_ns,
                count(*) filter (coalesce(call_recovery_ns, 0) + coalesce(reply_recovery_ns, 0) > 0) as waited
                from calls group by 1) using (connection_id))"""

    def peers(self):
        """TCP connections, each with the figures of its ends; how long its longest standstill was."""
        names = [column for (column, *_) in self.rows("describe connections")]
        peers = {}
        end_ns = max([clock["last_ns"] for clock in self.manifest["clocks"] if clock.get("last_ns")] + [-2**63])
        for values in self.rows("from connections where transport = 'tcp'"):
            row = dict(zip(names, values))
            lasts = [ns for ns in (row["client_last_packet_ns"], row["server_last_packet_ns"]) if ns is not None]
            if row["first_packet_ns"] is None or not lasts:
                continue
            peer = peers.setdefault(row["connection_id"], collections.Counter(
                first=row["first_packet_ns"], last=lasts[0], client=row["client_address"], server=row["server_address"],
                port=row["server_port"]))
            peer["first"], peer["last"] = min(peer["first"], row["first_packet_ns"]), max([peer["last"]] + lasts)
            end_ns = max(end_ns, peer["last"])
            for name in ["refused", "challenged", "reply_ack_waits", "reply_ack_wait_ns"]:
                peer[name] += row[name]
            for end in ["client", "server"]:
                for name in ["packets", "bytes", "syns", "fins", "resets", "zero_windows"]:
                    peer[f"{end}_{name}"] += row[f"{end}_{name}"]
                if row[f"{end}_stuck_ns"] > peer[f"{end}_stuck_ns"] or peer.get(f"{end}_stuck_since_ns") is None:
                    for name in ["stuck_ns", "stuck_bytes", "passed_bytes", "stuck_since_ns"]:
                        peer[f"{end}_{name}"] = row[f"{end}_{name}"]
                if row[f"{end}_shut_ns"] > peer[f"{end}_shut_ns"]:
                    for name in ["shut_ns", "shut_since_ns"]:
                        peer[f"{end}_{name}"] = row[f"{end}_{name}"]
        for peer in peers.values():
            for end in ["client", "server"]:
                since = peer[f"{end}_stuck_since_ns"]
                if since is not None and since + peer[f"{end}_stuck_ns"] >= peer["last"]:
                    peer[f"{end}_stuck_ns"] = max(peer[f"{end}_stuck_ns"], end_ns - since)
        return list(peers.values()), end_ns


def share(part, whole):
    return part / whole if whole else 0.0


def at_least(part, whole):
    """Wilson's interval, its lower end: as statistics books have it."""
    if whole == 0:
        return 0.0
    z, p = 1.96, min(part / whole, 1)
    return max((p + z * z / (2 * whole) - z * math.sqrt((p * (1 - p) + z * z / (4 * whole)) / whole)) / (1 + z * z / whole), 0)


STEMS = ["NFS3ERR_", "NFS4ERR_", "NFSERR_", "MNT3ERR_", "MNT_", "NLM4_", "LCK_"]
SERVICES = {"mount": 1, "nlm": 2, "klm": 2, "nsm": 3, "portmap": 4, "nfs_cb": 5, "rquota": 6, "nfsacl": 6}


def named(status):
    return next((status[len(stem):] for stem in STEMS if status.startswith(stem)), status)


def errors(trace, finding):
    counts = trace.rows("""select coalesce(program, ''), coalesce(operation, ''), outcome, count(*), min(time_ns), max(time_ns)
        from judged where failed group by 1, 2, 3""")
    service = lambda program: 6 if program.isdigit() or program == "" else SERVICES.get(program, 0)
    status = finding["basis"]["status"]
    candidates = []
    for which in range(7):
        mine = [row for row in counts if service(row[0]) == which and named(row[2]) == named(status)]
        if not mine:
            continue
        kinds = " or ".join(f"(coalesce(program, '') = '{program}' and coalesce(operation, '') = '{operation}')" for program, operation, *_ in mine)
        failed, (asked,) = sum(row[3] for row in mine), trace.row(f"select count(*) from judged where {kinds}")
        candidates.append({
            "failed": failed, "calls": trace.all_calls, "calls_of_operations": asked,
            "share_at_least": at_least(failed, trace.all_calls), "since": min(row[4] for row in mine),
            "until": max(row[5] for row in mine), "operations_share": share(failed, trace.all_calls)})
    return next((each for each in candidates if each["failed"] == finding["basis"]["failed"]), candidates[0])


def attributes(trace, finding):
    asking, calls = trace.row("""
        select count(*) filter (operation in ('GETATTR', 'ACCESS', 'LOOKUP')), count(*) from judged where program = 'nfs' and version < 4""")
    return {"operations": asking, "calls": calls, "operations_share": share(asking, trace.operations)}


def repeated(trace, finding):
    repeats, again = trace.row("select count(*) filter (repeat), coalesce(sum(retransmissions), 0)::bigint from judged")
    return {"repeated": repeats, "retransmissions": again, "operations_share": share(repeats + again, trace.all_calls)}


def getattr_storm(trace, finding):
    bounds = finding["basis"]
    storms = []
    # Of a compound, GETATTR counts where it is what the compound is for.
    alone = """version < 4 or rpc_id is null or not exists (from judged as other where other.rpc_id = judged.rpc_id
        and (other.operation_id > judged.operation_id or other.operation_id < judged.operation_id
            and other.operation not in ('SEQUENCE', 'PUTFH', 'PUTROOTFH')))"""
    for file, bound, where in [("file_id", bounds["threshold_file_per_second"], "file_id is not null"),
                               ("null::bigint", bounds["threshold_client_per_second"], "true")]:
        storms += trace.rows(f"""
            with seconds as (select client_address, {file} as file, time_ns // 1000000000 as second, count(*) as calls from judged
                where program = 'nfs' and operation = 'GETATTR' and {where} and ({alone}) group by 1, 2, 3)
            select client_address, count(*), sum(calls)::bigint, max(calls) from seconds where calls >= {bound} group by client_address, file""")
    found = [dict(zip(["who", "seconds", "operations", "peak_per_second"], row)) for row in storms]
    # The highest peak; several may have it.
    peak = max(row["peak_per_second"] for row in found)
    highest = [row for row in found if row["peak_per_second"] == peak]
    most = next((row for row in highest if (row["who"], row["operations"]) == (finding["who"], bounds["operations"])), highest[0])
    return most | {"operations_share": share(most["operations"], trace.operations)}


def amounts(trace, finding):
    (unknown,) = trace.row("""select count(*) from judged where program = 'nfs' and operation in ('READ', 'WRITE') and transferred is null
        and not failed and not reply_missing and not coalesce(not_executed, false)""")
    return {"without_amount": unknown, "operations_share": share(unknown, trace.operations)}


def clocks(trace, finding):
    (backwards,) = trace.row("""select count(*) filter (reply_time_ns < call_end_ns) + count(*) filter (call_end_ns < call_time_ns)
        + count(*) filter (reply_end_ns < reply_time_ns) from judged where not coalesce(not_executed, false)""")
    return {"negative_times": backwards, "operations_share": share(backwards, trace.operations)}


def delayed_ack(trace, finding):
    replies, waited = trace.row("select sum(reply_ack_waits)::bigint, sum(reply_ack_wait_ns)::bigint from connections where transport = 'tcp'")
    (server,) = trace.row("select sum(server_ns)::bigint from calls")
    (client_rtt,) = trace.row(f"""select client_rtt from {trace.connections()} where server_rtt is not null
        order by operations desc, connection_id desc limit 1""")
    return {"replies": replies, "waited_ns": waited, "lost_ns": waited, "time_share": share(waited, server),
            "client_rtt_min_ns": client_rtt, "operations_share": share(replies, trace.operations)}


def no_progress(trace, finding):
    peers, _ = trace.peers()
    basis = finding["basis"]
    ends = [(peer, end, other) for peer in peers for end, other in [("client", "server"), ("server", "client")]]
    value = lambda peer, end, name: peer[f"{end}_{name}"] or 0
    is_shut = lambda peer, end: value(peer, end, "shut_ns") >= SECOND
    if basis["how"] == "window_shut":
        those = [(value(peer, end, "shut_ns"), peer, end) for peer, end, _ in ends if end == basis["whose"] and is_shut(peer, end)]
        names = ["shut_ns", "zero_windows"]
    elif basis["how"] == "mtu_hole":
        those = [(value(peer, end, "stuck_ns"), peer, end) for peer, end, other in ends
                 if value(peer, end, "stuck_ns") >= SECOND and not is_shut(peer, other)
                 and 0 < value(peer, end, "passed_bytes") < value(peer, end, "stuck_bytes")]
        names = ["stuck_ns", "stuck_bytes", "passed_bytes"]
    else:
        those = [(value(peer, end, "stuck_ns"), peer, end) for peer, end, other in ends if end == "server"
                 and value(peer, end, "stuck_ns") >= 3 * SECOND and not is_shut(peer, other) and not value(peer, end, "passed_bytes")]
        names = ["stuck_ns", "stuck_bytes"]
    _, worst, end = max(those, key=lambda each: each[0])
    since = "shut_since_ns" if "shut_ns" in names else "stuck_since_ns"
    return {name: value(worst, end, name) for name in names} | {
        "connections": len(those), "lost_ns": sum(each[0] for each in those), "since": worst[f"{end}_{since}"]}


def one_at_a_time(trace, finding):
    clients = trace.rows(f"""
        select client, count(*), sum(operations)::bigint, max(outstanding),
            sum(coalesce(client_rtt + server_rtt, 0) * operations)::bigint as waited,
            sum(greatest(server_ns - coalesce(server_rtt, 0) * operations, 0))::bigint as server, max(last_ns) - min(first_ns) as lasted
        from {trace.connections()} group by 1""")
    those = [row for row in clients if row[2] >= 50 and row[3] <= 1 and row[4] // row[2] >= 1_000_000 and share(row[4], row[6]) >= 0.5
             and row[4] // row[2] >= 2 * (row[5] // row[2]) and share(row[4] + row[5], row[6]) <= 1.1]
    worst = max(those, key=lambda row: row[4])
    number = sum(row[2] for row in those)
    return {"connections": sum(row[1] for row in those), "operations": number, "rtt_min_ns": worst[4] // worst[2],
            "outstanding_max": worst[3], "lost_ns": sum(row[4] for row in those), "operations_share": share(number, trace.operations),
            "who": worst[0]}


def loss(trace, finding):
    names = ["packets", "retransmissions", "fast_retransmissions", "timeout_retransmissions", "spurious_retransmissions", "out_of_order_packets"]
    sums = ", ".join(f"sum(client_{name} + server_{name})::bigint" for name in names)
    packets, again, fast, timeouts, spurious, late, recovery, waited, needed = trace.row(f"""select {sums}, sum(recovery_ns)::bigint, sum(waited)::bigint,
        sum(greatest(client_retransmissions - client_spurious_retransmissions, 0)
            + greatest(server_retransmissions - server_spurious_retransmissions, 0))::bigint from {trace.connections()}""")
    return {"packets": packets, "needed_share": share(needed, packets), "fast_retransmissions": fast, "timeout_retransmissions": timeouts,
            "spurious_retransmissions": spurious, "out_of_order_packets": late, "asked_for": fast + timeouts,
            "retransmissions": again, "lost_ns": max(recovery, timeouts * 200_000_000), "recovery_ns": recovery,
            "operations_share": share(waited, trace.operations)}


def window(trace, finding):
    end = {"client": "server", "server": "client"}[finding["place"]]
    transfer = {"server": "reply_ns", "client": "call_ns"}[end]
    rows = trace.rows(f"""select {end}_full_windows, {end}_window_waits, {finding["place"]}_zero_windows, {end}_bytes, client_rtt + server_rtt,
        {transfer}, operations, last_ns - first_ns from {trace.connections()}""")
    at_once = lambda row: row[3] * row[4] // row[5] if row[4] is not None and row[4] >= 1_000_000 and row[5] else None
    those = [row for row in rows if share(row[5], row[7]) >= 0.3 and (
        row[2] >= 10 or max(row[0], row[1]) >= 10 and at_once(row) is not None and at_once(row) <= 256 << 10)]
    worst = max(those, key=lambda row: row[3])
    return {"full_windows": worst[0], "window_waits": worst[1], "zero_windows": worst[2], "round_trip_bytes": at_once(worst), "rtt_min_ns": worst[4],
            "transfer_share": share(worst[5], worst[7]), "connections": len(those), "lost_ns": sum(row[5] for row in those),
            "operations_share": share(sum(row[6] for row in those), trace.operations)}


def slow_server(trace, finding):
    way, = (trace.rows(f"""select server_rtt from {trace.connections()} where server_rtt is not null
        order by operations desc, connection_id desc limit 1""") or [(None,)])[0]
    kinds = trace.rows("""select operation, is_large, count(*), sum(server_ns)::bigint, quantile_disc(server_ns, 0.5) from calls group by 1, 2""")
    worst = next(row for row in kinds if finding["basis"]["operation"] == row[0] + " of more than 32 KiB" * row[1])
    # Which kinds are slow is seen to 13 %: those that the finding counts are those whose sum it has.
    slow = [row for row in kinds if row[4] - (way or 0) >= 10_000_000 * 0.87 and row[2] >= 10]
    whole = sum(row[3] for row in kinds)
    return {"server_time_p50_ns": ("near", worst[4], 0.13), "server_rtt_min_ns": way,
            "time_share": share(sum(row[3] for row in slow), whole),
            "is_disk": all(row[0] in ("READ", "WRITE", "COMMIT") for row in slow),
            "operations_share": share(sum(row[2] for row in slow), trace.operations),
            "lost_ns": sum(row[3] for row in slow) - sum(row[2] for row in slow) * (way or 0)}


def tail(trace, finding):
    kinds = trace.rows("select operation, is_large, quantile_disc(server_ns, 0.5), count(*) from calls group by 1, 2")
    number, slow_ns = 0, 0
    for operation, is_large, median, _ in kinds:
        bound = max(100_000_000, 30 * median)
        count, ns = trace.row(f"""select count(*), coalesce(sum(server_ns), 0)::bigint from calls where operation = '{operation}'
            and is_large = {is_large} and server_ns > {bound}""")
        number, slow_ns = number + count, slow_ns + ns
    whole, (all_ns,) = sum(row[3] for row in kinds), trace.row("select sum(server_ns)::bigint from calls")
    # Times are seen to 13 %, so that some at the bound are on its other side.
    near = {"operations": number, "operations_share": share(number, whole), "time_share": share(slow_ns, all_ns), "lost_ns": slow_ns}
    return {name: ("near", value, 0.25) for name, value in near.items()}


def no_answer(trace, finding):
    trace.sql.sql(f"create or replace temp table waits as select * from ({trace.waits_sql.strip().rstrip(';')})")
    columns = [column for column, *_ in trace.rows("describe waits")]
    waited = columns[1]
    server = finding["who"].rsplit(" ", 1)[1]
    ids = ",".join(map(str, finding["basis"]["operation_ids_first"]))
    # Those of the server; by which of its hosts' states, its first calls show.
    calls = trace.rows(f"""
        select w.{waited}, w.{columns[2]}, o.client_address, o.call_time_ns, o.connection_id from waits w join judged o on o.operation_id = w.{columns[0]}
        where o.server_address = '{server}' and w.{waited} >= {SECOND}""")
    others = [each for each in trace.report["findings"] if each["kind"] == "no_answer" and each["who"].rsplit(" ", 1)[1] == server]
    basis = finding["basis"]
    if len(others) > 1:
        same = {"calls": sum(each["basis"]["calls"] for each in others), "lost_ns": sum(each["lost_ns"] for each in others)}
        if same != {"calls": len(calls), "lost_ns": sum(row[0] for row in calls)}:
            return {"calls": len(calls)}
        return {}
    (server_last,) = trace.row(f"""select max(server_last_packet_ns) from connections
        where connection_id in ({", ".join(str(row[4]) for row in calls)})""")
    (meanwhile,) = trace.row(f"""select count(*) from judged where server_address = '{server}' and is_call and not repeat
        and reply_time_ns > {finding["since_ns"]} and reply_time_ns < {basis["until_ns"]}""")
    return {"calls": len(calls), "clients": len({row[2] for row in calls}), "wait_max_ns": max(row[0] for row in calls),
            "until_ns": max(row[3] + row[0] for row in calls), "answered_when_repeated": sum(not row[1] for row in calls),
            "server_last_packet_ns": server_last, "replies_meanwhile": meanwhile, "lost_ns": sum(row[0] for row in calls), "since": min(row[3] for row in calls),
            "operations_share": share(len(calls), trace.operations)}


def unreachable(trace, finding):
    peers, end_ns = trace.peers()
    basis = finding["basis"]

    def how(peer):
        client, server = ({name: peer[f"{end}_{name}"] for name in ["packets", "bytes", "syns", "fins", "resets"]} for end in ["client", "server"])
        if peer["challenged"]:
            return "challenged"
        if peer["refused"] and not server["bytes"]:
            return "refused"
        if not client["syns"] or server["bytes"]:
            return None
        is_silent = not client["bytes"] and client["packets"] == client["syns"] + client["resets"]
        if not server["syns"] and is_silent and not server["packets"]:
            return "unanswered"
        if server["syns"] >= 2 and is_silent and not client["resets"]:
            return "unfinished"
        if server["syns"] and server["resets"] and not client["fins"] + server["fins"]:
            return "reset"
        return None

    those = [peer for peer in peers if (peer["server"], peer["port"]) == (basis["server"], basis["server_port"]) and how(peer) == basis["how"]]
    first, last = min(peer["first"] for peer in those), max(peer["last"] for peer in those)
    return {"connections": len(those), "syns": sum(peer["client_syns"] for peer in those), "refused": sum(peer["refused"] for peer in those),
            "challenged": sum(peer["challenged"] for peer in those), "lasted_ns": last - first, "since": first,
            "lost_ns": (finding["until_ns"] or end_ns) - first}


def short_replies(trace, finding):
    (incomplete,) = trace.row("select count(*) from judged where reply_incomplete")
    return {"replies_short": trace.manifest["counters"]["rpc.replies_short"]["value"], "reply_incomplete": incomplete,
            "operations_share": share(incomplete, trace.operations)}


def readdir_loop(trace, finding):
    directories = trace.rows("""
        with places as (select client_address, file_id, cookie, count(*) as calls, count(*) filter (eof) as ends,
                min(call_time_ns) as first_ns, max(reply_end_ns) as last_ns from judged join nfs using (operation_id)
            where operation in ('READDIR', 'READDIRPLUS') and not failed and not coalesce(not_executed, false) and file_id is not null group by 1, 2, 3)
        select client_address, sum(calls)::bigint, count(*) filter (cookie <> 0), max(calls) filter (cookie <> 0) as again, sum(ends)::bigint as ended,
            min(first_ns), max(last_ns)
        from places group by client_address, file_id having again >= 10 and ended * 4 <= again""")
    who, calls, cookies, again, ends, first, last = max(directories, key=lambda row: row[1])
    return {"who": who, "calls": calls, "cookies": cookies, "same_cookie": again, "ends": ends, "since": first, "until": last,
            "operations_share": share(calls, trace.all_calls)}


def recall(trace, finding):
    recalled = trace.rows("""
        with recalls as (select stateid, count(*) as number, min(call_time_ns) as first_ns from judged join nfs4 using (operation_id)
            where operation = 'CB_RECALL' and stateid is not null and not coalesce(not_executed, false) group by 1)
        select number, first_ns, (select min(call_time_ns) from judged join nfs4 using (operation_id) where operation = 'DELEGRETURN'
            and nfs4.stateid = recalls.stateid and not failed and call_time_ns >= first_ns) from recalls""")
    waited = [(until or trace.last_ns) - first for _, first, until in recalled]
    late = [(ns, row) for ns, row in zip(waited, recalled) if ns >= SECOND]
    longest, worst = max(late, key=lambda each: (each[0], each[1][1], each[1][0]))
    number = sum(row[0] for row in recalled)
    return {"recalls": number, "delegations": len(recalled), "late": len(late), "never_returned": sum(row[2] is None for _, row in late),
            "waited_ns": longest, "lost_ns": longest, "since": worst[1], "until": worst[2], "operations_share": share(number, trace.all_calls)}


def same_client_name(trace, finding):
    uses = collections.defaultdict(list)
    for server, name, *use in trace.rows("""
            select server_address, client_name, client_address, client_verifier, client_id, call_time_ns from judged join nfs4 using (operation_id)
            where operation in ('EXCHANGE_ID', 'SETCLIENTID') and not failed and not coalesce(not_executed, false) and client_name is not null
            order by call_time_ns, operation_id"""):
        uses[server, bytes(name)].append(use)
    taken = lambda uses: sum(all(one != other for one, other in zip(before[:3], after[:3])) for before, after in zip(uses, uses[1:]))
    worst = max(uses.values(), key=taken)
    return {"clients": len({use[0] for use in worst}), "taken_over": taken(worst), "since": worst[0][3],
            "operations_share": share(len(worst), trace.all_calls)}


def unknown_states(trace, finding):
    number, tested, unknown, first, last = trace.row("""
        with lists as (select operation_id, call_time_ns, stateid_statuses from judged join nfs4 using (operation_id) where operation = 'TEST_STATEID'
                and not coalesce(not_executed, false)),
            each as (select call_time_ns, unnest(string_split(stateid_statuses, ',')) as status from lists where stateid_statuses is not null)
        select (select count(*) from lists), count(*), count(*) filter (status <> 'NFS4_OK'), min(call_time_ns) filter (status <> 'NFS4_OK'),
            max(call_time_ns) filter (status <> 'NFS4_OK') from each""")
    return {"tested": tested, "unknown": unknown, "since": first, "until": last, "operations_share": share(number, trace.all_calls)}


def lock_wait(trace, finding):
    """Of locks that a later LOCK ends: what GRANTED does is in the tests of state alone."""
    (refused,) = trace.row(f"""select count(*) from judged where operation in ('LOCK', 'LOCK_MSG') and client_address = '{finding["who"]}'
        and (ends_with(outcome, '_BLOCKED') or ends_with(outcome, '_DENIED'))""")
    return {"refused": ("at most", refused), "operations_share": share(finding["basis"]["refused"], trace.all_calls)}


FLAGS = {"CB_PATH_DOWN": 1, "CB_GSS_CONTEXTS_EXPIRING": 2, "CB_GSS_CONTEXTS_EXPIRED": 4, "EXPIRED_ALL_STATE_REVOKED": 8,
         "EXPIRED_SOME_STATE_REVOKED": 0x10, "ADMIN_STATE_REVOKED": 0x20, "RECALLABLE_STATE_REVOKED": 0x40, "LEASE_MOVED": 0x80,
         "RESTART_RECLAIM_NEEDED": 0x100, "CB_PATH_DOWN_SESSION": 0x200, "BACKCHANNEL_FAULT": 0x400}


def session_flags(trace, finding):
    bit = FLAGS[finding["basis"]["flag"]]
    sequences, count = trace.row(f"select count(*), count(*) filter (reply_flags & {bit} <> 0) from nfs4 where slot is not null and reply_flags is not null")
    return {"sequences": sequences, "set": count, "operations_share": share(count, trace.all_calls)}


def not_registered(trace, finding):
    basis = finding["basis"]
    transport = {"tcp": 6, "udp": 17}.get(finding["what"].split(" over ")[1].split(":")[0], -1)
    without, count, first = trace.row(f"""
        select count(*) filter (is_none), count(*), min(call_time_ns) filter (is_none) from (
            select call_time_ns, case when target_port is not null then target_port = 0 else target_address = '' end as is_none
            from judged join services using (operation_id) where operation in ('GETPORT', 'GETADDR') and not failed and reply_end_ns is not null
                and target_program = {basis["program"]} and target_version = {basis["version"]} and target_protocol = {transport})
        where is_none is not null""")
    return {"without_port": without, "with_port": count - without, "since": first, "operations_share": share(without, trace.all_calls)}


KINDS = {name: globals()[name] for name in [
    "errors", "attributes", "repeated", "getattr_storm", "amounts", "clocks", "delayed_ack", "no_progress", "one_at_a_time", "loss", "window",
    "slow_server", "tail", "no_answer", "unreachable", "short_replies", "readdir_loop", "recall", "same_client_name", "unknown_states",
    "lock_wait", "session_flags", "not_registered"]}
KINDS |= {"stale": errors, "reordering": loss, "cb_path_down": unreachable}


# Their numbers are those of tables of the report, which report.py compares.
def of_report(trace, finding):
    return {}


KINDS |= {name: of_report for name in ["alignment", "small_sequential", "misaligned_client", "hot_files", "busy_client"]}


def differs(ours, theirs):
    if isinstance(theirs, tuple):
        how, value, *within = theirs
        return ours > value if how == "at most" else abs(ours - value) > within[0] * max(value, 1e-9) + (value == 0) * abs(ours)
    if isinstance(theirs, float) and ours is not None:
        return abs(ours - theirs) > 1e-9 * max(abs(theirs), 1)
    return ours != theirs


def main():
    guide = open(sys.argv[1]).read().split("How long a call waited")[1].split("```sql")[1].split("```")[0]
    compared, unknown, wrong = collections.Counter(), collections.Counter(), []
    for folder in sys.argv[2:]:
        trace = Trace(guide, folder)
        for finding in trace.report["findings"]:
            kind = finding["kind"]
            if kind in LEFT:
                continue
            if kind not in KINDS:
                wrong.append(f"{folder}: {kind} is not worked out here")
                continue
            theirs = KINDS[kind](trace, finding)
            compared[kind] += 1
            ours = finding["basis"] | {name: finding[name] for name in ["lost_ns", "operations_share", "who"]}
            ours |= {"since": finding["since_ns"], "until": finding["until_ns"]}
            numbers = {name for name, value in finding["basis"].items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
            for name in sorted(numbers - theirs.keys() - KEYS):
                if theirs and not name.endswith(BOUNDS) and not name.startswith("threshold"):
                    unknown[kind, name] += 1
            for name, value in theirs.items():
                if name not in ours or differs(ours[name], value):
                    wrong.append(f"{folder}: {kind} {name}: lineside {ours.get(name)}, DuckDB {value}; {finding['what']}")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(compared.items())))
    wrong += [f"{kind} {name} is not worked out here" for kind, name in unknown]
    if wrong:
        sys.exit("\n".join(wrong))


main()
