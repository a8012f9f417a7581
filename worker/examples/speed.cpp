// SPDX-License-Identifier: BSD-3-Clause
// Measures a vision transformer, forward and backward, on one rank and on all:
//
//   cpprun --nnodes=2 --node_rank=0 --master_addr=… --nproc_per_node=1 ./speed --threads=64

#include <fmt/format.h>
#include <sched.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/group/device.h"

namespace cpprun::examples {

// A vision transformer (Dosovitskiy et al., 2020): pre-norm blocks, a class token, learned
// positions. The defaults are ViT-Base/16 on images of 224 x 224.

struct VitOptions {
  int image_size = 224;
  int patch = 16;
  int dim = 768;
  int depth = 12;
  int heads = 12;
  int classes = 1000;
};

struct VitBlockImpl : torch::nn::Module {
  VitBlockImpl(int dim, int heads_) : heads(heads_) {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    qkv = register_module("qkv", torch::nn::Linear(dim, 3 * dim));
    proj = register_module("proj", torch::nn::Linear(dim, dim));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    up = register_module("up", torch::nn::Linear(dim, 4 * dim));
    down = register_module("down", torch::nn::Linear(4 * dim, dim));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1->forward(x));
    return x + apply(down, torch::gelu(apply(up, norm2->forward(x))));
  }

  // Like Python's Linear. The frontend's version adds the bias in a separate pass if the input has
  // more than two dimensions.
  static torch::Tensor apply(const torch::nn::Linear& layer, const torch::Tensor& x) {
    return at::linear(x, layer->weight, layer->bias);
  }

  torch::Tensor attention(const torch::Tensor& x) {
    const auto batch = x.size(0);
    const auto tokens = x.size(1);
    const auto dim = x.size(2);
    // [3, batch, heads, tokens, dim of a head]
    const auto split =
        apply(qkv, x).view({batch, tokens, 3, heads, dim / heads}).permute({2, 0, 3, 1, 4});
    // One unbind: three selections would have three gradients of the size of the whole.
    const auto parts = split.unbind();
    const auto mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return apply(proj, mixed.transpose(1, 2).reshape({batch, tokens, dim}));
  }

  int heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(VitBlock);

struct VitImpl : torch::nn::Module {
  explicit VitImpl(const VitOptions& options) {
    const int side = options.image_size / options.patch;
    embed = register_module(
        "embed",
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(3, options.dim, options.patch).stride(options.patch)));
    token = register_parameter("token", torch::zeros({1, 1, options.dim}));
    position =
        register_parameter("position", 0.02 * torch::randn({1, side * side + 1, options.dim}));
    for (int i = 0; i < options.depth; ++i) {
      blocks->push_back(VitBlock(options.dim, options.heads));
    }
    register_module("blocks", blocks);
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.dim})));
    head = register_module("head", torch::nn::Linear(options.dim, options.classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = embed->forward(images).flatten(2).transpose(1, 2);
    x = torch::cat({token.expand({x.size(0), -1, -1}), x}, 1) + position;
    x = blocks->forward(x);
    return head->forward(norm->forward(x).select(1, 0));
  }

  torch::Tensor token, position;
  torch::nn::Conv2d embed{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Vit);

}  // namespace cpprun::examples

