/* `flatclip fetch` against a server on this machine: what comes is the right file or nothing,
 * breaks are mended, and each failure says what to do. */
#define _GNU_SOURCE
#include "tests/test_cli_process.h"

#include <dirent.h>

#include "tests/http_server.h"
#include "tests/test_certificate.h"
#include "weights_tools/registry.h"
#include "weights_tools/sha256.h"

#define CHECKPOINT "tests/data/checkpoints/openai_jit_fp16.pt"
static const char MICRO[] = "7228987683a38e223515706651e7fa3bb12199b5c1ee9dacb0a4c1df167efbae";

typedef struct {
    cli_world cli;              /* first: the world's own functions take it */
    http_server server;
    char *body, url[SERVER_URL], sha256[65];
    size_t bytes;
    const char *model;
} fetch_world;

static int open_fetch_world(void **state)
{
    fetch_world *world = calloc(1, sizeof *world);
    void *cli;
    static const char *const variables[] = { "http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                             "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE" };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    if (!world || open_world(&cli) != 0)
        return -1;
    world->cli = *(cli_world *)cli;
    free(cli);
    world->body = read_whole(CHECKPOINT, &world->bytes);
    if (!world->body || fc_sha256_file(CHECKPOINT, world->sha256, NULL) != FLATCLIP_OK ||
        start_server(&world->server, world->body, world->bytes, NULL))
        return -1;
    server_url(&world->server, "weights/ViT.pt", world->url);
    world->model = in_folder(&world->cli, "model.safetensors");
    *state = world;
    return 0;
}

static int close_fetch_world(void **state)
{
    fetch_world *world = *state;
    stop_server(&world->server);
    free(world->body);
    const int failed = remove_tree(world->cli.folder);
    fc_path_list_free(&world->cli.paths);
    free(world->cli.out);
    free(world->cli.err);
    free(world);
    return failed;
}

static int fetch(fetch_world *world)
{
    return RUN(&world->cli, "fetch", "--url", world->url, "--sha256", world->sha256, "-o",
               world->model, "--quiet");
}

/* The fetch fails with these words, and leaves no model. */
static void expect_failure(fetch_world *world, const char *says)
{
    assert_int_equal(fetch(world), 3);
    assert_contains(world->cli.err, says);
    assert_missing(world->model);
}

/* Every entry of the cache but the test's own files: the download's folder and lock. */
static int leftovers(fetch_world *world)
{
    int count = 0;
    DIR *folder = opendir(world->cli.folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += !strncmp(entry->d_name, "download-", 9);
    closedir(folder);
    return count;
}

/* -- Good downloads --------------------------------------------------------------------------- */

static void a_file_is_fetched_checked_and_converted(void **state)
{
    fetch_world *world = *state;
    if (fetch(world) != 0)
        fail_msg("%s", world->cli.err);
    assert_contains(world->cli.out, MICRO);
    assert_contains(world->cli.out, "its own code computes x * sigmoid(1.702 x)");
    assert_int_equal(world->server.requests, 1);
    assert_string_equal(world->server.last_target, "/weights/ViT.pt");
    assert_int_equal(leftovers(world), 0);
    assert_int_equal(RUN(&world->cli, "info", world->model), 0);
    assert_contains(world->cli.out, "ViT.pt"); /* the source's name is in the model */
    assert_contains(world->cli.out, world->sha256);

    assert_int_equal(fetch(world), 0); /* again: nothing to do, and nobody is asked */
    assert_contains(world->cli.out, "is there already");
    assert_int_equal(world->server.requests, 1);
}

static void what_is_there_and_is_another_model_is_not_replaced(void **state)
{
    fetch_world *world = *state;
    copy_file(world->cli.model, world->model);
    assert_int_equal(fetch(world), 3);
    assert_contains(world->cli.err, "is there, but is not what is asked for");
    assert_contains(world->cli.err, "--force");
    assert_int_equal(world->server.requests, 0);
    assert_int_equal(RUN(&world->cli, "fetch", "--url", world->url, "--sha256", world->sha256, "-o",
                         world->model, "--force", "--quiet"), 0);
    assert_contains(world->cli.out, MICRO);
}

static void the_download_is_kept_when_asked(void **state)
{
    fetch_world *world = *state;
    assert_int_equal(RUN(&world->cli, "fetch", "--url", world->url, "--sha256", world->sha256, "-o",
                         world->model, "--keep", "--quiet"), 0);
    assert_contains(world->cli.out, "download    kept as ");
    assert_int_equal(leftovers(world), 1);
    unlink(world->model);
    assert_int_equal(fetch(world), 0); /* from what was kept */
    assert_int_equal(world->server.requests, 1);
}

static void a_broken_download_goes_on_where_it_stopped(void **state)
{
    fetch_world *world = *state;
    world->server.cut_at = 300000;
    expect_failure(world, "run it again to go on");
    expect_failure(world, "600000 bytes are kept");
    assert_int_equal(world->server.last_range, 300000);
    world->server.cut_at = -1;
    assert_int_equal(fetch(world), 0);
    assert_int_equal(world->server.last_range, 600000);
    assert_contains(world->cli.out, MICRO);
    assert_int_equal(leftovers(world), 0);
}

static void a_server_that_cannot_go_on_starts_anew(void **state)
{
    fetch_world *world = *state;
    world->server.cut_at = 300000;
    expect_failure(world, "run it again to go on");
    world->server.cut_at = -1;
    world->server.ignores_ranges = 1;
    assert_int_equal(fetch(world), 0);
    assert_contains(world->cli.out, MICRO);
    unlink(world->model);
    world->server.ignores_ranges = 0;
    world->server.cut_at = 300000;
    expect_failure(world, "run it again to go on");
    world->server.cut_at = -1;
    world->server.wrong_range = 7; /* a part that begins elsewhere is never appended */
    const int before = world->server.requests;
    assert_int_equal(fetch(world), 0);
    assert_contains(world->cli.out, MICRO);
    assert_int_equal(world->server.requests, before + 2);
}

/* The process dies in the middle: no lock stays behind, and the next goes on. */
static void a_killed_download_goes_on(void **state)
{
    fetch_world *world = *state;
    world->server.cut_at = 500000;
    world->server.pause_ms = 0;
    expect_failure(world, "500000 bytes are kept");
    world->server.pause_ms = 3000;
    const pid_t pid = start_cli(&world->cli, NULL, NULL,
                                ARGUMENTS("fetch", "--url", world->url, "--sha256", world->sha256,
                                          "-o", world->model, "--quiet"));
    usleep(500000);
    kill(pid, SIGKILL);
    wait_cli(&world->cli, pid);
    world->server.pause_ms = 0;
    world->server.cut_at = -1;
    assert_int_equal(fetch(world), 0);
    assert_int_equal(world->server.last_range, 500000);
    assert_int_equal(leftovers(world), 0);
}

static void two_processes_fetch_once(void **state)
{
    fetch_world *world = *state;
    world->server.pause_ms = 700;
    const char *const *arguments = ARGUMENTS("fetch", "--url", world->url, "--sha256",
                                             world->sha256, "-o", world->model);
    const char *second_out = in_folder(&world->cli, "second");
    const pid_t first = start_cli(&world->cli, NULL, NULL, arguments);
    const pid_t second = start_cli(&world->cli, NULL, second_out, arguments);
    assert_int_equal(wait_cli(&world->cli, first), 0);
    int status;
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_int_equal(status, 0);
    assert_int_equal(world->server.requests, 1);
    assert_int_equal(leftovers(world), 0);
    char *other = read_whole(second_out, NULL); /* one of them found it there */
    assert_true(!strstr(world->cli.out, "already") != !strstr(other, "already"));
    free(other);
}

static void redirects_are_followed(void **state)
{
    fetch_world *world = *state;
    http_server first;
    char url[SERVER_URL];
    assert_int_equal(start_server(&first, "", 0, NULL), 0);
    first.status = 302;
    snprintf(first.redirect, sizeof first.redirect, "%s", world->url);
    assert_int_equal(RUN(&world->cli, "fetch", "--url", server_url(&first, "a", url), "--sha256",
                         world->sha256, "-o", world->model, "--quiet"), 0);
    assert_contains(world->cli.out, MICRO);
    stop_server(&first);
}

static void proxies_are_used(void **state)
{
    fetch_world *world = *state;
    char proxy[SERVER_URL];
    server_url(&world->server, "", proxy);
    setenv("http_proxy", proxy, 1);
    assert_int_equal(RUN(&world->cli, "fetch", "--url", "http://weights.invalid/ViT.pt", "--sha256",
                         world->sha256, "-o", world->model, "--quiet"), 0);
    assert_string_equal(world->server.last_target, "http://weights.invalid/ViT.pt");
    unsetenv("http_proxy");
}

/* -- Failures --------------------------------------------------------------------------------- */

static void another_file_is_never_converted(void **state)
{
    fetch_world *world = *state;
    world->body[world->bytes / 2] ^= 1;
    expect_failure(world, "wrong checksum: sha256 ");
    assert_contains(world->cli.err, world->sha256);
    assert_int_equal(leftovers(world), 0); /* it is not kept, either */
    world->body[world->bytes / 2] ^= 1;
    assert_int_equal(fetch(world), 0);
}

static void a_body_that_ends_early_is_noticed_without_its_length(void **state)
{
    fetch_world *world = *state;
    world->server.hides_length = 1;
    world->server.cut_at = 1000;
    expect_failure(world, "wrong checksum");
}

static void answers_of_the_server_are_explained(void **state)
{
    static const struct {
        int status;
        const char *says;
    } bad[] = {
        { 404, "the server answers 404: there is no such file; check the address" },
        { 403, "answers 403: it does not give this file to everybody" },
        { 429, "answers 429: it is busy; try again later" },
        { 503, "answers 503: it is in trouble; try again later" },
        { 407, "the proxy wants a password" },
    };
    fetch_world *world = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        world->server.status = bad[i].status;
        expect_failure(world, bad[i].says);
    }
    world->server.status = 302; /* to itself */
    snprintf(world->server.redirect, SERVER_URL, "%s", world->url);
    const int before = world->server.requests;
    expect_failure(world, "more than 5 redirects");
    assert_int_equal(world->server.requests, before + 6);
}

static void files_over_the_limit_are_refused_before_they_come(void **state)
{
    fetch_world *world = *state;
    assert_int_equal(RUN(&world->cli, "fetch", "--url", world->url, "--sha256", world->sha256, "-o",
                         world->model, "--max-bytes", "100000", "--quiet"), 3);
    assert_contains(world->cli.err, "is too large");
    world->server.hides_length = 1; /* then while they come */
    assert_int_equal(RUN(&world->cli, "fetch", "--url", world->url, "--sha256", world->sha256, "-o",
                         world->model, "--max-bytes", "100000", "--quiet"), 3);
    assert_contains(world->cli.err, "the limit is 100000");
    assert_missing(world->model);
}

/* A file that the table knows must have its length; this one has another. */
static void a_known_file_of_another_length_is_refused(void **state)
{
    fetch_world *world = *state;
    assert_int_equal(RUN(&world->cli, "fetch", "openai/ViT-B-32", "--url", world->url, "-o",
                         world->model, "--quiet"), 3);
    assert_contains(world->cli.err, "were expected: it is another file");
    assert_missing(world->model);
}

static void no_network_is_explained(void **state)
{
    fetch_world *world = *state;
    setenv("https_proxy", "http://127.0.0.1:1", 1);
    assert_int_equal(RUN(&world->cli, "fetch", "--quiet"), 3);
    assert_contains(world->cli.err, "cannot reach https://openaipublic.azureedge.net");
    assert_contains(world->cli.err, "Check the network; behind a proxy, set https_proxy");
    unsetenv("https_proxy");
    assert_int_equal(RUN(&world->cli, "fetch", "--url", "http://127.0.0.1:1/x", "--sha256",
                         world->sha256, "-o", world->model, "--quiet"), 3);
    assert_contains(world->cli.err, "cannot reach http://127.0.0.1:1/x");
}

static void a_cache_that_cannot_be_written_is_explained(void **state)
{
    fetch_world *world = *state;
    setenv("FLATCLIP_CACHE", "/dev/null/cache", 1);
    expect_failure(world, "set FLATCLIP_CACHE to a folder");
    setenv("FLATCLIP_CACHE", world->cli.folder, 1);
    assert_int_equal(RUN(&world->cli, "fetch", "--url", world->url, "--sha256", world->sha256, "-o",
                         in_folder(&world->cli, "nowhere/m.safetensors"), "--quiet"), 3);
    assert_contains(world->cli.err, "make the folder first");
    assert_int_equal(world->server.requests, 0); /* before anything is downloaded */
}

static void wrong_command_lines_are_refused(void **state)
{
    cli_world *cli = &((fetch_world *)*state)->cli;
    assert_int_equal(RUN(cli, "fetch", "openai/ViT-B-3"), 2);
    assert_contains(cli->err, "did you mean openai/ViT-B-32?");
    assert_int_equal(RUN(cli, "fetch", "openai/RN50"), 2);
    assert_contains(cli->err, "Known are: openai/ViT-B-32, openai/ViT-B-16");
    assert_int_equal(RUN(cli, "fetch", "--url", "http://127.0.0.1:1/x", "-o", "m"), 2);
    assert_contains(cli->err, "--url needs --sha256");
    assert_int_equal(RUN(cli, "fetch", "--sha256", "12"), 2);
    assert_contains(cli->err, "expected 64 hexadecimal digits");
    assert_int_equal(RUN(cli, "fetch", "--url", "http://127.0.0.1:1/x", "--sha256", MICRO), 2);
    assert_contains(cli->err, "-o MODEL is missing");
    assert_int_equal(RUN(cli, "fetch", "--max-bytes", "-1"), 2);
    assert_contains(cli->err, "expected a number of bytes");
    assert_int_equal(RUN(cli, "fetch", "--url", "ftp://127.0.0.1/x", "--sha256", MICRO, "-o",
                         in_folder(cli, "m")), 3);
    assert_contains(cli->err, "only https:// addresses are fetched");
}

/* -- https ------------------------------------------------------------------------------------ */

static void https_is_trusted_only_by_its_authority(void **state)
{
    fetch_world *world = *state;
    http_server secure;
    const char *authority = in_folder(&world->cli, "authority.pem");
    SSL_CTX *tls = make_tls_server(authority);
    assert_non_null(tls);
    assert_int_equal(start_server(&secure, world->body, world->bytes, tls), 0);
    server_url(&secure, "ViT.pt", world->url);
    expect_failure(world, "no trusted connection");
    assert_contains(world->cli.err, "SSL_CERT_FILE");
    setenv("SSL_CERT_FILE", authority, 1);
    assert_int_equal(fetch(world), 0);
    assert_contains(world->cli.out, MICRO);

    unlink(world->model); /* from https to http: refused, even for --url */
    secure.status = 302;
    const int before = world->server.requests;
    server_url(&world->server, "ViT.pt", secure.redirect);
    expect_failure(world, "which is not https: refused");
    assert_int_equal(world->server.requests, before);
    unsetenv("SSL_CERT_FILE");
    stop_server(&secure);
    SSL_CTX_free(tls);
}

/* -- The table -------------------------------------------------------------------------------- */

static void the_table_of_models_is_sound(void **state)
{
    const fc_registry_entry *entry;
    size_t count = 0;
    (void)state;
    for (; (entry = fc_registry_at(count)) != NULL; count++) {
        assert_int_equal(strlen(entry->sha256), 64);
        assert_int_equal(strspn(entry->sha256, "0123456789abcdef"), 64);
        assert_int_equal(strncmp(entry->url, "https://", 8), 0);
        assert_ptr_equal(fc_registry_find(entry->name), entry);
        assert_ptr_equal(fc_registry_by_sha256(entry->sha256), entry);
        assert_true(entry->licence[0] && entry->limits[0]);
        if (!strncmp(entry->name, "openai/", 7)) /* their folders are named so */
            assert_non_null(strstr(entry->url, entry->sha256));
    }
    assert_true(count >= 1);
    assert_string_equal(fc_registry_at(0)->model, "ViT-B-32.safetensors");
    assert_string_equal(fc_registry_at(0)->sha256,
                        "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af");
    assert_ptr_equal(fc_registry_find("ViT-B/32"), fc_registry_at(0));
    assert_null(fc_registry_by_sha256(MICRO));
}

#define WITH_SERVER(test) \
    cmocka_unit_test_setup_teardown(test, open_fetch_world, close_fetch_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(a_file_is_fetched_checked_and_converted),
        WITH_SERVER(what_is_there_and_is_another_model_is_not_replaced),
        WITH_SERVER(the_download_is_kept_when_asked),
        WITH_SERVER(a_broken_download_goes_on_where_it_stopped),
        WITH_SERVER(a_server_that_cannot_go_on_starts_anew),
        WITH_SERVER(a_killed_download_goes_on),
        WITH_SERVER(two_processes_fetch_once),
        WITH_SERVER(redirects_are_followed),
        WITH_SERVER(proxies_are_used),
        WITH_SERVER(another_file_is_never_converted),
        WITH_SERVER(a_body_that_ends_early_is_noticed_without_its_length),
        WITH_SERVER(answers_of_the_server_are_explained),
        WITH_SERVER(files_over_the_limit_are_refused_before_they_come),
        WITH_SERVER(a_known_file_of_another_length_is_refused),
        WITH_SERVER(no_network_is_explained),
        WITH_SERVER(a_cache_that_cannot_be_written_is_explained),
        WITH_SERVER(wrong_command_lines_are_refused),
        WITH_SERVER(https_is_trusted_only_by_its_authority),
        cmocka_unit_test(the_table_of_models_is_sound),
    };
    signal(SIGPIPE, SIG_IGN); /* a client that goes away must not end the server */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
