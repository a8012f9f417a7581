// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/ddp_core.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/compat/versions.h"
#include "worker/torch/group/bounds.h"
#include "worker/torch/group/collective_check.h"
#include "worker/torch/group/failure.h"
#include "worker/torch/group/process_group_parts.h"
#include "worker/torch/optim/optimizer.h"

namespace cpprun {

// --- the tensors of a module ---------------------------------------------------------------------

namespace {

using Seen = std::unordered_set<const void*>;

void add_sparse_weight(const torch::nn::Module& module, Seen& weights) {
  if (const auto* const table = module.as<torch::nn::EmbeddingImpl>()) {
    if (table->options.sparse()) weights.insert(table->weight.unsafeGetTensorImpl());
  } else if (const auto* const bag = module.as<torch::nn::EmbeddingBagImpl>()) {
    if (bag->options.sparse()) weights.insert(bag->weight.unsafeGetTensorImpl());
  }
}

Seen sparse_weights(const torch::nn::Module& module) {
  Seen weights;
  add_sparse_weight(module, weights);
  for (const auto& each : module.modules(/*include_self=*/false)) add_sparse_weight(*each, weights);
  return weights;
}

// A tensor that two modules share counts once, as in Python; LibTorch lists it under both names.
template <class Items>
std::vector<NamedTensor> each_once(const Items& items, const Seen& sparse) {
  std::vector<NamedTensor> found;
  Seen seen;
  for (const auto& item : items) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    found.push_back({.name = item.key(),
                     .tensor = tensor,
                     .sparse = sparse.contains(tensor.unsafeGetTensorImpl())});
  }
  return found;
}

}  // namespace

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  return each_once(module.named_parameters(/*recurse=*/true), sparse_weights(module));
}

std::vector<NamedTensor> buffers_of(const torch::nn::Module& module) {
  return each_once(module.named_buffers(/*recurse=*/true), {});
}

std::vector<std::string> describe_model(const std::vector<NamedTensor>& parameters,
                                        const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> lines;
  for (const NamedTensor& each : parameters) {
    lines.push_back(fmt::format("parameter {}, {}{}{}", each.name, describe(each.tensor),
                                each.tensor.requires_grad() ? "" : ", frozen",
                                each.sparse ? ", with sparse gradients" : ""));
  }
  for (const NamedTensor& each : buffers) {
    lines.push_back(fmt::format("buffer {}, {}", each.name, describe(each.tensor)));
  }
  return lines;
}

// --- the wrapper ---------------------------------------------------------------------------------

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// The state of the sink's backward. The autograd graph keeps it and may outlive the wrapper, so the
// reference to the reducer is weak.
struct SinkState : torch::CustomClassHolder {
  std::weak_ptr<c10d::Reducer> reducer;
  bool static_graph = false;
  bool delay_enqueued = false;
};

// A node between the model's outputs and the loss. It passes unused outputs to the reducer as
// undefined gradients instead of zeros. With a static graph, its backward starts the reduction of
// the first iteration; without it, no rank would reduce there.
struct Sink : torch::autograd::Function<Sink> {
  // Only a TensorList counts as inputs here; a vector would cut the graph silently.
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
    gradients.emplace_back();  // for the state, which is not a tensor
    return gradients;
  }
};

// Adapts a CommHook to LibTorch's interface. It lives as long as the Reducer, possibly longer than
// the caller's group object.
class HookOfOurs : public c10d::CommHookInterface {
 public:
  HookOfOurs(CommHook hook, const ProcessGroup& group, Caller caller)
      : hook_(std::move(hook)), group_(group.alias()), caller_(std::move(caller)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const GradientBucket ours{.buffer = bucket.getBuffer(),
                              .index = bucket.getIndex(),
                              .last = bucket.isLast(),
                              .parameters = bucket.getParameters()};
    try {
      return hook_(ours, group_)
          .future()
          ->then(
              [who = caller_](c10::ivalue::Future& done) {
                try {
                  return done.value();
                } catch (const DistributedError& error) {
                  fail(who, error);
                }
              },
              c10::ListType::ofTensors());
    } catch (const DistributedError& error) {
      fail(caller_, error);
    }
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return result.toTensorVector().at(0);
  }

