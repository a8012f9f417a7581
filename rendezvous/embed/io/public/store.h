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
 * Errors. A function that can fail returns 0 on success and -1 on failure; a function that makes an
 * object returns NULL on failure. cpprun_store_error() then says what was tried, on what, and why
 * it failed. Nothing throws, prints or ends the process. A null pointer where an object is required
 * is such a failure, and its text names the function and the argument. Plain getters (a port, an
 * address, a count) return zero, "" or what their comment says. If a count or a size is 0, the
 * pointer that belongs to it may be null.
 *
 * Times are in milliseconds. A negative timeout means the client's own, five minutes unless
 * cpprun_store_connect_with() says otherwise.
 *
 * Keys are NUL-terminated strings. Values are any bytes. Every key gets the prefix "/", which
 * PyTorch's clients use too, so keys are shared with them. cpprun_store_connect_with() can change
 * the prefix.
 *
 * Threads. A server runs in its own thread. Use an object from one thread at a time. Different
 * objects need no lock between them. A forked child may release its parent's objects, which does
 * not affect the parent. To use a store it has to open its own objects.
 *
 * Lifetime. The caller owns what a function returns: a server ends with cpprun_store_stop(), a
 * service with cpprun_store_service_close(), a client with cpprun_store_disconnect(), a list with
 * cpprun_store_list_free(), a value with cpprun_store_free(). All of them take NULL.
 *
 * ABI. Nothing here changes within one CPPRUN_STORE_ABI, which is also the number in the library's
 * name (libcpprun_store.so.1) and in its symbol version (CPPRUN_STORE_1). Functions may be added,
 * and members at the end of the option structs. */

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

/* Why the last failed call in this thread failed: a clause in UTF-8 without a newline. Valid until
 * the next call in this thread. Empty if none has failed. */
CPPRUN_STORE_API const char* cpprun_store_error(void);

/* --- serving -------------------------------------------------------------------------------- */

typedef struct cpprun_store_server_options {
  size_t size;      /* sizeof(cpprun_store_server_options) */
  const char* host; /* name or address to listen on; NULL or "": every interface */
  uint16_t port;    /* 0: the kernel picks one */
  /* Limit on the bytes that clients can make the server hold: values, and pending requests and
   * replies. A client that exceeds it is disconnected. 0: half of the memory of the machine or of
   * the control group. */
  uint64_t memory_bytes_max;
  /* Called in the serving thread for every connection that the server closes. `line` has no newline
   * and is valid during the call. NULL: no log. */
  void (*log)(void* log_user, const char* line);
  void* log_user;
} cpprun_store_server_options;

/* Listens and serves at once, in its own thread, until cpprun_store_stop(). */
CPPRUN_STORE_API cpprun_store_server* cpprun_store_serve(const char* host, uint16_t port);
CPPRUN_STORE_API cpprun_store_server* cpprun_store_serve_with(
    const cpprun_store_server_options* options);
/* 0 for NULL. */
CPPRUN_STORE_API uint16_t cpprun_store_port(const cpprun_store_server* server);
/* The address it is bound to, "[::]:43211". Valid as long as the server. */
CPPRUN_STORE_API const char* cpprun_store_address(const cpprun_store_server* server);
/* Closes every connection and ends the thread. Clients notice at once, even those that wait. */
CPPRUN_STORE_API void cpprun_store_stop(cpprun_store_server* server);

/* The same for programs with their own event loop; it has no thread. Wait until the descriptor is
 * readable or the wait time has passed, whichever comes first, then serve. */
CPPRUN_STORE_API cpprun_store_service* cpprun_store_service_open(
    const cpprun_store_server_options* options);
CPPRUN_STORE_API uint16_t cpprun_store_service_port(const cpprun_store_service* service);
CPPRUN_STORE_API const char* cpprun_store_service_address(const cpprun_store_service* service);
/* For poll or epoll. The service owns it. -1 for NULL. */
CPPRUN_STORE_API int cpprun_store_service_descriptor(const cpprun_store_service* service);
/* The wait time in milliseconds, suitable for poll(2). -1: no limit. */
CPPRUN_STORE_API int cpprun_store_service_wait_ms(const cpprun_store_service* service);
/* Does all pending work and never blocks. */
CPPRUN_STORE_API void cpprun_store_service_serve(cpprun_store_service* service);
CPPRUN_STORE_API void cpprun_store_service_close(cpprun_store_service* service);

/* --- a client ------------------------------------------------------------------------------- */

