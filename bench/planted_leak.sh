#!/bin/sh
# Shows that flatclip-stress finds leaks: each kind is planted from iteration 700 on, and must be
# reported; without one the same variant and the normal program must pass. Exits 0 if all that holds.
#
#   bench/planted_leak.sh FLATCLIP-STRESS-WITH-A-LEAK FLATCLIP-STRESS MODEL
set -u
leaky=$1 normal=$2 model=$3
failed=0
from=700

# expect CODE PATTERN COMMAND...: runs it, shows its verdict and compares.
expect() {
    code=$1 pattern=$2
    shift 2
    verdict=$("$@" --no-faults --iterations 1500 --seed 1 -m "$model" | grep -E '^(PASS|FAIL)')
    got=0
    case $verdict in PASS*) ;; *) got=1 ;; esac
    if [ "$got" = "$code" ] && printf '%s\n' "$verdict" | grep -qE "$pattern"; then
        [ "$code" = 1 ] && printf 'caught   ' || printf 'correct  '
    else
        failed=1
        printf 'MISSED   '
    fi
    printf '%-11s %s\n' "${FLATCLIP_LEAK:-none}" "$verdict"
}

FLATCLIP_LEAK_FROM=$from
export FLATCLIP_LEAK_FROM
for leak in heap descriptor thread; do
    FLATCLIP_LEAK=$leak
    export FLATCLIP_LEAK
    expect 1 "^FAIL: iteration $from: (heap|open|threads)" "$leaky"
done
# A slope needs the whole run: from the start.
FLATCLIP_LEAK=resident FLATCLIP_LEAK_FROM=1
expect 1 '^FAIL: iteration [0-9]+: resident memory grows by [34][0-9]{3} bytes' "$leaky"
unset FLATCLIP_LEAK
expect 0 '^PASS' "$leaky"
expect 0 '^PASS' "$normal"
echo 'device: skipped: this build has no CUDA'
[ "$failed" = 0 ] && echo 'planted-leak: every leak was found'
exit "$failed"
