// SPDX-License-Identifier: BSD-3-Clause
// ddp_parity.py compares a training with Python's.

#include "worker/torch/ddp/zero_redundancy_optimizer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/optim/adam.h"
#include "worker/torch/optim/sgd.h"

namespace zero_redundancy_optimizer_test {

using namespace cpprun;
using testing::expect;

namespace {

using Parameters = std::vector<at::Tensor>;

Parameters make_parameters() {
  Parameters parameters;
  for (const std::int64_t size : {3, 8, 5, 2}) {
    parameters.push_back(at::sin(at::arange(size, at::kFloat)).set_requires_grad(true));
  }
  return parameters;
}

std::vector<FusedAdam::Group> in_groups(const Parameters& parameters) {
  return {{{parameters[0], parameters[1]}, adamw_options(0.1)},
          {{parameters[2], parameters[3]}, adamw_options(0.02)}};
}

template <class Optimizer>
void steps(const Parameters& parameters, Optimizer& optimizer, int first, int count) {
  for (int step = first; step < first + count; ++step) {
    for (const at::Tensor& each : parameters) {
      each.mutable_grad() = at::sin(at::arange(each.numel(), at::kFloat) + step);
    }
    optimizer.step();
  }
}

void expect_equal(const Parameters& left, const Parameters& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    expect(left[i].equal(right[i]), "parameter " + std::to_string(i) + " is the same");
  }
}

void expect_same(const StateDict& left, const StateDict& right) {
  expect(left.texts == right.texts, "texts");
  expect(left.tensors.size() == right.tensors.size(), "number of tensors");
  for (const auto& [name, tensor] : left.tensors) {
    expect(right.tensors.contains(name) && tensor.equal(right.tensors.at(name)), name);
  }
}

// Trains with shares on this many ranks, with the state going through a checkpoint, and without.
void train_on(int ranks) {
  CHECK(testing::on_ranks(ranks, [](const ProcessGroup& group) {
          const Parameters whole = make_parameters();
          FusedAdam plain(in_groups(whole));
          steps(whole, plain, 0, 3);
          Parameters shared = make_parameters();
          ZeroRedundancyOptimizer<FusedAdam> first(in_groups(shared), group);
          steps(shared, first, 0, 3);
          expect_equal(whole, shared);
          const StateDict state = first.state();
          const c10::IValue dict = first.state_dict();
          expect_same(state, group.rank() == 0 ? plain.state() : StateDict());
          expect(dict.isNone() == (group.rank() != 0), "the dict for Python is on rank 0");
          // A checkpoint gives every rank the whole state; so does the optimizer without shares.
          for (const bool python : {false, true}) {
            const Parameters again = make_parameters();
            {
              const at::NoGradGuard no_grad;
              for (std::size_t i = 0; i < again.size(); ++i) again[i].copy_(whole[i]);
            }
            ZeroRedundancyOptimizer<FusedAdam> second(in_groups(again), group);
            python ? second.load_state_dict(plain.state_dict()) : second.load(plain.state());
            const Parameters expected = make_parameters();
            {
              const at::NoGradGuard no_grad;
              for (std::size_t i = 0; i < again.size(); ++i) expected[i].copy_(whole[i]);
            }
            FusedAdam other(in_groups(expected));
            other.load(plain.state());
            steps(expected, other, 3, 2);
            steps(again, second, 3, 2);
            expect_equal(expected, again);
          }
        }) == "");
}

}  // namespace

TEST_CASE("shares compute the same as one optimizer, with any number of ranks") {
  train_on(2);
  train_on(3);
  train_on(6);  // more ranks than parameters
}

TEST_CASE("the largest parameters come first, each to the rank with the smallest share") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const Parameters p = make_parameters();
          const ZeroShares shares({{p[0], p[1]}, {p[2], p[3]}}, group);
          const std::vector<int> owners{shares.owner(0), shares.owner(1), shares.owner(2),
                                        shares.owner(3)};
          expect(owners == std::vector{1, 0, 1, 0}, "sizes 8 | 3, then 5 | 2");
          expect(shares.sizes_of(0) == std::vector<std::int64_t>{1, 1}, "sizes");
        }) == "");
}

TEST_CASE("a state of other parameters is rejected on every rank") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const Parameters p = make_parameters();
          ZeroRedundancyOptimizer<FusedSgd> optimizer(p, SgdOptions{.momentum = 0.9}, group);
          FusedSgd other({p[0], p[1]}, {.momentum = 0.9});
          try {
            optimizer.load(other.state());
            expect(false, "the state was accepted");
          } catch (const StateError& error) {
            expect(
                std::string(error.what()).find("[2] parameters, expected [4]") != std::string::npos,
                error.what());
          }
          try {
            const ZeroRedundancyOptimizer<FusedSgd> empty(Parameters(), SgdOptions(), group);
            expect(false, "no parameters were accepted");
          } catch (const std::invalid_argument&) {
            return;
          }
        }) == "");
}

}  // namespace zero_redundancy_optimizer_test