typedef struct cpprun_store_client_options {
  size_t size;      /* sizeof(cpprun_store_client_options) */
  const char* host; /* name or address */
  uint16_t port;
  /* How long to try to connect, as the store may not be listening yet, and the default timeout of a
   * request. Negative: five minutes. */
  int64_t connect_timeout_ms;
  int64_t timeout_ms;
  const char* key_prefix; /* prefix of every key; NULL: "/" */
} cpprun_store_client_options;

/* Connects to a store, cpprun's or PyTorch's (2.2 and later), trying for `timeout_ms`. */
CPPRUN_STORE_API cpprun_store_client* cpprun_store_connect(const char* host, uint16_t port,
                                                           int64_t timeout_ms);
CPPRUN_STORE_API cpprun_store_client* cpprun_store_connect_with(
    const cpprun_store_client_options* options);
CPPRUN_STORE_API void cpprun_store_disconnect(cpprun_store_client* client);
/* 1 after a connection failure: every further call fails with the same text. 0 while the
 * connection works, even after a wait that timed out. 1 for NULL. */
CPPRUN_STORE_API int cpprun_store_is_broken(const cpprun_store_client* client);

/* The store does not reply to these four, so a failure may show only at the next call. */
CPPRUN_STORE_API int cpprun_store_set(cpprun_store_client* client, const char* key,
                                      const void* value, size_t value_size);
CPPRUN_STORE_API int cpprun_store_append(cpprun_store_client* client, const char* key,
                                         const void* value, size_t value_size);
/* Atomic: no client sees only some of the `count` keys set. */
CPPRUN_STORE_API int cpprun_store_multi_set(cpprun_store_client* client, size_t count,
                                            const char* const* keys, const void* const* values,
                                            const size_t* value_sizes);
CPPRUN_STORE_API int cpprun_store_queue_push(cpprun_store_client* client, const char* key,
                                             const void* value, size_t value_size);

/* Waits until the key exists, then returns its value: `*value_size` bytes followed by a NUL. Free
 * it with cpprun_store_free(). After a failure both are zero. */
CPPRUN_STORE_API int cpprun_store_get(cpprun_store_client* client, const char* key,
                                      int64_t timeout_ms, char** value, size_t* value_size);
/* The current value. `*value` is NULL if there is none, which is not a failure. */
CPPRUN_STORE_API int cpprun_store_find(cpprun_store_client* client, const char* key, char** value,
                                       size_t* value_size);
/* Adds to a counter, which starts at 0, and returns the sum. */
CPPRUN_STORE_API int cpprun_store_add(cpprun_store_client* client, const char* key, int64_t delta,
                                      int64_t* sum);
/* Sets `desired` if the key holds `expected`, or if it does not exist and `expected_size` is 0.
 * Returns the value after the operation, or `expected` if the key does not exist. */
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
/* Returns when `world_size` clients have reached the barrier of that key. */
CPPRUN_STORE_API int cpprun_store_barrier(cpprun_store_client* client, const char* key,
                                          int64_t world_size, int64_t timeout_ms);
/* `*existed` is 1 if the key existed. `existed` may be NULL. */
CPPRUN_STORE_API int cpprun_store_delete_key(cpprun_store_client* client, const char* key,
                                             int* existed);
/* The keys of all clients, with any prefix. */
CPPRUN_STORE_API int cpprun_store_num_keys(cpprun_store_client* client, int64_t* count);
/* The value is empty for a key that does not exist. */
CPPRUN_STORE_API int cpprun_store_multi_get(cpprun_store_client* client, const char* const* keys,
                                            size_t count, cpprun_store_list** values);
/* The oldest entry. `*value` is NULL if the queue is empty, which is not a failure. */
CPPRUN_STORE_API int cpprun_store_queue_pop(cpprun_store_client* client, const char* key,
                                            char** value, size_t* value_size);
CPPRUN_STORE_API int cpprun_store_queue_length(cpprun_store_client* client, const char* key,
                                               int64_t* length);
/* The keys under the client's prefix, returned without it. */
CPPRUN_STORE_API int cpprun_store_list_keys(cpprun_store_client* client, cpprun_store_list** keys);

CPPRUN_STORE_API void cpprun_store_free(void* value);
CPPRUN_STORE_API size_t cpprun_store_list_count(const cpprun_store_list* list);
/* The bytes of one entry, followed by a NUL. Valid as long as the list. NULL if there is no such
 * entry. `item_size` may be NULL. */
CPPRUN_STORE_API const char* cpprun_store_list_item(const cpprun_store_list* list, size_t index,
                                                    size_t* item_size);
CPPRUN_STORE_API void cpprun_store_list_free(cpprun_store_list* list);

#ifdef __cplusplus
}
#endif
