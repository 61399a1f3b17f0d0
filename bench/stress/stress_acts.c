/* Random encode calls of every kind, and sessions and models that come and go. */
#define _GNU_SOURCE
#include "bench/stress/stress_acts.h"

#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"

static size_t below(stress_worker *w, size_t limit)
{
    return (size_t)random_next(&w->random) % limit;
}

/* Mostly few images, now and then as many as fit. */
static size_t choose_count(stress_worker *w)
{
    return 1 + below(w, 1 + below(w, w->most));
}

/* Fills chosen; the tests' pictures are good and bad in about equal numbers, so one in two of the
 * bad ones is chosen again. */
static void choose_pictures(stress_worker *w, size_t count)
{
    const stress_pictures *p = w->team->pictures;
    for (size_t i = 0; i < count; i++) {
        w->chosen[i] = below(w, p->count);
        if (p->statuses[w->chosen[i]] != FLATCLIP_OK && below(w, 2))
            w->chosen[i] = below(w, p->count);
        w->paths[i] = p->paths[w->chosen[i]];
        w->bytes[i] = p->bytes[w->chosen[i]];
    }
}

static void fail(stress_worker *w, const char *what, const char *why)
{
    if (!w->failure[0])
        snprintf(w->failure, sizeof w->failure, "%.80s: %.300s", what, why);
}

/* Counts a call's images, and fails the run if the call as a whole was refused. */
static void account(stress_worker *w, const char *what, size_t count, flatclip_status status,
                    const flatclip_error *err)
{
    if (status != FLATCLIP_OK && status != FLATCLIP_ERR_ITEMS)
        fail(w, what, err->message);
    w->images += count;
    for (size_t i = 0; i < count; i++)
        w->refused += w->items[i].status != FLATCLIP_OK;
}

static void check_pictures(stress_worker *w, size_t count)
{
    const stress_pictures *p = w->team->pictures;
    for (size_t i = 0; i < count; i++)
        if (!stress_pictures_agree(p, w->chosen[i], w->items[i].status,
                                   w->rows + i * (size_t)p->dim))
            fail(w, p->paths[w->chosen[i]], "another result than in the beginning");
}

static void encode_files(stress_worker *w, size_t count)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    choose_pictures(w, count);
    account(w, "encode_files", count,
            flatclip_encode_files(w->session, w->paths, count, w->rows, w->items, &err), &err);
    check_pictures(w, count);
}

static void encode_bytes(stress_worker *w, size_t count)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    choose_pictures(w, count);
    account(w, "encode_bytes", count,
            flatclip_encode_bytes(w->session, w->bytes, count, w->rows, w->items, &err), &err);
    check_pictures(w, count);
}

/* A picture that was cut off or in which some bytes are wrong: any item error will do. */
static void encode_damaged(stress_worker *w)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    choose_pictures(w, 1);
    flatclip_bytes broken = { w->damaged, w->bytes[0].bytes };
    memcpy(w->damaged, w->bytes[0].data, broken.bytes);
    for (size_t i = below(w, 8); broken.bytes > 0 && i > 0; i--)
        w->damaged[below(w, broken.bytes)] = (uint8_t)below(w, 256);
    if (broken.bytes > 0 && below(w, 2))
        broken.bytes = below(w, broken.bytes);
    account(w, "encode_bytes", 1,
            flatclip_encode_bytes(w->session, &broken, 1, w->rows, w->items, &err), &err);
}

/* Stops after a random number of results. */
static int take_result(void *left, size_t index, const float *row, const flatclip_error *error)
{
    (void)index;
    (void)row;
    (void)error;
    return (*(size_t *)left)-- == 0;
}

static void encode_each(stress_worker *w, size_t count)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    choose_pictures(w, count);
    size_t left = below(w, 2 * count);
    const flatclip_status status =
        flatclip_encode_files_each(w->session, w->paths, count, take_result, &left, &err);
    if (status != FLATCLIP_OK && status != FLATCLIP_ERR_ITEMS && status != FLATCLIP_ERR_STOPPED)
        fail(w, "encode_files_each", err.message);
    w->images += count;
}

