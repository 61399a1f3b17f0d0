/* json_check.c and json.c: JSON is what RFC 8259 says, within limits; the rest is refused with its
 * place; and what is accepted always becomes a tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"

static const char *const GOOD[] = {
    "{}", "[]", "0", "-0", "12", "\"\"", "null", "true", "false", " \t\r\n{ } \t\r\n",
    "[[],{},[{}]]",
    "{\"a\":1,\"b\":[1,2,{\"a\":null}],\"A\":{\"a\":{}}}", "{\"\":\"\"}",
    "[1.5,-0.25e-3,1E+7,1e99]",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\uD83D\\uDE00\\ud83d\\ude00\\uffff\"",
    "\"\x7f \xc2\x80 \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"",
    "123456789012345678901234567890123456789012345678901234567890", /* 60 digits */
};

static void json_becomes_a_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        cJSON *root;
        flatclip_error err = { FLATCLIP_OK, "" };
        if (fc_json_parse("x", GOOD[i], strlen(GOOD[i]), FC_JSON_ANY_NUMBERS, &root, &err))
            fail_msg("%s: %s", GOOD[i], err.message);
        assert_non_null(root);
        cJSON_Delete(root);
    }
}

static const struct {
    const char *text;
    size_t byte, line;
    const char *what;
} BAD[] = {
    { "", 0, 1, "expected a value" }, { " \n ", 3, 2, "expected a value" },
    { "{", 1, 1, "expected a key" }, { "[", 1, 1, "expected a value" },
    { "[1", 2, 1, "expected ',' or ']'" }, { "{\"a\"", 4, 1, "expected ':'" },
    { "{\"a\":", 5, 1, "expected a value" }, { "{\"a\":1,", 7, 1, "expected a key" },
    { "{\"a\":1,}", 7, 1, "expected a key" }, { "[1,]", 3, 1, "expected a value" },
    { "[1}", 2, 1, "expected ',' or ']'" }, { "{\"a\":1]", 6, 1, "expected ',' or '}'" },
    { "{1:2}", 1, 1, "expected a key" }, { "{\"a\" 1}", 5, 1, "expected ':'" },
    { "[1 2]", 3, 1, "expected ','" }, { "{}\n\n}", 4, 3, "something follows" },
    { "{},", 2, 1, "something follows" }, { "]", 0, 1, "expected a value" },
    { "\xef\xbb\xbf{}", 0, 1, "expected a value" }, { "01", 1, 1, "something follows" },
    { "-", 1, 1, "expected a value" }, { "+1", 0, 1, "expected a value" },
    { ".5", 0, 1, "expected a value" }, { "1.", 2, 1, "expected a digit" },
    { "1e", 2, 1, "expected a digit" }, { "1e+-2", 3, 1, "expected a digit" },
    { "nul", 0, 1, "expected a value" }, { "nulll", 4, 1, "something follows" },
    { "NaN", 0, 1, "expected a value" }, { "'a'", 0, 1, "expected a value" },
    { "\f1", 0, 1, "expected a value" }, { "[1,/**/2]", 3, 1, "expected a value" },
    { "\"a", 2, 1, "ends inside a string" }, { "\"\\", 2, 1, "unknown escape" },
    { "\"\\x41\"", 2, 1, "unknown escape" }, { "\"\\u12", 5, 1, "four hexadecimal" },
    { "\"\\u12g4\"", 5, 1, "four hexadecimal" }, { "\"\\u0000\"", 7, 1, "u0000" },
    { "\"\\ud83d\"", 7, 1, "surrogate" }, { "\"\\ude00\"", 7, 1, "surrogate" },
    { "\"\\ud83d\\ud83d\"", 13, 1, "surrogate" }, { "\"\\ud83dx\"", 7, 1, "surrogate" },
    { "\"a\tb\"", 2, 1, "control character" }, { "\"a\nb\"", 2, 1, "control character" },
    { "\"\x80\"", 1, 1, "not UTF-8" }, { "\"\xc1\xbf\"", 1, 1, "not UTF-8" },
    { "\"\xe0\x9f\xbf\"", 1, 1, "not UTF-8" }, { "\"\xed\xa0\x80\"", 1, 1, "not UTF-8" },
    { "\"\xf0\x8f\xbf\xbf\"", 1, 1, "not UTF-8" }, { "\"\xf4\x90\x80\x80\"", 1, 1, "not UTF-8" },
    { "\"\xf5\x80\x80\x80\"", 1, 1, "not UTF-8" }, { "\"\xe2\x82\"", 1, 1, "not UTF-8" },
    { "\"\xe2\x82", 1, 1, "not UTF-8" },
    { "1234567890123456789012345678901234567890123456789012345678901", 61, 1, "too many digits" },
};

