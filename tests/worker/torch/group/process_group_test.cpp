// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/process_group.h"

#include <ATen/ops/ones.h>
// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <doctest/doctest.h>

#include "tests/worker/child.h"
#include "tests/worker/temporary_directory.h"
#include "tests/worker/two_ranks.h"
#include "worker/env/io/worker.h"
#include "worker/torch/collectives/collectives.h"

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a worker without a launcher forms a group alone and needs no network") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK(group.rank() == 0);
  CHECK(group.size() == 1);
  const at::Tensor tensor = at::ones({3});
  all_reduce(tensor, group);
  CHECK(tensor.sum().item<float>() == 3);
}

TEST_CASE("two ranks meet at the launcher's store") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          if (group.size() != 2) throw DistributedError("a group of two was expected");
        }) == "");
}

TEST_CASE("a rank that stays alone reports the missing ranks") {
  const testing::HostedStore store;
  const std::string reason =
      testing::failure_of(store.context_of(0, 2), {.timeout = 300ms, .join_timeout = 300ms});
  CHECK(reason.find("as rank 0 of 2") != std::string::npos);
  CHECK(reason.find("rank 1 did not join") != std::string::npos);
}

TEST_CASE("a missing store is named with its address") {
  Context context = testing::HostedStore().context_of(1, 2);
  const std::string reason =
      testing::failure_of(context, {.timeout = 100ms, .join_timeout = 100ms});
  CHECK(reason.find("the store at 127.0.0.1:") != std::string::npos);
  CHECK(reason.find("was not reached") != std::string::npos);
}

TEST_CASE("a group of explicit ranks meets by tcp, and rank 0 serves") {
  std::uint16_t port = 0;
  {
    // A port that was free a moment ago.
    const testing::HostedStore probe;
    port = probe.context_of(0, 1).store.port;
  }
  const ProcessGroup group = init_process_group(
      Context{},
      {.init_method = "tcp://127.0.0.1:" + std::to_string(port) + "?rank=0&world_size=1"});
  CHECK(group.size() == 1);
  CHECK(group.name() == "0");
}

TEST_CASE("a duplicate rank is rejected") {
  const testing::HostedStore store;
  const ProcessGroup first = init_process_group(store.context_of(0, 1));
  const std::string reason = testing::failure_of(store.context_of(0, 1), {.join_timeout = 300ms});
  CHECK(reason.find("already has a rank 0") != std::string::npos);
}

TEST_CASE("an invalid init method or backend is rejected") {
  CHECK(testing::failure_of({}, {.init_method = "udp://a:1"}).find("valid init methods are") !=
        std::string::npos);
  CHECK(testing::failure_of({}, {.backend = "ucc"}).find("unknown backend ucc") !=
        std::string::npos);
}

TEST_CASE("ranks may use a store of their own") {
  const testing::HostedStore hosted;
  const ProcessGroup first = init_process_group(hosted.context_of(0, 1));
  const auto own = c10::make_intrusive<c10d::PrefixStore>("own", first.store());
  const ProcessGroup group = init_process_group(Context{}, own);
  CHECK(group.size() == 1);
}

TEST_CASE("a group that was moved from or left throws an exception") {
  ProcessGroup first = init_process_group(Context{});
  const ProcessGroup alias = first.alias();
  ProcessGroup second = std::move(first);
  // The use after move is the point of the test.
  CHECK_THROWS_WITH_AS(static_cast<void>(first.rank()),  // NOLINT(bugprone-use-after-move)
                       "this ProcessGroup was moved from and is empty: use the ProcessGroup it was "
                       "moved to",
                       DistributedError);
  CHECK_THROWS_AS(all_reduce(at::ones({3}), first), DistributedError);
  CHECK(alias.size() == 1);
  destroy_process_group(std::move(second));
  CHECK_THROWS_AS(barrier(second), DistributedError);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(static_cast<void>(alias.size()), DistributedError);
}

TEST_CASE("errors name the rank that is given in a URL") {
  const testing::TemporaryDirectory directory;
  const auto ended = testing::run_in_child([&] {
    return run([&](const Context& context) {
      // Over gloo alone: a forked child of a process that has used CUDA cannot use it.
      const ProcessGroup group = init_process_group(
          context, {.backend = "gloo",
                    .init_method = "file://" + directory.file("job.init") + "?rank=1&world_size=2",
                    .join_timeout = 200ms});
      return 0;
    });
  });
  INFO(ended.stderr_text);
  CHECK(ended.stderr_text.find("rank 1: cpprun::DistributedError: ") != std::string::npos);
}
