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
 * it failed, and cpprun_store_error_code() is one of the codes below. Nothing throws, prints or
 * ends the process. A null pointer where an object is required is such a failure, and its text
 * names the function and the argument. Plain getters (a port, an address, a count) return zero, ""
 * or what their comment says. If a count or a size is 0, the pointer that belongs to it may be
 * null.
 *
 * Times are in milliseconds. A negative timeout means the client's own, five minutes unless
 * cpprun_store_connect_with() says otherwise. It covers all that a call waits for: a slow server or
 * name server, a signal or another thread's call does not make it longer. A call that timed out may
 * still take effect; its client stays usable.
 *
 * Keys are NUL-terminated strings. Values are any bytes. Every key gets the prefix "/", which
 * PyTorch's clients use too, so keys are shared with them. cpprun_store_connect_with() can change
 * the prefix.
 *
 * Threads. A server runs in its own thread. All functions may be called by any thread, also for the
 * same object, but nothing may use an object while it is released or later. Calls on one client
 * wait for each other. Callbacks come from the serving thread (of a service: from the thread that
 * calls cpprun_store_service_serve()), one at a time. They may call any function, also those that
 * release the object, except that `admit` cannot use its own store. If `admit` disconnects a client
 * in this process, a call of its watcher that another thread is making may end later: use
 * cpprun_store_watch_with() for a watcher that owns something. A client with
 * a connection to the same store would wait in them until its timeout: use one in this process.
 * They must not throw.
 *
 * Forks. A forked child may release its parent's objects, also by exit() and static destructors.
 * That closes its copies of the descriptors, and does not affect the parent. Everything else fails
 * with CPPRUN_STORE_FORKED: to use a store, the child has to open its own objects.
 *
 * Lifetime. The caller owns what a function returns: a server ends with cpprun_store_stop(), a
 * service with cpprun_store_service_close(), a client with cpprun_store_disconnect() or
 * cpprun_store_async_close(), a list with cpprun_store_list_free(), a value with
 * cpprun_store_free(). All of them take NULL.
 *
 * ABI. Nothing here changes within one CPPRUN_STORE_ABI, which is also the number in the library's
 * name (libcpprun_store.so.1) and in its symbol version (CPPRUN_STORE_1). Functions may be added,
 * and members at the end of structs that begin with their size. Set such a struct to zero first: a
 * member that is zero has its default, except a timeout, for which that is any negative number. A
 * library that is older than the header accepts the struct if all members that it does not know
 * are zero, and else fails with CPPRUN_STORE_VERSION. */

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
/* The same as a code; 0 if none has failed. Codes may be added. */
CPPRUN_STORE_API int cpprun_store_error_code(void);

#define CPPRUN_STORE_TIMEOUT 1      /* the time of the call is over */
#define CPPRUN_STORE_REFUSED 2      /* nothing listens there, or the server rejects this client */
#define CPPRUN_STORE_CLOSED 3       /* the connection has ended; the server may have stopped */
#define CPPRUN_STORE_INTERRUPTED 4  /* by cpprun_store_interrupt() */
#define CPPRUN_STORE_BAD_ARGUMENT 5 /* a mistake of the caller */
#define CPPRUN_STORE_TOO_LARGE 6    /* beyond one of the limits below; nothing was sent */
#define CPPRUN_STORE_VERSION 7      /* a struct has members that this library does not know */
#define CPPRUN_STORE_PROTOCOL 8     /* the peer is not a store, or its reply is invalid */
#define CPPRUN_STORE_UNREACHABLE 9  /* unknown name, or no route to the address */
#define CPPRUN_STORE_NO_MEMORY 10
#define CPPRUN_STORE_FORKED 11 /* the object belongs to the parent process */
#define CPPRUN_STORE_SYSTEM 12 /* the operating system rejected a call: a port that is in use */
#define CPPRUN_STORE_UNSUPPORTED 13 /* needs what this build or this machine lacks: OpenSSL */

/* Limits of one request. The client checks them before it sends anything. */
#define CPPRUN_STORE_KEY_BYTES_MAX 8192 /* with the prefix */
#define CPPRUN_STORE_VALUE_BYTES_MAX 268435456
#define CPPRUN_STORE_COMPARED_BYTES_MAX 16777216 /* `expected` of cpprun_store_compare_set() */
#define CPPRUN_STORE_KEYS_MAX 131072             /* of a request with many keys */
#define CPPRUN_STORE_REQUEST_BYTES_MAX 536870912

/* --- serving -------------------------------------------------------------------------------- */

/* Rules for the keys that begin with `prefix`. That is the beginning of keys as the store has them,
 * with the "/" that clients add: "/alive/" for "alive/rank0". Clients need not know of the rules,
 * so they may be PyTorch's. A key belongs to one namespace at most: no prefix may begin with that
 * of another. */
