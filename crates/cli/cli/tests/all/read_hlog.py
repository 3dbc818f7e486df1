# Reads a log of histograms by HdrHistogram's own package: for each tag its intervals, and figures of
# all of them.
import json
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

found = {}
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 86_400_000_000_000, 3))
while histogram := reader.get_next_interval_histogram():
    tag = histogram.get_tag()
    all_of_tag = found.setdefault(tag, (HdrHistogram(1, 86_400_000_000_000, 3), []))
    all_of_tag[0].add(histogram)
    times = [histogram.get_start_time_stamp(), histogram.get_end_time_stamp()]
    begin, end = [round(ms - reader.get_start_time_sec() * 1000) for ms in times]
    all_of_tag[1].append([begin, end, histogram.get_total_count()])
print(json.dumps({
    tag: {
        "start_s": reader.get_start_time_sec(),
        "count": histogram.get_total_count(),
        "intervals_ms": intervals,
        "quantiles_ns": [histogram.get_value_at_percentile(q) for q in (50, 90, 99, 99.9, 100)],
    }
    for tag, (histogram, intervals) in found.items()
}))
