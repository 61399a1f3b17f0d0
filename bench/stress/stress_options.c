/* Reads the command line of flatclip-stress. */
#define _GNU_SOURCE
#include "bench/stress/stress_options.h"

#include <getopt.h>

#include "bench/measure.h"

int stress_usage(FILE *to, int code)
{
    fputs("usage: flatclip-stress [-m MODEL] [--iterations N | --minutes M] [--sessions N]\n"
          "                       [--threads N] [--batch N] [--device auto|cpu|cuda] [--seed S]\n"
          "                       [--faults | --no-faults] [--plain] [--csv FILE] [--json]\n"
          "                       [PATH...]\n"
          "\n"
          "Encodes pictures and pixels in random calls, opens and closes sessions and models, and\n"
          "fails at the first byte of growth, naming iteration and number. An iteration is one\n"
          "step of every session, all at the same time, each on a thread of its own.\n"
          "\n"
          "  -m MODEL       default: build/models/tiny.safetensors, or a tiny one made in memory\n"
          "  --iterations   10000          --sessions  2, at the same time\n"
          "  --threads      2 a session    --batch     4: max_batch of a session\n"
          "  --seed         of all that is random; else taken from the clock, and printed\n"
          "  --faults       only failing allocations, full disks, signals; --no-faults: the rest\n"
          "  --plain        one picture an iteration, and nothing at random\n"
          "  --csv FILE     memory by iteration          --json  the verdict as one object\n"
          "  PATH           pictures or folders, good and bad; default: tests/data,\n"
          "                 or some that are made\n"
          "\n"
          "Exit codes: 0 PASS, 1 FAIL, 2 wrong usage, 3 model or device unusable\n",
          to);
    return code;
}

static int apply(stress_options *o, int option)
{
    switch (option) {
    case 'm': o->model = optarg; return 1;
    case 'c': o->csv = optarg; return 1;
    case 'j': o->json = 1; return 1;
    case 'f': o->loop = 0; return 1;
    case 'p': o->plain = 1; return 1;
    case 'n': o->faults = 0; return 1;
    case 'i': return read_number(optarg, 1, 1000000000, &o->iterations);
    case 'M': return read_number(optarg, 1, 100000, &o->minutes);
    case 'S': return read_number(optarg, 1, 64, &o->sessions);
    case 't': return read_number(optarg, 0, FLATCLIP_MAX_THREADS, &o->threads);
    case 'b': return read_number(optarg, 1, FLATCLIP_MAX_BATCH, &o->batch);
    case 's': return read_number(optarg, 1, 2000000000, &o->seed);
    case 'd': return read_device(optarg, &o->device);
    default: return 0;
    }
}

int stress_read_options(int argc, char **argv, stress_options *o)
{
    static const struct option names[] = {
        { "model", 1, 0, 'm' },     { "iterations", 1, 0, 'i' }, { "minutes", 1, 0, 'M' },
        { "sessions", 1, 0, 'S' },  { "threads", 1, 0, 't' },    { "batch", 1, 0, 'b' },
        { "device", 1, 0, 'd' },    { "seed", 1, 0, 's' },       { "faults", 0, 0, 'f' },
        { "no-faults", 0, 0, 'n' }, { "csv", 1, 0, 'c' },        { "json", 0, 0, 'j' },
        { "plain", 0, 0, 'p' },
        { 0, 0, 0, 0 },
    };
    int good = 1, option;
    *o = (stress_options){ .iterations = 10000, .sessions = 2, .threads = 2, .batch = 4,
                           .seed = (long)(time(NULL) % 1000000000) + 1, .loop = 1, .faults = 1 };
    while (good && (option = getopt_long(argc, argv, "m:", names, NULL)) != -1)
        good = apply(o, option);
    o->paths = argv + optind;
    o->path_count = argc - optind;
    return good && (o->loop || o->faults);
}