 private:
  [[noreturn]] static void fail(const Caller& who, const DistributedError& error) {
    throw DistributedError(fmt::format("{} in the comm_hook of {}", error.what(), who()));
  }

  CommHook hook_;
  ProcessGroup group_;
  Caller caller_;
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

// One bucket at first, unless parameters may be unused. The reducer builds the final buckets before
// the second iteration, in the order in which gradients arrived in the first.
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

DdpCore::DdpCore(const std::vector<NamedTensor>& parameters,
                 const std::vector<NamedTensor>& buffers, const std::string& module_name,
                 const ProcessGroup& group, const DdpOptions& options)
    : group_(group.alias()),
      name_(module_name),
      step_(std::make_shared<std::atomic<std::int64_t>>(0)),
      native_(guarded(group_, caller())),
      options_(options) {
  if (options.bucket_cap_mb && *options.bucket_cap_mb <= 0) {
    throw DistributedError(
        fmt::format("bucket_cap_mb={} must be above zero", *options.bucket_cap_mb));
  }
  std::vector<NamedTensor> trained;
  for (const NamedTensor& parameter : parameters) {
    all_parameters_.push_back(parameter.tensor);
    if (!parameter.tensor.requires_grad()) continue;
    parameters_.push_back(parameter.tensor);
    names_.push_back(parameter.name);
    has_sparse_gradients_ |= parameter.sparse;
    trained.push_back(parameter);
    if (parameter.tensor.layout() != at::kStrided) {
      throw DistributedError(fmt::format(
          "{} of {} is a sparse tensor, which DistributedDataParallel cannot average: keep it "
          "dense (an Embedding with sparse=true has a dense weight)",
          parameter.name, name_));
    }
    if (parameter.sparse && options.comm_hook) {
      throw DistributedError(fmt::format(
          "{} of {} has sparse gradients, which a comm_hook cannot reduce: remove the hook, or "
          "create the Embedding with sparse=false",
          parameter.name, name_));
    }
  }
  if (trained.empty()) {
    throw DistributedError(
        fmt::format("no parameter of {} requires a gradient: there is nothing to reduce", name_));
  }
  for (const NamedTensor& buffer : buffers) buffers_.push_back(buffer.tensor);
  // Before any exchange of tensors, where a difference would cause a hang or worse. If joining did
  // not connect the ranks, a collective must come first.
  const bool met = group_.parts().met_by_joining;
  if (met) require_same_model(parameters, buffers);
  c10d::verify_params_across_processes(native_, parameters_, std::nullopt);
  if (!met) require_same_model(parameters, buffers);
  broadcast_state(/*source=*/0);
  build_reducer(trained);
  register_hook();
}

DdpCore::~DdpCore() = default;

Caller DdpCore::caller() const {
  return [name = name_, step = step_] {
    const std::int64_t now = step->load();
    return now == 0 ? fmt::format("DistributedDataParallel({})", name)
                    : fmt::format("step {} of DistributedDataParallel({})", now, name);
  };
}

void DdpCore::require_same_model(const std::vector<NamedTensor>& parameters,
                                 const std::vector<NamedTensor>& buffers) const {
  // Python ranks do not take part in this check.
  if (group_.size() == 1 || !all_cpp(group_)) return;
  const std::vector<std::string> lines = describe_model(parameters, buffers);
  const std::string whole = fmt::format("{}\n", fmt::join(lines, "\n"));
  // The models are nearly always equal, which a hash of eight bytes shows.
  const auto sums = all_gather_object(std::hash<std::string>()(whole), group_);
  if (std::all_of(sums.begin(), sums.end(), [&](auto sum) { return sum == sums.front(); })) return;
  const auto difference = model_difference(all_gather_object(whole, group_));
  if (difference) {
    throw DistributedError(
        fmt::format("the model {} differs between ranks: {}", name_, *difference));
  }
}

// In module order, frozen or not, like a Python rank: tensors are exchanged without names.
void DdpCore::broadcast_state(int source) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : all_parameters_) all.push_back(parameter.detach());
  // As in Python: without broadcast_buffers, buffers stay local from the start.
  if (options_.broadcast_buffers) {
    for (const at::Tensor& buffer : buffers_) all.push_back(buffer.detach());
  }
  c10d::broadcast_coalesced(native_, all, bounds::coalesced_broadcast_bytes, source);
}

