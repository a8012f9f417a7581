// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle.h"

#include <doctest/doctest.h>

namespace pickle_rebuild_test {

using namespace cpprun;
using namespace cpprun::pickle;

namespace {

std::string refusal(const std::vector<Value>& values, const std::string& global,
                    const std::vector<Index>& arguments) {
  const auto made = rebuild(values, global, arguments);
  return made ? "" : made.error().reason;
}

// A storage, an offset, sizes, strides, a flag, hooks, and a type.
std::vector<Value> arguments_of_a_tensor() {
  return {Storage{.type = "torch.FloatStorage", .key = "0"},
          std::int64_t{0},
          Tuple{{7}},
          Tuple{{7}},
          false,
          Dict{},
          Global{"torch.float32"},
          std::int64_t{1}};
}

}  // namespace

TEST_CASE("only names that describe tensors are known") {
  CHECK(is_known("torch.FloatStorage"));
  CHECK(is_known("torch.bfloat16"));
  CHECK(is_known("torch.storage.UntypedStorage"));
  CHECK(is_known("collections.OrderedDict"));
  CHECK_FALSE(is_known("torch.nn.Linear"));
  CHECK_FALSE(is_known("posix.system"));
  CHECK_FALSE(is_known("torch." + std::string(1000, 'x')));
}

TEST_CASE("a tensor of the newer kind carries its type") {
  const auto values = arguments_of_a_tensor();
  const auto made = rebuild(values, "torch._utils._rebuild_tensor_v3", {0, 1, 2, 3, 4, 5, 6});
  REQUIRE(made);
  CHECK(std::get<Tensor>(*made).dtype == "torch.float32");
  CHECK(refusal(values, "torch._utils._rebuild_tensor_v3", {0, 1, 2, 3, 4, 5, 1}) ==
        "a tensor has no type");
}

TEST_CASE("an invalid tensor is rejected") {
  auto values = arguments_of_a_tensor();
  const auto v2 = "torch._utils._rebuild_tensor_v2";
  CHECK(refusal(values, v2, {1, 1, 2, 3, 4, 5}) == "a tensor has no storage");
  CHECK(refusal(values, v2, {0, 1}) == "a tensor has no storage");
  values[7] = std::int64_t{-1};
  CHECK(refusal(values, v2, {0, 1, 2, 3, 4, 5}) ==
        "a tensor has an invalid offset, size or stride");
  values[7] = std::int64_t{1};
  values[2] = Tuple{std::vector<Index>(65, 7)};
  CHECK(refusal(values, v2, {0, 1, 2, 2, 4, 5}) ==
        "a tensor has an invalid offset, size or stride");
}

TEST_CASE("a view that is to be conjugated or negated is rejected with a hint") {
  auto values = arguments_of_a_tensor();
  const auto v2 = "torch._utils._rebuild_tensor_v2";
  CHECK(refusal(values, v2, {0, 1, 2, 3, 4, 5, 5}).empty());
  Dict bits;
  bits.items.emplace_back(6, 4);
  values.emplace_back(bits);
  CHECK(refusal(values, v2, {0, 1, 2, 3, 4, 5, 8}) ==
        "conjugated or negated views are not supported: save with .resolve_conj().resolve_neg()");
}

TEST_CASE("a persistent id that is not a storage is rejected") {
  const std::vector<Value> values = {std::string("module"), Global{"torch.FloatStorage"},
                                     std::string("0")};
  CHECK_FALSE(storage_of(values, {0, 1, 2, 2, 2}));
  CHECK_FALSE(storage_of(values, {}));
}

}  // namespace pickle_rebuild_test
