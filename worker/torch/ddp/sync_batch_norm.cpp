// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/sync_batch_norm.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <optional>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "worker/torch/group/guarded_group.h"

namespace cpprun {

// Also kept by the autograd graph, which may outlive the module.
struct SyncState : torch::CustomClassHolder {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Half precision is not enough for statistics; double stays double.
at::ScalarType statistics_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::vector<std::int64_t> all_but_features(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 0; i < input.dim(); ++i) {
    if (i != 1) dimensions.push_back(i);
  }
  return dimensions;
}

// One number per feature, in a shape that broadcasts to the input.
at::Tensor spread(const at::Tensor& per_feature, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = per_feature.numel();
  return per_feature.view(shape);
}

// Where LibTorch's kernels make one pass over the data each: on the CPU.
bool has_kernels(const at::Tensor& values) {
  return values.is_cpu() && values.numel() > 0;
}

struct Statistics {
  at::Tensor mean;
  at::Tensor variance;  // divided by the count, not by count - 1
  at::Tensor count;     // values per feature, over all ranks; on the device, so that the host need
                        // not wait for it in each layer
};

// All ranks exchange count, mean and variance and combine them in the same order, so that the
// result is bitwise equal on each. Sums of squares would lose small variances of large means.
Statistics gather_statistics(const at::Tensor& input, c10d::ProcessGroup& group) {
  const auto dimensions = all_but_features(input);
  const std::int64_t features = input.size(1);
  const at::Tensor values = input.detach().to(statistics_type(input));
  const double count = static_cast<double>(values.numel()) / static_cast<double>(features);
  at::Tensor mine = at::zeros({2 * features + 1}, values.options());
  if (has_kernels(values)) {
    const auto [mean, variance] = at::batch_norm_update_stats(values, {}, {}, /*momentum=*/0);
    mine.narrow(0, 0, features).copy_(mean);
    mine.narrow(0, features, features).copy_(variance);
  } else if (count > 0) {
    mine.narrow(0, 0, features).copy_(values.mean(dimensions));
    mine.narrow(0, features, features).copy_(values.var(dimensions, /*unbiased=*/false));
  }
  mine[2 * features].fill_(count);
  std::vector<at::Tensor> inputs = {mine};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < group.getSize(); ++rank) {
    outputs.front().push_back(at::empty_like(mine));
  }
  group.allgather(outputs, inputs)->wait();
  const at::Tensor exact = at::stack(outputs.front()).to(at::kDouble);
  const at::Tensor counts = exact.narrow(1, 2 * features, 1);
  const at::Tensor means = exact.narrow(1, 0, features);
  const at::Tensor total = counts.sum();
  const at::Tensor mean = (means * counts).sum(0) / total;
  const at::Tensor around = exact.narrow(1, features, features) + (means - mean).square();
  return {.mean = mean.to(values.scalar_type()),
          .variance = ((around * counts).sum(0) / total).to(values.scalar_type()),
          .count = total};
}

using OptionalTensor = std::optional<at::Tensor>;

// (values - mean) / sqrt(variance) * weight + bias, for each feature.
at::Tensor transform(const at::Tensor& values, const OptionalTensor& weight,
                     const OptionalTensor& bias, const at::Tensor& mean,
                     const at::Tensor& variance) {
  const auto like_values = [&values](const OptionalTensor& tensor) {
    return tensor ? OptionalTensor(tensor->to(values.scalar_type())) : std::nullopt;
  };
  return std::get<0>(at::native_batch_norm(values, like_values(weight), like_values(bias), mean,
                                           variance, /*training=*/false,
                                           /*momentum=*/0, /*eps=*/0));
}

// The tensors of one backward, in the type of the statistics; see Ioffe and Szegedy 2015,
// section 3.
struct Backward {
  at::Tensor dy;
  at::Tensor input;
  at::Tensor weight;  // undefined without affine
  at::Tensor mean;
  at::Tensor variance;                      // plus eps
  at::Tensor deviation = variance.rsqrt();  // its inverse

  OptionalTensor scale() const { return weight.defined() ? OptionalTensor(weight) : std::nullopt; }
  at::Tensor centred() const { return input - spread(mean, input); }

  auto kernel(std::array<bool, 3> wanted) const {
    return at::native_batch_norm_backward(dy, input, scale(), mean, variance, {}, {},
                                          /*train=*/false, /*eps=*/0, wanted);
  }

  // For each feature: the sum of dy, and that of dy times the normalised input.
  std::pair<at::Tensor, at::Tensor> sums() const {
    if (has_kernels(input)) {
      const auto found = kernel({false, true, true});
      return {std::get<2>(found), std::get<1>(found)};
    }
    const auto dimensions = all_but_features(input);
    return {dy.sum(dimensions), (dy * centred()).sum(dimensions) * deviation};
  }

