/* Device memory, shared memory, and what every access to them is checked for. */
#include "tests/simt/simt_state.h"

#include <deque>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

extern "C" char __executable_start, _end;

namespace simt {

enum { GUARD_BYTES = 64 * 1024, SHARED_GUARD = 128 };
static const uint64_t HOST_WRITE = (uint64_t)1 << EPOCH_SHIFT; /* before every launch */

Counts counts;
char *shared_memory;
Cell *shared_cells;

/* -- Device memory ---------------------------------------------------------------------------- */

struct Region {
    uintptr_t begin;
    size_t bytes;
    Cell *cells;
    bool read_only;
    std::string name;
    void *map;
    size_t map_bytes;
};
/* Both outlive static objects, so that a leak checker still finds what they hold. */
static std::vector<Region *> &regions = *new std::vector<Region *>;

/* Addresses of released blocks are not given out again for a while, so that a kernel which still
 * uses one is found. */
enum { FREED_BLOCKS = 256 };
static std::deque<Region *> &freed = *new std::deque<Region *>;
static Region *last_found;

static size_t cell_count(size_t bytes) { return (bytes + 1) / 2 + 8; }

static void *map_pages(size_t bytes)
{
    void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        abort();
    return pages;
}

void *allocate(size_t bytes, const char *name)
{
    const size_t map_bytes = (bytes + 2 * GUARD_BYTES + 4095) / 4096 * 4096;
    char *map = (char *)map_pages(map_bytes);
    Cell *cells = (Cell *)map_pages(cell_count(bytes) * sizeof(Cell));
    memset(map + GUARD_BYTES, 0xff, bytes); /* NaN in every type */
    regions.push_back(new Region{ (uintptr_t)map + GUARD_BYTES, bytes, cells, false, name, map,
                                  map_bytes });
    return map + GUARD_BYTES;
}

static Region *find(uintptr_t address)
{
    if (last_found && address - last_found->begin < last_found->bytes)
        return last_found;
    for (Region *region : regions)
        if (address - region->begin < region->bytes)
            return last_found = region;
    return nullptr;
}

/* Takes the memory, and keeps the addresses. */
static void keep_freed(Region *region)
{
    mmap(region->map, region->map_bytes, PROT_NONE,
         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    freed.push_back(region);
    if (freed.size() > FREED_BLOCKS) {
        munmap(freed.front()->map, freed.front()->map_bytes);
        delete freed.front();
        freed.pop_front();
    }
}

void release(void *block)
{
    for (size_t i = 0; i < regions.size(); i++) {
        Region *region = regions[i];
        if (region->begin != (uintptr_t)block)
            continue;
        munmap(region->cells, cell_count(region->bytes) * sizeof(Cell));
        keep_freed(region);
        regions.erase(regions.begin() + (long)i);
        last_found = nullptr;
        return;
    }
}

void upload(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    Region *region = find((uintptr_t)to);
    for (size_t i = 0; region && i < (bytes + 1) / 2; i++)
        region->cells[((uintptr_t)to - region->begin) / 2 + i].write = HOST_WRITE;
}

void download(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

void make_read_only(void *block)
{
    if (Region *region = find((uintptr_t)block))
        region->read_only = true;
}

/* Where an address lies that no region holds. */
static std::string nearest(uintptr_t address)
{
    char text[160];
    for (Region *r : freed)
        if (address - r->begin < r->bytes)
            return "in " + r->name + ", which was released";
    for (Region *r : regions) {
        const uintptr_t end = r->begin + r->bytes;
        if (address < r->begin - GUARD_BYTES || address >= end + GUARD_BYTES)
            continue;
        snprintf(text, sizeof text, "%zu bytes %s %s, which has %zu",
                 (size_t)(address >= end ? address - end : r->begin - address),
                 address >= end ? "past the end of" : "before", r->name.c_str(), r->bytes);
        return text;
    }
    return "near no allocation";
}

/* -- Shared memory ---------------------------------------------------------------------------- */

static unsigned char allowed[SHARED_ROOM];  /* bytes that belong to an array */
static size_t shared_top, shared_used;
static std::vector<size_t> arrays;

bool is_shared(const void *address)
{
    return (uintptr_t)address - (uintptr_t)shared_memory < SHARED_ROOM;
}

void begin_shared_block()
{
    if (!shared_memory) {
        shared_memory = (char *)map_pages(SHARED_ROOM);
        shared_cells = (Cell *)calloc(cell_count(SHARED_ROOM), sizeof(Cell));
    }
    memset(shared_memory, 0xff, shared_top);
    memset(allowed, 0, shared_top);
    shared_top = shared_used = 0;
    arrays.clear();
}

size_t shared_in_use() { return shared_used; }

/* Arrays have guard space between them that the device does not have. */
void *carve(Carver &carver, size_t bytes)
{
    const size_t used = (bytes + 127) / 128 * 128, at = carver.offset;
    carver.offset += used + SHARED_GUARD;
    if (carver.offset > SHARED_ROOM)
        report("the kernel carves over %d bytes of shared memory", SHARED_ROOM);
    if ((size_t)carver.arrays == arrays.size()) {
        arrays.push_back(bytes);
        memset(allowed + at, 1, bytes);
        shared_top = at + bytes;
        shared_used += used;
    } else if (arrays[(size_t)carver.arrays] != bytes) {
        report("threads carve shared memory differently");
    }
    carver.arrays++;
    return shared_memory + at;
}

/* -- Checks ----------------------------------------------------------------------------------- */

/* "gemm.cu:40", for an address in the program; only findings need it. */
static std::string place_of(const void *site)
{
    char command[200], line[300] = "?";
    snprintf(command, sizeof command, "addr2line -e /proc/%d/exe %#lx 2>/dev/null", (int)getpid(),
             (unsigned long)((const char *)site - &__executable_start - 1));
    FILE *out = popen(command, "r");
    if (out && !fgets(line, sizeof line, out))
        line[0] = '\0';
    if (out)
        pclose(out);
    std::string place = line;
    place = place.substr(place.rfind('/') + 1);
    return place.substr(0, place.find_first_of(" \n"));
}

/* Whether what a record tells of has happened, for all to see, before what current does now. */
static bool is_before(uint64_t record, int now)
{
    const uint64_t epoch = record >> EPOCH_SHIFT;
    if (epoch < base_epoch)
        return epoch < launch_epoch; /* another launch: yes; another block of this one: no */
    const int who = (int)(record & THREAD_MASK);
    if (who == now)
        return true;
    const Warp &mine = warps[now / 32];
    return who / 32 == now / 32 ? epoch < mine.clock : epoch <= mine.seen[who / 32];
}

/* Shared memory begins every block unwritten. */
static void forget_other_blocks(Cell &cell)
{
    if (cell.write >> EPOCH_SHIFT < base_epoch)
        cell.write = 0;
    for (uint64_t &read : cell.read)
        if (read >> EPOCH_SHIFT < base_epoch)
            read = 0;
}

static void note_read(Cell &cell, uint64_t record, const void *site)
{
    if (cell.read[0] == record || cell.read[1] == record)
        return;
    const uint64_t warp_bits = THREAD_MASK & ~31;
    const bool first_is_mine = (cell.read[0] & warp_bits) == (record & warp_bits);
    const bool both_are_one = (cell.read[0] & warp_bits) == (cell.read[1] & warp_bits);
    if (!cell.read[0] || is_before(cell.read[0], current)) {
        cell.read[0] = record;
        cell.read_site = site;
    } else if (!cell.read[1] || is_before(cell.read[1], current) ||
               (both_are_one && !first_is_mine)) {
        cell.read[1] = record;
    }
}

static void check_cell(Cell &cell, bool write, bool in_flight, const char *kind, const void *site)
{
    const uint64_t record = warps[current / 32].clock << EPOCH_SHIFT |
                            (in_flight ? IN_FLIGHT : 0) | (uint64_t)current;
    const char *access = write ? "write" : "read";
    if (cell.write && cell.write != HOST_WRITE) {
        const int writer = (int)(cell.write & THREAD_MASK);
        if (cell.write & IN_FLIGHT && cell.write >> EPOCH_SHIFT >= base_epoch)
            report("%s of %s memory at %s, into which an asynchronous copy of thread %d is still "
                   "under way (%s)", access, kind, place_of(site).c_str(), writer,
                   place_of(cell.write_site).c_str());
        if (!is_before(cell.write, current))
            report("RACE: %s of %s memory at %s against a write of thread %d at %s", access, kind,
                   place_of(site).c_str(), writer, place_of(cell.write_site).c_str());
    }
    if (!write) {
        if (!cell.write)
            report("UNINITIALISED: read of %s memory at %s that nobody has written", kind,
                   place_of(site).c_str());
        note_read(cell, record, site);
        return;
    }
    for (uint64_t read : cell.read)
        if (read && !is_before(read, current))
            report("RACE: write of %s memory at %s against a read of thread %d at %s", kind,
                   place_of(site).c_str(), (int)(read & THREAD_MASK),
                   place_of(cell.read_site).c_str());
    cell.write = record;
    cell.write_site = site;
}

static void check_shared(size_t offset, size_t bytes, bool write, bool in_flight, const void *site)
{
    for (size_t i = 0; i < bytes; i++)
        if (offset + i >= SHARED_ROOM || !allowed[offset + i])
            report("OUT OF BOUNDS: %s of %zu bytes at byte %zu of shared memory at %s",
                   write ? "write" : "read", bytes, offset, place_of(site).c_str());
    for (size_t i = offset / 2; i < (offset + bytes + 1) / 2; i++) {
        forget_other_blocks(shared_cells[i]);
        check_cell(shared_cells[i], write, in_flight, "shared", site);
    }
}

static void check_global(Region *region, size_t offset, size_t bytes, bool write, const void *site)
{
    if (offset + bytes > region->bytes)
        report("OUT OF BOUNDS: %zu bytes reach over the end of %s at %s", bytes,
               region->name.c_str(), place_of(site).c_str());
    if (region->read_only && write)
        report("write to %s, which is read-only, at %s", region->name.c_str(),
               place_of(site).c_str());
    for (size_t i = offset / 2; i < (offset + bytes + 1) / 2; i++) {
        if (!region->read_only)
            check_cell(region->cells[i], write, false, "global", site);
        else if (!region->cells[i].write) /* nobody can race, but it must have been written */
            report("UNINITIALISED: read of %s at %s that nobody has written", region->name.c_str(),
                   place_of(site).c_str());
    }
}

void check_access(const void *pointer, size_t bytes, bool write, bool in_flight, bool aligned,
                  const void *site)
{
    const uintptr_t address = (uintptr_t)pointer;
    if (current < 0 || address - (uintptr_t)(stacks + (size_t)current * STACK_BYTES) < STACK_BYTES)
        return; /* the host, or a thread's own variables */
    (write ? counts.stores : counts.loads)++;
    if (aligned && address % bytes)
        report("MISALIGNED: %s of %zu bytes at %p at %s", write ? "write" : "read", bytes, pointer,
               place_of(site).c_str());
    if (is_shared(pointer)) {
        check_shared(address - (uintptr_t)shared_memory, bytes, write, in_flight, site);
    } else if (Region *region = find(address)) {
        check_global(region, address - region->begin, bytes, write, site);
    } else if (address - (uintptr_t)stacks < (size_t)MAX_THREADS * STACK_BYTES) {
        report("access to another thread's variables at %s", place_of(site).c_str());
    } else if (write || address < (uintptr_t)&__executable_start || address >= (uintptr_t)&_end) {
        report("OUT OF BOUNDS: %s of %zu bytes %s at %s", write ? "write" : "read", bytes,
               nearest(address).c_str(), place_of(site).c_str());
    }
}

} /* namespace simt */

/* -- What the compiler calls ------------------------------------------------------------------ */

#define HERE __builtin_return_address(0)

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void *, void *) {}
void __tsan_vptr_read(void *) {}
#define WATCH(name, bytes, write, aligned)                               \
    void __tsan_##name##bytes(void *p)                                   \
    {                                                                    \
        simt::check_access(p, bytes, write, false, aligned, HERE);       \
    }
WATCH(read, 1, false, true)
WATCH(read, 2, false, true)
WATCH(read, 4, false, true)
WATCH(read, 8, false, true)
WATCH(read, 16, false, true)
WATCH(write, 1, true, true)
WATCH(write, 2, true, true)
WATCH(write, 4, true, true)
WATCH(write, 8, true, true)
WATCH(write, 16, true, true)
WATCH(unaligned_read, 2, false, false)
WATCH(unaligned_read, 4, false, false)
WATCH(unaligned_read, 8, false, false)
WATCH(unaligned_read, 16, false, false)
WATCH(unaligned_write, 2, true, false)
WATCH(unaligned_write, 4, true, false)
WATCH(unaligned_write, 8, true, false)
WATCH(unaligned_write, 16, true, false)
void __tsan_read_range(void *p, size_t bytes)
{
    simt::check_access(p, bytes, false, false, false, HERE);
}
void __tsan_write_range(void *p, size_t bytes)
{
    simt::check_access(p, bytes, true, false, false, HERE);
}
}