typedef struct cpprun_store_namespace {
  size_t size; /* sizeof(cpprun_store_namespace), the same for all that are passed together */
  const char* prefix;
  /* Limits of values, and queues that are not empty, and of the bytes of their keys and contents. A
   * client whose request would exceed one is disconnected. 0: none. */
  uint64_t keys_max;
  uint64_t bytes_max;
  /* Leases. With the first, a value is deleted when the client that has set it last disconnects or
   * dies; with the second, when it is not set again within that time. 0: no lease. Queues have
   * none, and snapshots leave such values out. */
  int ends_with_client;
  int64_t lease_ms;
} cpprun_store_namespace;

typedef struct cpprun_store_server_options {
  size_t size; /* sizeof(cpprun_store_server_options) */
  /* Name or address to listen on; NULL or "": 127.0.0.1, which only this machine can reach; "*":
   * every interface; "unix:PATH": a Unix socket, which only this user can reach. */
  const char* host;
  uint16_t port; /* 0: the kernel picks one */
  /* Limit on the bytes that clients can make the server hold: values, and pending requests and
   * replies. A client that exceeds it is disconnected. 0: half of the memory of the machine or of
   * the control group. */
  uint64_t memory_bytes_max;
  /* Called in the serving thread for every connection that the server closes. `line` has no newline
   * and is valid during the call. NULL: no log. */
  void (*log)(void* log_user, const char* line);
  void* log_user;
  /* Used instead of host and port: a TCP or Unix socket that listens already. The server uses a
   * duplicate, and never shuts the socket down. It sets O_NONBLOCK, which both share. If another
   * owner shuts it down, the server accepts no further clients. 0: none. */
  int listening_socket;
  /* Called for every client, "10.0.0.1:40112" or "unix:PATH", after its first bytes: 0 rejects it.
   * In the serving thread, or in a thread that uses a client in this process, one at a time. NULL:
   * every client is admitted. */
  int (*admit)(void* admit_user, const char* client);
  void* admit_user;
  /* Limits; a client that exceeds one is rejected or disconnected. 0: none. */
  uint64_t clients_max;
  uint64_t address_clients_max; /* of each client address, as are those below */
  uint64_t address_keys_max;
  uint64_t address_bytes_max;
  const cpprun_store_namespace* namespaces; /* an array */
  size_t namespace_count;
  /* Clients with a socket have to use TLS and prove that they hold this secret; those in this
   * process need none. The text of a secrets file of cpprun: lines "cpprun1:ID:KEY", of which any
   * is accepted. PyTorch's clients have no TLS, and are rejected. NULL: no TLS. */
  const char* secret;
} cpprun_store_server_options;

/* Listens and serves at once, in its own thread, until cpprun_store_stop(). */
CPPRUN_STORE_API cpprun_store_server* cpprun_store_serve(const char* host, uint16_t port);
CPPRUN_STORE_API cpprun_store_server* cpprun_store_serve_with(
    const cpprun_store_server_options* options);
/* 0 for NULL. */
CPPRUN_STORE_API uint16_t cpprun_store_port(const cpprun_store_server* server);
/* The address it is bound to, "[::]:43211". Valid as long as the server. */
CPPRUN_STORE_API const char* cpprun_store_address(const cpprun_store_server* server);
/* Refuses new clients, and returns when all others have disconnected, except those that were opened
 * with the options' `server`. To be followed by cpprun_store_stop(), also after a timeout. Not for
 * callbacks, during which the server serves no client. */
CPPRUN_STORE_API int cpprun_store_drain(cpprun_store_server* server, int64_t timeout_ms);
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
/* Does a bounded amount of pending work, and makes callbacks for about a millisecond. Never blocks.
 * If work is left, the wait time is 0. */
CPPRUN_STORE_API void cpprun_store_service_serve(cpprun_store_service* service);
CPPRUN_STORE_API void cpprun_store_service_close(cpprun_store_service* service);

/* --- a client ------------------------------------------------------------------------------- */

