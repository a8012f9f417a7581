// A program of somebody else that hosts a store: PyTorch's clients can use it while this runs.
#include <rendezvous/store/io/store_server.h>

#include <cstdio>
#include <exception>

int main() try {
  cpprun::StoreServer server({.host = "127.0.0.1", .port = 0});
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  std::getchar();  // serves until somebody presses a key or closes the input
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
