// SPDX-License-Identifier: BSD-3-Clause
// ddp_parity.py compares all of DistributedDataParallel with Python's. The tests here need no
// second language.

#include "worker/torch/ddp/ddp_core.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

namespace ddp_core_test {

using namespace cpprun;

namespace {

void expect(bool condition, const char* what) {
  if (!condition) throw DistributedError(what);
}

at::Tensor parameter_of(double value) {
  return at::full({2}, value, at::kFloat).set_requires_grad(true);
}

// One step of the model `output = parameter * (rank + 1)`, whose gradient is rank + 1.
void step(DdpCore& core, const at::Tensor& parameter, int rank) {
  core.before_forward();
  at::Tensor output = parameter.mul(rank + 1);
  core.after_forward({&output});
  output.sum().backward();
}

float gradient_of(const at::Tensor& parameter) {
  return parameter.grad()[0].item<float>();
}

void check_options(const DdpOptions& options) {
  CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
          const at::Tensor parameter = parameter_of(group.rank());
          DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, options);
          expect(parameter.detach()[0].item<float>() == 0, "rank 0's values everywhere");
          for (int i = 0; i < 3; ++i) {
            step(core, parameter, group.rank());
            expect(gradient_of(parameter) == 1.5, "the average of 1 and 2");
            core.zero_grad(/*set_to_none=*/i == 1);
          }
        }) == "");
}

}  // namespace

TEST_CASE("gradients are averaged under every option") {
  check_options({});
  check_options({.bucket_cap_mb = 0.001});
  check_options({.find_unused_parameters = true});
  check_options({.gradient_as_bucket_view = true});
  check_options({.static_graph = true});
}

TEST_CASE("no_sync adds up locally, and the next step reduces the sum") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor parameter = parameter_of(1);
          DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, {});
          {
            const NoSync local(core);
            step(core, parameter, group.rank());
            expect(gradient_of(parameter) == static_cast<float>(group.rank() + 1), "own gradient");
          }
          step(core, parameter, group.rank());
          expect(gradient_of(parameter) == 3, "the average of 2 and 4");
        }) == "");
}

TEST_CASE("buffers follow rank 0 unless that is disabled") {
  const auto buffer_after_forward = [](bool broadcast_buffers) {
    float seen = -1;
    const std::string error = testing::on_two_ranks([&](const ProcessGroup& group) {
      const at::Tensor parameter = parameter_of(1);
      const at::Tensor buffer = at::full({1}, 0.0, at::kFloat);
      DdpCore core({{.name = "p", .tensor = parameter}}, {{.name = "b", .tensor = buffer}}, "Toy",
                   group, {.broadcast_buffers = broadcast_buffers});
      buffer.fill_(group.rank() + 10);
      step(core, parameter, group.rank());
      if (group.rank() == 1) seen = buffer.item<float>();
    });
    CHECK(error == "");
    return seen;
  };
  CHECK(buffer_after_forward(true) == 10);
  CHECK(buffer_after_forward(false) == 11);
}

TEST_CASE("a frozen parameter is synchronized once and then left alone") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor frozen = at::full({1}, group.rank() + 3.0, at::kFloat);
          const at::Tensor parameter = parameter_of(1);
          DdpCore core({{.name = "f", .tensor = frozen}, {.name = "p", .tensor = parameter}}, {},
                       "Toy", group, {});
          step(core, parameter, group.rank());
          expect(frozen.item<float>() == 3, "rank 0's frozen value");
          expect(!frozen.grad().defined(), "no gradient");
        }) == "");
}