void DdpCore::build_reducer(const std::vector<NamedTensor>& trained) {
  const BucketCaps caps = caps_of(options_);
  compat::ReducerArguments arguments;
  for (const NamedTensor& each : trained) arguments.sparse.push_back(each.sparse);
  std::tie(arguments.buckets, arguments.limits) = c10d::compute_bucket_assignment_by_size(
      parameters_, first_limits(options_, caps), arguments.sparse, {}, std::nullopt);
  // Gradients arrive roughly in reverse layer order.
  std::reverse(arguments.buckets.begin(), arguments.buckets.end());
  std::reverse(arguments.limits.begin(), arguments.limits.end());
  for (std::size_t i = 0; i < trained.size(); ++i) arguments.names[i] = trained[i].name;
  arguments.parameters = parameters_;
  arguments.group = native_;
  arguments.cap = static_cast<std::int64_t>(caps.bytes);
  arguments.first_cap = static_cast<std::int64_t>(caps.first_bytes);
  arguments.find_unused = options_.find_unused_parameters;
  arguments.as_view = options_.gradient_as_bucket_view;

  reduction_ = std::make_unique<Reduction>();
  reduction_->reducer = compat::make_reducer<c10d::Reducer>(arguments);
  reduction_->logger = std::make_shared<c10d::Logger>(reduction_->reducer);
  reduction_->reducer->set_logger(reduction_->logger);
  reduction_->logger->set_construction_data_and_log(name_, {}, -1, options_.broadcast_buffers,
                                                    /*has_sync_bn=*/false, options_.static_graph);
  reduction_->sink->reducer = reduction_->reducer;
  reduction_->sink->static_graph = options_.static_graph;
  if (options_.static_graph) {
    reduction_->reducer->set_static_graph();
    reduction_->logger->set_static_graph();
  }
}

void DdpCore::register_hook() {
  if (!options_.comm_hook) return;
  reduction_->reducer->register_comm_hook(
      std::make_unique<HookOfOurs>(options_.comm_hook, group_, caller()));
}

void DdpCore::before_forward() {
  const bool grad = at::GradMode::is_enabled();
  if (grad && syncs_) {
    ++*step_;
    ++group_.parts().family->steps;
    reduction_->logger->set_runtime_stats_and_log();
    reduction_->reducer->prepare_for_forward();
  }
  if (const auto counting = notify_join()) {
    reduction_->reducer->set_forward_pass_work_handle(counting,
                                                      join_options()->divide_by_initial_world_size);
  }
  const bool joins = join_options() != nullptr;
  if (grad || joins) reduce([](c10d::Reducer& reducer) { reducer.rebuild_buckets(); });
  // Rank 0 may have finished, and have old buffers.
  if (broadcasts_buffers()) broadcast_buffers(joins ? common_rank(true) : 0);
  // Tells the ranks that have finished whether gradients are reduced in this step.
  if (joins) static_cast<void>(count_ranks(grad && syncs_));
}

bool DdpCore::broadcasts_buffers() const {
  return options_.broadcast_buffers && buffers_due_ && !buffers_.empty();
}

void DdpCore::broadcast_buffers(int source) {
  const at::NoGradGuard no_grad;
  // With separate version counters, as in Python: an earlier forward may have saved the buffers for
  // its backward, which does not depend on their values.
  std::vector<at::Tensor> apart;
  for (const at::Tensor& buffer : buffers_) apart.push_back(buffer.variable_data());
  c10d::broadcast_coalesced(native_, apart, bounds::coalesced_broadcast_bytes, source);
}

