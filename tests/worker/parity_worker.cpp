// SPDX-License-Identifier: BSD-3-Clause
// One side of parity_test.py: does in C++ what the test does in Python, on the same numbers, and
// prints what came out.

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/ivalue_inl.h>
#include <fmt/format.h>
#include <torch/optim.h>

#include <functional>
#include <iostream>
#include <sstream>

#include "worker/torch/data/sampler.h"
#include "worker/torch/files/pth_file.h"
#include "worker/torch/files/pth_values.h"
#include "worker/torch/files/safetensors_file.h"
#include "worker/torch/optim/adam.h"
#include "worker/torch/optim/sgd.h"
#include "worker/torch/optim/torch_optim.h"
#include "worker/torch/optim/training.h"

namespace {

using c10::IValue;
using GenericDict = c10::impl::GenericDict;

GenericDict dict() {
  return GenericDict(c10::AnyType::get(), c10::AnyType::get());
}

// The tensors that parity_test.py expects, in every kind it knows.
cpprun::StateDict model() {
  cpprun::StateDict state;
  state.tensors["weight"] = at::arange(6, at::kFloat).view({2, 3});
  state.tensors["half"] = at::full({4}, 0.5, at::kHalf);
  state.tensors["bf16"] = at::full({3}, 1.5, at::kBFloat16);
  state.tensors["count"] = at::full({}, 7, at::kLong);
  state.tensors["mask"] = at::full({2}, true, at::kBool);
  state.tensors["empty"] = at::zeros({0, 3});
  state.tensors["strided"] = at::arange(6, at::kDouble).view({2, 3}).t();
  return state;
}

void write(const std::string& directory) {
  cpprun::StateDict state = model();
  state.texts["note"] = "from C++";
  cpprun::save_safetensors(directory + "/cpp.safetensors", state);
  cpprun::save_pth(directory + "/cpp_state.pth", state);
  cpprun::StateDict types;
  for (const cpprun::PthType& each : cpprun::pth_types()) {
    const at::Tensor bytes = at::arange(16, at::kByte);
    types.tensors[std::string(each.dtype)] =
        each.type == at::kBool ? bytes.gt(7) : bytes.view(each.type);
  }
  cpprun::save_pth(directory + "/cpp_types.pth", types);
  for (const char* const none : {"complex32", "complex128", "float8_e4m3fnuz", "float8_e5m2fnuz"}) {
    types.tensors.erase(none);
  }
  cpprun::save_safetensors(directory + "/cpp_types.safetensors", types);
  GenericDict tensors = dict();
  for (const auto& [name, tensor] : state.tensors) tensors.insert(name, tensor);
  tensors.insert("tied", state.tensors.at("weight"));
  GenericDict group = dict();
  group.insert("lr", 0.1);
  group.insert("betas", c10::ivalue::Tuple::create(0.9, 0.999));
  group.insert("params", c10::List<std::int64_t>({0, 1}));
  group.insert("foreach", IValue());
  c10::impl::GenericList groups(c10::AnyType::get());
  groups.push_back(group);
  GenericDict whole = dict();
  whole.insert("model", tensors);
  whole.insert("groups", groups);
  whole.insert("epoch", std::int64_t{5'000'000'000});
  whole.insert("name", "größer");
  whole.insert("done", false);
  cpprun::save_pth(directory + "/cpp_nested.pth", IValue(whole));
}

void print(const cpprun::StateDict& state) {
  for (const auto& [name, tensor] : state.tensors) {
    fmt::print("{} {} {}", name, c10::toString(tensor.scalar_type()), tensor.dim());
    const at::Tensor values = tensor.to(at::kDouble).contiguous();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      fmt::print(" {:.17g}", values.const_data_ptr<double>()[i]);
    }
    fmt::print("\n");
  }
  for (const auto& [name, text] : state.texts) fmt::print("{} = {}\n", name, text);
}

void read(const std::string& path) {
  print(path.ends_with(".pth") ? cpprun::state_dict_from(cpprun::load_pth(path))
                               : cpprun::load_safetensors(path));
}

// Lines of `size replicas rank shuffle seed drop_last epoch`.
void sample() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    cpprun::SamplerOptions options;
    std::int64_t epoch = 0;
    words >> options.dataset_size >> options.replicas >> options.rank >> options.shuffle >>
        options.seed >> options.drop_last >> epoch;
    for (const auto index : cpprun::DistributedSampler(options).indices(epoch)) {
      fmt::print("{} ", index);
    }
    fmt::print("\n");
  }
}

using Parameters = std::vector<at::Tensor>;

template <class Optimizer>
void train(const char* name, const std::function<Optimizer(std::vector<at::Tensor>)>& make) {
  std::vector<at::Tensor> parameters;
  for (const std::int64_t size : {5, 33}) {
    parameters.push_back(at::sin(at::arange(size, at::kFloat)).set_requires_grad(true));
  }
  Optimizer optimizer = make(parameters);
  for (int step = 0; step < 20; ++step) {
    for (const at::Tensor& each : parameters) {
      each.mutable_grad() = at::cos(at::arange(each.numel(), at::kFloat) * 0.7 + step);
    }
    const auto norm = cpprun::clip_grad_norm(parameters, 3.0);
    fmt::print("{} norm {:.9g}\n", name, norm.template item<double>());
    optimizer.set_lr(cpprun::warmup_cosine_lr(0.05, step, 5, 20));
    optimizer.step();
  }
  for (const at::Tensor& each : parameters) {
    for (std::int64_t i = 0; i < each.numel(); ++i) {
      fmt::print("{} {} {:.9g}\n", name, i, each.detach()[i].template item<float>());
    }
  }
}

