// SPDX-License-Identifier: BSD-3-Clause
// ddp_parity.py compares whole trainings with Python's, also in groups of both languages.

#include "worker/torch/ddp/join.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/nn/modules/linear.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <optional>

#include "tests/worker/two_ranks.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/ddp/zero_redundancy_optimizer.h"
#include "worker/torch/optim/adam.h"

namespace join_test {

using namespace cpprun;
using testing::expect;

namespace {

using Ddp = DistributedDataParallel<torch::nn::Linear>;

struct Core : DdpCore {
  using DdpCore::DdpCore;
  Joinable& joinable() { return *this; }
};

torch::nn::Linear constant_net(double value) {
  torch::nn::Linear net(3, 2);
  const at::NoGradGuard no_grad;
  for (auto& each : net->parameters()) each.fill_(value);
  return net;
}

void backward(Ddp& ddp, double input) {
  ddp.forward(at::full({1, 3}, input, at::kFloat)).sum().backward();
}

}  // namespace

TEST_CASE("a rank without batches takes part until the others have finished") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          Ddp ddp(constant_net(0), group);
          {
            Join join(ddp);
            for (int step = 0; step < 2 * group.rank(); ++step) {
              ddp.zero_grad();
              backward(ddp, 3);
            }
            join.finish();
          }
          // The last steps had one rank of three.
          expect(ddp.module()->weight.grad()[0][0].item<float>() == 1, "the reduced gradients");
          ddp.zero_grad();
          backward(ddp, 2);
          expect(ddp.module()->weight.grad()[0][0].item<float>() == 2, "all ranks train again");
        }) == "");
}

TEST_CASE("gradients may be divided by the number of ranks that have batches") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          Ddp ddp(constant_net(0), group);
          Join join({.divide_by_initial_world_size = false}, ddp);
          for (int step = 0; step < 1 + group.rank(); ++step) {
            ddp.zero_grad();
            backward(ddp, 4);
          }
          join.finish();
          expect(ddp.module()->weight.grad()[0][0].item<float>() == 4, "one rank's gradient");
          ddp.zero_grad();
          backward(ddp, 2 * group.rank());
          expect(ddp.module()->weight.grad()[0][0].item<float>() == 1, "an average afterwards");
        }) == "");
}

TEST_CASE("a parameter that no rank uses keeps its gradient undefined") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor used = at::full({2}, 1.0).set_requires_grad(true);
          const at::Tensor unused = at::full({2}, 1.0).set_requires_grad(true);
          Core core({{.name = "used", .tensor = used}, {.name = "unused", .tensor = unused}}, {},
                    "Toy", group, {.find_unused_parameters = true});
          Join join(core);
          for (int step = 0; step < 1 + 2 * group.rank(); ++step) {
            core.zero_grad(/*set_to_none=*/true);
            core.before_forward();
            at::Tensor output = used * 2;
            core.after_forward({&output});
            output.sum().backward();
          }
          join.finish();
          expect(used.grad()[0].item<float>() == 1, "half of one rank's gradient");
          expect(!unused.grad().defined(), "an unused parameter");
        }) == "");
}

TEST_CASE("a ZeroRedundancyOptimizer steps with the gradients of the ranks that have batches") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto train = [&group](bool joins) {
            Ddp ddp(constant_net(1), group);
            ZeroRedundancyOptimizer<FusedAdam> optimizer(ddp.parameters(), adamw_options(0.1),
                                                         group);
            std::optional<Join> join;
            if (joins) join.emplace(ddp, optimizer);
            for (int step = 0; step < (joins ? 2 + 3 * group.rank() : 5); ++step) {
              ddp.zero_grad();
              // A missing batch counts as a gradient of zero.
              const bool is_missing = group.rank() == 0 && step >= 2;
              (ddp.forward(at::full({1, 3}, step + 1, at::kFloat)).sum() * (is_missing ? 0 : 1))
                  .backward();
              optimizer.step();
            }
            if (join) join->finish();
            return std::vector{ddp.module()->weight.detach().clone(),
                               ddp.module()->bias.detach().clone()};
          };
          const auto joined = train(true);
          const auto padded = train(false);
          expect(joined[0].equal(padded[0]) && joined[1].equal(padded[1]), "the same parameters");
        }) == "");
}

