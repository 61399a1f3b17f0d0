#!/bin/sh
# Runs the given test programs from the repository root, shows failures in full, and ends with the
# line `N passed, N failed`: the sums of what cmocka reports. A program that crashes, hangs or runs
# no test counts as one failure. A fuzz target is run over its corpus and counts as one test.
#
#   [WRAPPER='qemu-x86_64 -cpu Nehalem'] tests/run.sh PROGRAM...
set -u
passed=0 failed=0 skipped=0
limit=
command -v timeout > /dev/null && limit='timeout -k 10 1200'
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# Sums N over the lines `[  KIND  ] N test(s)...` that cmocka prints once a group.
count() {
    awk -v kind="$1" '/^\[  *[A-Z]+ *\] [0-9]+ test\(s\)/ && $2 == kind { n += $4 } END { print n + 0 }' "$log"
}

for program in "$@"; do
    name=${program##*/}
    set -- "$program"
    case $name in
    fuzz_*) set -- "$program" "tests/fuzz/corpus/${name#fuzz_}" tests/data/images tests/data/cases ;;
    esac
    started=$(date +%s)
    $limit ${WRAPPER:-} "$@" > "$log" 2>&1
    status=$?
    good=$(count PASSED) bad=$(count FAILED) skips=$(count SKIPPED)
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
        echo "$name: exit status $status" >> "$log"
    elif [ $((good + bad + skips)) -eq 0 ]; then
        bad=1
        echo "$name: ran no test" >> "$log"
    fi
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skips))
    printf '%-28s %4d passed %3d failed %3d skipped %5d s\n' \
        "$name" "$good" "$bad" "$skips" $(($(date +%s) - started))
    if [ "$bad" -gt 0 ]; then
        cat "$log"
    else
        grep '^note: ' "$log"
    fi
done
[ "$skipped" -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
