// SPDX-License-Identifier: BSD-3-Clause
// A worker that needs nothing: says who it is, as cpprun told it.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const char* rank = getenv("RANK");
  const char* size = getenv("WORLD_SIZE");
  if (rank == 0 || size == 0) return 1;
  return printf("rank %s of %s\n", rank, size) > 0 ? 0 : 1;
}
