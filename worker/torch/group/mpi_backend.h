// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The only way to create an MPI backend. Where the build found no MPI, it only throws.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace cpprun {

// Whether this build has MPI; otherwise make_mpi_backend() throws.
bool mpi_built();

struct MpiMeeting {
  int world_size = 1;                      // of the whole job; MPI's world must have as many
  std::string group;                       // its name, the same on all members
  std::chrono::milliseconds join{};        // until every other rank of the group is here
  std::chrono::milliseconds collective{};  // for each operation afterwards
};

// Waits for the other ranks at the store, so that missing ranks are known by number. Only then
// calls MPI, which would wait forever. Only members call it. The first call initialises MPI;
// process exit finalises it. Throws DistributedError, or the store's exception.
c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size, const MpiMeeting& meeting);

}  // namespace cpprun
