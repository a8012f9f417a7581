// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// LibTorch's element types and reductions in MPI's terms. Includes MPI's header, so it is included
// only where MPI is.

#include <c10/core/ScalarType.h>
#include <mpi.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace cpprun {

// For what is only moved: a type of that many bytes. Throws DistributedError if there is none.
MPI_Datatype mpi_element(c10::ScalarType type);

// MPI's own words for one of its error codes. On MPI's thread.
std::string mpi_error_text(int code);

struct MpiReduction {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};
// On MPI's thread, for what why_not_reduced() (mpi_tensors.h) has nothing against. The average is a
// sum that the caller divides; bool stays 0 or 1: a sum of it is "any", a product "all".
MpiReduction mpi_reduction(c10::ScalarType type, c10d::ReduceOp::RedOpType op);

}  // namespace cpprun
