// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Ranks in one process, on threads, that meet at a store of the test's own, as workers meet at
// their launcher's.

#include <functional>
#include <memory>
#include <string>

#include "worker/torch/group/process_group.h"

namespace cpprun::testing {

// Hosts PyTorch's own store on a free port of the loopback while it lives.
class HostedStore {
 public:
  HostedStore();
  ~HostedStore();
  HostedStore(const HostedStore&) = delete;
  HostedStore& operator=(const HostedStore&) = delete;

  Context context_of(int rank, int world_size) const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

// Runs `body` for every rank of one group. Returns what the ranks threw, or an empty string.
// `change` may change a rank's context.
std::string on_ranks(int count, const std::function<void(const ProcessGroup&)>& body,
                     const ProcessGroupOptions& options = {},
                     const std::function<void(Context&)>& change = {});

// For tests on ranks, whose threads may not use the framework's macros.
inline void expect(bool condition, const std::string& what) {
  if (!condition) throw DistributedError(what);
}

// Runs `body` for ranks 0 and 1 of one group. Returns what the ranks threw, or an empty string.
std::string on_two_ranks(const std::function<void(const ProcessGroup&)>& body,
                         const ProcessGroupOptions& options = {});

// Why no process group came about, or "joined".
std::string failure_of(const Context& context, const ProcessGroupOptions& options);

}  // namespace cpprun::testing