TEST_CASE("tensors are broadcast in the order of the modules, as a Python rank sends them") {
  // Rank 1 is a Python rank here: it says no hello, and sends its parameters one by one, trained or
  // not.
  const auto values_of = [](int rank) {
    std::vector<at::Tensor> values;
    for (int i = 0; i < 3; ++i) values.push_back(at::full({2}, i + 10.0 * rank, at::kFloat));
    return values;
  };
  for (std::size_t frozen = 0; frozen < 3; ++frozen) {
    CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
            std::vector<at::Tensor> values = values_of(group.rank());
            if (group.rank() == 1) group.store()->deleteKey("cpprun/hello/1");
            barrier(group);
            if (group.rank() == 0) {
              std::vector<NamedTensor> named;
              for (std::size_t i = 0; i < 3; ++i) {
                named.push_back({.name = "p", .tensor = values[i].set_requires_grad(i != frozen)});
              }
              const DdpCore core(named, {}, "Toy", group, {});
              return;
            }
            std::vector<at::Tensor> trained = values;
            trained.erase(trained.begin() + static_cast<std::ptrdiff_t>(frozen));
            c10d::verify_params_across_processes(group.native(), trained, std::nullopt);
            c10d::broadcast_coalesced(group.native(), values, 1 << 20, 0);
            for (std::size_t i = 0; i < 3; ++i) {
              expect(values[i][0].item<double>() == static_cast<double>(i), "rank 0's, in place");
            }
          }) == "");
  }
}

TEST_CASE("ranks with different models are rejected, and each reports the difference") {
  const std::string error = testing::on_two_ranks([](const ProcessGroup& group) {
    const at::Tensor parameter =
        at::full({group.rank() + 2}, 0.0, at::kFloat).set_requires_grad(true);
    const DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, {});
  });
  const std::string words =
      "the model Toy differs between ranks: parameter p, Float [2] on cpu on rank 0; parameter p, "
      "Float [3] on cpu on rank 1";
  CHECK(error == words + words);
}

TEST_CASE("buffers that differ are named before they can hang the job") {
  const std::string error = testing::on_two_ranks([](const ProcessGroup& group) {
    const at::Tensor mean = at::zeros({group.rank() + 4});
    const DdpCore core({{.name = "p", .tensor = parameter_of(0)}},
                       {{.name = "norm.running_mean", .tensor = mean}}, "Toy", group, {});
  });
  INFO(error);
  CHECK(
      error.find("buffer norm.running_mean, Float [4] on cpu on rank 0; buffer norm.running_mean, "
                 "Float [5] on cpu on rank 1") != std::string::npos);
}

TEST_CASE("an undefined output is ignored, with unused parameters too") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor parameter = parameter_of(1);
          DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group,
                       {.find_unused_parameters = true});
          core.before_forward();
          at::Tensor output = parameter.mul(2);
          at::Tensor none;
          core.after_forward({&output, &none});
          output.sum().backward();
          expect(gradient_of(parameter) == 2, "the gradient of the output that is one");
          expect(!none.defined(), "and the other stays none");
        }) == "");
}

TEST_CASE("a rank with fewer steps is named in backward, where the others fail") {
  std::string words;
  const std::string error = testing::on_two_ranks([&](const ProcessGroup& group) {
    const at::Tensor parameter = parameter_of(1);
    DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, {});
    // The second step begins with an exchange about the buckets; after that it is all backward.
    for (int i = 0; i < 2; ++i) step(core, parameter, group.rank());
    if (group.rank() == 1) return;
    try {
      step(core, parameter, group.rank());
    } catch (const DistributedError& failed) {
      words = failed.what();
    }
  });
  CHECK(error == "");
  INFO(words);
  CHECK(
      words.starts_with("all_reduce(Float [2] on cpu) in step 3 of DistributedDataParallel(Toy) on "
                        "rank 0 failed: "));
  CHECK(words.find("; rank 1 left the group normally; rank 1 is behind in "
                   "DistributedDataParallel, at step 2 while others are at 3: give every rank the "
                   "same number of batches") != std::string::npos);
}

