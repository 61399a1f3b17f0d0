#!/bin/sh
# make gpu-check: builds for this machine's GPU, runs every part on it, prints one table, and writes
# gpu-check.json. A part that fails, hangs or is missing does not hide the others; what is found is
# printed, and stands in the file, as it comes.
#
#   bench/gpu/gpu_check.sh [--rehearse]    (from make, which sets MAKE)
#
# --rehearse runs the same on the emulator. Ends with a line `N passed, N failed`; exit status 0 if
# nothing failed.
set -u
rehearse=${1:+--rehearse}
work=build/gpu
findings=$work/findings.json
parts=$work/parts.json
passed=0 failed=0 skipped=0
mkdir -p $work && : > $findings && : > $parts || exit 1

jobs=$(nproc 2> /dev/null || echo 2)
limit() { # limit SECONDS COMMAND...
    if command -v timeout > /dev/null; then
        timeout -k 5 "$@"
    else
        shift
        "$@"
    fi
}

# note PART STATUS SECONDS [WORDS]: what became of a part; STATUS is passed, failed or skipped.
note() {
    case $2 in
    passed) passed=$((passed + 1)) ;;
    failed) failed=$((failed + 1)) ;;
    *) skipped=$((skipped + 1)) ;;
    esac
    printf '%-11s %-34s %12s %-9s %s\n' "$1" "== $2${4:+: $4}" "$3" s ''
    printf '{"part": "%s", "status": "%s", "seconds": %s, "words": "%s"}\n' "$1" "$2" "$3" "${4:-}" \
        >> $parts
    assemble
}

# The file is whole after every part.
assemble() {
    {
        printf '{"date": "%s", "rehearsal": %s,\n"parts": [\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
            "$([ -n "$rehearse" ] && echo true || echo false)"
        sed '$!s/$/,/' $parts
        printf '],\n"findings": [\n'
        sed '$!s/$/,/' $findings
        printf ']}\n'
    } > gpu-check.json.part && mv gpu-check.json.part gpu-check.json
}

# part NAME SECONDS COMMAND...: runs it, and notes how it ended. What it prints is shown, or only if
# it fails (quiet_part). A rehearsal may be on a slow machine.
patience=${rehearse:+5}
part() {
    name=$1 seconds=$(($2 * ${patience:-1})) started=$(date +%s)
    shift 2
    limit "$seconds" "$@"
    conclude $?
}
quiet_part() {
    name=$1 seconds=$(($2 * ${patience:-1})) started=$(date +%s)
    shift 2
    limit "$seconds" "$@" > $work/log 2>&1
    status=$?
    [ $status -eq 0 ] || tail -n 40 $work/log
    conclude $status
}
conclude() { # conclude STATUS
    took=$(($(date +%s) - started))
    case $1 in
    0) note "$name" passed $took ;;
    124 | 137) note "$name" failed $took "not done after $seconds s" ;;
    *) note "$name" failed $took "exit status $1" ;;
    esac
    return "$1"
}

# The compute capability of the first GPU, as 90; nothing if there is none.
capability() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null ||
        __nvcc_device_query 2> /dev/null; } | head -n 1 | tr -d '. '
}

# -- Building --------------------------------------------------------------------------------------

make="${MAKE:-make} --no-print-directory"
emulator=build/standin/bare/flatclip-gpu-check
build_emulator="$make -j$jobs BARE=1 CUDA=standin $emulator"

if [ -n "$rehearse" ]; then
    echo "gpu-check: a rehearsal: an emulator computes, so speeds mean nothing"
    check=$emulator
    build=$build_emulator
else
    arch=$(capability)
    if [ -z "$arch" ]; then
        echo "gpu-check: no GPU here that its driver knows (nvidia-smi); make gpu-check-rehearse" \
            "runs the same on an emulator" >&2
        exit 1
    fi
    check=build/bare/flatclip-gpu-check
    tests=build/release-cuda1-bare/tests/gpu/run_on_device
    build="$make -j$jobs BARE=1 CUDA=1 LIBRARY_ARCHS=$arch $check $tests"
fi
# shellcheck disable=SC2086 # commands are meant to be split
printf '%-11s %-34s %12s %-9s %-8s%s\n' part what value unit verdict ''
quiet_part build 240 $build || { echo "$passed passed, $failed failed"; exit 1; }

# -- Right, flat -----------------------------------------------------------------------------------

run() { # run SECONDS NAME [FILE...]: a part of the program
    seconds=$1 name=$2
    shift 2
    part "$name" "$seconds" $check "$name" --json $findings $rehearse "$@"
}
run 20 device
run 60 golden
if [ -n "$rehearse" ]; then
    note tests skipped 0 "make test runs them in the emulator"
else
    part tests 60 $tests
fi
run 60 bits
run 60 flat
# shellcheck disable=SC2086
if quiet_part build-model 240 $build_emulator &&
    quiet_part predict 150 env FAKECUDA_CAPABILITY="${arch:-80}" $emulator bits-write \
        $work/emulator.bits &&
    quiet_part compute 60 $check bits-write $work/device.bits; then
    run 10 emulator $work/device.bits $work/emulator.bits
fi
for tool in memcheck racecheck initcheck synccheck; do
    if [ -n "$rehearse" ]; then
        note $tool skipped 0 "the emulator has its own checks"
    elif command -v compute-sanitizer > /dev/null; then
        quiet_part $tool 60 compute-sanitizer --tool $tool --error-exitcode 9 $check once
    else
        note $tool skipped 0 "no compute-sanitizer in PATH"
    fi
done

# -- Fast ------------------------------------------------------------------------------------------

run 60 ceilings
run 90 kernels
run 120 speed
if [ -n "$rehearse" ]; then
    note torch skipped 0 "speeds mean nothing here"
elif python3 -c 'import torch' 2> /dev/null; then
    part torch 60 python3 bench/gpu/torch_speed.py $findings
else
    note torch skipped 0 "no torch in python3"
fi

echo "$skipped skipped; findings are in gpu-check.json"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
