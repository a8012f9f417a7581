// SPDX-License-Identifier: BSD-3-Clause
#pragma once
/* An embeddable store, in C, for any language that can call C: it serves PyTorch's TCPStore, and
 * is a client of one. Link libcpprun_store.so (-lcpprun_store), or load it at run time, as Python's
 * ctypes does. The C++ classes of <cpprun/store_server.h> and <cpprun/store_client.h> are thin
 * wrappers around these functions.
 *
 *   cpprun_store_server* server = cpprun_store_serve("127.0.0.1", 0);
 *   cpprun_store_client* client =
 *       cpprun_store_connect("127.0.0.1", cpprun_store_port(server), 5000);
 *   cpprun_store_set(client, "greeting", "hello", 5);
 *   if (cpprun_store_wait(client, keys, 2, 1000) != 0) puts(cpprun_store_error());
 *
 * Errors. A function that can fail returns 0 on success and -1 on failure; one that makes an object
 * returns NULL on failure. cpprun_store_error() then says what was tried, on what, and why it
 * failed. Nothing throws, prints or ends the process. A null pointer where an object is required is
 * such a failure, and its text names the function and the argument; plain getters (a port, an
 * address, a count) return zero, "" or what their comment says. If a count or a size is 0, the
 * pointer beside it may be null.
 *
 * Times are in milliseconds. A negative timeout means the client's own, five minutes unless
 * cpprun_store_connect_with() says otherwise.
 *
 * Keys are NUL-terminated texts, values any bytes. "/" is put before every key, as PyTorch's
 * clients do, so keys are shared with them; cpprun_store_connect_with() can change the prefix.
 *
 * Threads. A server runs in a thread of its own. Use an object from one thread at a time; different
 * objects need no lock between them. A forked child may release its parent's objects, which does
 * nothing to the parent; to serve or to ask it opens objects of its own.
 *
 * Lifetime. The caller owns what a function returns: a server ends with cpprun_store_stop(), a
 * service with cpprun_store_service_close(), a client with cpprun_store_disconnect(), a list with
 * cpprun_store_list_free(), a value with cpprun_store_free(). All of them take NULL.
 *
 * ABI. Nothing here changes within one CPPRUN_STORE_ABI, which is also the number of the library
 * (libcpprun_store.so.1) and of its symbols' version (CPPRUN_STORE_1). Functions may be
 * added, and members at the end of the option structs. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CPPRUN_STORE_ABI 1

#define CPPRUN_STORE_API __attribute__((visibility("default")))

typedef struct cpprun_store_server cpprun_store_server;
typedef struct cpprun_store_service cpprun_store_service;
typedef struct cpprun_store_client cpprun_store_client;
typedef struct cpprun_store_list cpprun_store_list;

/* The CPPRUN_STORE_ABI of the library that is loaded, and its version, "0.1.0". */
CPPRUN_STORE_API int cpprun_store_abi(void);
CPPRUN_STORE_API const char* cpprun_store_version(void);

/* Why the last call in this thread failed, as a clause in UTF-8 without newline. Good until the
 * next call in this thread; empty if none has failed. */
CPPRUN_STORE_API const char* cpprun_store_error(void);

/* --- serving -------------------------------------------------------------------------------- */

typedef struct cpprun_store_server_options {
  size_t size;      /* sizeof(cpprun_store_server_options) */
  const char* host; /* name or address to listen on; NULL or "": every interface */
  uint16_t port;    /* 0: the kernel picks one */
  /* Bytes that clients may make the server hold: values, and requests and replies under way. A
   * client that goes over it is disconnected. 0: half of the machine's memory, or of the control
   * group's. */
  uint64_t memory_bytes_max;
  /* Told of every connection that was closed for a reason of ours; one line without newline, good
   * during the call, which comes from the thread that serves. NULL: nobody is told. */
  void (*log)(void* log_user, const char* line);
  void* log_user;
} cpprun_store_server_options;

/* Listens and serves at once, in a thread of its own, until cpprun_store_stop(). */
CPPRUN_STORE_API cpprun_store_server* cpprun_store_serve(const char* host, uint16_t port);
CPPRUN_STORE_API cpprun_store_server* cpprun_store_serve_with(
    const cpprun_store_server_options* options);
/* 0 for NULL. */
CPPRUN_STORE_API uint16_t cpprun_store_port(const cpprun_store_server* server);
/* What it is bound to, "[::]:43211"; good as long as the server. */
CPPRUN_STORE_API const char* cpprun_store_address(const cpprun_store_server* server);
/* Ends every connection and the thread: clients see it at once, waiting ones too. */
CPPRUN_STORE_API void cpprun_store_stop(cpprun_store_server* server);

/* The same for programs with a loop of their own, without a thread: wait until the descriptor is
 * readable or the wait has passed, whichever comes first, then serve. */
CPPRUN_STORE_API cpprun_store_service* cpprun_store_service_open(
    const cpprun_store_server_options* options);
CPPRUN_STORE_API uint16_t cpprun_store_service_port(const cpprun_store_service* service);
CPPRUN_STORE_API const char* cpprun_store_service_address(const cpprun_store_service* service);
/* For poll or epoll; belongs to the service. -1 for NULL. */
CPPRUN_STORE_API int cpprun_store_service_descriptor(const cpprun_store_service* service);
/* Milliseconds, as poll(2) takes them; -1: nothing is due. */
CPPRUN_STORE_API int cpprun_store_service_wait_ms(const cpprun_store_service* service);
/* Does what there is to do and never blocks. */
CPPRUN_STORE_API void cpprun_store_service_serve(cpprun_store_service* service);
CPPRUN_STORE_API void cpprun_store_service_close(cpprun_store_service* service);

