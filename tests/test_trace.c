/* Every stage of the forward pass against the float64 reference: a backend that looks over the CPU
 * backend's shoulder compares the residual stream where the reference wrote it down. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>

#include "tests/model_fixture.h"
#include "engine/session.h"
#include "engine/tower.h"

/* The CPU backend with two operations watched. */
typedef struct {
    fc_cpu_backend cpu;
    fc_backend_ops ops;
    const fc_backend_ops *real;
    const fc_tower *tower;
    const fc_workspace *ws;
    const fc_safetensors *trace;
    double worst;
    int stages;
} watcher;

static void compare(watcher *w, const char *stage)
{
    const fc_tensor *tensor = fc_safetensors_find(w->trace, stage);
    if (!tensor)
        fail_msg("the trace has no %s", stage);
    float *want = malloc(tensor->count * sizeof *want);
    assert_non_null(want);
    assert_int_equal(fc_safetensors_read_f32(w->trace, tensor, 0, tensor->count, want, NULL), 0);
    for (int r = 0; r < w->tower->seq; r++)
        for (int c = 0; c < w->tower->width; c++) {
            const double error =
                fabs(fc_row(w->ws->x, (size_t)r)[c] - want[r * w->tower->width + c]);
            if (!(error <= w->worst))
                w->worst = error;
        }
    free(want);
    w->stages++;
}

static void watched_patch_embed(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                                const void *pixels, fc_pixel_type type, int batch)
{
    watcher *w = (watcher *)be;
    w->real->patch_embed(be, ws, tower, pixels, type, batch);
    compare(w, "ln_pre");
}

static void watched_linear(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *linear,
                           int rows, fc_epilogue epilogue)
{
    watcher *w = (watcher *)be;
    w->real->linear(be, out, in, linear, rows, epilogue);
    for (int i = 0; i + 1 < w->tower->layers; i++)
        if (linear == &w->tower->block[i].fc2) {
            char stage[32];
            snprintf(stage, sizeof stage, "block.%d", i);
            compare(w, stage);
        }
}

static void read_pixels(const char *name, uint8_t *pixels)
{
    fc_safetensors *file;
    assert_int_equal(fc_safetensors_open("tests/data/pixels_openai.safetensors", &file, NULL), 0);
    const fc_tensor *tensor = fc_safetensors_find(file, name);
    assert_non_null(tensor);
    const int fd = open("tests/data/pixels_openai.safetensors", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, pixels, tensor->bytes, (off_t)tensor->offset), tensor->bytes);
    close(fd);
    fc_safetensors_close(file);
}

static void check_trace(const char *name, const char *trace_path)
{
    static uint8_t pixels[224 * 224 * 3];
    flatclip_error err;
    fc_safetensors *trace;
    flatclip_model *model = load_model(name, NULL);
    flatclip_session *session = open_session(model, 1, 1);
    must(fc_safetensors_open(trace_path, &trace, &err), &err);
    read_pixels("cat_420.jpg", pixels);

    watcher w = { session->backend, *session->backend.base.ops, session->backend.base.ops,
                  &model->tower, &session->ws, trace, 0, 0 };
    w.ops.patch_embed = watched_patch_embed;
    w.ops.linear = watched_linear;
    w.cpu.base.ops = &w.ops;
    fc_run_image_tower(&w.cpu.base, &model->tower, &session->ws, pixels, FC_PIXELS_U8, 1, 1);

    printf("%s: %d stages, largest difference %.3g\n", trace_path, w.stages, w.worst);
    assert_int_equal(w.stages, model->tower.layers); /* ln_pre and every block but the last */
    assert_true(w.worst < 1e-4); /* values reach 20, where float32 steps are 2e-6 */
    fc_safetensors_close(trace);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

static void every_stage_of_the_tiny_model_equals_the_reference(void **state)
{
    (void)state;
    check_trace("tiny", "tests/data/trace_tiny.safetensors");
}

static void every_stage_at_full_size_equals_the_reference(void **state)
{
    (void)state;
    if (!have_model("vitb32"))
        skip();
    check_trace("vitb32", "tests/data/trace_vitb32.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_of_the_tiny_model_equals_the_reference),
        cmocka_unit_test(every_stage_at_full_size_equals_the_reference),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
