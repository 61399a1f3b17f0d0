/* The reader of command lines; see command_line.h. */
#include "cli/command_line.h"

#include <stdio.h>
#include <string.h>

#include "cli/suggest.h"
#include "engine/base/error.h"

static int find_long(const fc_option_reader *reader, const char *name, size_t len)
{
    for (int i = 0; i < reader->option_count; i++) {
        const char *known = reader->options[i].name;
        if (strncmp(known, name, len) == 0 && known[len] == '\0')
            return i;
    }
    return FC_OPTION_ERROR;
}

static int find_letter(const fc_option_reader *reader, char letter)
{
    for (int i = 0; i < reader->option_count; i++) {
        if (reader->options[i].letter == letter)
            return i;
    }
    return FC_OPTION_ERROR;
}

static int unknown_long(const fc_option_reader *reader, const char *name, size_t len,
                        flatclip_error *err)
{
    char word[FC_SUGGEST_MAX + 2];
    fc_suggestion near = { word, NULL, 0 };

    snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word), name);
    for (int i = 0; i < reader->option_count; i++) {
        if (reader->options[i].kind != FC_OPTION_LATER)
            fc_suggest(&near, reader->options[i].name);
    }
    if (near.best)
        fc_fail(err, FLATCLIP_ERR_ARGUMENT, "unknown option --%s; did you mean --%s?", word,
                near.best);
    else
        fc_fail(err, FLATCLIP_ERR_ARGUMENT, "unknown option --%s", word);
    return FC_OPTION_ERROR;
}

/* A forgotten value would swallow the option after it: `--batch --quiet`. */
static int looks_like_option(const fc_option_reader *reader, const char *text)
{
    if (strncmp(text, "--", 2) != 0)
        return 0;
    return text[2] == '\0' || find_long(reader, text + 2, strcspn(text + 2, "=")) >= 0;
}

/* Gives option index its value: attached (NULL if there is none) or the next word. */
static int take_value(fc_option_reader *reader, int index, const char *dashed,
                      const char *attached, flatclip_error *err)
{
    const fc_option *option = &reader->options[index];

    reader->value = attached;
    if (option->kind == FC_OPTION_LATER) {
        fc_fail(err, FLATCLIP_ERR_ARGUMENT, "this version has no %s yet", dashed);
        return FC_OPTION_ERROR;
    }
    if (option->kind == FC_OPTION_FLAG) {
        if (!attached)
            return index;
        fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s takes no value, but got \"%s\"", dashed, attached);
        return FC_OPTION_ERROR;
    }
    if (attached)
        return index;
    if (reader->next >= reader->argc || looks_like_option(reader, reader->argv[reader->next])) {
        fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s needs a value: %s", dashed, option->expects);
        return FC_OPTION_ERROR;
    }
    reader->value = reader->argv[reader->next++];
    return index;
}

static int read_long(fc_option_reader *reader, const char *name, flatclip_error *err)
{
    const size_t len = strcspn(name, "=");
    const int index = find_long(reader, name, len);
    char dashed[FC_SUGGEST_MAX + 4];

    if (index < 0)
        return unknown_long(reader, name, len, err);
    snprintf(dashed, sizeof dashed, "--%s", reader->options[index].name);
    return take_value(reader, index, dashed, name[len] == '=' ? name + len + 1 : NULL, err);
}

static int read_short(fc_option_reader *reader, const char *text, flatclip_error *err)
{
    const char dashed[3] = { '-', text[0], '\0' };
    const int index = find_letter(reader, text[0]);

    if (index < 0) {
        fc_fail(err, FLATCLIP_ERR_ARGUMENT, "unknown option %s (in \"-%s\")", dashed, text);
        return FC_OPTION_ERROR;
    }
    return take_value(reader, index, dashed, text[1] ? text + 1 : NULL, err);
}

int fc_option_next(fc_option_reader *reader, flatclip_error *err)
{
    if (reader->next >= reader->argc)
        return FC_OPTION_END;

    const char *text = reader->argv[reader->next++];
    if (!reader->arguments_only && text[0] == '-' && text[1] != '\0') {
        if (text[1] != '-')
            return read_short(reader, text + 1, err);
        if (text[2] != '\0')
            return read_long(reader, text + 2, err);
        reader->arguments_only = 1;
        return fc_option_next(reader, err);
    }
    reader->value = text;
    return FC_OPTION_ARGUMENT;
}

flatclip_status fc_option_number(const fc_option *option, const char *value, uint64_t min,
                                 uint64_t max, uint64_t *number, flatclip_error *err)
{
    uint64_t sum = 0;
    int good = value[0] != '\0';

    for (const char *c = value; *c && good; c++) {
        good = *c >= '0' && *c <= '9' && sum <= (UINT64_MAX - 9) / 10;
        sum = sum * 10 + (uint64_t)(*c - '0');
    }
    if (!good || sum < min || sum > max)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "--%s is \"%.60s\", expected %s", option->name,
                       value, option->expects);
    *number = sum;
    return FLATCLIP_OK;
}

flatclip_status fc_option_word(const fc_option *option, const char *value, const fc_word *words,
                               size_t count, int *found, flatclip_error *err)
{
    fc_suggestion near = { value, NULL, 0 };

    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].word, value) == 0) {
            *found = words[i].value;
            return FLATCLIP_OK;
        }
        fc_suggest(&near, words[i].word);
    }
    if (near.best)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "--%s is \"%.60s\", expected %s; did you mean %s?", option->name, value,
                       option->expects, near.best);
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "--%s is \"%.60s\", expected %s", option->name,
                   value, option->expects);
}