/* --- a client ------------------------------------------------------------------------------- */

typedef struct cpprun_store_client_options {
  size_t size;      /* sizeof(cpprun_store_client_options) */
  const char* host; /* name or address */
  uint16_t port;
  /* How long to try to reach the store, which may not be listening yet, and how long a request may
   * take where the call does not say otherwise. Negative: five minutes. */
  int64_t connect_timeout_ms;
  int64_t timeout_ms;
  const char* key_prefix; /* put before every key; NULL: "/" */
} cpprun_store_client_options;

/* Connects to a store, ours or PyTorch's from 2.2 on. `timeout_ms` is how long to try. */
CPPRUN_STORE_API cpprun_store_client* cpprun_store_connect(const char* host, uint16_t port,
                                                           int64_t timeout_ms);
CPPRUN_STORE_API cpprun_store_client* cpprun_store_connect_with(
    const cpprun_store_client_options* options);
CPPRUN_STORE_API void cpprun_store_disconnect(cpprun_store_client* client);
/* 1 after a failure of the connection, when every further call fails with the same words; 0 while
 * it is of use, as after a wait that timed out. 1 for NULL. */
CPPRUN_STORE_API int cpprun_store_is_broken(const cpprun_store_client* client);

/* These four are sent, but not answered by the store: a failure may show at the next call. */
CPPRUN_STORE_API int cpprun_store_set(cpprun_store_client* client, const char* key,
                                      const void* value, size_t value_size);
CPPRUN_STORE_API int cpprun_store_append(cpprun_store_client* client, const char* key,
                                         const void* value, size_t value_size);
/* All or nothing: nobody sees some of the `count` keys set and others not. */
CPPRUN_STORE_API int cpprun_store_multi_set(cpprun_store_client* client, size_t count,
                                            const char* const* keys, const void* const* values,
                                            const size_t* value_sizes);
CPPRUN_STORE_API int cpprun_store_queue_push(cpprun_store_client* client, const char* key,
                                             const void* value, size_t value_size);

/* Gives the value, as soon as there is one. It is `*value_size` bytes and a NUL behind them, and is
 * let go by cpprun_store_free(). After a failure both are zero. */
CPPRUN_STORE_API int cpprun_store_get(cpprun_store_client* client, const char* key,
                                      int64_t timeout_ms, char** value, size_t* value_size);
/* The value as it is now; `*value` is NULL when there is none, which is no failure. */
CPPRUN_STORE_API int cpprun_store_find(cpprun_store_client* client, const char* key, char** value,
                                       size_t* value_size);
/* Adds to a counter, which begins at 0, and gives what it is then. */
CPPRUN_STORE_API int cpprun_store_add(cpprun_store_client* client, const char* key, int64_t delta,
                                      int64_t* sum);
/* Sets `desired` if the key holds `expected`, or if it does not exist and `expected_size` is 0.
 * Gives what it holds afterwards; `expected` where it does not exist. */
CPPRUN_STORE_API int cpprun_store_compare_set(cpprun_store_client* client, const char* key,
                                              const void* expected, size_t expected_size,
                                              const void* desired, size_t desired_size,
                                              char** value, size_t* value_size);
/* `*exist` is 1 if all of the keys exist, else 0. */
CPPRUN_STORE_API int cpprun_store_check(cpprun_store_client* client, const char* const* keys,
                                        size_t count, int* exist);
/* Returns when all of the keys exist. */
CPPRUN_STORE_API int cpprun_store_wait(cpprun_store_client* client, const char* const* keys,
                                       size_t count, int64_t timeout_ms);
/* Returns when `world_size` clients have come to the barrier of that key. */
CPPRUN_STORE_API int cpprun_store_barrier(cpprun_store_client* client, const char* key,
                                          int64_t world_size, int64_t timeout_ms);
/* `*existed` is 1 if there was one; it may be NULL. */
CPPRUN_STORE_API int cpprun_store_delete_key(cpprun_store_client* client, const char* key,
                                             int* existed);
/* Of all clients, with every prefix. */
CPPRUN_STORE_API int cpprun_store_num_keys(cpprun_store_client* client, int64_t* count);
/* Empty values for keys that do not exist. */
CPPRUN_STORE_API int cpprun_store_multi_get(cpprun_store_client* client, const char* const* keys,
                                            size_t count, cpprun_store_list** values);
/* The oldest entry; `*value` is NULL when the queue is empty, which is no failure. */
CPPRUN_STORE_API int cpprun_store_queue_pop(cpprun_store_client* client, const char* key,
                                            char** value, size_t* value_size);
CPPRUN_STORE_API int cpprun_store_queue_length(cpprun_store_client* client, const char* key,
                                               int64_t* length);
/* Those under the client's prefix, without it. */
CPPRUN_STORE_API int cpprun_store_list_keys(cpprun_store_client* client, cpprun_store_list** keys);

CPPRUN_STORE_API void cpprun_store_free(void* value);
CPPRUN_STORE_API size_t cpprun_store_list_count(const cpprun_store_list* list);
/* The bytes of one entry, with a NUL behind them, good as long as the list; NULL where there is
 * none. `item_size` may be NULL. */
CPPRUN_STORE_API const char* cpprun_store_list_item(const cpprun_store_list* list, size_t index,
                                                    size_t* item_size);
CPPRUN_STORE_API void cpprun_store_list_free(cpprun_store_list* list);

#ifdef __cplusplus
}
#endif
