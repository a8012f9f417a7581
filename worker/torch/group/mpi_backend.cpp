// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_backend.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/torch/group/distributed_error.h"

#ifdef CPPRUN_WITH_MPI
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <vector>

#include "worker/env/io/environment.h"
#include "worker/torch/group/mpi_progress.h"
#include "worker/torch/group/mpi_world.h"
#endif

namespace cpprun {

#ifdef CPPRUN_WITH_MPI
namespace {

void refuse(const std::string& fault) {
  if (!fault.empty()) throw DistributedError(fault);
}

// Publishes this rank's card and waits for the others'. The first keys are those of gloo's
// addresses, so that missing ranks are found in the same way.
std::vector<std::optional<int>> meet(c10d::Store& store, const std::string& prefix, int rank,
                                     int size, std::optional<int> mpi_rank,
                                     std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int each = 0; each < size; ++each) keys.push_back(fmt::format("{}/{}", prefix, each));
  store.set(keys[static_cast<std::size_t>(rank)], mpi_card(mpi_rank));
  store.wait(keys, timeout);
  std::vector<std::string> cards;
  for (const std::string& key : keys) cards.push_back(store.get_to_str(key));
  const auto ranks = mpi_ranks_of(cards);
  if (!ranks) throw DistributedError(ranks.error().reason);
  return *ranks;
}

// Runs on MPI's thread. Only members call it.
int make_communicator(const std::vector<int>& mpi_ranks, int tag, MPI_Comm* made) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  int code = MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (code == MPI_SUCCESS) {
    code = MPI_Group_incl(world, static_cast<int>(mpi_ranks.size()), mpi_ranks.data(), &members);
  }
  if (code == MPI_SUCCESS) code = MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, made);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
  if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
  if (world != MPI_GROUP_NULL) MPI_Group_free(&world);
  return code;
}

}  // namespace

bool mpi_built() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size, const MpiMeeting& meeting) {
  const auto deadline = std::chrono::steady_clock::now() + meeting.join;
  const auto left = [&deadline] {
    return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(
                                                      deadline - std::chrono::steady_clock::now()));
  };
  const MpiStart start = mpi_start_of(read_environment());
  if (start.size) refuse(mpi_world_fault(*start.size, meeting.world_size));
  meet(*store, "0", rank, size, start.rank, left());

  const auto progress = mpi_progress();
  const MpiProgress::World world = progress->wait_until_ready(left());
  refuse(mpi_world_fault(world.size, meeting.world_size));
  std::vector<int> mpi_ranks;
  for (const auto& each : meet(*store, "mpi", rank, size, world.rank, left())) {
    mpi_ranks.push_back(each.value_or(0));  // set on every rank that has met
  }

  // Distinguishes groups that several threads create at the same time.
  const int tag = static_cast<int>(std::hash<std::string>()(meeting.group) % 32768);
  MPI_Comm communicator = MPI_COMM_NULL;
  std::string words;
  progress->call([&] {
    const int code = make_communicator(mpi_ranks, tag, &communicator);
    if (code != MPI_SUCCESS) words = mpi_error_text(code);
    return code;
  });
  if (!words.empty()) throw DistributedError("backend mpi: MPI cannot create the group: " + words);
  return c10::make_intrusive<MpiBackend>(progress, communicator, rank, size, world.tag_max,
                                         meeting.collective);
}

#else

bool mpi_built() {
  return false;
}

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                   const MpiMeeting&) {
  throw DistributedError(
      "backend mpi is not part of this build, because no MPI was found; use backend gloo");
}

#endif

}  // namespace cpprun
