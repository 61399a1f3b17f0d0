/* The running block: shared by the parts of the emulator, and by nothing else.
 *
 * Time is kept in epochs. A warp's clock starts each block at base_epoch and advances when it lets
 * others see what it wrote; seen[v] is how far it has seen warp v. */
#ifndef SIMT_STATE_H
#define SIMT_STATE_H

#include <vector>

#include "tests/simt/simt_models.h"

namespace simt {

enum { MAX_THREADS = 1024, MAX_WARPS = 32, STACK_BYTES = 64 * 1024, SHARED_ROOM = 256 * 1024 };
enum State { READY, IN_WARP, AT_BARRIER, DONE };

struct Copy {
    char *to;
    const char *from;
    bool present;
};

struct Thread {
    void *stack_pointer;
    State state;
    dim3 index;
    int line;                               /* where it waits */
    std::vector<Copy> open;                 /* copies of no group yet */
    std::vector<std::vector<Copy>> groups;
};

/* Lanes that wait for each other in one warp instruction. */
struct Meeting {
    unsigned mask, arrived;
    int instruction, line;
    void *argument[32];
};

struct Warp {
    unsigned ready, live, all;
    std::vector<Meeting> meetings;
    uint64_t clock, seen[MAX_WARPS];
};

/* Shadow of two bytes of memory: who wrote it last, and two of its readers. A record is
 * epoch << 12 | in flight << 11 | thread. */
struct Cell {
    uint64_t write, read[2];
    const void *write_site, *read_site;
};
enum { THREAD_MASK = (1 << 10) - 1, IN_FLIGHT = 1 << 11, EPOCH_SHIFT = 12 };

extern Thread thread[MAX_THREADS];
extern Warp warps[MAX_WARPS];
extern int thread_count, warp_count, current;   /* current: the running thread, or -1 */
extern uint64_t base_epoch, launch_epoch;
extern char *shared_memory;
extern Cell *shared_cells;
extern char *stacks;

/* Ends the launch with a finding; does not return where a thread runs. */
__attribute__((format(printf, 1, 2))) void report(const char *format, ...);

/* Leaves the running thread, which must not be READY, for another. */
void wait_for_others();
void wake(int thread_number);
void put_to_sleep(State state);

/* Checks an access of the running thread, and notes it. in_flight: the bytes come later. site is
 * where in the program it is made. */
void check_access(const void *address, size_t bytes, bool write, bool in_flight, bool aligned,
                  const void *site);
bool is_shared(const void *address);
void begin_shared_block();
size_t shared_in_use();                         /* bytes carved, as the device counts them */

} /* namespace simt */

#endif
