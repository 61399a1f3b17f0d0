#!/bin/sh
# Runs libFuzzer targets one after the other, each for a bounded time, from the seeds in
# tests/fuzz/corpus and the sample pictures. What it finds stays in build/fuzz.
#
#   tests/fuzz/run.sh SECONDS PROGRAM...
set -u
seconds=$1
shift
failed=0
for program in "$@"; do
    name=${program##*/fuzz_}
    grown=build/fuzz/corpus/$name
    mkdir -p "$grown"
    seeds=
    for folder in "tests/fuzz/corpus/$name" tests/data/images tests/data/cases; do
        [ -d "$folder" ] && seeds="$seeds $folder"
    done
    echo "fuzz_$name: $seconds s"
    # shellcheck disable=SC2086 # the folders are ours and hold no spaces
    if "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "$grown" $seeds > "build/fuzz/$name.log" 2>&1; then
        grep -E 'number_of_executed_units|peak_rss' "build/fuzz/$name.log"
    else
        tail -n 60 "build/fuzz/$name.log"
        failed=$((failed + 1))
    fi
done
echo "fuzz: $(($# - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