typedef struct cpprun_store_client_options {
  size_t size;      /* sizeof(cpprun_store_client_options) */
  const char* host; /* name, address, or "unix:PATH" */
  uint16_t port;
  /* How long to try to connect, as the store may not be listening yet, and the default timeout of a
   * request. Negative: five minutes. */
  int64_t connect_timeout_ms;
  int64_t timeout_ms;
  const char* key_prefix; /* prefix of every key; NULL: "/" */
  /* Used instead of host and port: a server or a service in this process. No bytes are sent, and
   * the functions under "inside the server's process" work, too. A call that has to wait needs
   * another thread that serves. */
  cpprun_store_server* server;
  cpprun_store_service* service;
  /* Uses TLS, and proves that it holds this secret: that of the server. NULL: no TLS. */
  const char* secret;
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
/* Makes all calls of other threads on this client, and all later ones, fail with
 * CPPRUN_STORE_INTERRUPTED. The client still has to be disconnected. May be called in a signal
 * handler, unless the server is in this process. */
CPPRUN_STORE_API void cpprun_store_interrupt(cpprun_store_client* client);

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

/* --- inside the server's process ------------------------------------------------------------- */

/* These need a client that was opened with `server` or `service`. Keys and values are any bytes,
 * followed by a NUL, and valid during the call. */

#define CPPRUN_STORE_UPDATED 0
#define CPPRUN_STORE_CREATED 1
#define CPPRUN_STORE_DELETED 2
#define CPPRUN_STORE_LOST 3 /* too many changes at once: look at the keys again */

/* Calls `watcher` in the serving thread, in order, for every change of a key with this prefix
 * (NULL: any), until the client is disconnected. Keys are those of the client, without its own
 * prefix. */
CPPRUN_STORE_API int cpprun_store_watch(cpprun_store_client* client, const char* prefix,
                                        void (*watcher)(void* user, int change, const char* key,
                                                        size_t key_size, const char* value,
                                                        size_t value_size),
                                        void* user);
/* The same, and calls `release` once, in any thread, when `user` is not needed any longer: after
 * the last call of the watcher, however it ends, or after a failure of this function. */
CPPRUN_STORE_API int cpprun_store_watch_with(cpprun_store_client* client, const char* prefix,
                                             void (*watcher)(void* user, int change,
                                                             const char* key, size_t key_size,
                                                             const char* value, size_t value_size),
                                             void* user, void (*release)(void* user));
/* Calls `visit` in this thread for every key with this prefix. A key that exists the whole time is
 * visited once. */
CPPRUN_STORE_API int cpprun_store_each(cpprun_store_client* client, const char* prefix,
                                       void (*visit)(void* user, const char* key, size_t key_size,
                                                     const char* value, size_t value_size),
                                       void* user);

typedef struct cpprun_store_figures {
  size_t size; /* sizeof(cpprun_store_figures) */
  uint64_t clients;
  uint64_t keys;  /* of all clients */
  uint64_t bytes; /* that clients make the server hold */
  uint64_t waits; /* clients that wait for a key or at a barrier */
} cpprun_store_figures;

CPPRUN_STORE_API int cpprun_store_get_figures(cpprun_store_client* client,
                                              cpprun_store_figures* figures);
/* Which client waits for which key, with every prefix. `client` is an address, "unix:PATH" or "this
 * process". */
CPPRUN_STORE_API int cpprun_store_each_wait(cpprun_store_client* client,
                                            void (*visit)(void* user, const char* waiting_client,
                                                          const char* key, size_t key_size,
                                                          int is_barrier),
                                            void* user);

/* All keys and queues of the store, whatever their prefix, at one moment. Free it with
 * cpprun_store_free(). */
CPPRUN_STORE_API int cpprun_store_snapshot(cpprun_store_client* client, char** snapshot,
                                           size_t* snapshot_size);
/* Sets what a snapshot contains, and adds its queue entries; other keys stay. An invalid snapshot
 * changes nothing. */
CPPRUN_STORE_API int cpprun_store_restore(cpprun_store_client* client, const void* snapshot,
                                          size_t snapshot_size);

/* --- an asynchronous client ------------------------------------------------------------------ */

/* For programs with an event loop. It never blocks and has no thread. Wait until the descriptor is
 * readable, then dispatch:
 *
 *   cpprun_store_async* client = cpprun_store_async_open(&options);
 *   cpprun_store_async_get(client, "greeting", 5000, greeted, NULL);
 *   struct pollfd ready = {cpprun_store_async_descriptor(client), POLLIN, 0};
 *   while (!done) {
 *     poll(&ready, 1, -1);
 *     cpprun_store_async_dispatch(client);
 *   }
 *
 * Requests return a number, not 0, and their callback is called once: by dispatch, or by close.
 * After a failure they return 0, and the callback is not called. They take effect in the order of
 * the calls. Any number may be in progress, up to CPPRUN_STORE_ASYNC_REQUESTS_MAX; a wait delays no
 * other request. The deadline of a request begins with the call, also if the client is still
 * connecting. If it cannot connect, or loses its connection, all requests fail.
 *
 * Unlike other objects, it may be used by one thread at a time only. Callbacks may use the client
 * and close it. They must not throw, and what they receive is valid during the call. */

typedef struct cpprun_store_async cpprun_store_async;

#define CPPRUN_STORE_ASYNC_REQUESTS_MAX 100000

typedef struct cpprun_store_reply {
  size_t size; /* what the library knows of this struct */
  uint64_t request;
  int code;          /* 0: success; else CPPRUN_STORE_TIMEOUT, … */
  const char* error; /* as cpprun_store_error(); "" after success */
  /* Of get, find and compare_set, followed by a NUL. NULL: find found nothing, or a failure. */
  const char* value;
  size_t value_size;
  int64_t number; /* of add: the sum; of delete_key: 1 if the key existed */
} cpprun_store_reply;

typedef void (*cpprun_store_done)(void* user, const cpprun_store_reply* reply);

/* Begins to connect, which takes up to connect_timeout_ms. With `server` or `service`, the store is
 * in this process. */
CPPRUN_STORE_API cpprun_store_async* cpprun_store_async_open(
    const cpprun_store_client_options* options);
/* Readable when there is something to dispatch, also at deadlines. Wait for nothing else than
 * POLLIN, with or without EPOLLET. It stays the same, and the client owns it. -1 for NULL. */
CPPRUN_STORE_API int cpprun_store_async_descriptor(const cpprun_store_async* client);
/* Sends, receives, and calls back. */
CPPRUN_STORE_API void cpprun_store_async_dispatch(cpprun_store_async* client);
/* How many callbacks are still to come. */
CPPRUN_STORE_API size_t cpprun_store_async_in_progress(const cpprun_store_async* client);
/* 1 if every further request will fail. */
CPPRUN_STORE_API int cpprun_store_async_is_broken(const cpprun_store_async* client);

/* As the functions of the blocking client. `done` may be NULL. The store does not reply to a set:
 * it is done when it was sent. */
CPPRUN_STORE_API uint64_t cpprun_store_async_set(cpprun_store_async* client, const char* key,
                                                 const void* value, size_t value_size,
                                                 int64_t timeout_ms, cpprun_store_done done,
                                                 void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_get(cpprun_store_async* client, const char* key,
                                                 int64_t timeout_ms, cpprun_store_done done,
                                                 void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_find(cpprun_store_async* client, const char* key,
                                                  int64_t timeout_ms, cpprun_store_done done,
                                                  void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_add(cpprun_store_async* client, const char* key,
                                                 int64_t delta, int64_t timeout_ms,
                                                 cpprun_store_done done, void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_compare_set(cpprun_store_async* client,
                                                         const char* key, const void* expected,
                                                         size_t expected_size, const void* desired,
                                                         size_t desired_size, int64_t timeout_ms,
                                                         cpprun_store_done done, void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_delete_key(cpprun_store_async* client, const char* key,
                                                        int64_t timeout_ms, cpprun_store_done done,
                                                        void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_wait(cpprun_store_async* client,
                                                  const char* const* keys, size_t count,
                                                  int64_t timeout_ms, cpprun_store_done done,
                                                  void* user);
CPPRUN_STORE_API uint64_t cpprun_store_async_barrier(cpprun_store_async* client, const char* key,
                                                     int64_t world_size, int64_t timeout_ms,
                                                     cpprun_store_done done, void* user);
/* As cpprun_store_watch(), in the thread that dispatches, until the request is cancelled. Needs a
 * store in this process. `done`, which may be NULL, is called after the last change. */
CPPRUN_STORE_API uint64_t cpprun_store_async_watch(cpprun_store_async* client, const char* prefix,
                                                   void (*watcher)(void* user, int change,
                                                                   const char* key, size_t key_size,
                                                                   const char* value,
                                                                   size_t value_size),
                                                   cpprun_store_done done, void* user);
/* The callback is called with CPPRUN_STORE_INTERRUPTED, by the next dispatch. What was sent may
 * still take effect. 1 if the request was in progress, 0 if it is over. */
CPPRUN_STORE_API int cpprun_store_async_cancel(cpprun_store_async* client, uint64_t request);
/* Calls all callbacks that are still to come, with CPPRUN_STORE_INTERRUPTED. In a forked child none
 * is called. */
CPPRUN_STORE_API void cpprun_store_async_close(cpprun_store_async* client);

/* --- results --------------------------------------------------------------------------------- */

CPPRUN_STORE_API void cpprun_store_free(void* value);
CPPRUN_STORE_API size_t cpprun_store_list_count(const cpprun_store_list* list);
/* The bytes of one entry, followed by a NUL. Valid as long as the list. NULL if there is no such
 * entry. `item_size` may be NULL. */
CPPRUN_STORE_API const char* cpprun_store_list_item(const cpprun_store_list* list, size_t index,
                                                    size_t* item_size);
CPPRUN_STORE_API void cpprun_store_list_free(cpprun_store_list* list);

#ifdef __cplusplus
} /* extern "C" */
#endif