TEST_CASE("a hook keeps working in a moved group, and throws in a group that was left") {
  std::string words;
  const std::string error = testing::on_two_ranks([&](const ProcessGroup& group) {
    const at::Tensor parameter = parameter_of(1);
    auto first = std::make_unique<ProcessGroup>(*new_group(group, {0, 1}));
    DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", *first,
                 {.comm_hook = allreduce_hook});
    auto second = std::make_unique<ProcessGroup>(std::move(*first));
    first.reset();
    step(core, parameter, group.rank());
    expect(gradient_of(parameter) == 1.5, "the average of 1 and 2");
    barrier(*second);
    second.reset();
    try {
      step(core, parameter, group.rank());
    } catch (const DistributedError& left) {
      if (group.rank() == 0) words = left.what();
    }
  });
  CHECK(error == "");
  INFO(words);
  CHECK(words.find("this process group is still in use but was destroyed") != std::string::npos);
}

TEST_CASE("sparse gradients with a hook are rejected when the model is wrapped") {
  const ProcessGroup group = init_process_group(Context{});
  const std::vector<NamedTensor> table = {
      {.name = "table.weight", .tensor = parameter_of(0), .sparse = true}};
  CHECK_THROWS_WITH_AS(
      DdpCore(table, {}, "Toy", group, {.comm_hook = allreduce_hook}),
      "table.weight of Toy has sparse gradients, which a comm_hook cannot reduce: remove the "
      "hook, or create the Embedding with sparse=false",
      DistributedError);
}

TEST_CASE("parameters without a gradient are named in the next step") {
  const std::string error = testing::on_two_ranks([](const ProcessGroup& group) {
    const at::Tensor used = parameter_of(1);
    std::vector<NamedTensor> parameters{{.name = "used", .tensor = used}};
    for (int i = 0; i < 7; ++i) {
      parameters.push_back({.name = "layer" + std::to_string(i), .tensor = parameter_of(1)});
    }
    DdpCore core(parameters, {}, "Toy", group, {});
    step(core, used, group.rank());
    step(core, used, group.rank());
  });
  for (const char* rank : {"0", "1"}) {
    const std::string expected =
        std::string("7 parameter(s) of Toy had no gradient in the last step on rank ") + rank +
        ": layer0, layer1, layer2, layer3, layer4 and 2 more; set find_unused_parameters, or use "
        "all outputs of forward in the loss";
    INFO(error);
    CHECK(error.find(expected) != std::string::npos);
  }
}

TEST_CASE("a sparse parameter is rejected in words, and a complex one is averaged") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto sparse = at::zeros({2, 2}).to_sparse().set_requires_grad(true);
          DdpCore({{.name = "w", .tensor = sparse}}, {}, "Toy", group, {});
        }).find("w of Toy is a sparse tensor") != std::string::npos);
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto weight = at::ones({2}, at::kComplexFloat).set_requires_grad(true);
          DdpCore core({{.name = "w", .tensor = weight}}, {}, "Toy", group, {});
          core.before_forward();
          at::Tensor output = at::real(weight.mul(group.rank() + 1));
          core.after_forward({&output});
          output.sum().backward();
          const auto gradient = at::view_as_real(weight.grad());
          expect(gradient[0][0].item<float>() == 1.5, "the average of 1 and 2");
        }) == "");
}

TEST_CASE("a guard of no_sync may be returned from a function") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor parameter = parameter_of(1);
          DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, {});
          {
            NoSync first(core);
            const NoSync moved(std::move(first));
            step(core, parameter, group.rank());
          }
          expect(core.syncs(), "synchronizes again after the guard");
          step(core, parameter, group.rank());
          expect(gradient_of(parameter) == 3, "the average of 2 and 4");
        }) == "");
}

TEST_CASE("a model without trainable parameters is rejected with its name") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(DdpCore({{.name = "f", .tensor = at::full({1}, 0.0)}}, {}, "Toy", group, {}),
                       "no parameter of Toy requires a gradient: there is nothing to reduce",
                       DistributedError);
  CHECK_THROWS_AS(
      DdpCore({{.name = "p", .tensor = parameter_of(0)}}, {}, "Toy", group, {.bucket_cap_mb = 0}),
      DistributedError);
}

}  // namespace ddp_core_test
