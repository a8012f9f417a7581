// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/torch_optim.h"

#include <doctest/doctest.h>
#include <torch/data.h>
#include <torch/optim.h>

#include <functional>
#include <sstream>

#include "worker/torch/data/data_loader_sampler.h"
#include "worker/torch/optim/adam.h"
#include "worker/torch/optim/optimizer_state.h"
#include "worker/torch/optim/sgd.h"
#include "worker/torch/optim/training.h"

namespace torch_optim_test {

using namespace cpprun;
using Parameters = std::vector<at::Tensor>;

namespace {

Parameters fresh() {
  return {torch::sin(torch::arange(5, torch::kFloat)).set_requires_grad(true),
          torch::cos(torch::arange(3, torch::kFloat)).set_requires_grad(true)};
}

// The second parameter has no gradient until step 2, so it starts its state later.
template <class Optimizer>
void train(const Parameters& parameters, Optimizer& optimizer, int from, int to) {
  for (int step = from; step < to; ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i == 1 && step < 2) continue;
      parameters[i].mutable_grad() =
          torch::cos(torch::arange(parameters[i].numel(), torch::kFloat) * 0.7 + step);
    }
    optimizer.step();
  }
}

void check_equal(const Parameters& left, const Parameters& right) {
  for (std::size_t i = 0; i < left.size(); ++i) CHECK(torch::equal(left[i], right[i]));
}

Parameters copies_of(const Parameters& parameters) {
  Parameters copies;
  for (const at::Tensor& each : parameters) {
    copies.push_back(each.detach().clone().set_requires_grad(true));
  }
  return copies;
}

template <class Optimizer>
StateDict checkpoint_of(Optimizer& optimizer) {
  if constexpr (requires { optimizer.state_dict(); }) {
    return optimizer.state();
  } else {
    return state_of(optimizer);
  }
}
template <class Optimizer>
void resume(Optimizer& optimizer, const StateDict& state) {
  if constexpr (requires { optimizer.load(state); }) {
    optimizer.load(state);
  } else {
    load_state(optimizer, state);
  }
}
template <class Optimizer>
c10::IValue python_of(Optimizer& optimizer) {
  if constexpr (requires { optimizer.state_dict(); }) {
    return optimizer.state_dict();
  } else {
    return state_dict(optimizer);
  }
}
template <class Optimizer>
void resume_python(Optimizer& optimizer, const c10::IValue& state) {
  if constexpr (requires { optimizer.load_state_dict(state); }) {
    optimizer.load_state_dict(state);
  } else {
    load_state_dict(optimizer, state);
  }
}

// A run that resumes from either form ends with the same parameters as one without a break.
template <class Make>
void check_resumes(Make make) {
  for (const int at : {1, 4}) {  // before and after the second parameter's first step
    const Parameters whole = fresh();
    auto optimizer = make(whole);
    train(whole, optimizer, 0, at);
    const StateDict checkpoint = checkpoint_of(optimizer);
    const c10::IValue python = python_of(optimizer).deepcopy();
    StateDict kept;  // on disk
    for (const auto& [name, tensor] : checkpoint.tensors) kept.tensors[name] = tensor.clone();
    kept.texts = checkpoint.texts;
    const Parameters from_checkpoint = copies_of(whole);
    const Parameters from_python = copies_of(whole);
    train(whole, optimizer, at, 8);
    auto second = make(from_checkpoint);
    resume(second, kept);
    train(from_checkpoint, second, at, 8);
    check_equal(whole, from_checkpoint);
    auto third = make(from_python);
    resume_python(third, python);
    train(from_python, third, at, 8);
    check_equal(whole, from_python);
  }
}

