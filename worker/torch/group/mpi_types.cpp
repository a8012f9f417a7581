// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_types.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "worker/torch/group/distributed_error.h"

namespace cpprun {
namespace {

using c10::ScalarType;
using c10d::ReduceOp;

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Most {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

// MPI knows no fractions of 16 bits. As in gloo, each step is rounded to them.
template <class T, class Step>
void reduce_small(void* more, void* into, int* count, MPI_Datatype*) {
  const T* const from = static_cast<const T*>(more);
  T* const to = static_cast<T*>(into);
  for (int n = 0; n < *count; ++n) to[n] = Step::template of<T>(from[n], to[n]);
}

// An operation of MPI's is made once, and lives as long as MPI.
template <class T, class Step>
MPI_Op small_op() {
  static const MPI_Op made = [] {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(&reduce_small<T, Step>, /*commute=*/1, &op);
    return op;
  }();
  return made;
}

template <class T>
MPI_Op small_op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::PRODUCT:
      return small_op<T, Product>();
    case ReduceOp::MIN:
      return small_op<T, Least>();
    case ReduceOp::MAX:
      return small_op<T, Most>();
    default:
      return small_op<T, Sum>();
  }
}

// LibTorch's enumeration grows from version to version, so there is a `default`.
MPI_Op op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::PRODUCT:
      return MPI_PROD;
    case ReduceOp::MIN:
      return MPI_MIN;
    case ReduceOp::MAX:
      return MPI_MAX;
    case ReduceOp::BAND:
      return MPI_BAND;
    case ReduceOp::BOR:
      return MPI_BOR;
    case ReduceOp::BXOR:
      return MPI_BXOR;
    default:
      return MPI_SUM;
  }
}

MPI_Op truth_op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
      return MPI_MAX;
    case ReduceOp::PRODUCT:
      return MPI_MIN;
    default:
      return op_of(op);
  }
}

// What MPI can compute with; null for all other types.
MPI_Datatype number_type(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::Byte:
      return MPI_UINT8_T;
    case ScalarType::Char:
      return MPI_INT8_T;
    case ScalarType::Short:
      return MPI_INT16_T;
    case ScalarType::Int:
      return MPI_INT32_T;
    case ScalarType::Long:
      return MPI_INT64_T;
    case ScalarType::UInt16:
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return MPI_UINT16_T;
    case ScalarType::UInt32:
      return MPI_UINT32_T;
    case ScalarType::UInt64:
      return MPI_UINT64_T;
    case ScalarType::Float:
      return MPI_FLOAT;
    case ScalarType::Double:
      return MPI_DOUBLE;
    case ScalarType::ComplexFloat:
      return MPI_C_FLOAT_COMPLEX;
    case ScalarType::ComplexDouble:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_DATATYPE_NULL;
  }
}

}  // namespace

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  if (MPI_Error_string(code, words.data(), &length) != MPI_SUCCESS) {
    return fmt::format("MPI's error {}", code);
  }
  return {words.data(), static_cast<std::size_t>(length)};
}

MPI_Datatype mpi_element(ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    case 16:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      break;
  }
  throw DistributedError(
      fmt::format("backend mpi moves no tensors of {}: convert them first", c10::toString(type)));
}

MpiReduction mpi_reduction(ScalarType type, ReduceOp::RedOpType op) {
  const MPI_Datatype numbers = number_type(type);
  switch (type) {
    case ScalarType::Half:
      return {numbers, small_op_of<c10::Half>(op)};
    case ScalarType::BFloat16:
      return {numbers, small_op_of<c10::BFloat16>(op)};
    case ScalarType::Bool:
      return {numbers, truth_op_of(op)};
    default:
      return {numbers, op_of(op)};
  }
}

}  // namespace cpprun
