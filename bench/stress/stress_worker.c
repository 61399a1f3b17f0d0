/* A worker's thread and memory; what it does is in stress_acts.c. */
#define _GNU_SOURCE
#include "bench/stress/stress_worker.h"

#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/stress/stress_acts.h"

static void *work(void *argument)
{
    stress_worker *worker = argument;
    stress_team *team = worker->team;
    for (;;) {
        pthread_barrier_wait(&team->begin);
        if (team->stopping)
            return NULL;
        if (!worker->failure[0])
            stress_act(worker);
        pthread_barrier_wait(&team->end);
    }
}

static size_t largest_picture(const stress_pictures *pictures)
{
    size_t most = 1;
    for (size_t i = 0; i < pictures->count; i++)
        most = pictures->bytes[i].bytes > most ? pictures->bytes[i].bytes : most;
    return most;
}

/* Buffers with random content, every page touched. */
static int take_buffers(stress_worker *w)
{
    const size_t side = (size_t)flatclip_model_image_size(w->team->model);
    const size_t picture = side * side * 3, most = w->most;
    const size_t dim = (size_t)flatclip_model_embed_dim(w->team->model);
    w->pixels = malloc(most * picture);
    w->floats = malloc(most * picture * sizeof(float));
    w->rows = calloc(most * dim, sizeof(float));
    w->items = calloc(most, sizeof *w->items);
    w->chosen = calloc(most, sizeof *w->chosen);
    w->paths = calloc(most, sizeof *w->paths);
    w->bytes = calloc(most, sizeof *w->bytes);
    w->damaged = calloc(1, largest_picture(w->team->pictures));
    if (!w->pixels || !w->floats || !w->rows || !w->items || !w->chosen || !w->paths ||
        !w->bytes || !w->damaged)
        return 0;
    for (size_t i = 0; i < most * picture; i++) {
        w->pixels[i] = (uint8_t)random_next(&w->random);
        w->floats[i] = (float)w->pixels[i] / 64 - 2;
    }
    return 1;
}

int stress_worker_start(stress_worker *w, stress_team *team, int index)
{
    *w = (stress_worker){ .team = team, .most = 2 * (size_t)team->options->batch };
    w->random = (uint64_t)team->options->seed * 1000003u + (uint64_t)index * 7919u + 1;
    for (int i = 0; i < 16; i++)
        random_next(&w->random);
    snprintf(w->failure, sizeof w->failure, "no memory or no thread for a worker");
    if (!take_buffers(w))
        return 0;
    if (!stress_open_session(w))
        return 0;
    w->failure[0] = '\0';
    return pthread_create(&w->thread, NULL, work, w) == 0;
}

void stress_worker_join(stress_worker *w)
{
    pthread_join(w->thread, NULL);
}

void stress_worker_free(stress_worker *w)
{
    flatclip_session_free(w->session);
    free(w->pixels);
    free(w->floats);
    free(w->rows);
    free(w->items);
    free(w->chosen);
    free(w->paths);
    free(w->bytes);
    free(w->damaged);
}

void stress_worker_read(const stress_worker *w, stress_reading *reading)
{
    flatclip_memory all = FLATCLIP_MEMORY_INIT, model = FLATCLIP_MEMORY_INIT;
    if (!w->session)
        return;
    flatclip_session_memory(w->session, &all);
    flatclip_model_memory(w->team->model, &model);
    reading->engine += all.total - model.total;
    reading->device += all.device - model.device;
}
