// SPDX-License-Identifier: BSD-3-Clause
#include "tests/worker/two_ranks.h"

#include <cstdlib>
#include <latch>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace cpprun::testing {
namespace {

// LibTorch 2.11's flight recorder, which all groups of a process share, changes a map without a
// lock when gloo starts an operation. So ranks on threads crash now and then, on many cores.
[[maybe_unused]] const int no_flight_recorder = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);

}  // namespace

struct HostedStore::Server {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

HostedStore::HostedStore() : server_(std::make_unique<Server>()) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  server_->store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

HostedStore::~HostedStore() = default;

Context HostedStore::context_of(int rank, int world_size) const {
  Context context;
  context.rank = Rank{rank};
  context.local_rank = LocalRank{rank};
  context.world_size = context.local_world_size = world_size;
  context.store = {
      .address = "127.0.0.1", .port = server_->store->getPort(), .hosted_by_launcher = true};
  return context;
}

std::string on_ranks(int count, const std::function<void(const ProcessGroup&)>& body,
                     const ProcessGroupOptions& options,
                     const std::function<void(Context&)>& change) {
  const HostedStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  // A leaving rank closes its connections, and others may still be opening theirs.
  std::latch joining(count);
  const auto live = [&](int rank) {
    const auto join = [&] {
      try {
        Context context = store.context_of(rank, count);
        if (change) change(context);
        ProcessGroup group = init_process_group(context, options);
        joining.arrive_and_wait();
        return group;
      } catch (...) {
        joining.count_down();
        throw;
      }
    };
    try {
      body(join());
    } catch (const std::exception& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < count; ++rank) others.emplace_back(live, rank);
  live(0);
  for (std::thread& other : others) other.join();
  return std::accumulate(errors.begin(), errors.end(), std::string());
}

std::string on_two_ranks(const std::function<void(const ProcessGroup&)>& body,
                         const ProcessGroupOptions& options) {
  return on_ranks(2, body, options);
}

std::string failure_of(const Context& context, const ProcessGroupOptions& options) {
  try {
    const ProcessGroup group = init_process_group(context, options);
    return "joined";
  } catch (const DistributedError& error) {
    return error.what();
  }
}

}  // namespace cpprun::testing
