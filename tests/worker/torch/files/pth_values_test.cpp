// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pth_values.h"

#include <ATen/core/List.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/ops/tensor.h>
#include <c10/core/CPUAllocator.h>
#include <doctest/doctest.h>

#include "worker/torch/files/safetensors_file.h"

namespace pth_values_test {

using namespace cpprun;
using pickle::Index;
using pickle::Pickle;

namespace {

// Every storage holds the floats 0 to 5.
std::pair<at::DataPtr, std::size_t> six_floats(const std::string&) {
  at::DataPtr data = c10::GetCPUAllocator()->allocate(6 * sizeof(float));
  for (int i = 0; i < 6; ++i) static_cast<float*>(data.get())[i] = static_cast<float>(i);
  return {std::move(data), 6 * sizeof(float)};
}

Pickle tensor_of(std::int64_t offset, std::vector<std::int64_t> sizes,
                 std::vector<std::int64_t> strides, const std::string& type = "FloatStorage") {
  return {.values = {pickle::Storage{.type = "torch." + type, .key = "0"},
                     pickle::Tensor{.storage = 0,
                                    .dtype = {},
                                    .offset = offset,
                                    .sizes = std::move(sizes),
                                    .strides = std::move(strides)}},
          .root = 1};
}

std::string refusal(const Pickle& pickle) {
  try {
    static_cast<void>(values_of(pickle, "x", six_floats));
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a strided tensor keeps its layout in its storage") {
  const at::Tensor tensor = values_of(tensor_of(1, {2, 2}, {1, 2}), "x", six_floats).toTensor();
  CHECK(tensor.equal(at::tensor({1.0F, 3.0F, 2.0F, 4.0F}).view({2, 2})));
  CHECK_FALSE(tensor.is_contiguous());
}

TEST_CASE("tensors of one storage share memory") {
  Pickle pickle = tensor_of(0, {6}, {1});
  pickle.values.emplace_back(
      pickle::Tensor{.storage = 0, .dtype = {}, .offset = 2, .sizes = {}, .strides = {}});
  pickle.values.emplace_back(pickle::Tuple{{1, 2}});
  pickle.root = 3;
  const auto items = values_of(pickle, "x", six_floats).toTupleRef().elements();
  items[0].toTensor().fill_(9);
  CHECK(items[1].toTensor().item<float>() == 9);
}

TEST_CASE("a tensor that exceeds its storage is rejected") {
  CHECK(refusal(tensor_of(0, {7}, {1})) ==
        "\"x\": a tensor of shape [7] exceeds its storage 0 of 6 elements");
  CHECK(refusal(tensor_of(5, {2}, {1})).find("exceeds its storage") != std::string::npos);
  CHECK(refusal(tensor_of(0, {1LL << 62, 8}, {1LL << 62, 1})).find("exceeds") != std::string::npos);
  CHECK(refusal(tensor_of(0, {1LL << 40, 1LL << 40}, {0, 0})).find("exceeds") != std::string::npos);
  CHECK(refusal(tensor_of(0, {4}, {1}, "DoubleStorage")).find("of 3 elements") !=
        std::string::npos);
}

TEST_CASE("an unknown type is rejected with its name") {
  CHECK(refusal(tensor_of(0, {1}, {1}, "QInt8Storage")) ==
        "\"x\": unknown tensor type torch.QInt8Storage");
}

TEST_CASE("a value that contains itself, or is nested too deeply, is rejected") {
  CHECK(refusal({.values = {pickle::List{{0}}}, .root = 0}) == "\"x\": a value contains itself");
  Pickle deep{.values = {pickle::List{}}, .root = 0};
  for (Index i = 0; i < 200; ++i) deep.values.emplace_back(pickle::List{{i}});
  deep.root = 200;
  CHECK(refusal(deep) == "\"x\": values are nested too deeply");
}

TEST_CASE("values that are referenced many times are created once") {
  // Two to the power of ninety items if each reference were a copy.
  Pickle bomb{.values = {pickle::List{}}, .root = 90};
  for (Index i = 0; i < 90; ++i) bomb.values.emplace_back(pickle::List{{i, i}});
  CHECK(values_of(bomb, "x", six_floats).isList());
}

}  // namespace pth_values_test
