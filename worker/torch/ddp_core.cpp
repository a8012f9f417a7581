#include "worker/torch/ddp_core.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "worker/torch/compat/reducer.h"
#include "worker/torch/optimizer.h"

namespace cpprun {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t broadcast_bytes = 250 * mebibyte;

// What the sink's backward has to know; it travels in the autograd graph, which may outlive the
// wrapper, so the reducer is held weakly.
struct SinkState : torch::CustomClassHolder {
  std::weak_ptr<c10d::Reducer> reducer;
  bool static_graph = false;
  bool delay_enqueued = false;
};

// A node between the model's outputs and the loss. Unused outputs reach the reducer through it as
// undefined gradients instead of zeros, and with a static graph its backward asks for the reduction
// of the first iteration, which nobody else starts: without it every rank would go its own way.
struct Sink : torch::autograd::Function<Sink> {
  // Only a TensorList is recognised as inputs here; a vector would cut the graph silently.
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList outputs,
                                                const c10::intrusive_ptr<SinkState>& state) {
    context->set_materialize_grads(false);
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    torch::autograd::variable_list copies;
    for (const at::Tensor& output : outputs) copies.push_back(output.clone());
    return copies;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto state =
        c10::static_intrusive_pointer_cast<SinkState>(context->saved_data["state"].toCapsule());
    if (state->static_graph && !state->delay_enqueued) {
      state->delay_enqueued = true;
      torch::autograd::Engine::get_default_engine().queue_callback([weak = state->reducer] {
        if (const auto reducer = weak.lock()) reducer->delay_all_reduce();
      });
    }
    gradients.emplace_back();  // for the state, which is no tensor
    return gradients;
  }
};

// A hook of ours as one of LibTorch's.
class HookOfOurs : public c10d::CommHookInterface {
 public:
  HookOfOurs(CommHook hook, const ProcessGroup& group) : hook_(std::move(hook)), group_(group) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const GradientBucket ours{.buffer = bucket.getBuffer(),
                              .index = bucket.getIndex(),
                              .last = bucket.isLast(),
                              .parameters = bucket.getParameters()};
    return hook_(ours, group_).future();
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return result.toTensorVector().at(0);
  }

 private:
  CommHook hook_;
  const ProcessGroup& group_;
};

struct BucketCaps {
  std::size_t bytes = 25 * mebibyte;
  std::size_t first_bytes = mebibyte;
};

BucketCaps caps_of(const DdpOptions& options) {
  BucketCaps caps;
  if (options.bucket_cap_mb) {
    caps.bytes = static_cast<std::size_t>(*options.bucket_cap_mb * static_cast<double>(mebibyte));
    caps.first_bytes = caps.bytes;
  }
  return caps;
}

// One bucket at first, unless parameters may go unused: the reducer forms the real ones before the
// second iteration, in the order in which gradients arrived in the first.
std::vector<std::size_t> first_limits(const DdpOptions& options, const BucketCaps& caps) {
  if (options.static_graph || !options.find_unused_parameters) {
    return {static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())};
  }
  if (caps.first_bytes < caps.bytes) return {caps.first_bytes, caps.bytes};
  return {caps.bytes};
}

}  // namespace

struct DdpCore::Reduction {
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
  c10::intrusive_ptr<SinkState> sink = c10::make_intrusive<SinkState>();
};

DdpCore::DdpCore(std::vector<NamedTensor> parameters, std::vector<at::Tensor> buffers,
                 const std::string& module_name, const ProcessGroup& group,
                 const DdpOptions& options)
    : buffers_(std::move(buffers)), group_(group.native()), options_(options) {
  if (options.bucket_cap_mb && *options.bucket_cap_mb <= 0) {
    throw DistributedError(
        fmt::format("bucket_cap_mb={} must be above zero", *options.bucket_cap_mb));
  }
  std::vector<NamedTensor> trained;
  for (NamedTensor& parameter : parameters) {
    if (parameter.tensor.requires_grad()) {
      parameters_.push_back(parameter.tensor);
      trained.push_back(std::move(parameter));
    } else {
      frozen_.push_back(parameter.tensor);
    }
  }
  if (trained.empty()) {
    throw DistributedError(fmt::format(
        "no parameter of {} requires a gradient: there is nothing to reduce", module_name));
  }
  c10d::verify_params_across_processes(group_, parameters_, std::nullopt);
  broadcast_state();
  build_reducer(trained, module_name);
  register_hook(group);
}

