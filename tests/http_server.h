/* A small HTTP server in a thread, for tests of downloading: it serves one file, and misbehaves as
 * it is told. With TLS it has a certificate for 127.0.0.1 that it makes itself. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVER_URL = 200 };

typedef struct {
    /* What it serves. */
    const void *body;
    size_t bytes;
    /* How it answers; may change between requests. */
    _Atomic int status;             /* 0: as is right; else this code, with no file */
    _Atomic int ignores_ranges;     /* answers 200 with everything */
    _Atomic int wrong_range;        /* says that the part begins elsewhere */
    _Atomic long cut_at;            /* closes the connection after so many bytes of a body; -1 */
    _Atomic int pause_ms;           /* before it answers */
    _Atomic int hides_length;       /* no Content-Length: the end is where the connection closes */
    char redirect[SERVER_URL];      /* with a status of 3xx */
    /* What it saw. */
    _Atomic int requests;
    _Atomic long last_range;        /* where the last request's range begins; -1: it had none */
    char last_target[SERVER_URL];   /* its request line's address */
    /* Its own. */
    int port, listener;
    pthread_t thread;
    SSL_CTX *tls;
} http_server;

/* -- One connection --------------------------------------------------------------------------- */

typedef struct {
    int socket;
    SSL *tls;
} http_link;

static inline long link_read(const http_link *link, char *data, size_t bytes)
{
    return link->tls ? SSL_read(link->tls, data, (int)bytes) : read(link->socket, data, bytes);
}

static inline long link_write(const http_link *link, const char *data, size_t bytes)
{
    const long wrote = link->tls ? SSL_write(link->tls, data, (int)bytes)
                                 : send(link->socket, data, bytes, MSG_NOSIGNAL);
    return wrote;
}

static inline void write_all(const http_link *link, const char *data, size_t bytes)
{
    while (bytes) {
        const long wrote = link_write(link, data, bytes < 16384 ? bytes : 16384);
        if (wrote <= 0)
            return;
        data += wrote;
        bytes -= (size_t)wrote;
    }
}

/* Reads up to the empty line; returns 0 if that never comes. */
static inline int read_head(const http_link *link, char *head, size_t capacity)
{
    size_t used = 0;
    head[0] = '\0';
    while (!strstr(head, "\r\n\r\n")) {
        const long got = link_read(link, head + used, capacity - used - 1);
        if (got <= 0)
            return 0;
        used += (size_t)got;
        head[used] = '\0';
    }
    return 1;
}

static inline void write_head(http_server *server, const http_link *link, int status, size_t first,
                              size_t length)
{
    char head[700], range[120] = "", size[60] = "", where[SERVER_URL + 20] = "";
    if (status == 206)
        snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n",
                 first + (size_t)server->wrong_range, server->bytes - 1, server->bytes);
    if (status == 416)
        snprintf(range, sizeof range, "Content-Range: bytes */%zu\r\n", server->bytes);
    if (!server->hides_length)
        snprintf(size, sizeof size, "Content-Length: %zu\r\n", length);
    if (status >= 300 && status < 400)
        snprintf(where, sizeof where, "Location: %s\r\n", server->redirect);
    snprintf(head, sizeof head, "HTTP/1.1 %d Whatever\r\n%s%s%sConnection: close\r\n\r\n", status,
             size, range, where);
    write_all(link, head, strlen(head));
}

static inline void answer(http_server *server, const http_link *link)
{
    char head[4096];
    if (!read_head(link, head, sizeof head))
        return;
    server->requests++;
    sscanf(head, "%*s %199s", server->last_target);
    const char *range = strstr(head, "Range: bytes=");
    const long first = range ? atol(range + 13) : -1;
    server->last_range = first;
    if (server->pause_ms)
        usleep((useconds_t)server->pause_ms * 1000);
    if (server->status) {
        write_head(server, link, server->status, 0, 0);
        return;
    }
    if (first >= (long)server->bytes && !server->ignores_ranges) {
        write_head(server, link, 416, 0, 0);
        return;
    }
    const int part = first > 0 && !server->ignores_ranges;
    const size_t from = part ? (size_t)first : 0, length = server->bytes - from;
    write_head(server, link, part ? 206 : 200, from, length);
    const long cut = server->cut_at;
    write_all(link, (const char *)server->body + from,
              cut >= 0 && (size_t)cut < length ? (size_t)cut : length);
}

static inline void serve(http_server *server, int socket)
{
    http_link link = { socket, NULL };
    if (server->tls) {
        link.tls = SSL_new(server->tls);
        SSL_set_fd(link.tls, socket);
        if (SSL_accept(link.tls) == 1)
            answer(server, &link);
        SSL_shutdown(link.tls);
        SSL_free(link.tls);
    } else {
        answer(server, &link);
    }
    shutdown(socket, SHUT_WR);
    close(socket);
}

/* -- The server ------------------------------------------------------------------------------- */

static inline void *run_server(void *user)
{
    http_server *server = user;
    for (;;) {
        const int socket = accept(server->listener, NULL, NULL);
        if (socket < 0)
            return NULL;
        serve(server, socket);
    }
}

/* Starts serving body; tls may be NULL. Returns 0 on success. */
static inline int start_server(http_server *server, const void *body, size_t bytes, SSL_CTX *tls)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    memset(server, 0, sizeof *server);
    server->body = body;
    server->bytes = bytes;
    server->cut_at = server->last_range = -1;
    server->tls = tls;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->listener < 0 ||
        bind(server->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(server->listener, 16) ||
        getsockname(server->listener, (struct sockaddr *)&address, &length))
        return -1;
    server->port = ntohs(address.sin_port);
    return pthread_create(&server->thread, NULL, run_server, server);
}

static inline void stop_server(http_server *server)
{
    shutdown(server->listener, SHUT_RDWR);
    close(server->listener);
    pthread_join(server->thread, NULL);
}

/* The address of name on the server, in url [SERVER_URL], which it returns. */
static inline const char *server_url(const http_server *server, const char *name,
                                     char url[SERVER_URL])
{
    snprintf(url, SERVER_URL, "%s://127.0.0.1:%d/%s", server->tls ? "https" : "http",
             server->port, name);
    return url;
}

#endif
