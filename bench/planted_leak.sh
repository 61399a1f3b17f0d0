#!/bin/sh
# Shows that flatclip-stress finds leaks: each kind is planted from iteration 700 on, and must be
# reported; without one the same variant and the normal program must pass. Exits 0 if all that holds.
#
#   bench/planted_leak.sh [--device] FLATCLIP-STRESS-WITH-A-LEAK FLATCLIP-STRESS MODEL
#
# --device: device memory, on the stand-in runtime; few iterations, because an emulator computes.
set -u
device=
if [ "$1" = --device ]; then
    device=1
    shift
fi
leaky=$1 normal=$2 model=$3
failed=0
from=700 how='--iterations 1500'
if [ -n "$device" ]; then
    from=40
    how='--iterations 60 --plain --sessions 1 --threads 1 --batch 1 tests/data/images/good/cat_420.jpg'
fi

# expect CODE PATTERN COMMAND...: runs it, shows its verdict and compares.
expect() {
    code=$1 pattern=$2
    shift 2
    # shellcheck disable=SC2086 # how is meant to be split
    verdict=$("$@" --no-faults --seed 1 -m "$model" $how | grep -E '^(PASS|FAIL)')
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
if [ -n "$device" ]; then
    leaks=device
else
    leaks='heap descriptor thread'
fi
for leak in $leaks; do
    FLATCLIP_LEAK=$leak
    export FLATCLIP_LEAK
    expect 1 "^FAIL: iteration $from: (heap|open|threads|device memory in use)" "$leaky"
done
if [ -z "$device" ]; then
    # A slope needs the whole run: from the start.
    FLATCLIP_LEAK=resident FLATCLIP_LEAK_FROM=1
    expect 1 '^FAIL: iteration [0-9]+: resident memory grows by [34][0-9]{3} bytes' "$leaky"
fi
unset FLATCLIP_LEAK
expect 0 '^PASS' "$leaky"
expect 0 '^PASS' "$normal"
[ "$failed" = 0 ] && echo "planted-leak: every leak was found${device:+, on a device that is emulated}"
exit "$failed"
