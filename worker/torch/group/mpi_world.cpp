// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view unknown = "-";

constexpr const char* hint =
    "start every rank with one mpirun (mpirun -np RANKS PROGRAM --backend mpi), or use backend "
    "gloo under cpprun";

std::optional<int> number_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : exact_number<int>(found->second);
}

}  // namespace

MpiStart mpi_start_of(const Environment& environment) {
  // Open MPI, then MPICH, Intel MPI and others that use PMI.
  constexpr std::pair<const char*, const char*> families[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank_name, size_name] : families) {
    const MpiStart start{.rank = number_of(environment, rank_name),
                         .size = number_of(environment, size_name)};
    if (start.rank && start.size) return start;
  }
  return {};
}

std::string mpi_world_fault(int mpi_size, int world_size) {
  if (mpi_size == world_size) return {};
  return fmt::format("backend mpi: MPI_COMM_WORLD has {} process{}, but the job has {} rank{}: {}",
                     mpi_size, mpi_size == 1 ? "" : "es", world_size, world_size == 1 ? "" : "s",
                     hint);
}

std::string mpi_card(std::optional<int> mpi_rank) {
  return mpi_rank ? fmt::format("{}", *mpi_rank) : std::string(unknown);
}

Result<std::vector<std::optional<int>>> mpi_ranks_of(const std::vector<std::string>& cards) {
  std::vector<std::optional<int>> ranks;
  std::map<int, std::size_t> owners;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const auto process = exact_number<int>(cards[rank]);
    ranks.push_back(process);
    if (!process) continue;
    const auto [owner, fresh] = owners.emplace(*process, rank);
    if (fresh) continue;
    return failure(fmt::format(
        "backend mpi: ranks {} and {} of the group are both process {} of MPI_COMM_WORLD: {}",
        owner->second, rank, *process, hint));
  }
  return ranks;
}

namespace {

using std::chrono::microseconds;
using namespace std::chrono_literals;

// Time of a small message between ranks that share processors with others.
constexpr microseconds small_message = 5ms;
// The speed of a slow network: 100 MB/s.
constexpr std::int64_t bytes_per_microsecond = 100;
constexpr int part_of_the_wait = 50;
constexpr microseconds pause_min = 50us;  // the kernel's timer rounds shorter pauses up
constexpr microseconds pause_max = 1ms;

}  // namespace

microseconds pause_between_looks(microseconds quiet, std::int64_t bytes) {
  const microseconds transfer = small_message + microseconds(bytes / bytes_per_microsecond);
  if (quiet < transfer) return microseconds(0);
  return std::clamp(quiet / part_of_the_wait, pause_min, pause_max);
}

}  // namespace cpprun
