/* Full disks and signals, on the real command line. */
#define _GNU_SOURCE
#include "bench/stress/stress_faults.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/stress/stress_child.h"

enum { INPUTS = 8, SIGNAL_ROUNDS = 6, EXIT_UNUSABLE = 3 };

/* embed's command line: some of the run's pictures, in batches of one; extra may be NULL. */
typedef struct {
    char output[1100];
    const char *arguments[16 + INPUTS];
} stress_command;

static void make_command(const stress_fault_plan *plan, const stress_child_place *place,
                         int to_file, const char *extra, stress_command *command)
{
    const char *const fixed[] = { "embed", "-q", "--device", "cpu", "--batch", "1", "--threads",
                                  "1", "-m", plan->model_path };
    size_t count = sizeof fixed / sizeof *fixed;
    memset(command, 0, sizeof *command);
    memcpy(command->arguments, fixed, sizeof fixed);
    snprintf(command->output, sizeof command->output, "%s/rows.npy", place->folder);
    if (to_file) {
        command->arguments[count++] = "-o";
        command->arguments[count++] = command->output;
    }
    for (size_t i = 0; i < plan->pictures->count && i < INPUTS; i++)
        command->arguments[count++] = plan->pictures->paths[i];
    command->arguments[count] = extra;
}

/* Opens the place, or prints that the check named what is skipped. */
static int have_place(const stress_fault_plan *plan, const char *what, stress_child_place *place)
{
    if (plan->pictures->count > 0 && stress_child_open(place))
        return 1;
    fprintf(plan->out, "faults: %s: skipped: needs %s\n", what,
            plan->pictures->count > 0
                ? "the program flatclip beside this one, and a temporary folder"
                : "at least one picture");
    return 0;
}

/* One run under a limit: it must end with 3 and leave nothing. */
static int is_refused(const stress_fault_plan *plan, const stress_child_place *place,
                      const char *what, const stress_child_setting *setting,
                      const char *const *arguments)
{
    const int code = stress_child_wait(stress_child_start(place, setting, arguments));
    const int left = stress_child_files(place, 1);
    if (code == EXIT_UNUSABLE && left == 0)
        return 1;
    fprintf(plan->out, "faults: FAIL: %s: exit code %d, expected 3; %d files left\n", what, code,
            left);
    return 0;
}

static int fill_all(const stress_fault_plan *plan, const stress_child_place *place, int *runs)
{
    static const long limits[] = { 0, 1, 100, 128, 200, 300, 384 };
    char model[1100], what[64];
    stress_command command;
    int good;
    make_command(plan, place, 0, NULL, &command);
    const stress_child_setting full = { "/dev/full", -1, -1 };
    good = is_refused(plan, place, "embed > /dev/full", &full, command.arguments);
    *runs = 1;
    make_command(plan, place, 1, NULL, &command);
    for (size_t i = 0; good && i < sizeof limits / sizeof *limits; i++, ++*runs) {
        const stress_child_setting limited = { NULL, limits[i], -1 };
        snprintf(what, sizeof what, "embed -o on a disk of %ld bytes", limits[i]);
        good = is_refused(plan, place, what, &limited, command.arguments);
    }
    snprintf(model, sizeof model, "%s/m.safetensors", place->folder);
    const char *const synth[] = { "synth", "--config", "micro", "-o", model, NULL };
    for (long limit = 0; good && limit < 40000; limit += 13001, ++*runs) {
        const stress_child_setting limited = { NULL, limit, -1 };
        good = is_refused(plan, place, "synth on a full disk", &limited, synth);
    }
    return good;
}

int stress_fill_disk(const stress_fault_plan *plan)
{
    stress_child_place place;
    int runs = 0;
    if (!have_place(plan, "full disks", &place))
        return -1;
    const int good = fill_all(plan, &place, &runs);
    stress_child_close(&place);
    if (good)
        fprintf(plan->out, "faults: %d full disks: exit code 3 and no file left each time\n", runs);
    return good;
}

/* Waits until the output was begun; returns whether it was, within ten seconds. */
static int wait_for_output(const stress_child_place *place)
{
    const struct timespec pause = { 0, 1000000 };
    int ms = 0;
    while (ms++ < 10000 && stress_child_files(place, 0) < 2)
        nanosleep(&pause, NULL);
    return ms < 10000;
}

/* Sends number while the program waits for its last picture on standard input, with its outputs
 * begun (micros < 0), or after some time of an undisturbed run. */
static int send_one(const stress_fault_plan *plan, const stress_child_place *place, int number,
                    long micros)
{
    stress_command command;
    int ends[2], begun = 1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    make_command(plan, place, 1, micros < 0 ? "-" : NULL, &command);
    const stress_child_setting setting = { NULL, -1, ends[0] };
    const pid_t pid = stress_child_start(place, &setting, command.arguments);
    if (micros < 0)
        begun = wait_for_output(place);
    else
        nanosleep(&(struct timespec){ 0, micros * 1000 }, NULL);
    if (pid > 0)
        kill(pid, number);
    const int code = stress_child_wait(pid);
    close(ends[0]);
    close(ends[1]);
    /* Before main installs its handler the system's ends it; inputs may fail alone (1). */
    const int finished = micros >= 0 && (code == 0 || code == 1);
    const int killed = code == 128 + number || (micros >= 0 && code == STRESS_CHILD_CRASHED);
    const int left = stress_child_files(place, 1);
    const int tidy = number == SIGKILL || (finished ? left == 2 : left == 0 || left == 2);
    const int in_middle = micros >= 0 || number == SIGKILL || left == 0;
    if (begun && (finished || killed) && tidy && in_middle)
        return 1;
    fprintf(plan->out, "faults: FAIL: signal %d %s: exit code %d, %d files left\n", number,
            micros < 0 ? "in the middle of a write" : "at a random time", code, left);
    return 0;
}

int stress_send_signals(const stress_fault_plan *plan)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    stress_child_place place;
    int good = 1, sent = 0;
    uint64_t random = (uint64_t)plan->seed;
    if (!have_place(plan, "signals", &place))
        return -1;
    for (size_t i = 0; good && i < sizeof signals / sizeof *signals; i++) {
        good = send_one(plan, &place, signals[i], -1);
        sent++;
        for (int round = 0; good && round < SIGNAL_ROUNDS; round++, sent++)
            good = send_one(plan, &place, signals[i], (long)(random_next(&random) % 150000));
    }
    stress_child_close(&place);
    if (good)
        fprintf(plan->out, "faults: %d signals in the middle of a write and at random times: right "
                "exit codes, no half file\n", sent);
    return good;
}