/* Ready pixels, floats, or decoded pictures of random size. */
static void encode_pixels(stress_worker *w, size_t count, size_t kind)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    const int side = flatclip_model_image_size(w->team->model);
    const flatclip_image image = { w->pixels, 1 + (int)below(w, (size_t)side),
                                   1 + (int)below(w, (size_t)side), 0 };
    flatclip_status status;
    if (kind == 0)
        status = flatclip_encode_pixels_u8(w->session, w->pixels, count, w->rows, w->items, &err);
    else if (kind == 1)
        status = flatclip_encode_pixels_f32(w->session, w->floats, count, w->rows, w->items, &err);
    else
        status = flatclip_encode_images(w->session, &image, count = 1, w->rows, w->items, &err);
    account(w, "encode_pixels", count, status, &err);
}

int stress_open_session(stress_worker *w)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = (int)w->team->options->batch;
    options.threads = (int)w->team->options->threads;
    flatclip_session_free(w->session);
    if (flatclip_session_create(w->team->model, &options, &w->session, &err) != FLATCLIP_OK)
        fail(w, "session_create", err.message);
    w->sessions++;
    return w->session != NULL;
}

/* Loads the model once more, for one image in a session of random size, and a file that is none. */
static void open_model(stress_worker *w)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = NULL;
    flatclip_session *session = NULL;
    flatclip_model_options model_options = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    model_options.device = w->team->options->device;
    model_options.threads = options.threads = (int)w->team->options->threads;
    options.max_batch = 1 + (int)below(w, w->most);
    pthread_mutex_lock(&w->team->loading);
    if (flatclip_model_load(w->team->model_path, &model_options, &model, &err) != FLATCLIP_OK ||
        flatclip_session_create(model, &options, &session, &err) != FLATCLIP_OK ||
        flatclip_encode_pixels_u8(session, w->pixels, 1, w->rows, NULL, &err) != FLATCLIP_OK)
        fail(w, "a second model", err.message);
    flatclip_session_free(session);
    flatclip_model_free(model);
    if (w->team->pictures->count > 0 &&
        flatclip_model_load(w->team->pictures->paths[0], NULL, &model, NULL) == FLATCLIP_OK)
        fail(w, w->team->pictures->paths[0], "was loaded as a model");
    pthread_mutex_unlock(&w->team->loading);
    w->models++;
}

/* The founding user's loop. */
static void encode_next(stress_worker *w)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    w->chosen[0] = w->images % w->team->pictures->count;
    w->paths[0] = w->team->pictures->paths[w->chosen[0]];
    account(w, "encode_files", 1,
            flatclip_encode_files(w->session, w->paths, 1, w->rows, w->items, &err), &err);
    check_pictures(w, 1);
}

static void do_everything(stress_worker *w)
{
    if (w->team->pictures->count > 0) {
        encode_files(w, w->most);
        encode_bytes(w, w->most);
        encode_damaged(w);
        encode_each(w, w->most);
    }
    for (size_t kind = 0; kind < 3; kind++)
        encode_pixels(w, w->most, kind);
    open_model(w);
    stress_open_session(w);
}

void stress_act(stress_worker *w)
{
    const size_t count = choose_count(w), dice = below(w, 256);
    if (w->team->options->plain && w->team->pictures->count > 0)
        encode_next(w);
    else if (w->team->tour)
        do_everything(w);
    else if (dice == 0)
        open_model(w);
    else if (dice < 5)
        stress_open_session(w);
    else if (dice < 100 || w->team->pictures->count == 0)
        encode_pixels(w, count, below(w, 3));
    else if (dice < 150)
        encode_bytes(w, count);
    else if (dice < 180)
        encode_damaged(w);
    else if (dice < 200)
        encode_each(w, count);
    else
        encode_files(w, count);
}