template <class Take>
std::string refusal(Take take) {
  try {
    take();
  } catch (const StateError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("runs resume exactly with every supported optimizer of torch::optim") {
  using namespace torch::optim;
  check_resumes([](const Parameters& p) { return SGD(p, SGDOptions(0.1)); });
  check_resumes([](const Parameters& p) {
    return SGD(p, SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  });
  check_resumes([](const Parameters& p) { return Adam(p, torch::optim::AdamOptions(0.1)); });
  check_resumes([](const Parameters& p) {
    return Adam(p, torch::optim::AdamOptions(0.1).amsgrad(true).betas({0.8, 0.95}));
  });
  check_resumes([](const Parameters& p) { return AdamW(p, AdamWOptions(0.1)); });
  check_resumes([](const Parameters& p) { return RMSprop(p, RMSpropOptions(0.1)); });
  check_resumes([](const Parameters& p) {
    return RMSprop(p, RMSpropOptions(0.1).momentum(0.5).centered(true));
  });
  check_resumes([](const Parameters& p) { return Adagrad(p, AdagradOptions(0.1)); });
}

TEST_CASE("runs resume exactly with the fused optimizers and parameter groups") {
  check_resumes([](const Parameters& p) {
    return FusedSgd({{{p[0]}, {.lr = 0.1, .momentum = 0.9}}, {{p[1]}, {.lr = 0.01}}});
  });
  check_resumes([](const Parameters& p) {
    return FusedAdam({{{p[0]}, {.lr = 0.1, .amsgrad = true}}, {{p[1]}, {.lr = 0.2}}});
  });
}

TEST_CASE("each parameter group has its own options and learning rate") {
  const Parameters grouped = fresh();
  FusedSgd sgd({{{grouped[0]}, {.lr = 0.1, .momentum = 0.9}}, {{grouped[1]}, {.lr = 0.5}}});
  const Parameters alone = fresh();
  FusedSgd first({alone[0]}, {.lr = 0.1, .momentum = 0.9});
  FusedSgd second({alone[1]}, {.lr = 0.5});
  for (int step = 0; step < 4; ++step) {
    sgd.set_lr(1, 0.5 - 0.1 * step);
    second.set_lr(0.5 - 0.1 * step);
    train(grouped, sgd, step, step + 1);
    train(alone, first, step, step + 1);
    second.step();
  }
  check_equal(grouped, alone);
  CHECK(sgd.lr(0) == 0.1);
  CHECK(sgd.group_count() == 2);
  sgd.set_lr(0.25);
  CHECK(sgd.lr(0) == 0.25);
  CHECK(sgd.lr(1) == 0.25);
}

TEST_CASE("groups of Adam and AdamW in one optimizer, and no group at all, are rejected") {
  const Parameters p = fresh();
  CHECK_THROWS_AS(FusedAdam({{{p[0]}, {}}, {{p[1]}, adamw_options()}}), std::invalid_argument);
  CHECK_THROWS_AS(FusedSgd(std::vector<FusedSgd::Group>{}), std::invalid_argument);
}

TEST_CASE(
    "a state of other groups, an incomplete or a surplus one is rejected, and nothing changes") {
  const Parameters p = fresh();
  FusedAdam adam(p, {.lr = 0.1});
  train(p, adam, 0, 4);
  const StateDict state = adam.state();
  FusedAdam split({{{p[0]}, {}}, {{p[1]}, {}}});
  CHECK(refusal([&] { split.load(state); }) ==
        "the optimizer does not match the saved state: its parameter groups have [2] parameters, "
        "expected [1, 1]");
  StateDict partial = state;
  partial.tensors.erase("state.1.exp_avg_sq");
  CHECK(refusal([&] { adam.load(partial); }) ==
        "the optimizer does not match the saved state: state.1.exp_avg_sq is missing");
  partial = state;
  partial.texts.erase("state.0.step");
  CHECK(refusal([&] { adam.load(partial); }) ==
        "the optimizer does not match the saved state: state.0.step is missing or not a number");
  partial = state;
  partial.tensors["state.2.exp_avg"] = torch::ones(3);
  CHECK(refusal([&] { adam.load(partial); }) ==
        "the optimizer does not match the saved state: parameter 2 is unknown, there are 2");
  partial = state;
  partial.tensors["state.1.exp_avg"] = torch::ones(4);
  CHECK(refusal([&] { adam.load(partial); }) ==
        "the optimizer does not match the saved state: state.1.exp_avg is [4], expected [3]");
  partial = state;
  partial.texts.erase("param_groups.0.lr");
  CHECK(refusal([&] { adam.load(partial); }) == "param_groups.0.lr is missing or not a number");
  FusedSgd sgd(p, {.momentum = 0.9});
  CHECK(refusal([&] { sgd.load(state); }).find("state.0.exp_avg is unknown") != std::string::npos);
  torch::optim::SGD other(p, torch::optim::SGDOptions(0.1));
  CHECK(refusal([&] { load_state(other, state); }).find("is unknown") != std::string::npos);
  CHECK(refusal([&] { adam.load_state_dict(c10::IValue(3)); }).find("optimizer.state_dict()") !=
        std::string::npos);
  const StateDict after = adam.state();
  for (const auto& [name, tensor] : state.tensors) {
    CHECK(torch::equal(tensor, after.tensors.at(name)));
  }
  CHECK(after.texts == state.texts);
}

TEST_CASE("states that would train differently here are rejected") {
  const Parameters p = fresh();
  torch::optim::Adam adam(p, torch::optim::AdamOptions(0.1));
  train(p, adam, 0, 4);
  const auto state_with = [&](const char* option, const c10::IValue& value) {
    const c10::IValue state = state_dict(adam).deepcopy();
    for (const c10::IValue& group : state.toGenericDict().at("param_groups").toListRef()) {
      group.toGenericDict().insert_or_assign(option, value);
    }
    return state;
  };
  CHECK(refusal([&] { load_state_dict(adam, state_with("maximize", true)); }) ==
        "the optimizer does not match the saved state: maximize=True is not supported");
  CHECK(refusal([&] { load_state_dict(adam, state_with("lr", -1.0)); }) ==
        "the saved state is invalid: lr is -1");
  FusedAdam fused(p, {.lr = 0.1});
  CHECK(refusal([&] { fused.load_state_dict(state_with("eps", -1.0)); }) ==
        "the saved state is invalid: Adam: invalid eps -1");
  CHECK(refusal([&] { fused.load_state_dict(state_with("decoupled_weight_decay", true)); }) ==
        "the optimizer does not match the saved state: it is Adam, the state is AdamW's");
  CHECK(refusal([&] { fused.load_state_dict(state_with("decoupled_weight_decay", false)); }) ==
        "accepted");
}

TEST_CASE("Adagrad can be set back to the state before its first step") {
  const Parameters p = fresh();
  torch::optim::Adagrad adagrad(p, torch::optim::AdagradOptions(0.1).initial_accumulator_value(2));
  StateDict before = state_of(adagrad);  // refers to the optimizer's tensors
  for (auto& [name, tensor] : before.tensors) tensor = tensor.clone();
  const c10::IValue python = state_dict(adagrad).deepcopy();
  train(p, adagrad, 0, 4);
  load_state(adagrad, before);
  CHECK(state_of(adagrad).integer("state.0.step") == 0);
  CHECK(torch::equal(state_of(adagrad).tensors.at("state.0.sum"), torch::full({5}, 2.0)));
  train(p, adagrad, 0, 2);
  load_state_dict(adagrad, python);
  CHECK(state_of(adagrad).integer("state.1.step") == 0);
}

TEST_CASE("a checkpoint from before there were parameter groups is read") {
  const Parameters p = fresh();
  FusedAdam adam(p, {.lr = 0.1});
  StateDict old;
  old.set("lr", 0.25);
  old.set("step.0", std::int64_t{3});
  old.tensors["exp_avg.0"] = torch::ones(5);
  old.tensors["exp_avg_sq.0"] = torch::ones(5) * 2;
  adam.load(old);
  CHECK(adam.lr() == 0.25);
  CHECK(adam.state().integer("state.0.step") == 3);
  CHECK(torch::equal(adam.state().tensors.at("state.0.exp_avg_sq"), torch::ones(5) * 2));
  FusedSgd sgd(p, {.momentum = 0.9});
  StateDict momentum;
  momentum.set("lr", 0.5);
  momentum.tensors["momentum.1"] = torch::ones(3);
  sgd.load(momentum);
  CHECK(torch::equal(sgd.state().tensors.at("state.1.momentum_buffer"), torch::ones(3)));
}

TEST_CASE("an optimizer that is not supported is named") {
  const Parameters p = fresh();
  torch::optim::LBFGS lbfgs(p);
  CHECK(refusal([&] { state_of(lbfgs); }) ==
        "torch::optim::LBFGS is not supported: only SGD, Adam, AdamW, RMSprop and Adagrad are");
}

TEST_CASE("schedules drive torch::optim, and its schedulers resume") {
  const Parameters whole = fresh();
  torch::optim::SGD optimizer(whole, torch::optim::SGDOptions(0.1));
  set_lr(optimizer, step_lr(0.1, 7, 3));
  CHECK(optimizer.param_groups()[0].options().get_lr() == doctest::Approx(0.001));
  set_lr(optimizer, 0.1);
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/3, /*gamma=*/0.5);
  for (int step = 0; step < 4; ++step) scheduler.step();
  CHECK(steps_of(scheduler) == 4);
  torch::optim::SGD second(whole, torch::optim::SGDOptions(0.1));
  torch::optim::StepLR resumed(second, 3, 0.5);
  load_state(second, state_of(optimizer));
  set_steps(resumed, steps_of(scheduler));
  for (int step = 4; step < 12; ++step) {
    scheduler.step();
    resumed.step();
    CHECK(second.param_groups()[0].options().get_lr() ==
          optimizer.param_groups()[0].options().get_lr());
  }
}

namespace {

// Item i is i.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  torch::data::Example<> get(std::size_t index) override {
    return {torch::tensor(static_cast<std::int64_t>(index)), torch::tensor(0)};
  }
  std::optional<std::size_t> size() const override { return 11; }
};

template <class Loader>
std::vector<std::int64_t> epoch_of(Loader& loader) {
  std::vector<std::int64_t> seen;
  for (auto& batch : loader) {
    for (auto& example : batch) seen.push_back(example.data.template item<std::int64_t>());
  }
  return seen;
}

}  // namespace

