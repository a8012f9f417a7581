// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one way to an MPI backend. Where no MPI was found it holds the refusal alone.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace cpprun {

// Whether make_mpi_backend() can do anything in this build.
bool mpi_built();

struct MpiMeeting {
  int world_size = 1;                      // ranks of the whole job, which MPI's world has to have
  std::string group;                       // its name, the same for all members
  std::chrono::milliseconds join{};        // until every other rank of the group is here
  std::chrono::milliseconds collective{};  // for each operation afterwards
};

// Meets the other ranks at the store, so that whoever does not come is known by number, and only
// then asks MPI, which would wait without end. Only members call it. The first call initialises
// MPI; the end of the process finalises it. Throws DistributedError, or what the store throws.
c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size, const MpiMeeting& meeting);

}  // namespace cpprun