int DdpCore::common_rank(bool candidate) const {
  const at::Tensor rank = at::full({1}, candidate ? group_.rank() : -1,
                                   at::TensorOptions(at::kLong).device(join_device()));
  all_reduce(rank, group_, ReduceOp::max);
  return rank.item<int>();
}

void DdpCore::check_join(const JoinOptions& options, bool first) const {
  const auto fail = [this](const char* why) {
    throw DistributedError(fmt::format("Join: DistributedDataParallel({}) {}", name_, why));
  };
  if (!first) fail("must be the first object");
  if (has_sparse_gradients_) fail("has parameters with sparse gradients, which Join cannot reduce");
  if (options_.comm_hook && !options.divide_by_initial_world_size) {
    fail(
        "has a comm_hook, which divides by the size of the group: set "
        "divide_by_initial_world_size, or remove the hook");
  }
  if (group_.check() != nullptr) {
    fail(
        "is in a group in debug mode, which compares the calls of all ranks: unset "
        "CPPRUN_DISTRIBUTED_DEBUG and TORCH_DISTRIBUTED_DEBUG");
  }
}

// The collectives of a forward and a backward, in their order. This rank's part in the gradients is
// zero. It takes the result, which a ZeroRedundancyOptimizer needs for the parameters that this
// rank updates.
bool DdpCore::shadow_step() {
  const at::NoGradGuard no_grad;
  if (options_.static_graph && *step_ == 0) {
    throw DistributedError(fmt::format(
        "Join: rank {} has no batch for the first step of DistributedDataParallel({}), in which "
        "static_graph learns the graph: give every rank a batch, or set static_graph=false",
        group_.rank(), name_));
  }
  reduce([](c10d::Reducer& reducer) { reducer.rebuild_buckets(); });
  if (broadcasts_buffers()) broadcast_buffers(common_rank(false));
  buffers_due_ = count_ranks(false).item<float>() != 0;
  if (!buffers_due_) return false;
  ++*step_;
  std::vector<at::Tensor> gradients = reduce_zeros();
  if (options_.find_unused_parameters && !options_.static_graph) {
    const at::Tensor ranks_using = reduction_->reducer->get_local_used_map_on_device();
    ranks_using.zero_();  // of the last backward
    all_reduce(ranks_using, group_);
    const at::Tensor here = ranks_using.cpu();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (here[static_cast<std::int64_t>(i)].item<int>() == 0) gradients[i].reset();
    }
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& gradient = parameters_[i].mutable_grad();
    if (!gradients[i].defined()) {
      // No rank uses the parameter in this step.
      if (gradient.defined()) gradient.zero_();
    } else if (gradient.defined()) {
      gradient.copy_(gradients[i]);
    } else {
      gradient = at::empty_like(parameters_[i].detach()).copy_(gradients[i]);
    }
  }
  reduction_->reducer->push_rebuilt_params_for_all_indices();
  return true;
}

std::vector<at::Tensor> DdpCore::reduce_zeros() {
  std::unordered_map<const void*, std::size_t> index;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    index[parameters_[i].unsafeGetTensorImpl()] = i;
  }
  c10d::Reducer& reducer = *reduction_->reducer;
  auto buckets = reducer.get_grad_buckets(/*return_zero_tensors=*/true);
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> results;
  for (c10d::GradBucket& bucket : buckets) results.push_back(reducer.run_comm_hook(bucket));
  std::vector<at::Tensor> gradients(parameters_.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    results[i]->waitAndThrow();
    const c10::IValue& result = results[i]->constValue();
    const at::Tensor whole = result.isTensor() ? result.toTensor() : result.toTensorVector().at(0);
    const at::Tensor flat = whole.flatten();
    std::int64_t at = 0;
    for (const at::Tensor& parameter : buckets[i].getParameters()) {
      const at::Tensor part = flat.narrow(0, at, parameter.numel());
      at += parameter.numel();
      // As the reducer lays them out.
      gradients[index.at(parameter.unsafeGetTensorImpl())] =
          parameter.is_non_overlapping_and_dense()
              ? part.as_strided(parameter.sizes(), parameter.strides())
              : part.view(parameter.sizes());
    }
  }
  return gradients;
}

