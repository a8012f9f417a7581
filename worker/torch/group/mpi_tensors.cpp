// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_tensors.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <numeric>

#include "worker/torch/group/distributed_error.h"

namespace cpprun::mpi {
namespace {

using c10::ScalarType;
using c10d::ReduceOp;

bool is_computable(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::ComplexFloat:
    case ScalarType::ComplexDouble:
      return true;
    default:  // LibTorch's enumeration grows from version to version
      return c10::isIntegralType(type, /*includeBool=*/false);
  }
}

bool is_bitwise(ReduceOp::RedOpType op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

}  // namespace

std::string why_not_reduced(ScalarType type, ReduceOp::RedOpType op) {
  const bool fractions = c10::isFloatingType(type) || c10::isComplexType(type);
  if (!is_computable(type)) {
    return fmt::format("MPI cannot reduce {}: convert the tensor first", c10::toString(type));
  }
  if (op == ReduceOp::PREMUL_SUM || op == ReduceOp::UNUSED) {
    return "MPI does not support this reduction: multiply first, then reduce by sum";
  }
  if (op == ReduceOp::AVG && !fractions) {
    return "cannot average integers: reduce by sum and divide, or convert first";
  }
  if (is_bitwise(op) && fractions) {
    return fmt::format("bitwise operations need integers, not {}", c10::toString(type));
  }
  if ((op == ReduceOp::MIN || op == ReduceOp::MAX) && c10::isComplexType(type)) {
    return "complex numbers have no minimum or maximum";
  }
  return {};
}

// MPI reads and writes plain memory of this machine.
const at::Tensor& plain(const at::Tensor& tensor, const char* name) {
  const auto refuse = [name](const std::string& why) {
    throw DistributedError(fmt::format("{} over mpi: {}", name, why));
  };
  if (!tensor.defined()) refuse("the tensor is undefined");
  if (tensor.layout() != at::kStrided) refuse("the tensor is not dense: call to_dense() first");
  if (!tensor.device().is_cpu()) refuse("the tensor is not on the CPU: use nccl for GPU tensors");
  if (!tensor.is_contiguous()) refuse("the tensor is not contiguous: call contiguous() first");
  return tensor;
}

const at::Tensor& only(const Tensors& tensors, const char* name) {
  if (tensors.size() == 1) return plain(tensors.front(), name);
  throw DistributedError(fmt::format("{} over mpi needs one tensor, not {}", name, tensors.size()));
}

// MPI counts elements in an int.
int count_of(std::int64_t elements, const char* name) {
  if (elements <= std::numeric_limits<int>::max()) return static_cast<int>(elements);
  throw DistributedError(
      fmt::format("{} over mpi: {} elements exceed MPI's limit of {}: send the tensor in parts",
                  name, elements, std::numeric_limits<int>::max()));
}

void require_reducible(const at::Tensor& tensor, const c10d::ReduceOp& op, const char* name) {
  const std::string why = why_not_reduced(tensor.scalar_type(), op);
  if (!why.empty()) throw DistributedError(fmt::format("{} over mpi: {}", name, why));
}

void require_alike(const Tensors& tensors, const at::Tensor& like, int size, const char* name) {
  if (tensors.size() != static_cast<std::size_t>(size)) {
    throw DistributedError(
        fmt::format("{} over mpi: got {} tensors for a group of {}", name, tensors.size(), size));
  }
  for (const at::Tensor& each : tensors) {
    if (each.numel() == like.numel() && each.scalar_type() == like.scalar_type()) continue;
    throw DistributedError(fmt::format(
        "{} over mpi: the tensors differ: {} elements of {} and {} of {}", name, each.numel(),
        c10::toString(each.scalar_type()), like.numel(), c10::toString(like.scalar_type())));
  }
}

// Contiguous memory for the data of several ranks, as MPI requires.
at::Tensor room_for(const at::Tensor& like, int times) {
  return at::empty({like.numel() * times}, like.options().requires_grad(false));
}

at::Tensor joined(const Tensors& tensors) {
  Tensors flat;
  for (const at::Tensor& each : tensors) flat.push_back(each.detach().flatten());
  return at::cat(flat);
}

void deal(const at::Tensor& flat, const Tensors& outputs) {
  std::int64_t at = 0;
  for (const at::Tensor& output : outputs) {
    output.detach().copy_(flat.narrow(0, at, output.numel()).view(output.sizes()));
    at += output.numel();
  }
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

void divide(const at::Tensor& tensor, const c10d::ReduceOp& op, int size) {
  if (op.op_ == c10d::ReduceOp::AVG) tensor.detach().div_(size);
}

// Converts rows per rank to elements and offsets per rank. Equal shares if `splits` is empty.
void add_counts(std::vector<int>& counts, const at::Tensor& tensor,
                const std::vector<std::int64_t>& splits, int size, const char* which) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const bool equal = splits.empty();
  const bool fits =
      equal ? rows % size == 0
            : splits.size() == static_cast<std::size_t>(size) &&
                  std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == rows;
  if (!fits) {
    throw DistributedError(
        fmt::format("all_to_all over mpi: {} rows of the {} cannot be split into [{}] for {} ranks",
                    rows, which, fmt::join(splits, ", "), size));
  }
  const std::int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  const auto part = [&](std::size_t rank) { return (equal ? rows / size : splits[rank]) * row; };
  for (int rank = 0; rank < size; ++rank) {
    counts.push_back(count_of(part(static_cast<std::size_t>(rank)), "all_to_all"));
  }
  std::int64_t begin = 0;
  for (int rank = 0; rank < size; ++rank) {
    counts.push_back(count_of(begin, "all_to_all"));
    begin += part(static_cast<std::size_t>(rank));
  }
}

}  // namespace cpprun::mpi