void optimize() {
  train<cpprun::FusedAdam>("adam", [](Parameters parameters) {
    return cpprun::FusedAdam(std::move(parameters), {.weight_decay = 0.02});
  });
  train<cpprun::FusedAdam>("amsgrad", [](Parameters parameters) {
    return cpprun::FusedAdam(std::move(parameters), {.amsgrad = true});
  });
  train<cpprun::FusedAdam>("adamw", [](Parameters parameters) {
    return cpprun::FusedAdam(std::move(parameters), cpprun::adamw_options());
  });
  train<cpprun::FusedSgd>("sgd", [](Parameters parameters) {
    return cpprun::FusedSgd(std::move(parameters),
                            {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  });
}

// Trains two parameter groups for three steps, here or in Python, and for three more after the
// state went through a file.
template <class Optimizer>
void three_steps(const Parameters& parameters, Optimizer& optimizer, int first) {
  for (int step = first; step < first + 3; ++step) {
    for (const at::Tensor& each : parameters) {
      each.mutable_grad() = at::cos(at::arange(each.numel(), at::kFloat) * 0.7 + step);
    }
    optimizer.step();
  }
}

template <class Optimizer>
void exchange(const std::string& directory, const std::string& name,
              const std::function<Optimizer(const Parameters&)>& make) {
  Parameters parameters;
  for (const std::int64_t size : {5, 33}) {
    parameters.push_back(at::sin(at::arange(size, at::kFloat)).set_requires_grad(true));
  }
  Optimizer first = make(parameters);
  three_steps(parameters, first, 0);
  GenericDict file = dict();
  c10::impl::GenericList values(c10::AnyType::get());
  for (const at::Tensor& each : parameters) values.push_back(each.detach());
  file.insert("parameters", values);
  if constexpr (requires { first.state_dict(); }) {
    file.insert("optimizer", first.state_dict());
  } else {
    file.insert("optimizer", cpprun::state_dict(first));
  }
  cpprun::save_pth(directory + "/cpp_" + name + ".pth", IValue(file));

  const auto python = cpprun::load_pth(directory + "/python_" + name + ".pth").toGenericDict();
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].copy_(python.at("parameters").toListRef()[i].toTensor());
    }
  }
  Optimizer second = make(parameters);
  if constexpr (requires { second.load_state_dict(python.at("optimizer")); }) {
    second.load_state_dict(python.at("optimizer"));
  } else {
    cpprun::load_state_dict(second, python.at("optimizer"));
  }
  three_steps(parameters, second, 3);
  for (const at::Tensor& each : parameters) {
    for (std::int64_t i = 0; i < each.numel(); ++i) {
      fmt::print("{} {} {:.9g}\n", name, i, each.detach()[i].item<float>());
    }
  }
}

template <class Optimizer, class Options>
std::function<Optimizer(const Parameters&)> in_groups(const Options& options, double other_lr) {
  return [=](const Parameters& parameters) {
    Options other = options;
    other.lr(other_lr);
    return Optimizer(
        {torch::optim::OptimizerParamGroup({parameters[0]}),
         torch::optim::OptimizerParamGroup({parameters[1]}, std::make_unique<Options>(other))},
        options);
  };
}

void exchange_all(const std::string& directory) {
  using namespace torch::optim;
  exchange<SGD>(directory, "sgd",
                in_groups<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true), 0.02));
  exchange<Adam>(directory, "adam",
                 in_groups<Adam>(torch::optim::AdamOptions(0.1).betas({0.8, 0.99}), 0.02));
  exchange<Adam>(directory, "amsgrad",
                 in_groups<Adam>(torch::optim::AdamOptions(0.1).amsgrad(true), 0.02));
  exchange<AdamW>(directory, "adamw", in_groups<AdamW>(AdamWOptions(0.1), 0.02));
  exchange<RMSprop>(directory, "rmsprop",
                    in_groups<RMSprop>(RMSpropOptions(0.1).momentum(0.5).centered(true), 0.02));
  exchange<Adagrad>(directory, "adagrad", in_groups<Adagrad>(AdagradOptions(0.1), 0.02));
  exchange<cpprun::FusedSgd>(directory, "fused_sgd", [](const Parameters& p) {
    return cpprun::FusedSgd(
        {{{p[0]}, {.lr = 0.1, .momentum = 0.9}}, {{p[1]}, {.lr = 0.02, .momentum = 0.9}}});
  });
  exchange<cpprun::FusedAdam>(directory, "fused_adamw", [](const Parameters& p) {
    return cpprun::FusedAdam(
        {{{p[0]}, cpprun::adamw_options(0.1)}, {{p[1]}, cpprun::adamw_options(0.02)}});
  });
}

void schedule() {
  for (int t = 0; t < 60; ++t) {
    fmt::print("{:.17g} {:.17g} {:.17g} {:.17g}\n", cpprun::step_lr(0.3, t, 7, 0.5),
               cpprun::cosine_annealing_lr(0.3, t, 50, 0.01),
               cpprun::linear_lr(0.3, t, 11, 0.25, 0.8),
               cpprun::warmup_cosine_lr(0.3, t, 10, 60, 0.1, 0.02));
  }
}

int run(const std::string& command, const std::string& argument) {
  if (command == "write") write(argument);
  if (command == "read") read(argument);
  if (command == "sample") sample();
  if (command == "optimize") optimize();
  if (command == "schedule") schedule();
  if (command == "exchange") exchange_all(argument);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
