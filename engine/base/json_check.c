/* Whether a text is JSON (RFC 8259).
 *
 * One pass, no recursion and no memory: what is open is one bit a level, object or array. Every
 * check_ function stands at what it checks, moves behind it and returns 1, or names the fault and
 * returns 0. */
#include "engine/base/json_check.h"

#include <stdint.h>
#include <string.h>

#include "engine/base/utf8.h"

typedef struct {
    const char *at, *end;
    const char *fault;
    fc_json_numbers numbers;
    uint64_t objects;       /* lowest bit: whether the innermost open container is an object */
    int depth;
    size_t values;
} scanner;
_Static_assert(FC_JSON_DEPTH <= 64, "one bit a level");

static int refuse(scanner *s, const char *fault)
{
    s->fault = fault;
    return 0;
}

/* The next byte, or 0 at the end: a 0 in the text is an error wherever it stands. */
static char peek(const scanner *s)
{
    return s->at < s->end ? *s->at : '\0';
}

static int take(scanner *s, char c)
{
    if (peek(s) != c)
        return 0;
    s->at++;
    return 1;
}

static void skip_space(scanner *s)
{
    while (take(s, ' ') || take(s, '\n') || take(s, '\r') || take(s, '\t'))
        ;
}

static int take_after_space(scanner *s, char c)
{
    skip_space(s);
    return take(s, c);
}

/* -- Strings --------------------------------------------------------------------------------- */

static int check_code_unit(scanner *s, unsigned *unit)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    *unit = 0;
    if (!take(s, 'u'))
        return refuse(s, "expected \\u");
    for (int i = 0; i < 4; i++) {
        const char *digit = peek(s) ? strchr(digits, peek(s)) : NULL;
        if (!digit)
            return refuse(s, "expected four hexadecimal digits after \\u");
        *unit = *unit << 4 | (unsigned)((digit - digits) & 15);
        s->at++;
    }
    return 1;
}

/* Stands behind the backslash. */
static int check_escape(scanner *s)
{
    unsigned unit, second = 0;
    if (peek(s) && strchr("\"\\/bfnrt", peek(s))) {
        s->at++;
        return 1;
    }
    if (peek(s) != 'u')
        return refuse(s, "unknown escape in a string");
    if (!check_code_unit(s, &unit))
        return 0;
    if (unit == 0)
        return refuse(s, "\\u0000 in a string");
    if (unit < 0xd800 || unit > 0xdfff)
        return 1;
    if (unit > 0xdbff || !take(s, '\\') || !check_code_unit(s, &second) || second < 0xdc00 ||
        second > 0xdfff)
        return refuse(s, "half of a surrogate pair in a string");
    return 1;
}

static int check_string(scanner *s)
{
    if (!take(s, '"'))
        return refuse(s, "expected a string");
    while (!take(s, '"')) {
        if (take(s, '\\')) {
            if (!check_escape(s))
                return 0;
            continue;
        }
        if (s->at == s->end)
            return refuse(s, "the text ends inside a string");
        if ((unsigned char)*s->at < ' ')
            return refuse(s, "control character in a string");
        const size_t bytes = fc_utf8_bytes(s->at, (size_t)(s->end - s->at));
        if (!bytes)
            return refuse(s, "not UTF-8");
        s->at += bytes;
    }
    return 1;
}

/* -- Other values ---------------------------------------------------------------------------- */

static int take_digits(scanner *s)
{
    const char *start = s->at;
    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return s->at > start;
}

static int check_number(scanner *s)
{
    const char *start = s->at;
    take(s, '-');
    if (!take(s, '0') && !take_digits(s))
        return refuse(s, "expected a value");
    const char *whole_end = s->at;
    if (take(s, '.') && !take_digits(s))
        return refuse(s, "expected a digit");
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+'))
            take(s, '-');
        if (!take_digits(s))
            return refuse(s, "expected a digit");
    }
    if (s->numbers == FC_JSON_WHOLE_NUMBERS && s->at > whole_end)
        return refuse(s, "a number with fraction or exponent, expected whole numbers only");
    if (s->at - start > FC_JSON_NUMBER_BYTES)
        return refuse(s, "a number of too many digits");
    return 1;
}

static int take_word(scanner *s, const char *word)
{
    const size_t bytes = strlen(word);
    if ((size_t)(s->end - s->at) < bytes || memcmp(s->at, word, bytes))
        return 0;
    s->at += bytes;
    return 1;
}

static int check_scalar(scanner *s)
{
    if (peek(s) == '"')
        return check_string(s);
    return take_word(s, "true") || take_word(s, "false") || take_word(s, "null") ||
           check_number(s);
}

/* -- All together ---------------------------------------------------------------------------- */

/* Takes the bracket that opens an object or array, if one is next. */
static int take_opening(scanner *s)
{
    const int is_object = take_after_space(s, '{');
    if (!is_object && !take(s, '['))
        return 0;
    s->objects = s->objects << 1 | (unsigned)is_object;
    s->depth++;
    return 1;
}

/* Takes the bracket that closes the innermost container, if it is next. */
static int take_closing(scanner *s)
{
    if (!s->depth || !take_after_space(s, s->objects & 1 ? '}' : ']'))
        return 0;
    s->objects >>= 1;
    s->depth--;
    return 1;
}

static int check_key(scanner *s)
{
    skip_space(s);
    if (peek(s) != '"')
        return refuse(s, "expected a key in quotes");
    return check_string(s) && (take_after_space(s, ':') || refuse(s, "expected ':'"));
}

/* One value with all that it contains. */
static int check_value(scanner *s)
{
    for (;;) {
        if (s->depth && s->objects & 1 && !check_key(s))
            return 0;
        if (++s->values > FC_JSON_VALUES)
            return refuse(s, "too many values");
        if (take_opening(s)) {
            if (s->depth > FC_JSON_DEPTH)
                return refuse(s, "nested too deeply");
            if (!take_closing(s))
                continue;
        } else if (!check_scalar(s)) {
            return 0;
        }
        while (take_closing(s))
            ;
        if (!s->depth)
            return 1;
        if (!take(s, ','))
            return refuse(s, s->objects & 1 ? "expected ',' or '}'" : "expected ',' or ']'");
    }
}

int fc_json_check(const char *text, size_t bytes, fc_json_numbers numbers, fc_json_fault *fault)
{
    scanner s = { .at = text, .end = text + bytes, .numbers = numbers };
    if (check_value(&s)) {
        skip_space(&s);
        if (s.at == s.end)
            return 1;
        s.fault = "something follows the end";
    }
    fault->what = s.fault;
    fault->byte = (size_t)(s.at - text);
    fault->line = 1;
    for (const char *c = text; c < s.at; c++)
        fault->line += *c == '\n';
    return 0;
}