  // The gradient of the input, from the means of both over all ranks.
  at::Tensor of_input(const at::Tensor& mean_dy, const at::Tensor& mean_product) const {
    const at::Tensor slope = mean_product * deviation;
    if (has_kernels(input)) {
      const at::Tensor factor = weight.defined() ? deviation * weight : deviation;
      const at::Tensor rest =
          transform(input, -slope * factor, -mean_dy * factor, mean, at::ones_like(variance));
      return std::get<0>(kernel({true, false, false})).add_(rest);
    }
    const at::Tensor dx =
        (dy - spread(mean_dy, input) - centred() * spread(slope, input)) * spread(deviation, input);
    return weight.defined() ? dx * spread(weight, input) : dx;
  }
};

struct Normalise : torch::autograd::Function<Normalise> {
  // Weight and bias are absent without affine: LibTorch rejects an undefined tensor as input.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& variance,
                            const at::Tensor& count, const c10::intrusive_ptr<SyncState>& sync) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), mean, variance, count});
    context->saved_data["sync"] = c10::IValue::make_capsule(sync);
    const at::Tensor values = input.to(mean.scalar_type());
    if (has_kernels(values)) {
      return transform(values, weight, bias, mean, variance).to(input.scalar_type());
    }
    at::Tensor output = (values - spread(mean, input)) * spread(variance.rsqrt(), input);
    if (weight) output = output * spread(*weight, input) + spread(*bias, input);
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::ScalarType type = saved[2].scalar_type();
    const auto sync =
        c10::static_intrusive_pointer_cast<SyncState>(context->saved_data["sync"].toCapsule());
    const at::Tensor& count = saved[4];
    const Backward backward{.dy = gradients[0].to(type),
                            .input = saved[0].to(type),
                            .weight = saved[1].defined() ? saved[1].to(type) : saved[1],
                            .mean = saved[2],
                            .variance = saved[3]};
    const auto [sum_dy, sum_product] = backward.sums();
    const std::int64_t features = sum_dy.numel();
    std::vector<at::Tensor> sums = {at::cat({sum_dy, sum_product})};
    sync->group->allreduce(sums)->wait();
    const at::Tensor dx = backward.of_input(sums[0].narrow(0, 0, features) / count,
                                            sums[0].narrow(0, features, features) / count);
    // The gradients of weight and bias stay local; DistributedDataParallel averages them.
    const bool affine = saved[1].defined();
    return {dx.to(saved[0].scalar_type()),
            affine ? sum_product : at::Tensor(),
            affine ? sum_dy : at::Tensor(),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& wanted) : options(wanted) {
  SyncBatchNormImpl::reset();
}
SyncBatchNormImpl::SyncBatchNormImpl(std::int64_t num_features)
    : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}
SyncBatchNormImpl::~SyncBatchNormImpl() = default;

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& wanted,
                                     const BatchNormTensors& tensors)
    : options(wanted) {
  keep(tensors);
}

void SyncBatchNormImpl::reset() {
  const std::int64_t features = options.num_features();
  BatchNormTensors fresh;
  if (options.affine()) {
    fresh.weight = at::ones({features}).set_requires_grad(true);
    fresh.bias = at::zeros({features}).set_requires_grad(true);
  }
  if (options.track_running_stats()) {
    fresh.running_mean = at::zeros({features});
    fresh.running_var = at::ones({features});
    fresh.num_batches_tracked = at::zeros({}, at::TensorOptions(at::kLong));
  }
  keep(fresh);
}

void SyncBatchNormImpl::keep(const BatchNormTensors& tensors) {
  const auto parameter = [this](const char* name, const at::Tensor& tensor) {
    return register_parameter(name, tensor, tensor.defined() && tensor.requires_grad());
  };
  weight = parameter("weight", tensors.weight);
  bias = parameter("bias", tensors.bias);
  running_mean = register_buffer("running_mean", tensors.running_mean);
  running_var = register_buffer("running_var", tensors.running_var);
  num_batches_tracked = register_buffer("num_batches_tracked", tensors.num_batches_tracked);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "cpprun::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

void SyncBatchNormImpl::set_process_group(const ProcessGroup& group) {
  sync_ = std::make_shared<SyncState>();
  sync_->group = guarded(group, [] { return "SyncBatchNorm"; });
}

// As in LibTorch's batch normalisations: without a momentum, the average of all batches.
double SyncBatchNormImpl::momentum_now() {
  const auto momentum = options.momentum();
  if (!is_training() || !options.track_running_stats()) return momentum.value_or(0.0);
  if (num_batches_tracked.defined()) num_batches_tracked.add_(1);
  return momentum ? *momentum : 1.0 / num_batches_tracked.item<double>();
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features()) {
    throw DistributedError(
        fmt::format("SyncBatchNorm of {} features: the input has {} dimensions, and the size of "
                    "the second is {}",
                    options.num_features(), input.dim(), input.dim() < 2 ? 0 : input.size(1)));
  }
  if (is_training() && sync_ && sync_->group->getSize() > 1) return forward_synchronised(input);
  const double momentum = momentum_now();
  return torch::batch_norm(input, weight, bias, running_mean, running_var,
                           is_training() || !options.track_running_stats(), momentum, options.eps(),
                           at::globalContext().userEnabledCuDNN());
}