static void what_is_not_json_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        /* A copy of exactly its size, so that a sanitizer sees every byte read beyond it. */
        const size_t bytes = strlen(BAD[i].text);
        char *text = malloc(bytes + !bytes);
        fc_json_fault fault = { 0, 0, "accepted" };
        memcpy(text, BAD[i].text, bytes);
        const int good = fc_json_check(text, bytes, FC_JSON_ANY_NUMBERS, &fault);
        free(text);
        if (good || fault.byte != BAD[i].byte || fault.line != BAD[i].line ||
            !strstr(fault.what, BAD[i].what))
            fail_msg("%s: byte %zu, line %zu: %s", BAD[i].text, fault.byte, fault.line, fault.what);
    }
}

static void a_raw_nul_is_refused_anywhere(void **state)
{
    static const char *const with_nul[] = { "{\"a#b\":1}", "{#}", "{}#", "[1#]", "#", "[\"\\#\"]" };
    (void)state;
    for (size_t i = 0; i < sizeof with_nul / sizeof *with_nul; i++) {
        char text[20];
        fc_json_fault fault;
        const size_t bytes = strlen(with_nul[i]);
        memcpy(text, with_nul[i], bytes);
        *(char *)memchr(text, '#', bytes) = '\0';
        if (fc_json_check(text, bytes, FC_JSON_ANY_NUMBERS, &fault))
            fail_msg("accepted with a NUL for #: %s", with_nul[i]);
    }
}

static void fractions_are_refused_where_numbers_must_be_whole(void **state)
{
    static const char *const fractions[] = { "[1.0]", "[1e2]", "[-1E0]", "{\"a\":0.5}" };
    fc_json_fault fault;
    (void)state;
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        const size_t bytes = strlen(fractions[i]);
        assert_int_equal(fc_json_check(fractions[i], bytes, FC_JSON_ANY_NUMBERS, &fault), 1);
        assert_int_equal(fc_json_check(fractions[i], bytes, FC_JSON_WHOLE_NUMBERS, &fault), 0);
        assert_non_null(strstr(fault.what, "whole numbers"));
    }
    assert_int_equal(fc_json_check("[-1,20]", 7, FC_JSON_WHOLE_NUMBERS, &fault), 1);
}

/* -- Limits ---------------------------------------------------------------------------------- */

/* depth times open, then as often close; nothing is closed where close is 0. */
static char *nest(const char *open, char close, size_t depth, size_t *bytes)
{
    const size_t width = strlen(open);
    char *text = malloc(depth * (width + 1));
    for (size_t i = 0; i < depth; i++)
        memcpy(text + i * width, open, width);
    memset(text + depth * width, close, depth);
    *bytes = depth * (width + (close != 0));
    return text;
}

