//! Words of other tools: what to write here instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A verb (any, if empty), the words that people try, and what serves them.
type Habit = (&'static str, &'static [&'static str], &'static str);

const HABITS: [Habit; 30] = [
    (
        "capture",
        &["-Y", "--display-filter", "-R"],
        "display filters are Wireshark's: -f takes tcpdump's filters; operations are chosen \
        afterwards, by 'lineside report TRACE --client A --operation READ' or by SQL",
    ),
    (
        "capture",
        &["--write"],
        "-w FILE takes the frames, -o TRACE the operations",
    ),
    (
        "capture",
        &["-z", "--statistics"],
        "what 'tshark -z rpc,srt' prints is in 'lineside report TRACE', and for each second in \
        'lineside report TRACE --interval 1'",
    ),
    (
        "capture",
        &["-n", "-nn", "-N"],
        "no name is ever looked up: leave it out",
    ),
    (
        "capture",
        &["-V", "-x", "-X", "-A", "-e", "-t", "-tttt"],
        "packets are not printed: 'tcpdump -r FILE' or 'tshark -r FILE' does that; for operations \
        'lineside slow TRACE 0'",
    ),
    (
        "capture",
        &["-T", "-E"],
        "fields are columns of the trace: 'lineside slow TRACE 0 --csv', or \
        duckdb -c \"from 'TRACE/operations/*.parquet'\"",
    ),
    (
        "capture",
        &["-D", "--interfaces"],
        "write --list-interfaces",
    ),
    (
        "capture",
        &["-C", "-G", "-W"],
        "parts of the trace end by --rotate 64MiB,1h; capture files by -b filesize:kB, \
        -b duration:SECONDS, -b files:N",
    ),
    (
        "capture",
        &["-Z", "--relinquish-privileges"],
        "all privileges are dropped by themselves as soon as everything is open",
    ),
    (
        "capture",
        &["--snaplen"],
        "write -s N or --snapshot-length N: file data is counted and checksummed, and never kept, \
        so that whole frames cost no room in a trace",
    ),
    (
        "emulate",
        &["--latency", "--lag", "--ping"],
        "write --delay 10ms: one way, in each direction, so that a round trip takes twice as long",
    ),
    (
        "emulate",
        &["--jitter", "--delay-variation"],
        "jitter belongs to the delay, as in netem: --delay '10ms 1ms distribution normal'",
    ),
    (
        "emulate",
        &["--bandwidth", "--bw", "--throughput", "--speed"],
        "write --rate 10mbit (bits) or --rate 10mbps (bytes), as for tc",
    ),
    (
        "emulate",
        &["--packet-loss", "--drop", "--plr"],
        "write --loss 1%",
    ),
    (
        "emulate",
        &["--dup", "--corruption", "--queue", "--buffer"],
        "the words are netem's: --duplicate 1%, --corrupt 0.1%, --limit 1000",
    ),
    (
        "load",
        &["--latency", "-L", "-U", "--u_latency"],
        "latency is always printed, from the instant that was meant and from the departure: leave \
        it out",
    ),
    ("load", &["-z", "--seconds"], "write -d 10s"),
    (
        "load",
        &["-k", "--keepalive"],
        "connections are kept; --requests-per-connection 1 has each end after its answer",
    ),
    (
        "load",
        &["-s", "--script", "-p", "--post-data"],
        "no script is run: -X METHOD, -H 'NAME: VALUE' and --body TEXT or @FILE make the request",
    ),
    (
        "compare",
        &["--html"],
        "a comparison is text, --json or --csv: 'lineside report TRACE --html FILE' writes a page",
    ),
    (
        "",
        &["-n", "--count"],
        "limits are -c N (frames, connections, echoes) and -d TIME; the first lines of a list: \
        'lineside slow TRACE -n N'",
    ),
    (
        "report",
        &["-Y", "--filter", "-f"],
        "operations are chosen by --since, --until, --client and --operation; frames by \
        'lineside capture -f'",
    ),
    (
        "report",
        &["-z", "--stats"],
        "what 'tshark -z rpc,srt' prints is in the report itself; for each second: --interval 1",
    ),
    (
        "report",
        &["-r", "--read"],
        "a report is of a trace: 'lineside capture FILE -o TRACE' first, then \
        'lineside report TRACE'",
    ),
    (
        "",
        &["qdisc", "tc", "netem"],
        "what 'tc qdisc add dev eth1 root netem delay 10ms' does, 'lineside emulate --between \
        eth1,eth2 --delay 10ms' does between two interfaces, and 'lineside emulate capture.pcap \
        --delay 10ms' on a file",
    ),
    (
        "",
        &["tcpdump", "tshark", "dumpcap", "record", "sniff", "dump"],
        "'lineside capture -i IF -o TRACE' records, 'lineside capture FILE -o TRACE' reads a file",
    ),
    (
        "",
        &["nfsiostat", "nfsstat", "stats", "stat", "summary"],
        "'lineside report TRACE --interval 1' prints nfsiostat's columns",
    ),
    (
        "",
        &["nfsslower", "slower", "nfsdist", "latency"],
        "'lineside slow TRACE 10ms' prints nfsslower's lines",
    ),
    (
        "",
        &["diff", "cmp", "versus"],
        "'lineside compare A B' reports what changed",
    ),
    (
        "",
        &["sql", "select", "duckdb", "export"],
        "a trace is Parquet: duckdb -c \"from 'TRACE/operations/*.parquet'\"",
    ),
];

/// What serves whoever wrote what the command line refused.
pub(crate) fn advice(error: &clap::Error, arguments: &[String]) -> Option<&'static str> {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else {
        return None;
    };
    let word = word.split('=').next().unwrap_or(word);
    let verb = arguments.get(1).map_or("", String::as_str);
    let is_meant = |habit: &&Habit| {
        let (of, words, _) = habit;
        (of.is_empty() || *of == verb) && words.contains(&word)
    };
    HABITS.iter().find(is_meant).map(|(.., advice)| *advice)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_habit_is_answered() {
        let mut answered = 0;
        for (verb, words, known) in HABITS {
            for word in words {
                let line = ["lineside", verb, word].map(str::to_owned);
                let line: Vec<String> = line.into_iter().filter(|part| !part.is_empty()).collect();
                let Err(error) = crate::arguments::Arguments::command().try_get_matches_from(&line)
                else {
                    continue;
                };
                // Words that became flags of ours need no advice.
                if error.kind() == ErrorKind::UnknownArgument
                    || error.kind() == ErrorKind::InvalidSubcommand
                {
                    assert_eq!(advice(&error, &line), Some(known), "{line:?}: {error}");
                    answered += 1;
                }
            }
        }
        assert!(answered >= 50, "{answered}");
    }
}
