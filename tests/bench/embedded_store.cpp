// SPDX-License-Identifier: BSD-3-Clause
// An embedded store, as another program uses it, for store_bench.py.
//
//   embedded_store            serves until its input ends; prints its port
//   embedded_store SECONDS    prints the nanoseconds that a GET inside the process takes: of the
//                             fastest of many short runs, and their median

#include <cpprun/store.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

int fail() {
  std::fprintf(stderr, "embedded_store: %s\n", cpprun_store_error());
  return 1;
}

// Nanoseconds of each of many GETs.
double run(cpprun_store_client* client) {
  constexpr int gets = 10'000;
  const auto start = Clock::now();
  for (int at = 0; at < gets; ++at) {
    char* value = nullptr;
    std::size_t size = 0;
    if (cpprun_store_get(client, "group/0/address", -1, &value, &size) != 0) std::exit(fail());
    cpprun_store_free(value);
  }
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / gets;
}

}  // namespace

int main(int count, char** words) {
  cpprun_store_server* const server = cpprun_store_serve(nullptr, 0);
  if (server == nullptr) return fail();
  if (count == 1) {
    std::printf("%d\n", cpprun_store_port(server));
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
  }
  cpprun_store_client_options options{};
  options.size = sizeof options;
  options.server = server;
  cpprun_store_client* const client = cpprun_store_connect_with(&options);
  if (client == nullptr) return fail();
  if (cpprun_store_set(client, "group/0/address", "10.11.12.13:29500", 17) != 0) return fail();
  const auto end = Clock::now() + std::chrono::duration<double>(std::atof(words[1]));
  std::vector<double> runs;
  while (runs.empty() || Clock::now() < end) runs.push_back(run(client));
  std::sort(runs.begin(), runs.end());
  std::printf("%.0f %.0f\n", runs.front(), runs[runs.size() / 2]);
}