static void nesting_is_bounded(void **state)
{
    static const struct { const char *open; char close; size_t depth; int good; } cases[] = {
        { "[", ']', FC_JSON_DEPTH, 1 }, { "[", ']', FC_JSON_DEPTH + 1, 0 },
        { "[{\"a\":", 0, 1000000, 0 }, { "[", ']', 5000000, 0 }, { "[", 0, 5000000, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes;
        cJSON *root;
        flatclip_error err = { FLATCLIP_OK, "" };
        char *text = nest(cases[i].open, cases[i].close, cases[i].depth, &bytes);
        const flatclip_status status = fc_json_parse("x", text, bytes, FC_JSON_ANY_NUMBERS, &root,
                                                     &err);
        assert_int_equal(status, cases[i].good ? FLATCLIP_OK : FLATCLIP_ERR_FORMAT);
        if (!cases[i].good)
            assert_non_null(strstr(err.message, "nested too deeply"));
        cJSON_Delete(root);
        free(text);
    }
}

static void the_number_of_values_is_bounded(void **state)
{
    const size_t bytes = 2 * (size_t)FC_JSON_VALUES + 1;
    char *text = malloc(bytes);
    fc_json_fault fault;
    (void)state;
    for (size_t i = 0; i < bytes; i++)
        text[i] = i % 2 ? '0' : ',';
    text[0] = '[';
    text[bytes - 1] = ']'; /* FC_JSON_VALUES numbers, and the array itself is one more */
    assert_int_equal(fc_json_check(text, bytes, FC_JSON_ANY_NUMBERS, &fault), 0);
    assert_string_equal(fault.what, "too many values");
    text[bytes - 3] = ']';
    assert_int_equal(fc_json_check(text, bytes - 2, FC_JSON_ANY_NUMBERS, &fault), 1);
    free(text);
}

/* -- Keys ------------------------------------------------------------------------------------ */

static void expect_keys(const char *text, const char *says)
{
    cJSON *root;
    flatclip_error err = { FLATCLIP_OK, "" };
    const flatclip_status status = fc_json_parse("x.json", text, strlen(text), FC_JSON_ANY_NUMBERS,
                                                 &root, &err);
    assert_int_equal(status, says ? FLATCLIP_ERR_FORMAT : FLATCLIP_OK);
    if (says && (root || !strstr(err.message, says)))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    cJSON_Delete(root);
}

static void a_key_is_there_once_in_an_object(void **state)
{
    (void)state;
    expect_keys("{\"a\":1,\"b\":2,\"a\":3}", "x.json: has the key a twice");
    expect_keys("{\"a\":1,\"\\u0061\":3}", "the key a twice");
    expect_keys("{\"x\":{\"a\":[{\"b\":1,\"c\":2,\"b\":1}]}}", "the key b twice");
    expect_keys("[{},{\"\":1,\"\":1}]", "the key  twice");
    expect_keys("{\"a\":1,\"A\":1,\"x\":{\"a\":1},\"y\":[{\"a\":1},{\"a\":1}]}", NULL);
}

/* A hostile header may hold as many; a comparison of every two would take hours. */
static void hundreds_of_thousands_of_keys_are_no_problem(void **state)
{
    enum { KEYS = 500000 };
    char *text = malloc(KEYS * 16 + 16);
    cJSON *root;
    flatclip_error err = { FLATCLIP_OK, "" };
    (void)state;
    size_t used = 0;
    for (int i = 0; i < KEYS; i++)
        used += (size_t)sprintf(text + used, "%c\"%d\":%d", i ? ',' : '{', i, i % 10);
    const size_t last = used;
    used += (size_t)sprintf(text + used, ",\"%d\":0}", KEYS / 2);
    assert_int_equal(fc_json_parse("x", text, used, FC_JSON_ANY_NUMBERS, &root, &err),
                     FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "the key 250000 twice"));
    text[last] = '}';
    assert_int_equal(fc_json_parse("x", text, last + 1, FC_JSON_ANY_NUMBERS, &root, &err),
                     FLATCLIP_OK);
    cJSON_Delete(root);
    free(text);
}

/* -- Values ---------------------------------------------------------------------------------- */

static void whole_numbers_are_exact_or_refused(void **state)
{
    static const struct { const char *text; int good; uint64_t number; } cases[] = {
        { "0", 1, 0 }, { "-0", 1, 0 }, { "7", 1, 7 }, { "2147483648", 1, 2147483648u },
        { "9007199254740991", 1, 9007199254740991u }, { "9007199254740992", 0, 0 },
        { "9007199254740993", 0, 0 }, { "1e999", 0, 0 }, { "-1", 0, 0 }, { "0.5", 0, 0 },
        { "18446744073709551616", 0, 0 }, { "\"1\"", 0, 0 }, { "[1]", 0, 0 }, { "null", 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *root;
        uint64_t number = 0;
        assert_int_equal(fc_json_parse("x", cases[i].text, strlen(cases[i].text),
                                       FC_JSON_ANY_NUMBERS, &root, NULL), FLATCLIP_OK);
        if (fc_json_whole(root, &number) != cases[i].good || number != cases[i].number)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)number);
        cJSON_Delete(root);
    }
    assert_int_equal(fc_json_whole(NULL, &(uint64_t){ 0 }), 0);
}

static void a_member_is_found_by_its_exact_name_only(void **state)
{
    static const char text[] = "{\"key\":[{\"in\":1}],\"Key\":2}";
    cJSON *root;
    (void)state;
    assert_int_equal(fc_json_parse("x", text, sizeof text - 1, FC_JSON_ANY_NUMBERS, &root, NULL),
                     FLATCLIP_OK);
    assert_true(fc_json_get(root, "Key")->valuedouble == 2);
    assert_null(fc_json_get(root, "KEY"));
    assert_null(fc_json_get(fc_json_get(root, "key"), "in"));
    assert_null(fc_json_get(NULL, "key"));
    cJSON_Delete(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_becomes_a_tree),
        cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
        cmocka_unit_test(a_raw_nul_is_refused_anywhere),
        cmocka_unit_test(fractions_are_refused_where_numbers_must_be_whole),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(the_number_of_values_is_bounded),
        cmocka_unit_test(a_key_is_there_once_in_an_object),
        cmocka_unit_test(hundreds_of_thousands_of_keys_are_no_problem),
        cmocka_unit_test(whole_numbers_are_exact_or_refused),
        cmocka_unit_test(a_member_is_found_by_its_exact_name_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