namespace {

using cpprun::examples::Vit;
using cpprun::examples::VitOptions;
using Clock = std::chrono::steady_clock;
using Model = cpprun::DistributedDataParallel<Vit>;

struct Settings {
  VitOptions vit;
  int batch = 8;
  int steps = 5;
  int warmup = 1;
  int threads = 0;
  int local_rank = -1;
  std::string dtype = "fp32";
  std::string device = "cpu";
  bool json = false;
  bool scaling = false;
  std::string backend;
};

struct StepTime {
  double forward = 0;
  double backward = 0;
  double total() const { return forward + backward; }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The processors this process may use: fewer than the machine has in a container or under taskset.
int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void set_threads(const Settings& settings, const cpprun::Context& context) {
  if (settings.threads == 0) return;
  const int available = processors();
  if (settings.threads > available && context.local_rank.value == 0) {
    fmt::print("speed: --threads={} exceeds the {} available processors; using {}\n",
               settings.threads, available, available);
  }
  at::set_num_threads(std::min(settings.threads, available));
}

torch::Device device_of(const Settings& settings, const cpprun::Context& context) {
  if (settings.device == "cpu") return {torch::kCPU};
  return cpprun::bind_cuda_device(context);
}

// Kernels run asynchronously; only finished ones can be timed.
void finish(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

class Runner {
 public:
  // Without a group it computes alone.
  Runner(const Settings& settings, const torch::Device& device, const cpprun::ProcessGroup* group)
      : device_(device), model_(settings.vit) {
    const auto type = settings.dtype == "bf16" ? torch::kBFloat16 : torch::kFloat;
    model_->to(device, type);
    const int side = settings.vit.image_size;
    images_ = torch::randn({settings.batch, 3, side, side}, torch::kFloat).to(device, type);
    labels_ = torch::randint(settings.vit.classes, {settings.batch}, torch::kLong).to(device);
    if (group != nullptr && group->size() > 1) ddp_.emplace(model_, *group);
  }

  std::int64_t parameters() const {
    std::int64_t count = 0;
    for (const auto& parameter : model_->parameters()) count += parameter.numel();
    return count;
  }

  StepTime step() {
    for (const auto& parameter : model_->parameters()) {
      parameter.mutable_grad() = torch::Tensor();
    }
    const auto start = Clock::now();
    const auto output = ddp_ ? ddp_->forward(images_) : model_->forward(images_);
    const auto loss = torch::nn::functional::cross_entropy(output.to(torch::kFloat), labels_);
    finish(device_);
    const double forward = seconds_since(start);
    loss.backward();
    finish(device_);
    return {.forward = forward, .backward = seconds_since(start) - forward};
  }

 private:
  torch::Device device_;
  Vit model_;
  torch::Tensor images_;
  torch::Tensor labels_;
  std::optional<Model> ddp_;  // only with a group
};

StepTime mean_of(const std::vector<StepTime>& times) {
  StepTime sum;
  for (const StepTime& time : times) {
    sum.forward += time.forward;
    sum.backward += time.backward;
  }
  const auto count = static_cast<double>(times.size());
  return {.forward = sum.forward / count, .backward = sum.backward / count};
}

// Images per second of rank 0 while the other ranks wait.
double rate_alone(const Settings& settings, const torch::Device& device,
                  const cpprun::ProcessGroup& group) {
  double rate = 0;
  if (group.rank() == 0) {
    Runner runner(settings, device, nullptr);
    for (int i = 0; i < settings.warmup; ++i) runner.step();
    std::vector<StepTime> times;
    for (int i = 0; i < settings.steps; ++i) times.push_back(runner.step());
    rate = settings.batch / mean_of(times).total();
  }
  cpprun::barrier(group);
  return rate;
}

void report(const Settings& settings, const StepTime& mean, const std::vector<double>& rates,
            std::int64_t parameters, double alone) {
  const double total = std::accumulate(rates.begin(), rates.end(), 0.0);
  if (settings.json) {
    fmt::print(
        "{{\"model\": \"vit\", \"parameters\": {}, \"device\": \"{}\", \"dtype\": \"{}\", "
        "\"threads\": {}, \"world_size\": {}, \"batch\": {}, \"steps\": {}, "
        "\"forward_seconds\": {:.6f}, \"backward_seconds\": {:.6f}, \"step_seconds\": {:.6f}, "
        "\"images_per_second_rank0\": {:.4f}, \"images_per_second_all\": {:.4f}, "
        "\"images_per_second_alone\": {:.4f}}}\n",
        parameters, settings.device, settings.dtype, at::get_num_threads(), rates.size(),
        settings.batch, settings.steps, mean.forward, mean.backward, mean.total(), rates.front(),
        total, alone);
    return;
  }
  fmt::print("mean of {} steps: forward {:.4f} s  backward {:.4f} s  step {:.4f} s\n",
             settings.steps, mean.forward, mean.backward, mean.total());
  fmt::print("images per second: {:.2f} on rank 0, {:.2f} on all {} ranks\n", rates.front(), total,
             rates.size());
  if (alone == 0) return;
  fmt::print(
      "scaling: one rank alone {:.2f} images per second; {} ranks reach {:.0f} % of {} times "
      "that\n",
      alone, rates.size(), 100 * total / (alone * static_cast<double>(rates.size())), rates.size());
}

int measure(const cpprun::Context& context, const Settings& settings) {
  set_threads(settings, context);
  torch::manual_seed(0);
  cpprun::Context chosen = context;
  if (settings.local_rank >= 0) chosen.local_rank = cpprun::LocalRank{settings.local_rank};
  const torch::Device device = device_of(settings, chosen);
  const auto group = cpprun::init_process_group(chosen, {.backend = settings.backend});
  const bool talks = context.leads() && !settings.json;
  const double alone = settings.scaling ? rate_alone(settings, device, group) : 0;
  Runner runner(settings, device, &group);
  if (talks) {
    fmt::print(
        "speed: ViT with {:.1f} M parameters, batch {} of {} x {}, {} on {}, {} threads, "
        "world size {}\n",
        static_cast<double>(runner.parameters()) / 1e6, settings.batch, settings.vit.image_size,
        settings.vit.image_size, settings.dtype, device.str(), at::get_num_threads(), group.size());
    std::fflush(stdout);
  }
  for (int i = 0; i < settings.warmup; ++i) runner.step();
  std::vector<StepTime> times;
  for (int i = 1; i <= settings.steps; ++i) {
    times.push_back(runner.step());
    if (talks) {
      fmt::print("step {:3}  forward {:.4f} s  backward {:.4f} s  total {:.4f} s\n", i,
                 times.back().forward, times.back().backward, times.back().total());
      std::fflush(stdout);
    }
  }
  const StepTime mean = mean_of(times);
  const auto rates = cpprun::all_gather(settings.batch / mean.total(), group);
  if (context.leads()) report(settings, mean, rates, runner.parameters(), alone);
  return 0;
}

void declare(Settings& settings, cpprun::examples::CommandLine& app) {
  app.add("--image-size", settings.vit.image_size, "side of an image", {{1, 8192}});
  app.add("--patch", settings.vit.patch, "side of a patch", {{1, 8192}});
  app.add("--dim", settings.vit.dim, "width of the model", {{1, 65536}});
  app.add("--depth", settings.vit.depth, "number of blocks", {{1, 1024}});
  app.add("--heads", settings.vit.heads, "attention heads; must divide the width", {{1, 1024}});
  app.add("--classes", settings.vit.classes, "number of classes", {{1, 1 << 20}});
  app.add("--batch", settings.batch, "images per step and rank", {{1, 1 << 20}});
  app.add("--steps", settings.steps, "measured steps", {{1, 1 << 20}});
  app.add("--warmup", settings.warmup, "warm-up steps before the measured steps", {{0, 1 << 20}});
  app.add("--threads", settings.threads,
          "threads per rank, at most the number of processors; 0: use OMP_NUM_THREADS",
          {{0, 1 << 20}});
  app.add("--dtype", settings.dtype, "type to compute in", {"fp32", "bf16"});
  app.add("--device", settings.device, "device to compute on", {"cpu", "cuda"});
  app.add("--local-rank", settings.local_rank, "CUDA device; -1: use LOCAL_RANK", {{-1, 4096}});
  app.add_flag("--scaling", settings.scaling, "measure rank 0 alone first, for comparison");
  app.add_flag("--json", settings.json, "print one line of JSON");
  const VitOptions& vit = settings.vit;
  app.check([&vit]() -> std::string {
    if (vit.dim % vit.heads != 0) {
      return fmt::format("--dim={} is not a multiple of --heads={}", vit.dim, vit.heads);
    }
    if (vit.image_size % vit.patch != 0) {
      return fmt::format("--image-size={} is not a multiple of --patch={}", vit.image_size,
                         vit.patch);
    }
    return "";
  });
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  cpprun::examples::CommandLine app(
      "speed: forward and backward speed of a vision transformer (default: ViT-Base/16).");
  declare(settings, app);
  app.add_backend(settings.backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run(
      [&settings](const cpprun::Context& context) { return measure(context, settings); });
}