at::Tensor SyncBatchNormImpl::forward_synchronised(const at::Tensor& input) {
  const double momentum = momentum_now();
  const Statistics found = gather_statistics(input, *sync_->group);
  // The local input usually decides without a read from the device.
  if (input.numel() < 2 * input.size(1) && found.count.item<double>() < 2) {
    throw DistributedError("SyncBatchNorm needs more than one value per feature for training");
  }
  if (options.track_running_stats()) {
    const at::NoGradGuard no_grad;
    const at::Tensor unbiased = found.variance * (found.count / (found.count - 1));
    // With separate version counters: a forward in evaluation may have saved them for its backward,
    // and LibTorch's own batch normalisations do not count either.
    running_mean.variable_data()
        .mul_(1 - momentum)
        .add_(found.mean.to(running_mean.scalar_type()), momentum);
    running_var.variable_data()
        .mul_(1 - momentum)
        .add_(unbiased.to(running_var.scalar_type()), momentum);
  }
  const auto held = c10::make_intrusive<SyncState>();
  held->group = sync_->group;
  const auto present = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return Normalise::apply(input, present(weight), present(bias), found.mean,
                          found.variance + options.eps(), found.count, held);
}

namespace {

template <class BatchNormImpl>
std::shared_ptr<SyncBatchNormImpl> synchronised(const torch::nn::Module& module,
                                                const ProcessGroup& group) {
  const auto* const plain = module.as<BatchNormImpl>();
  if (plain == nullptr) return nullptr;
  auto made = std::make_shared<SyncBatchNormImpl>(
      plain->options, BatchNormTensors{.weight = plain->weight,
                                       .bias = plain->bias,
                                       .running_mean = plain->running_mean,
                                       .running_var = plain->running_var,
                                       .num_batches_tracked = plain->num_batches_tracked});
  made->set_process_group(group);
  made->train(plain->is_training());
  return made;
}

// Null if the module is not a batch normalisation.
std::shared_ptr<SyncBatchNormImpl> counterpart(const torch::nn::Module& module,
                                               const ProcessGroup& group) {
  auto made = synchronised<torch::nn::BatchNorm1dImpl>(module, group);
  if (!made) made = synchronised<torch::nn::BatchNorm2dImpl>(module, group);
  if (!made) made = synchronised<torch::nn::BatchNorm3dImpl>(module, group);
  return made;
}

// Containers hold their children twice: by name and in call order.
bool exchange(torch::nn::Module& parent, std::size_t index, const std::string& name,
              const std::shared_ptr<SyncBatchNormImpl>& made) {
  const auto offset = static_cast<std::ptrdiff_t>(index);
  if (auto* const sequential = parent.as<torch::nn::SequentialImpl>()) {
    *(sequential->begin() + offset) = torch::nn::AnyModule(made);
  } else if (auto* const list = parent.as<torch::nn::ModuleListImpl>()) {
    *(list->begin() + offset) = made;
  } else {
    return false;
  }
  parent.replace_module(name, made);
  return true;
}

void convert(torch::nn::Module& module, const ProcessGroup& group, const std::string& path) {
  std::size_t index = 0;
  for (const auto& item : module.named_children()) {
    const std::string here = path.empty() ? item.key() : path + "." + item.key();
    if (auto* const ready = item.value()->as<SyncBatchNormImpl>()) {
      ready->set_process_group(group);
    } else if (const auto made = counterpart(*item.value(), group)) {
      if (!exchange(module, index, item.key(), made)) {
        throw DistributedError(fmt::format(
            "convert_sync_batchnorm: member {} is declared as a plain BatchNorm, which cannot be "
            "replaced in C++: declare it as cpprun::SyncBatchNorm, which acts as a plain BatchNorm "
            "until it is converted",
            here));
      }
    } else {
      convert(*item.value(), group, here);
    }
    ++index;
  }
}

}  // namespace

void convert_sync_batchnorm(torch::nn::Module& module, const ProcessGroup& group) {
  if (auto* const ready = module.as<SyncBatchNormImpl>()) return ready->set_process_group(group);
  if (counterpart(module, group)) {
    throw DistributedError(
        "convert_sync_batchnorm: the module itself is a plain BatchNorm and cannot be replaced in "
        "place: declare it as cpprun::SyncBatchNorm");
  }
  convert(module, group, "");
}

}  // namespace cpprun
