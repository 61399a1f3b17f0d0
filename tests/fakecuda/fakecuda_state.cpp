/* Counting, failing, and what is live. */
#include "tests/fakecuda/fakecuda_state.h"

#include <stdlib.h>
#include <string.h>

#include "tests/simt/simt.h"

namespace fakecuda {

static long number_from(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text ? atol(text) : otherwise;
}

/* Tensor cores round as the published model says of this compute capability. */
static const fakecuda_machine &emulate(const fakecuda_machine &machine)
{
    simt::settings.schedule = machine.random_threads ? simt::RANDOM : simt::FORWARD;
    simt::settings.rounding = machine.capability < 90 ? simt::GROUPS_OF_8 : simt::GROUPS_OF_16;
    return machine;
}

static fakecuda_machine described_machine()
{
    return { (int)number_from("FAKECUDA_DEVICES", 1), (int)number_from("FAKECUDA_CAPABILITY", 80),
             (int)number_from("FAKECUDA_MULTIPROCESSORS", 132),
             (size_t)number_from("FAKECUDA_MEMORY", 8l << 30), 0, 0, 0 };
}

std::recursive_mutex mutex;
fakecuda_machine machine = emulate(described_machine());
fakecuda_counts counts;
std::map<char *, size_t> device_blocks, pinned_blocks;
std::set<CUstream_st *> streams;
std::set<CUevent_st *> events;
std::set<CUgraph_st *> graphs;
std::set<CUgraphExec_st *> executables;
int streams_made;

static cudaError_t last_error;
static bool lost, frozen;
static long failing_call = number_from("FAKECUDA_FAIL_AT", -1);
static cudaError_t failing_with = cudaErrorMemoryAllocation;
static std::string finding;

cudaError_t fails(cudaError_t error, const std::string &text)
{
    if (finding.empty())
        finding = text;
    return last_error = error;
}

void lose_device(const std::string &text)
{
    fails(cudaErrorIllegalAddress, text);
    lost = true;
}

bool is_lost()
{
    return lost;
}

cudaError_t take_last_error(bool clear)
{
    const cudaError_t error = lost ? cudaErrorIllegalAddress : last_error;
    if (clear)
        last_error = cudaSuccess;
    return error;
}

static long &counter(Kind kind)
{
    switch (kind) {
    case LAUNCH_CALL: return counts.launches;
    case GRAPH_LAUNCH: return counts.graph_launches;
    case COPY: return counts.copies;
    case MEMSET: return counts.memsets;
    case EVENT: return counts.events;
    case WAIT: return counts.waits;
    case QUESTION: return counts.questions;
    case OTHER: break;
    }
    return counts.others;
}

cudaError_t enter(const char *call, Kind kind)
{
    const long index = counts.calls++;
    counter(kind)++;
    if (index == failing_call)
        return last_error = failing_with;
    if (machine.devices < 0)
        return last_error = cudaErrorInsufficientDriver;
    if (lost)
        return cudaErrorIllegalAddress;
    if (kind == OTHER && frozen)
        return fails(cudaErrorNotPermitted, std::string(call) + " after everything was taken");
    return cudaSuccess;
}

bool lies_in(const std::map<char *, size_t> &blocks, const void *at, size_t bytes)
{
    auto block = blocks.upper_bound((char *)at);
    if (block == blocks.begin())
        return false;
    --block;
    return (const char *)at + bytes <= block->first + block->second;
}

bool is_frozen()
{
    return frozen;
}

} /* namespace fakecuda */

using namespace fakecuda;

fakecuda_machine fakecuda_get_machine(void)
{
    return machine;
}

void fakecuda_set_machine(const fakecuda_machine *described)
{
    machine = emulate(*described);
    streams_made = 0;
}

fakecuda_counts fakecuda_get_counts(void)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    return counts;
}

fakecuda_holdings fakecuda_get_holdings(void)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    fakecuda_holdings held = {};
    for (const auto &block : device_blocks)
        held.device_bytes += block.second;
    for (const auto &block : pinned_blocks)
        held.pinned_bytes += block.second;
    held.device_blocks = (long)device_blocks.size();
    held.pinned_blocks = (long)pinned_blocks.size();
    held.streams = (long)streams.size();
    held.events = (long)events.size();
    held.graphs = (long)graphs.size();
    held.executables = (long)executables.size();
    return held;
}

void fakecuda_reset(void)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    counts = {};
    last_error = cudaSuccess;
    lost = frozen = false;
    failing_call = -1;
    finding.clear();
}

void fakecuda_freeze(void)
{
    frozen = true;
}

void fakecuda_fail_at(long index, int error)
{
    failing_call = index;
    failing_with = (cudaError_t)error;
}

const char *fakecuda_finding(void)
{
    return finding.c_str();
}
