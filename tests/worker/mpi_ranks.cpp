// SPDX-License-Identifier: BSD-3-Clause
// two_ranks.h over MPI: every process that mpirun has started runs the same cases in the same
// order, as one of the ranks. It is linked with the tests of gloo.

#include <numeric>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/worker/two_ranks.h"
#include "worker/env/io/environment.h"

namespace cpprun::testing {
namespace {

using namespace std::chrono_literals;

// What all ranks threw, on every rank.
std::string gathered(const ProcessGroup& all_ranks, const std::string& mine) {
  const auto key = [](int rank) { return "test/error/" + std::to_string(rank); };
  c10d::Store& store = *all_ranks.store();
  store.set(key(all_ranks.rank()), mine + '\n');  // a store has no empty values
  std::string all;
  for (int rank = 0; rank < all_ranks.size(); ++rank) {
    store.wait({key(rank)}, 60s);
    std::string theirs = store.get_to_str(key(rank));
    theirs.pop_back();
    all += theirs;
  }
  return all;
}

// Ranks from `count` on do nothing.
std::string run(const ProcessGroup& all_ranks, int count,
                const std::function<void(const ProcessGroup&)>& body) {
  try {
    if (count == all_ranks.size()) {
      body(all_ranks);
      return {};
    }
    std::vector<int> members(static_cast<std::size_t>(count));
    std::iota(members.begin(), members.end(), 0);
    if (const auto some = new_group(all_ranks, members)) body(*some);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::string on_ranks(int count, const std::function<void(const ProcessGroup&)>& body,
                     const ProcessGroupOptions& options,
                     const std::function<void(Context&)>& change) {
  static int times = 0;  // equal in all processes, as they run the same cases
  const Environment environment = read_environment();
  const std::string* const directory = find_variable(environment, "CPPRUN_TEST_DIRECTORY");
  auto context = parse_context(environment);
  if (directory == nullptr || !context || context->world_size < count) {
    return "start this program with tests/worker/mpirun.py, with enough processes";
  }
  if (change) change(*context);
  ProcessGroupOptions over_mpi = options;
  over_mpi.backend = "mpi";
  over_mpi.init_method = "file://" + *directory + "/store." + std::to_string(times++);
  const ProcessGroup all_ranks = init_process_group(*context, over_mpi);
  return gathered(all_ranks, run(all_ranks, count, body));
}

std::string on_two_ranks(const std::function<void(const ProcessGroup&)>& body,
                         const ProcessGroupOptions& options) {
  return on_ranks(2, body, options);
}

}  // namespace cpprun::testing
