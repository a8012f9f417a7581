// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one thread of this process that calls MPI: it initialises MPI, begins operations in the order
// in which they were asked for, looks after those under way, and finalises MPI when the process
// ends. So any MPI will do, also one that takes calls from the thread that initialised it alone;
// operations of all groups are under way at once, and each may take no longer than it was given.
// Includes MPI's header, so it is included only where MPI is.
//
// A thread it has to be, because MPI moves data only while it is called, and whoever asked for an
// operation computes meanwhile. A second one completes futures: what hangs on them is foreign code,
// which may wait for another operation.

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cpprun {

// How an operation came to its end, for MPI's thread alone.
struct MpiEnd {
  std::string failure;                 // empty: it was done
  const MPI_Status* status = nullptr;  // of one that was done
};

struct MpiOperation {
  const void* group = nullptr;  // whose it is; only compared
  std::int64_t bytes = 0;       // how much it moves, by which the thread paces itself
  std::chrono::milliseconds timeout{};
  bool is_receive = false;  // it alone can be taken back
  // Both on MPI's thread. `begin` returns MPI's error code; MPI_REQUEST_NULL is done at once. `end`
  // is called exactly once, and must not throw.
  std::function<int(MPI_Request*)> begin;
  std::function<void(const MpiEnd&)> end;
  // What MPI reads and writes, until it has let go of it.
  std::shared_ptr<const void> keeps;

  // Whoever sets it ends the operation, unless it has ended: `end` is called soon, with these
  // words, which have to stay.
  std::atomic<const char*> given_up = nullptr;
};

// What the words of one whose time is up begin with (failure.h knows them).
inline constexpr const char* mpi_timed_out = "Timed out";
inline constexpr const char* mpi_aborted = "It was aborted";

class MpiProgress {
 public:
  // Starts the thread; wait_until_ready() says how that went.
  MpiProgress();
  ~MpiProgress();
  // Gives up what is under way, and finalises MPI, unless this library did not initialise it, or
  // MPI still holds memory of an operation that was given up. Nothing can be submitted any more.
  void finish();
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;

  struct World {
    int rank = 0;
    int size = 0;
    int tag_max = 0;
  };
  // Throws DistributedError if MPI cannot be used, or is not there within `timeout`.
  World wait_until_ready(std::chrono::milliseconds timeout) const;

  void submit(const std::shared_ptr<MpiOperation>& operation);
  // Ends all that a group has asked for and that has not ended.
  void give_up_all(const void* group, const char* why);
  // Returns when no operation of that group is under way.
  void drain(const void* group);

  // Calls `body` on MPI's thread, in the order of the operations, and returns its result.
  int call(const std::function<int()>& body);
  // Calls `body` on the thread that completes futures.
  void later(std::function<void()> body);

 private:
  struct Desk;
  class Thread;
  std::shared_ptr<Desk> desk_;
};

// MPI exists once in a process, and comes only once: so does this. It finishes with the process.
std::shared_ptr<MpiProgress> mpi_progress();

}  // namespace cpprun
