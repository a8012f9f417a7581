// The whole of DistributedDataParallel is compared with Python's by ddp_parity.py. Here: what needs
// no second language.

#include "worker/torch/ddp_core.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"

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

TEST_CASE("buffers follow rank 0 unless that is switched off") {
  const auto buffer_after_forward = [](bool broadcast_buffers) {
    float seen = -1;
    const std::string error = testing::on_two_ranks([&](const ProcessGroup& group) {
      const at::Tensor parameter = parameter_of(1);
      const at::Tensor buffer = at::full({1}, 0.0, at::kFloat);
      DdpCore core({{.name = "p", .tensor = parameter}}, {buffer}, "Toy", group,
                   {.broadcast_buffers = broadcast_buffers});
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

TEST_CASE("a frozen parameter is made equal and left alone") {
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

TEST_CASE("ranks with different models are refused") {
  // The rank that finds the difference leaves; in one process with the other it cannot close its
  // connections by ending, so the other one runs into its time-out.
  const std::string error = testing::on_two_ranks(
      [](const ProcessGroup& group) {
        const at::Tensor parameter =
            at::full({group.rank() + 2}, 0.0, at::kFloat).set_requires_grad(true);
        const DdpCore core({{.name = "p", .tensor = parameter}}, {}, "Toy", group, {});
      },
      {.timeout = std::chrono::seconds(2)});
  INFO(error);
  CHECK(error.find("appears not to match sizes") != std::string::npos);
}

TEST_CASE("a model without anything to train is refused with its name") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(DdpCore({{.name = "f", .tensor = at::full({1}, 0.0)}}, {}, "Toy", group, {}),
                       "no parameter of Toy requires a gradient: there is nothing to reduce",
                       DistributedError);
  CHECK_THROWS_AS(
      DdpCore({{.name = "p", .tensor = parameter_of(0)}}, {}, "Toy", group, {.bucket_cap_mb = 0}),
      DistributedError);
}