void DdpCore::after_join(bool last) {
  // From now on, gradients are divided by the size of the group.
  reduction_->reducer->set_forward_pass_work_handle({}, /*useStaticWorldSize=*/true);
  broadcast_state(common_rank(last));
}

void DdpCore::after_forward(const std::vector<at::Tensor*>& outputs) {
  const bool dynamic_unused = options_.find_unused_parameters && !options_.static_graph;
  buffers_due_ = at::GradMode::is_enabled() && syncs_;
  if (buffers_due_) {
    std::vector<at::Tensor> used;
    if (dynamic_unused) {
      for (const at::Tensor* output : outputs) {
        if (output->defined()) used.push_back(*output);
      }
    }
    reduce([&](c10d::Reducer& reducer) { reducer.prepare_for_backward(used); });
  }
  const bool first_static = options_.static_graph && !reduction_->sink->delay_enqueued;
  if (dynamic_unused || first_static) pass_through_sink(outputs);
}

void DdpCore::pass_through_sink(const std::vector<at::Tensor*>& outputs) {
  std::vector<at::Tensor*> places;
  std::vector<at::Tensor> tensors;
  for (at::Tensor* output : outputs) {
    // Without history, no gradient is needed, and there must be no node.
    if (!output->defined() || !output->grad_fn()) continue;
    places.push_back(output);
    tensors.push_back(*output);
  }
  if (places.empty()) return;
  const auto passed = Sink::apply(at::TensorList(tensors), reduction_->sink);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = passed[i];
}

void DdpCore::reduce(const std::function<void(c10d::Reducer&)>& call) const {
  try {
    call(*reduction_->reducer);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    constexpr std::string_view start = "did not receive grad for rank ";
    std::size_t at = text.find(start);
    if (at == std::string::npos) throw;
    at = text.find(':', at);
    std::vector<std::string> names;
    std::istringstream numbers(at == std::string::npos ? "" : text.substr(at + 1));
    for (std::size_t number = 0; numbers >> number && number < names_.size();) {
      names.push_back(names_[number]);
    }
    if (names.empty()) throw;
    constexpr std::size_t named_max = 5;
    const std::size_t named = std::min(names.size(), named_max);
    throw DistributedError(fmt::format(
        "{} parameter(s) of {} had no gradient in the last step on rank {}: {}{}; set "
        "find_unused_parameters, or use all outputs of forward in the loss",
        names.size(), name_, group_.rank(),
        fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named), ", "),
        names.size() > named ? fmt::format(" and {} more", names.size() - named) : ""));
  }
}

void DdpCore::zero_grad(bool set_to_none) {
  zero_gradients(parameters_, set_to_none);
}

// --- the communication hooks ---------------------------------------------------------------------

namespace {

Work compress(const GradientBucket& bucket, const ProcessGroup& group, at::ScalarType type) {
  // Divides first: a sum of half-precision numbers may overflow where their average does not.
  const at::Tensor small = bucket.buffer.to(type).div_(group.size());
  return all_reduce_async(small, group).then([buffer = bucket.buffer, small] {
    buffer.copy_(small);
    return std::vector<at::Tensor>{buffer};
  });
}

}  // namespace

Work allreduce_hook(const GradientBucket& bucket, const ProcessGroup& group) {
  bucket.buffer.div_(group.size());
  return all_reduce_async(bucket.buffer, group);
}

Work fp16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group) {
  return compress(bucket, group, at::kHalf);
}

Work bf16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group) {
  return compress(bucket, group, at::kBFloat16);
}

}  // namespace cpprun
