/* pickle.c and torch_state.c: what torch wrote is read as it was meant, and nothing that a hostile
 * pickle asks for happens, overflows or takes more than a set amount of memory. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/torch_builder.h"
#include "weights_tools/torch_state.h"

/* Written by torch.save (2.15); tests/data/LICENSES says of what. */
#define SEEDS "tests/fuzz/corpus/pickle/"

/* -- Helpers --------------------------------------------------------------------------------- */

static unsigned char *read_seed(const char *name, size_t *bytes)
{
    char path[200];
    snprintf(path, sizeof path, SEEDS "%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

static fc_pickle *read_good(const char *name)
{
    fc_pickle *pickle;
    size_t bytes, used;
    flatclip_error err;
    unsigned char *data = read_seed(name, &bytes);
    if (fc_pickle_read(name, data, bytes, &pickle, &used, &err) != FLATCLIP_OK)
        fail_msg("%s", err.message);
    memset(data, 0xff, bytes); /* nothing of it may be needed any more */
    free(data);
    return pickle;
}

static void expect_refusal(const void *data, size_t bytes, const char *says)
{
    fc_pickle *pickle;
    size_t used;
    flatclip_error err = { FLATCLIP_OK, "" };
    fc_torch_state state;
    flatclip_status status = fc_pickle_read("some.pt", data, bytes, &pickle, &used, &err);
    if (status == FLATCLIP_OK) {
        status = fc_torch_state_read("some.pt", fc_pickle_root(pickle), &state, &err);
        fc_pickle_close(pickle);
    }
    if (status == FLATCLIP_OK)
        fail_msg("accepted, expected: %s", says);
    if (!strstr(err.message, says) || !strstr(err.message, "some.pt"))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}
#define EXPECT_REFUSAL(literal, says) expect_refusal(literal, sizeof(literal) - 1, says)

static const fc_pickle_value *find(const fc_torch_state *state, const char *name)
{
    for (size_t i = 0; i < state->count; i++)
        if (!strcmp(state->tensor[i].name, name))
            return state->tensor[i].value;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* -- What torch writes ----------------------------------------------------------------------- */

static void every_protocol_gives_the_same_tensors(void **unused)
{
    static const struct {
        const char *name;
        fc_dtype dtype;
        uint64_t elements, offset;
        int rank;
        uint64_t dim[2], stride[2];
    } expected[] = {
        { "a", FC_F32, 6, 0, 2, { 2, 3 }, { 3, 1 } },
        { "b", FC_F32, 6, 0, 2, { 3, 2 }, { 1, 3 } },  /* transposed, of the same storage */
        { "c", FC_F16, 6, 0, 2, { 2, 3 }, { 3, 1 } },  /* a Parameter */
        { "d", FC_BF16, 6, 3, 2, { 1, 3 }, { 3, 1 } }, /* a slice */
        { "e", FC_F64, 6, 0, 2, { 2, 3 }, { 3, 1 } },
        { "f", FC_I64, 1, 0, 0, { 0 }, { 0 } },
        { "g", FC_BOOL, 2, 0, 1, { 2 }, { 1 } },
    };
    static const char *const files[] = { "small_p2", "small_p3", "small_p4", "small_p5" };
    (void)unused;
    for (size_t f = 0; f < 4; f++) {
        fc_pickle *pickle = read_good(files[f]);
        fc_torch_state state;
        size_t storages;
        assert_int_equal(fc_torch_state_read("x", fc_pickle_root(pickle), &state, NULL),
                         FLATCLIP_OK);
        assert_int_equal(state.count, sizeof expected / sizeof *expected);
        for (size_t i = 0; i < state.count; i++) {
            const fc_pickle_value *tensor = find(&state, expected[i].name);
            assert_string_equal(state.tensor[i].name, expected[i].name); /* in their order */
            assert_int_equal(tensor->storage->dtype, expected[i].dtype);
            assert_int_equal(tensor->storage->elements, expected[i].elements);
            assert_int_equal(tensor->offset, expected[i].offset);
            assert_int_equal(tensor->rank, expected[i].rank);
            for (int d = 0; d < tensor->rank; d++) {
                assert_int_equal(tensor->dim[d], expected[i].dim[d]);
                assert_int_equal(tensor->stride[d], expected[i].stride[d]);
            }
        }
        assert_string_equal(find(&state, "a")->storage->text, find(&state, "b")->storage->text);
        assert_string_equal(state.left_out, "");
        fc_pickle_storages(pickle, &storages);
        assert_int_equal(storages, 7);
        fc_torch_state_free(&state);
        fc_pickle_close(pickle);
    }
}

static void a_training_checkpoint_is_unwrapped(void **unused)
{
    fc_pickle *pickle = read_good("training");
    fc_torch_state state;
    (void)unused;
    assert_int_equal(fc_torch_state_read("x", fc_pickle_root(pickle), &state, NULL), FLATCLIP_OK);
    assert_int_equal(state.count, 2);
    assert_string_equal(state.tensor[0].name, "weight");
    assert_string_equal(state.tensor[1].name, "bias");
    assert_string_equal(state.left_out, "optimizer, size, big, neg, f, n, l");
    fc_torch_state_free(&state);

    const fc_pickle_value *root = fc_pickle_root(pickle); /* and all else was read, too */
    for (size_t i = 0; i < root->count; i += 2) {
        const char *key = root->item[i]->text;
        const fc_pickle_value *value = root->item[i + 1];
        if (!strcmp(key, "big"))
            assert_true(value->kind == FC_PICKLE_LONG && value->length == 13);
        if (!strcmp(key, "neg"))
            assert_true(value->kind == FC_PICKLE_INT && value->integer == -5);
        if (!strcmp(key, "f"))
            assert_true(value->kind == FC_PICKLE_FLOAT && value->real == 1.5);
        if (!strcmp(key, "l"))
            assert_true(value->kind == FC_PICKLE_LIST && value->count == 2 &&
                        value->item[1]->kind == FC_PICKLE_TUPLE && value->item[1]->count == 2);
        if (!strcmp(key, "size"))
            assert_true(value->kind == FC_PICKLE_TUPLE && value->item[1]->integer == 3);
    }
    fc_pickle_close(pickle);
}

static void torchscript_objects_become_dotted_names(void **unused)
{
    fc_pickle *pickle = read_good("openai_jit_fp16.pt.pkl");
    fc_torch_state state;
    (void)unused;
    assert_int_equal(fc_pickle_root(pickle)->kind, FC_PICKLE_BAG);
    assert_string_equal(fc_pickle_root(pickle)->text, "Deployed");
    assert_int_equal(fc_torch_state_read("x", fc_pickle_root(pickle), &state, NULL), FLATCLIP_OK);
    const fc_pickle_value *tensor =
        find(&state, "visual.transformer.resblocks.0.attn.in_proj_weight");
    assert_int_equal(tensor->storage->dtype, FC_F16);
    assert_int_equal(tensor->dim[0], 192);
    assert_int_equal(find(&state, "input_resolution")->storage->dtype, FC_I64);
    fc_torch_state_free(&state);
    fc_pickle_close(pickle);
}

/* -- Hostile pickles ------------------------------------------------------------------------- */

static void names_that_no_weights_need_are_refused(void **unused)
{
    (void)unused;
    EXPECT_REFUSAL("\x80\x02" "cposix\nsystem\nX\4\0\0\0true\x85R.", "asks for posix.system");
    EXPECT_REFUSAL("\x80\x04\x8c\2os\x8c\6system\x93.", "asks for os.system");
    EXPECT_REFUSAL("\x80\x02" "cbuiltins\neval\n.", "asks for builtins.eval");
    EXPECT_REFUSAL("\x80\x02" "cnumpy.core.multiarray\nscalar\n.", "numpy.core.multiarray.scalar");
    EXPECT_REFUSAL("\x80\x02" "ctorch\nload\n.", "asks for torch.load");
    EXPECT_REFUSAL("\x80\x02" "ctorch\nComplexFloatStorage\n.", "numbers as torch.ComplexFloat");
    EXPECT_REFUSAL("\x80\x02" "ctorch._utils\n_rebuild_qtensor\n.", "_rebuild_qtensor");
    EXPECT_REFUSAL("\x80\x02" "c__torch__x\nM\n.", "asks for __torch__x.M");
    EXPECT_REFUSAL("\x80\x02" "cargparse\nNamespace\n)\x81.", "torch.save(model.state_dict()");
}

static void misuse_of_stack_and_memo_is_refused(void **unused)
{
    (void)unused;
    EXPECT_REFUSAL("", "ends early");
    EXPECT_REFUSAL("\x80\x02", "ends early");
    EXPECT_REFUSAL("\x80\x02.", "from the stack where there is none");
    EXPECT_REFUSAL("\x80\x02NN.", "ends with 1 values left over");
    EXPECT_REFUSAL("\x80\x09N.", "protocol later than 5");
    EXPECT_REFUSAL("\x80\x02h\5.", "recalls value number 5");
    EXPECT_REFUSAL("\x80\x02Nr\xff\xff\xff\xff.", "number 4294967295 after 0 others");
    EXPECT_REFUSAL("\x80\x02t.", "goes back to a mark");
    EXPECT_REFUSAL("\x80\x02(q\0.", "from the stack where there is none");
    EXPECT_REFUSAL("\x80\x02(Na.", "from the stack where there is none");
    EXPECT_REFUSAL("\x80\x02NNa.", "adds items to what is no list");
    EXPECT_REFUSAL("\x80\x02]NNs.", "adds items to what is no dict");
    EXPECT_REFUSAL("\x80\x02}(Nu.", "a key without a value");
    EXPECT_REFUSAL("\x80\x02(Nd.", "a key without a value");
    EXPECT_REFUSAL("\x80\x02N)R.", "calls what is no name");
    EXPECT_REFUSAL("\x80\x02" "ctorch\nFloatStorage\n)R.", "which is a type of numbers");
    EXPECT_REFUSAL("\x80\x02NNb.", "gives a state to what can have none");
    EXPECT_REFUSAL("\x80\x02NQ.", "a persistent id that is no storage");
    EXPECT_REFUSAL("\x80\x02(I1\nt.", "opcode 'I' of protocol 0");
    EXPECT_REFUSAL("\x80\x02\x82\1.", "opcode 0x82");
    EXPECT_REFUSAL("\x80\x02X\xff\xff\xff\xff" "abc.", "ends early");
    EXPECT_REFUSAL("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "ends early");
}

static void absurd_tensors_are_refused(void **unused)
{
    static const struct {
        tensor_builder tensor;
        const char *says;
    } bad[] = {
        { { "FloatStorage", "0", 8, 0, 1, { 9 }, { 1 } }, "outside its storage 0 of 8 elements" },
        { { "FloatStorage", "0", 8, 5, 2, { 2, 2 }, { 2, 1 } }, "outside its storage" },
        { { "FloatStorage", "0", 8, 9, 1, { 0 }, { 1 } }, "outside its storage" },
        { { "FloatStorage", "0", 8, 7, 2, { 2, 2 }, { -2, 1 } }, "stride is negative" },
        { { "FloatStorage", "0", 8, 0, 1, { -1 }, { 1 } }, "size is negative" },
        { { "FloatStorage", "0", 8, -1, 1, { 1 }, { 1 } }, "rebuilds a tensor from what is no" },
        { { "FloatStorage", "0", 8, 0, 1, { INT64_MAX }, { 0 } }, "absurd size" },
        { { "FloatStorage", "0", 8, 0, 2, { 1 << 30, 1 << 30 }, { 0, 0 } }, "absurd size" },
        { { "FloatStorage", "0", 8, 0, 1, { 2 }, { INT64_MAX } }, "absurd size" },
        { { "FloatStorage", "0", 8, INT64_MAX, 1, { 1 }, { 1 } }, "absurd size" },
        { { "FloatStorage", "0", INT64_MAX, 0, 1, { 1 }, { 1 } }, "persistent id" },
        { { "FloatStorage", "", 8, 0, 1, { 1 }, { 1 } }, "persistent id" },
    };
    const char *name = "w";
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pickle_builder pickle = { .bytes = 0 };
        pickle_state(&pickle, &name, &bad[i].tensor, 1, 0);
        expect_refusal(pickle.data, pickle.bytes, bad[i].says);
    }
    EXPECT_REFUSAL("\x80\x02" "ctorch._utils\n_rebuild_tensor_v2\n(((tQK\0))t)R.", "persistent");
    EXPECT_REFUSAL("\x80\x02" "ctorch._utils\n_rebuild_parameter\n(N\x89Nt)R.", "calls what is no");
}

/* l1 = (l0, l0), l2 = (l1, l1), ...: 2^40 values in a few bytes, as objects whose attributes they
 * are; and an object that is its own attribute. */
static void what_refers_to_itself_ends_quickly(void **unused)
{
    unsigned char data[4096];
    size_t bytes;
    (void)unused;
    unsigned char *seed = read_seed("bag_dag", &bytes);
    expect_refusal(seed, bytes, "over 200000 attributes");
    free(seed);
    seed = read_seed("bag_self", &bytes);
    expect_refusal(seed, bytes, "nested over 64 deep");
    free(seed);
    EXPECT_REFUSAL("\x80\x02}q\0X\5\0\0\0modelh\0s.", "no state dict");
    EXPECT_REFUSAL("\x80\x02]q\0h\0a.", "it is no dict");
    EXPECT_REFUSAL("\x80\x02}.", "it is empty");
    bytes = 0; /* nested 2,000 deep: the reader itself does not recurse */
    data[bytes++] = 0x80;
    data[bytes++] = 2;
    for (int i = 0; i < 2000; i++)
        data[bytes++] = ']';
    for (int i = 0; i < 1999; i++)
        data[bytes++] = 'a';
    data[bytes++] = '.';
    expect_refusal(data, bytes, "it is no dict");
}

/* Bytes that each make a value, until the limit of 48 MiB: the pickle is refused, not the machine's
 * memory used up. */
static void memory_is_bounded(void **unused)
{
    const size_t bytes = 8 << 20;
    static const char fillers[] = { ']', 'N', '(' };
    static const char *const says[] = { "over 48 MiB", "over 48 MiB", "stacks over 1048576" };
    unsigned char *data = malloc(bytes);
    (void)unused;
    for (int i = 0; i < 3; i++) {
        memset(data, fillers[i], bytes);
        expect_refusal(data, bytes, says[i]);
    }
    free(data);
}

static void every_truncation_is_refused(void **unused)
{
    static const char *const names[] = { "openai_jit_fp16.pt.pkl", "hf_pytorch_model.bin.pkl",
                                         "small_p5", "training" };
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        size_t bytes;
        unsigned char *data = read_seed(names[i], &bytes);
        for (size_t length = 0; length < bytes; length++) {
            unsigned char *cut = malloc(length ? length : 1); /* so that an overrun is seen */
            memcpy(cut, data, length);
            expect_refusal(cut, length, "some.pt: the pickle");
            free(cut);
        }
        free(data);
    }
}

/* One byte after the other takes every value that is near to it, and some at random: a crash, an
 * overrun or a leak is what this looks for. */
static void changed_bytes_do_no_harm(void **unused)
{
    size_t bytes;
    uint32_t random = 1;
    unsigned char *data = read_seed("small_p4", &bytes);
    (void)unused;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char before = data[i];
        for (int k = 0; k < 16; k++) {
            fc_pickle *pickle;
            fc_torch_state state;
            size_t used;
            random = random * 1664525 + 1013904223;
            data[i] = k < 8 ? before ^ (unsigned char)(1 << k) : (unsigned char)(random >> 24);
            if (fc_pickle_read("x", data, bytes, &pickle, &used, NULL) != FLATCLIP_OK)
                continue;
            if (fc_torch_state_read("x", fc_pickle_root(pickle), &state, NULL) == FLATCLIP_OK)
                fc_torch_state_free(&state);
            fc_pickle_close(pickle);
        }
        data[i] = before;
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_protocol_gives_the_same_tensors),
        cmocka_unit_test(a_training_checkpoint_is_unwrapped),
        cmocka_unit_test(torchscript_objects_become_dotted_names),
        cmocka_unit_test(names_that_no_weights_need_are_refused),
        cmocka_unit_test(misuse_of_stack_and_memo_is_refused),
        cmocka_unit_test(absurd_tensors_are_refused),
        cmocka_unit_test(what_refers_to_itself_ends_quickly),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
