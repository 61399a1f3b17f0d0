/* Threads as fibers: which one runs, barriers of a block, and launches. */
#include "tests/simt/simt_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#error "fibers are switched in x86-64 assembly; elsewhere ucontext would do"
#endif

/* Saves the callee's registers on this stack and takes those of the other. */
extern "C" void simt_switch(void **save, void *load);
asm(".text\n"
    ".globl simt_switch\n"
    "simt_switch:\n"
    "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
    "    mov %rsp, (%rdi)\n"
    "    mov %rsi, %rsp\n"
    "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
    "    ret\n");

namespace simt {

Settings settings;
Thread thread[MAX_THREADS];
Warp warps[MAX_WARPS];
int thread_count, warp_count, current = -1;
uint64_t base_epoch = 2, launch_epoch = 2;
char *stacks;
dim3 thread_index, block_index, block_size, grid_size;

static void *main_stack;
static void (*kernel_body)(void *);
static void *kernel_arguments;
static const char *kernel_name;
static bool ended_early;
static unsigned random_state;
static char last_finding[512];

const char *finding() { return last_finding; }

/* -- Findings --------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void leave_for_good()
{
    void *unused;
    current = -1;
    simt_switch(&unused, main_stack);
    __builtin_unreachable();
}

void report(const char *format, ...)
{
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(last_finding, sizeof last_finding, "%.120s, block (%u, %u, %u), thread %d: %s",
             kernel_name, block_index.x, block_index.y, block_index.z, current, what);
    ended_early = true;
    if (current >= 0)
        leave_for_good();
}

/* -- Who runs next ---------------------------------------------------------------------------- */

static unsigned next_random()
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* One lane of those that are ready; after is the one that ran last, or -1. */
static int pick_lane(unsigned ready, int after)
{
    if (settings.schedule == REVERSE)
        return 31 - __builtin_clz(ready);
    if (settings.schedule == RANDOM) {
        const int from = (int)(next_random() % 32);
        return ready >> from ? from + __builtin_ctz(ready >> from) : __builtin_ctz(ready);
    }
    const unsigned later = after < 31 ? ready & 0xffffffffu << (after + 1) : 0;
    return __builtin_ctz(later ? later : ready);
}

/* The next thread, or -1 if none is ready. A warp runs as far as it can. */
static int pick_thread()
{
    const int here = current < 0 ? 0 : current / 32;
    if (warps[here].ready)
        return here * 32 + pick_lane(warps[here].ready, current < 0 ? -1 : current % 32);
    const int skip = settings.schedule == RANDOM ? (int)(next_random() % (unsigned)warp_count) : 0;
    for (int i = 1; i <= warp_count; i++) {
        const int w = settings.schedule == REVERSE ? (here - i + 2 * warp_count) % warp_count
                                                   : (here + i + skip) % warp_count;
        if (warps[w].ready)
            return w * 32 + pick_lane(warps[w].ready, -1);
    }
    return -1;
}

static void enter(int next)
{
    current = next;
    thread_index = thread[next].index;
}

static void report_deadlock()
{
    int in_warp = 0, at_barrier = 0, somebody = 0;
    for (int i = 0; i < thread_count; i++) {
        in_warp += thread[i].state == IN_WARP;
        at_barrier += thread[i].state == AT_BARRIER;
        if (thread[i].state != DONE)
            somebody = i;
    }
    current = somebody;
    report("DEADLOCK: %d threads wait at a barrier, %d in a warp instruction (line %d), %d have "
           "ended", at_barrier, in_warp, thread[somebody].line,
           thread_count - in_warp - at_barrier);
}

void wait_for_others()
{
    const int me = current, next = pick_thread();
    if (next < 0) {
        void *unused;
        for (int i = 0; i < thread_count; i++)
            if (thread[i].state != DONE)
                report_deadlock();
        simt_switch(&unused, main_stack); /* the block has ended */
    }
    if (next == me)
        return;
    enter(next);
    simt_switch(&thread[me].stack_pointer, thread[next].stack_pointer);
}

void wake(int number)
{
    thread[number].state = READY;
    warps[number / 32].ready |= 1u << number % 32;
}

void put_to_sleep(State state)
{
    thread[current].state = state;
    warps[current / 32].ready &= ~(1u << current % 32);
}

static void run_thread()
{
    kernel_body(kernel_arguments);
    if (!thread[current].open.empty() || !thread[current].groups.empty())
        report("the thread ends with asynchronous copies under way");
    warps[current / 32].live &= ~(1u << current % 32);
    put_to_sleep(DONE);
    wait_for_others();
    leave_for_good();
}

/* -- The barrier of a block ------------------------------------------------------------------- */

static struct {
    int arrived, line;
} meeting_point;

/* All warps now see what all have done. */
static void exchange_clocks()
{
    for (int v = 0; v < warp_count; v++)
        for (int w = 0; w < warp_count; w++)
            if (warps[v].seen[w] < warps[w].clock)
                warps[v].seen[w] = warps[w].clock;
    for (int v = 0; v < warp_count; v++)
        warps[v].clock++;
}

void barrier(int line)
{
    counts.barriers++;
    thread[current].line = line;
    if (!meeting_point.arrived)
        meeting_point.line = line;
    else if (meeting_point.line != line)
        report("BARRIER DIVERGENCE: threads meet at lines %d and %d", meeting_point.line, line);
    if (++meeting_point.arrived < thread_count) {
        put_to_sleep(AT_BARRIER);
        wait_for_others();
        return;
    }
    exchange_clocks();
    meeting_point.arrived = 0;
    for (int i = 0; i < thread_count; i++)
        if (i != current)
            wake(i);
}

/* -- Launching -------------------------------------------------------------------------------- */

static void begin_block(dim3 block)
{
    begin_shared_block();
    meeting_point.arrived = 0;
    for (int w = 0; w < warp_count; w++) {
        const int lanes = thread_count - w * 32;
        Warp &warp = warps[w];
        warp.all = warp.live = warp.ready = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1;
        warp.meetings.clear();
        warp.clock = base_epoch;
        memset(warp.seen, 0, sizeof warp.seen);
    }
    for (int i = 0; i < thread_count; i++) {
        Thread &t = thread[i];
        t.state = READY;
        t.line = 0;
        t.open.clear();
        t.groups.clear();
        const unsigned n = (unsigned)i;
        t.index = dim3(n % block.x, n / block.x % block.y, n / block.x / block.y);
        void **top = (void **)(stacks + (size_t)(i + 1) * STACK_BYTES) - 2;
        *top = (void *)run_thread;
        t.stack_pointer = top - 6; /* the six registers that simt_switch takes */
    }
}

static bool run_block(dim3 block, size_t shared_bytes)
{
    begin_block(block);
    current = -1;
    enter(pick_thread());
    simt_switch(&main_stack, thread[current].stack_pointer);
    current = -1;
    if (!ended_early && shared_in_use() > shared_bytes)
        report("the kernel carves %zu bytes of shared memory, its launch grants %zu",
               shared_in_use(), shared_bytes);
    for (int w = 0; w < warp_count; w++)
        if (warps[w].clock >= base_epoch)
            base_epoch = warps[w].clock + 1;
    return !ended_early;
}

bool launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void *),
            void *arguments)
{
    kernel_name = name;
    kernel_body = body;
    kernel_arguments = arguments;
    last_finding[0] = '\0';
    ended_early = false;
    current = -1;
    random_state = settings.seed;
    block_size = block;
    grid_size = grid;
    block_index = dim3(0, 0, 0);
    thread_count = (int)(block.x * block.y * block.z);
    warp_count = (thread_count + 31) / 32;
    launch_epoch = base_epoch;
    if (!stacks)
        stacks = (char *)mmap(nullptr, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (thread_count < 1 || thread_count > MAX_THREADS || shared_bytes > settings.shared_limit)
        report("invalid launch: %d threads, %zu bytes of shared memory", thread_count,
               shared_bytes);
    for (unsigned z = 0; z < grid.z && !ended_early; z++)
        for (unsigned y = 0; y < grid.y && !ended_early; y++)
            for (unsigned x = 0; x < grid.x && !ended_early; x++) {
                block_index = dim3(x, y, z);
                run_block(block, shared_bytes);
            }
    return !ended_early;
}

} /* namespace simt */
