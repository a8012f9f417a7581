// SPDX-License-Identifier: BSD-3-Clause
// A program that hosts a store. PyTorch's clients can use it while the program runs.
#include <cpprun/store_server.h>

#include <cstdio>

int main() {
  const auto server = cpprun::StoreServer::open({"127.0.0.1", 0});
  if (!server) return std::fprintf(stderr, "%s\n", server.error().c_str()), 1;
  std::printf("%d\n", server->port());
  std::fflush(stdout);
  std::getchar();  // serves until a key is pressed or the input is closed
}
