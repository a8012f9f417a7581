// SPDX-License-Identifier: BSD-3-Clause
// A worker without dependencies: prints the ranks that cpprun gave it.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const char* rank = getenv("RANK");
  const char* size = getenv("WORLD_SIZE");
  if (rank == 0 || size == 0) return 1;
  return printf("rank %s of %s\n", rank, size) > 0 ? 0 : 1;
}
