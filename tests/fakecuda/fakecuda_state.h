/* What the parts of the stand-in runtime share. */
#ifndef FAKECUDA_STATE_H
#define FAKECUDA_STATE_H

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/fakecuda/fakecuda.h"

/* -- What handles stand for ------------------------------------------------------------------- */

typedef std::function<void()> Operation;

struct CUgraph_st {
    std::vector<Operation> operations;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id thread;         /* that records it */
    bool is_spoilt = false;         /* by a call that recording does not allow */
};

struct CUgraphExec_st {
    std::vector<Operation> operations;
};

struct CUstream_st {
    std::deque<Operation> queue;
    CUgraph_st *recording = nullptr;
    bool is_blocking = false;       /* for cudaMemcpy and the like, which use no stream */
    bool is_early = false;
};

/* An event counts how often it was recorded; a wait is for the last time before it. */
struct CUevent_st {
    CUstream_st *stream = nullptr;
    long recorded = 0, reached = 0;
    double reached_at = 0;      /* seconds on the host's clock */
};

namespace fakecuda {

/* Whole programs may use several threads, the emulator may not: one call at a time. Recursive,
 * because what runs at a call may be a launch. */
extern std::recursive_mutex mutex;

extern fakecuda_machine machine;
extern fakecuda_counts counts;
extern std::map<char *, size_t> device_blocks, pinned_blocks;
extern std::set<CUstream_st *> streams;
extern std::set<CUevent_st *> events;
extern std::set<CUgraph_st *> graphs;
extern std::set<CUgraphExec_st *> executables;
extern int streams_made; /* since the machine was described */

/* Kinds of calls, as fakecuda_counts has them. */
enum Kind { LAUNCH_CALL, GRAPH_LAUNCH, COPY, MEMSET, EVENT, WAIT, QUESTION, OTHER };

/* Counts a call; returns why it fails, if it does. */
cudaError_t enter(const char *call, Kind kind);

/* Notes an error for cudaGetLastError, and the first one's text as a finding. */
cudaError_t fails(cudaError_t error, const std::string &text);

/* The device is lost: every later call says so. */
void lose_device(const std::string &text);
bool is_lost();

cudaError_t take_last_error(bool clear);
bool is_frozen();

/* Whether [at, at + bytes) lies in one block. */
bool lies_in(const std::map<char *, size_t> &blocks, const void *at, size_t bytes);

/* Runs what is queued: a stream's, all streams', or a stream's until event was reached count times. */
void drain(CUstream_st *stream);
void drain_all();
void drain_until(CUevent_st *event, long count);

/* Whether a recording forbids this thread what would wait for the device or change its memory; it
 * is spoilt then. */
bool spoils_a_recording();

} /* namespace fakecuda */

/* The first line of a call that gives something back. It does so even if it is made to fail, and
 * returns entered_ then: nobody has a second try. */
#define ENTER_GIVING                                                               \
    const std::lock_guard<std::recursive_mutex> locked_(fakecuda::mutex);          \
    const cudaError_t entered_ = fakecuda::enter(__func__, fakecuda::OTHER)

/* The first line of every other call. */
#define ENTER(kind)                                                                \
    const std::lock_guard<std::recursive_mutex> locked_(fakecuda::mutex);          \
    const cudaError_t entered_ = fakecuda::enter(__func__, fakecuda::kind);        \
    if (entered_ != cudaSuccess)                                                   \
        return entered_

#endif
