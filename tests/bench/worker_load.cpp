// SPDX-License-Identifier: BSD-3-Clause
// The operations of a worker, each timed alone: the C++ half of worker_bench.py. worker_load.py is
// the Python half and does the same with the same sizes; both print lines of "name value".
//
//   worker_load first|steps|local DIRECTORY|collectives

#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>

#include "worker/env/io/worker.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/data/sampler.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/files/safetensors_file.h"
#include "worker/torch/optim/adam.h"
#include "worker/torch/optim/sgd.h"

namespace {

using Net = torch::nn::Sequential;
using Model = cpprun::DistributedDataParallel<Net>;

double microseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// The median time of one call, in microseconds.
double time_of(int times, const std::function<void()>& call) {
  call();  // the first one allocates
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    const double start = microseconds_now();
    call();
    took.push_back(microseconds_now() - start);
  }
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

void tell(bool leads, std::string_view name, double value) {
  if (leads) fmt::print("{} {:.3f}\n", name, value);
}

Net net_of(int layers, int width) {
  Net net;
  for (int i = 0; i < layers; ++i) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::ReLU());
  }
  return net;
}

// Forward and backward of a model of so many layers, through DDP if there are several ranks.
class Trainer {
 public:
  Trainer(int layers, int width, int batch, const cpprun::ProcessGroup& group)
      : net_(net_of(layers, width)), input_(torch::randn({batch, width})) {
    if (group.size() > 1) ddp_.emplace(net_, group);
    sgd_.emplace(net_->parameters(), cpprun::SgdOptions{.lr = 1e-6, .momentum = 0.9});
  }
  void step() {
    for (const auto& parameter : net_->parameters()) parameter.mutable_grad() = torch::Tensor();
    const auto output = ddp_ ? ddp_->forward(input_) : net_->forward(input_);
    output.square().mean().backward();
    sgd_->step();
  }

 private:
  Net net_;
  torch::Tensor input_;
  std::optional<Model> ddp_;
  std::optional<cpprun::FusedSgd> sgd_;
};

void bench_first(const cpprun::ProcessGroup& group, bool leads) {
  Trainer(2, 64, 32, group).step();
  tell(leads, "first_step_at", microseconds_now());
}

void bench_steps(const cpprun::ProcessGroup& group, bool leads) {
  Trainer small(3, 64, 32, group);
  tell(leads, "small_step", time_of(300, [&] { small.step(); }));
  Trainer large(8, 1024, 32, group);
  tell(leads, "large_step", time_of(20, [&] { large.step(); }));
}

std::vector<torch::Tensor> tensors_with_gradients(int count, int size) {
  std::vector<torch::Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    tensors.push_back(torch::randn({size}).requires_grad_());
    tensors.back().mutable_grad() = torch::randn({size});
  }
  return tensors;
}

// Writes as many bytes to the disk as the checkpoint has: the lower bound for a checkpoint.
void write_plainly(const std::string& path, const torch::Tensor& bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto* data = static_cast<const char*>(bytes.data_ptr());
  for (std::size_t at = 0; at < bytes.nbytes();) {
    const ssize_t written = ::write(file, data + at, bytes.nbytes() - at);
    if (written <= 0) throw std::runtime_error("cannot write " + path);
    at += static_cast<std::size_t>(written);
  }
  ::fsync(file);
  ::close(file);
}

// Our optimizers, and those of LibTorch's C++ frontend, which loop over the tensors.
void bench_optimizers(const std::string& of, const std::vector<torch::Tensor>& tensors) {
  cpprun::FusedSgd sgd(tensors, {.lr = 1e-6, .momentum = 0.9});
  tell(true, "sgd_" + of, time_of(200, [&] { sgd.step(); }));
  torch::optim::SGD plain_sgd(tensors, torch::optim::SGDOptions(1e-6).momentum(0.9));
  tell(true, "frontend_sgd_" + of, time_of(200, [&] { plain_sgd.step(); }));
  cpprun::FusedAdam adamw(tensors, cpprun::adamw_options(1e-6));
  tell(true, "adamw_" + of, time_of(200, [&] { adamw.step(); }));
  torch::optim::AdamW plain_adamw(tensors, torch::optim::AdamWOptions(1e-6));
  tell(true, "frontend_adamw_" + of, time_of(200, [&] { plain_adamw.step(); }));
}

void bench_local(const std::string& directory) {
  bench_optimizers("large", tensors_with_gradients(100, 10'000));
  bench_optimizers("small", tensors_with_gradients(400, 256));

  const cpprun::DistributedSampler sampler({.dataset_size = 1'000'000, .replicas = 8, .rank = 3});
  std::int64_t epoch = 0;
  tell(true, "sampler", time_of(10, [&] { (void)sampler.indices(++epoch); }));

  cpprun::StateDict state;
  for (int i = 0; i < 64; ++i) {
    state.tensors["layer" + std::to_string(i)] = torch::randn({1024, 1024});
  }
  const double bytes = 64.0 * 1024 * 1024 * 4;
  const std::string path = directory + "/ours.safetensors";
  const double saved = time_of(3, [&] { cpprun::save_safetensors(path, state); });
  tell(true, "save", bytes / saved / 1e3);
  const double loaded = time_of(3, [&] { (void)cpprun::load_safetensors(path); });
  tell(true, "load", bytes / loaded / 1e3);
  const auto plain = torch::zeros({64 * 1024 * 1024});
  const double disk = time_of(3, [&] { write_plainly(directory + "/plain", plain); });
  tell(true, "disk", bytes / disk / 1e3);
}

void bench_collectives(const cpprun::ProcessGroup& group, bool leads) {
  for (const int bytes : {4, 65'536, 16'777'216}) {
    auto tensor = torch::ones({bytes / 4});
    const int times = bytes > 1'000'000 ? 15 : 300;
    const auto reduce = [&] { cpprun::all_reduce(tensor, group, cpprun::ReduceOp::max); };
    tell(leads, fmt::format("all_reduce_{}", bytes), time_of(times, reduce));
  }
  tell(leads, "barrier", time_of(300, [&] { cpprun::barrier(group); }));
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return std::fputs("see the head of worker_load.cpp\n", stderr), 64;
  return cpprun::run([&](const cpprun::Context& context) {
    at::set_num_threads(1);
    torch::manual_seed(0);
    const std::string_view mode = words[1];
    if (mode == "local") {
      bench_local(count > 2 ? words[2] : ".");
      return 0;
    }
    const auto group = cpprun::init_process_group(context);
    if (mode == "first") bench_first(group, context.leads());
    if (mode == "steps") bench_steps(group, context.leads());
    if (mode == "collectives") bench_collectives(group, context.leads());
    return 0;
  });
}
