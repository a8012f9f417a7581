// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/collective_check.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <exception>
#include <future>
#include <thread>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/ddp/ddp_core.h"

namespace collective_check_test {

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

TEST_CASE("in debug mode a different shape is an error on every rank") {
  const std::string error = in_debug_mode(3, [](const ProcessGroup& group) {
    all_reduce(at::full({group.rank() == 1 ? 3 : 2}, 1.0, at::kFloat), group);
  });
  INFO(error);
  const std::string words =
      "the ranks disagree about collective 1: ranks 0, 2 call all_reduce(sum, Float [2] on cpu); "
      "rank 1 calls all_reduce(sum, Float [3] on cpu)";
  CHECK(error == words + words + words);
}

TEST_CASE("in debug mode a different operation is named") {
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

TEST_CASE("in debug mode a missing rank is named") {
  std::promise<void> given_up;
  const std::string error = in_debug_mode(2,
                                          [&](const ProcessGroup& group) {
                                            if (group.rank() == 1) {
                                              return given_up.get_future().wait();
                                            }
                                            try {
                                              barrier(group);
                                            } catch (const DistributedError&) {
                                              given_up.set_value();
                                              throw;
                                            }
                                          },
                                          {.timeout = 300ms});
  CHECK(error == "rank 1 did not reach collective 1 within 0.3 s; rank 0 calls barrier()");
}

TEST_CASE(
    "in debug mode DistributedDataParallel is compared, and a rank with fewer steps is named") {
  const std::string error = in_debug_mode(2, [](const ProcessGroup& group) {
    const at::Tensor parameter = at::full({2}, 1.0, at::kFloat).set_requires_grad(true);
    DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, {});
    for (int i = 0; i < 3 - group.rank(); ++i) {
      core.before_forward();
      at::Tensor output = parameter.mul(2);
      core.after_forward({&output});
      output.sum().backward();
    }
    barrier(group);
  });
  INFO(error);
  CHECK(contains(error,
                 "rank 0 calls all_reduce(Float [2] on cpu) in step 3 of "
                 "DistributedDataParallel(Toy); rank 1 calls barrier(); rank 1 is behind in "
                 "DistributedDataParallel, at step 2 while others are at 3: "));
}

TEST_CASE("in debug mode a rank that continues gets an error at once after the others have left") {
  for (const int leaver : {0, 1}) {
    const std::string error = in_debug_mode(2, [&](const ProcessGroup& group) {
      if (group.rank() != leaver) barrier(group);
    });
    INFO(error);
    CHECK(contains(error, leaver == 0 ? "rank 0 left the group after 0 collectives"
                                      : "rank 1 calls nothing: it leaves the group"));
  }
}

TEST_CASE("in debug mode two threads with two groups do not wait for each other") {
  // The first group's rank 0 waits at the store until the second group has done its work.
  CHECK(in_debug_mode(2,
                      [](const ProcessGroup& group) {
                        const auto first = new_group(group, {0, 1});
                        const auto second = new_group(group, {0, 1});
                        std::promise<void> done;
                        std::exception_ptr failed;
                        std::thread other([&] {
                          try {
                            if (group.rank() == 1) done.get_future().wait();
                            barrier(*first);
                          } catch (const std::exception&) {
                            failed = std::current_exception();
                          }
                        });
                        try {
                          for (int i = 0; i < 3; ++i) barrier(*second);
                        } catch (const std::exception&) {
                          failed = std::current_exception();
                        }
                        done.set_value();
                        other.join();
                        if (failed) std::rethrow_exception(failed);
                      },
                      {.timeout = 2min}) == "");
}

}  // namespace collective_check_test
