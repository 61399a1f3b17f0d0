#!/bin/sh
# From the reports of ptxas, one a kernel file and architecture: how many kernels each has, and the
# most registers that one takes. Fails if any keeps something in local memory.
set -eu
printf '%-32s %8s %10s %7s\n' 'kernel file, architecture' kernels registers local
awk '
    /bytes stack frame/ { local_bytes += $1 }
    /Used [0-9]+ registers/ {
        match($0, /Used [0-9]+/)
        used = substr($0, RSTART + 5, RLENGTH - 5) + 0
        name = FILENAME
        sub(/.*\//, "", name)
        sub(/\.log$/, "", name)
        if (!(name in count)) order[++files] = name
        count[name]++
        if (used > most[name]) most[name] = used
        spilt[name] += local_bytes
        total += local_bytes
        local_bytes = 0
    }
    END {
        for (i = 1; i <= files; i++)
            printf "%-32s %8d %10d %7d\n", order[i], count[order[i]], most[order[i]],
                spilt[order[i]]
        exit total > 0
    }' "$@"