TEST_CASE("every rank throws when the first has no further batches, if asked to") {
  const std::string thrown = testing::on_two_ranks([](const ProcessGroup& group) {
    Ddp ddp(constant_net(0), group);
    Join join({.throw_on_early_termination = true}, ddp);
    for (int step = 0; step < 1 + group.rank(); ++step) backward(ddp, 1);
    join.finish();
  });
  CHECK(thrown.find("rank 0 has no further batches") != std::string::npos);
  CHECK(thrown.find("rank 1 still has batches") != std::string::npos);
}

TEST_CASE("a finished rank takes gradients in the layout of the parameters") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor weight = at::full({2, 3, 2, 2}, 1.0, at::kFloat)
                                        .contiguous(at::MemoryFormat::ChannelsLast)
                                        .set_requires_grad(true);
          Core core({{.name = "weight", .tensor = weight}}, {}, "Toy", group, {});
          const at::Tensor factors = at::arange(24, at::kFloat).view({2, 3, 2, 2});
          Join join(core);
          for (int step = 0; step < group.rank(); ++step) {
            core.before_forward();
            at::Tensor output = weight * factors;
            core.after_forward({&output});
            output.sum().backward();
          }
          join.finish();
          expect(weight.grad().equal(factors / 2), "the gradient");
          expect(weight.grad().strides() == weight.strides(), "its layout");
        }) == "");
}

TEST_CASE("what a Join cannot do is an error that says what to change") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto refused = [](const std::string& why, const auto& create) {
            try {
              create();
            } catch (const DistributedError& error) {
              return expect(std::string(error.what()).find(why) != std::string::npos, error.what());
            }
            expect(false, why);
          };
          Ddp ddp(constant_net(0), group);
          ZeroRedundancyOptimizer<FusedAdam> optimizer(ddp.parameters(), AdamOptions(), group);
          refused("pass DistributedDataParallel before", [&] { const Join join(optimizer, ddp); });
          Ddp other(constant_net(0), group);
          refused("must be the first object", [&] { const Join join(ddp, other); });
          refused("was passed twice", [&] { const Join join(ddp, ddp); });
          const at::Tensor table = at::full({2}, 1.0).set_requires_grad(true);
          Core sparse({{.name = "table", .tensor = table, .sparse = true}}, {}, "Toy", group, {});
          refused("sparse gradients", [&] { const Join join(sparse); });
          Core hooked({{.name = "table", .tensor = table}}, {}, "Toy", group,
                      {.comm_hook = allreduce_hook});
          refused("has a comm_hook",
                  [&] { const Join join({.divide_by_initial_world_size = false}, hooked); });
          const Join join(ddp);  // none of them has left a trace
        }) == "");
}

TEST_CASE("a static graph needs a first batch on every rank") {
  const std::string thrown = testing::on_two_ranks(
      [](const ProcessGroup& group) {
        Ddp ddp(constant_net(0), group, {.static_graph = true});
        Join join(ddp);
        for (int step = 0; step < group.rank(); ++step) backward(ddp, 1);
        join.finish();
      },
      {.timeout = std::chrono::seconds(5)});
  CHECK(thrown.find("rank 0 has no batch for the first step") != std::string::npos);
}

TEST_CASE("an object takes part in one Join at a time") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          Ddp ddp(constant_net(0), group);
          const Join join(ddp);
          try {
            const Join second(ddp);
            expect(false, "a second Join was accepted");
          } catch (const DistributedError& error) {
            expect(std::string(error.what()) == "Join: an object is in another Join", error.what());
          }
        }) == "");
}

}  // namespace join_test
