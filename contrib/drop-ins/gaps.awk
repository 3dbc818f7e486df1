# Gaps between frames at each point, as a drop-in monitor of lineside: how many lay in each power of
# two of nanoseconds.
#
#     lineside capture -r FILE -o RUN --drop-in gap_octaves='csv:awk -f gaps.awk'
#
# Reads CSV on standard input, a line a frame, and writes the table monitor_gap_octaves. Any awk
# does: a time of 19 digits is more than its numbers hold, so seconds and nanoseconds are apart.

BEGIN { FS = "," }

# What was missed lies in a gap that nobody saw.
/^#/ { split("", seconds); split("", nanoseconds); next }

# The names of the columns.
!columns { for (i = 1; i <= NF; i++) at[$i] = i; columns = NF; next }

{
    time = $at["time_ns"]
    if (time == "") next
    place = $at["port"] "," $at["point"]
    second = substr(time, 1, length(time) - 9) + 0
    nanosecond = substr(time, length(time) - 8) + 0
    if (place in seconds) {
        gap = (second - seconds[place]) * 1000000000 + nanosecond - nanoseconds[place]
        for (from = 1; 2 * from <= gap; from *= 2);
        if (gap < 1) from = 0
        count[place "," sprintf("%.0f,%.0f", from, from ? 2 * from - 1 : 0)]++
    }
    seconds[place] = second
    nanoseconds[place] = nanosecond
}

END {
    print "port,point,from_ns:integer,to_ns:integer,count:integer"
    for (bin in count) print bin "," count[bin]
}
