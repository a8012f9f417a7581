// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/state_dict.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("numbers are restored to the last bit") {
  StateDict state;
  state.set("steps", std::int64_t{-9'007'199'254'740'993});
  state.set("lr", 0.1);
  CHECK(state.integer("steps") == -9'007'199'254'740'993);
  CHECK(state.real("lr") == 0.1);
}

TEST_CASE("a missing or invalid number is an error with its name") {
  StateDict state;
  state.texts["lr"] = "fast";
  CHECK_THROWS_WITH_AS(static_cast<void>(state.real("lr")), "\"lr\" is \"fast\", expected a number",
                       StateError);
  CHECK_THROWS_WITH_AS(static_cast<void>(state.integer("step")), "\"step\" is missing", StateError);
}

TEST_CASE("parts are stored under a prefix and extracted again") {
  StateDict part;
  part.tensors["weight"] = at::zeros({2});
  part.set("lr", 0.5);
  StateDict whole;
  whole.put("optimizer", part);
  whole.put("optimizer2", part);
  CHECK(whole.tensors.contains("optimizer.weight"));
  const StateDict back = whole.part("optimizer");
  CHECK(back.tensors.size() == 1);
  CHECK(back.tensors.contains("weight"));
  CHECK(back.real("lr") == 0.5);
}

TEST_CASE("values are copied into existing tensors") {
  const at::Tensor target = at::zeros({2}).set_requires_grad(true);
  StateDict state;
  state.tensors["weight"] = at::full({2}, 3.0);
  copy_into({{"weight", target}}, state, "the model");
  CHECK(target[1].item<float>() == 3);
}

TEST_CASE("all mismatches are listed together, and nothing is changed") {
  const at::Tensor first = at::zeros({2});
  StateDict state;
  state.tensors["first"] = at::full({2}, 3.0);
  state.tensors["second"] = at::full({2, 3}, 3.0);
  state.tensors["extra"] = at::zeros({1});
  CHECK_THROWS_WITH_AS(
      copy_into({{"first", first}, {"second", at::zeros({3})}, {"third", at::zeros({1})}}, state,
                "the model"),
      "the model does not match the saved state: second is [2, 3], expected [3]; third is "
      "missing; extra is unknown",
      StateError);
  CHECK(first[0].item<float>() == 0);
}