DdpCore::~DdpCore() = default;

void DdpCore::broadcast_state() {
  std::vector<at::Tensor> all;
  const auto add = [&all](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach());
  };
  add(parameters_);
  add(frozen_);
  // As in Python, who keeps buffers of their own keeps them from the start.
  if (options_.broadcast_buffers) add(buffers_);
  c10d::broadcast_coalesced(group_, all, broadcast_bytes, /*rank=*/0);
}

void DdpCore::build_reducer(const std::vector<NamedTensor>& parameters,
                            const std::string& module_name) {
  const BucketCaps caps = caps_of(options_);
  compat::ReducerArguments arguments;
  arguments.sparse.assign(parameters_.size(), false);
  std::tie(arguments.buckets, arguments.limits) = c10d::compute_bucket_assignment_by_size(
      parameters_, first_limits(options_, caps), arguments.sparse, {}, std::nullopt);
  // Gradients arrive roughly in the reverse order of the layers.
  std::reverse(arguments.buckets.begin(), arguments.buckets.end());
  std::reverse(arguments.limits.begin(), arguments.limits.end());
  for (std::size_t i = 0; i < parameters.size(); ++i) arguments.names[i] = parameters[i].name;
  arguments.parameters = parameters_;
  arguments.group = group_;
  arguments.cap = static_cast<std::int64_t>(caps.bytes);
  arguments.first_cap = static_cast<std::int64_t>(caps.first_bytes);
  arguments.find_unused = options_.find_unused_parameters;
  arguments.as_view = options_.gradient_as_bucket_view;

  reduction_ = std::make_unique<Reduction>();
  reduction_->reducer = compat::make_reducer<c10d::Reducer>(arguments);
  reduction_->logger = std::make_shared<c10d::Logger>(reduction_->reducer);
  reduction_->reducer->set_logger(reduction_->logger);
  reduction_->logger->set_construction_data_and_log(module_name, {}, -1, options_.broadcast_buffers,
                                                    /*has_sync_bn=*/false, options_.static_graph);
  reduction_->sink->reducer = reduction_->reducer;
  reduction_->sink->static_graph = options_.static_graph;
  if (options_.static_graph) {
    reduction_->reducer->set_static_graph();
    reduction_->logger->set_static_graph();
  }
}

void DdpCore::register_hook(const ProcessGroup& group) {
  if (!options_.comm_hook) return;
  reduction_->reducer->register_comm_hook(std::make_unique<HookOfOurs>(options_.comm_hook, group));
}

void DdpCore::before_forward() {
  const bool grad = at::GradMode::is_enabled();
  if (grad && syncs_) {
    reduction_->logger->set_runtime_stats_and_log();
    reduction_->reducer->prepare_for_forward();
  }
  if (grad) reduction_->reducer->rebuild_buckets();
  if (options_.broadcast_buffers && buffers_due_ && !buffers_.empty()) {
    const at::NoGradGuard no_grad;
    c10d::broadcast_coalesced(group_, buffers_, broadcast_bytes, /*rank=*/0);
  }
}

void DdpCore::after_forward(const std::vector<at::Tensor*>& outputs) {
  const bool dynamic_unused = options_.find_unused_parameters && !options_.static_graph;
  buffers_due_ = at::GradMode::is_enabled() && syncs_;
  if (buffers_due_) {
    std::vector<at::Tensor> used;
    if (dynamic_unused) {
      for (const at::Tensor* output : outputs) used.push_back(*output);
    }
    reduction_->reducer->prepare_for_backward(used);
  }
  const bool first_static = options_.static_graph && !reduction_->sink->delay_enqueued;
  if (dynamic_unused || first_static) pass_through_sink(outputs);
}

void DdpCore::pass_through_sink(const std::vector<at::Tensor*>& outputs) {
  std::vector<at::Tensor*> places;
  std::vector<at::Tensor> tensors;
  for (at::Tensor* output : outputs) {
    // What has no history needs no gradient and must not get a node.
    if (!output->defined() || !output->grad_fn()) continue;
    places.push_back(output);
    tensors.push_back(*output);
  }
  if (places.empty()) return;
  const auto passed = Sink::apply(at::TensorList(tensors), reduction_->sink);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = passed[i];
}

void DdpCore::zero_grad(bool set_to_none) {
  zero_gradients(parameters_, set_to_none);
}

}  // namespace cpprun
