#include "worker/torch/collective_check.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives.h"

using namespace cpprun;
using namespace std::chrono_literals;
using testing::expect;

namespace {

std::string in_debug_mode(int ranks, const std::function<void(const ProcessGroup&)>& body,
                          const ProcessGroupOptions& options = {}) {
  return testing::on_ranks(ranks, body, options,
                           [](Context& context) { context.distributed_debug = true; });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("in debug mode ranks that agree get their results") {
  CHECK(in_debug_mode(3, [](const ProcessGroup& group) {
          for (int i = 0; i < 5; ++i) {
            const at::Tensor tensor = at::full({2}, group.rank(), at::kFloat);
            all_reduce(tensor, group);
            expect(tensor[0].item<float>() == 3, "sum");
          }
          barrier(group);
        }) == "");
}

TEST_CASE("in debug mode another shape is a sentence on every rank") {
  const std::string error = in_debug_mode(3, [](const ProcessGroup& group) {
    all_reduce(at::full({group.rank() == 1 ? 3 : 2}, 1.0, at::kFloat), group);
  });
  INFO(error);
  const std::string words =
      "the ranks disagree about collective 1: ranks 0, 2 call all_reduce(sum, Float [2] on cpu); "
      "rank 1 calls all_reduce(sum, Float [3] on cpu)";
  CHECK(error == words + words + words);
}

TEST_CASE("in debug mode another operation is named") {
  const std::string error = in_debug_mode(2, [](const ProcessGroup& group) {
    if (group.rank() == 0) {
      barrier(group);
    } else {
      broadcast(at::full({2}, 1.0, at::kFloat), group, 1);
    }
  });
  CHECK(
      contains(error, "rank 0 calls barrier(); rank 1 calls broadcast(from 1, Float [2] on cpu)"));
}

TEST_CASE("in debug mode a rank that does not come is named") {
  const std::string error = in_debug_mode(2,
                                          [](const ProcessGroup& group) {
                                            if (group.rank() == 0) barrier(group);
                                          },
                                          {.timeout = 300ms});
  CHECK(error == "rank 1 did not come to collective 1 within 0.3 s; rank 0 calls barrier()");
}
