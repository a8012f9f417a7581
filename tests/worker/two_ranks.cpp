#include "tests/worker/two_ranks.h"

#include <array>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace cpprun::testing {

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

std::string on_two_ranks(const std::function<void(const ProcessGroup&)>& body,
                         const ProcessGroupOptions& options) {
  const HostedStore store;
  std::array<std::string, 2> errors;
  const auto live = [&](int rank) {
    try {
      const ProcessGroup group = init_process_group(store.context_of(rank, 2), options);
      body(group);
    } catch (const std::exception& error) {
      errors.at(static_cast<std::size_t>(rank)) = error.what();
    }
  };
  std::thread other(live, 1);
  live(0);
  other.join();
  return errors[0] + errors[1];
}

}  // namespace cpprun::testing
