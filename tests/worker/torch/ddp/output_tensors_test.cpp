// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/ddp.h"

#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

namespace output_tensors_test {

namespace user_code {

struct Detections {
  at::Tensor boxes;
  std::vector<at::Tensor> masks;
};

void visit_tensors(Detections& output, cpprun::OutputTensors& found) {
  visit_tensors(output.boxes, found);
  visit_tensors(output.masks, found);
}

}  // namespace user_code

TEST_CASE("tensors are found in every nesting, in order") {
  const auto zero = [] { return at::zeros({1}); };
  std::tuple<at::Tensor, std::vector<std::pair<at::Tensor, at::Tensor>>> output = {
      zero(), {{zero(), zero()}, {zero(), zero()}}};
  cpprun::OutputTensors found;
  visit_tensors(output, found);
  REQUIRE(found.places.size() == 5);
  CHECK(found.places.front() == &std::get<0>(output));
  CHECK(found.places.back() == &std::get<1>(output)[1].second);
}

TEST_CASE("a user's own output type takes part") {
  std::vector<user_code::Detections> output(2);
  output[0].masks.resize(3);
  cpprun::OutputTensors found;
  visit_tensors(output, found);
  CHECK(found.places.size() == 5);
}

}  // namespace output_tensors_test