TEST_CASE("a data loader gets the indices of DistributedSampler, the next epoch in each loop") {
  const SamplerOptions options{.dataset_size = 11, .replicas = 2, .rank = 1};
  const DistributedSampler expected(options);
  auto loader = torch::data::make_data_loader(Numbers(), DataLoaderSampler(options), 4);
  CHECK(epoch_of(*loader) == expected.indices(0));
  CHECK(epoch_of(*loader) == expected.indices(1));
  auto resumed = torch::data::make_data_loader(Numbers(), DataLoaderSampler(options, 3, 4), 4);
  CHECK(epoch_of(*resumed) == expected.indices(3, 4));
  CHECK(epoch_of(*resumed) == expected.indices(4));
}

TEST_CASE("a data loader's sampler continues where it was saved") {
  const SamplerOptions options{.dataset_size = 11, .replicas = 2, .rank = 0};
  DataLoaderSampler sampler(options);
  sampler.reset();
  sampler.reset();
  CHECK(sampler.next(2)->size() == 2);
  std::stringstream file;
  torch::save(sampler, file);
  DataLoaderSampler resumed(options);
  torch::load(resumed, file);
  DataLoaderSampler again(options);
  CHECK(resumed.next(2) == sampler.next(2));
  std::stringstream second;  // in the epoch that it has entered in the middle
  torch::save(resumed, second);
  torch::load(again, second);
  CHECK(again.next(100) == sampler.next(100));
  CHECK(resumed.next(100).has_value());
  CHECK(resumed.epoch() == 1);
  CHECK(!resumed.next(1));
  CHECK_THROWS_AS(DataLoaderSampler({.dataset_size = 0}), std::invalid_argument);
}

}  // namespace torch_optim_test
