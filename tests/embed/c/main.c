// SPDX-License-Identifier: BSD-3-Clause
/* A C program that hosts a store and uses it. */
#include <cpprun/store.h>
#include <inttypes.h>
#include <stdio.h>

static int complain(void) {
  fprintf(stderr, "%s\n", cpprun_store_error());
  return 1;
}

int main(void) {
  cpprun_store_server* server = cpprun_store_serve("127.0.0.1", 0);
  if (!server) return complain();
  cpprun_store_client* client = cpprun_store_connect("127.0.0.1", cpprun_store_port(server), 5000);
  if (!client) return complain();

  char* greeting;
  size_t size;
  int64_t visitors;
  if (cpprun_store_set(client, "greeting", "hello", 5) != 0) return complain();
  if (cpprun_store_get(client, "greeting", -1, &greeting, &size) != 0) return complain();
  if (cpprun_store_add(client, "visitors", 1, &visitors) != 0) return complain();
  printf("%s, visitor %" PRId64 "\n", greeting, visitors);
  cpprun_store_free(greeting);

  const char* keys[] = {"greeting", "goodbye"};
  if (cpprun_store_wait(client, keys, 2, 50) != 0) printf("%s\n", cpprun_store_error());

  cpprun_store_disconnect(client);
  cpprun_store_stop(server);
  return 0;
}
