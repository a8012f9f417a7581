// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_progress.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"

using namespace cpprun;
using namespace std::chrono_literals;
using testing::expect;

namespace {

std::string refusal_of(const std::function<void()>& operation) {
  try {
    operation();
    return "none";
  } catch (const std::exception& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a message whose length differs from the receive is a failure of the receive") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          if (group.rank() == 0) {
            send(at::zeros({2}), 1, group, 1);
            send(at::zeros({6}), 1, group, 2);
            send(at::full({4}, 3.0, at::kFloat), 1, group, 3);
            return;
          }
          const auto received = [&](int tag) {
            return refusal_of([&] { recv(at::zeros({4}), 0, group, tag); });
          };
          expect(has(received(1), "rank 0 sent 2 elements, expected 4"), "short");
          expect(has(received(2), "MPI_ERR_TRUNCATE"), "long");
          expect(received(3) == "none", "the group works on");
        }) == "");
}

TEST_CASE("a receive without a sender times out and leaves the group usable") {
  CHECK(testing::on_ranks(
            2,
            [](const ProcessGroup& group) {
              if (group.rank() == 1) {
                const std::string words =
                    refusal_of([&] { recv(at::zeros({1}), any_source, group, 5); });
                expect(has(words, "recv from any rank failed: Timed out after 0.3 s over MPI"),
                       words);
              }
              const at::Tensor one = at::full({1}, 1.0);
              const auto world = group.native();
              std::vector<at::Tensor> tensors = {one};
              world->allreduce(tensors, {.timeout = 30s})->wait();
              expect(one.item<double>() == 2, "sum");
            },
            {.timeout = 300ms}) == "");
}

TEST_CASE("tags are MPI's, and a tag out of range is rejected") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const int beyond = 2147483647;
          const std::string words =
              refusal_of([&] { send(at::zeros({1}), 1 - group.rank(), group, beyond); });
          expect(has(words, "send over mpi: tag 2147483647 is outside of MPI's range, 0 to "),
                 words);
        }) == "");
}

// After this case and the next MPI is not finalized, for which mpirun fails (mpi_test.py).
TEST_CASE("a collective with a missing rank is given up for good, and its group with it") {
  const std::string errors = testing::on_ranks(
      2,
      [](const ProcessGroup& group) {
        if (group.rank() == 1) return;
        const std::string first = refusal_of([&] { all_reduce(at::zeros({3}), group); });
        expect(has(first, "all_reduce failed: Timed out after 0.3 s over MPI"), first);
        const std::string second = refusal_of([&] { barrier(group); });
        expect(second ==
                   "an earlier operation of this group failed: Timed out after 0.3 s over MPI "
                   "(create a new group)",
               second);
      },
      {.timeout = 300ms});
  CHECK(errors == "");
}

TEST_CASE("a group that is aborted is given up for good, and does not hang") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          if (group.rank() == 1) return;
          Work waiting = all_reduce_async(at::zeros({3}), group);
          group.native()->getBackend(c10::kCPU)->abort();
          expect(has(refusal_of([&] { waiting.wait(); }), "Aborted"), "the wait");
        }) == "");
}

TEST_CASE("all ranks come to a monitored barrier, one after the other") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          monitored_barrier(group, 30s);
          monitored_barrier(group, 30s, /*wait_all_ranks=*/true);
          expect(group.native()->getBackend(c10::kCPU)->getBackendName() == "mpi", "name");
        }) == "");
}
