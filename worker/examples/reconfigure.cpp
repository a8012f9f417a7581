// SPDX-License-Identifier: BSD-3-Clause
// Training that survives the loss of a worker in place: the others keep their processes. The same
// as python/reconfigure.py.
//
//   cpprun --standalone --nproc-per-node=4 --max-restarts=3 --on-failure=reconfigure ./reconfigure
//
// After a loss, all ranks continue from the last step that all surviving ranks have completed. The
// losses are those of a run without any failure.

#include <fmt/format.h>
#include <poll.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/ddp/ddp.h"

namespace {

// Of all ranks together, so that the number of ranks does not change the training.
constexpr int batch_size = 96;

// The state of the training, which outlives the rounds.
class Training {
 public:
  Training(int steps, double step_seconds)
      : steps_(steps), pause_milliseconds_(static_cast<int>(1000 * step_seconds)) {
    for (const auto& each : model_->parameters()) {
      auto state = std::make_unique<torch::optim::SGDParamState>();
      state->momentum_buffer(torch::zeros_like(each));
      tensors_.push_back(each);
      tensors_.push_back(state->momentum_buffer());
      optimizer_.state()[each.unsafeGetTensorImpl()] = std::move(state);
    }
  }

  int completed_steps() const { return std::max(step_, 0); }

  void train(const cpprun::ProcessGroup& group) {
    synchronize(group);
    cpprun::DistributedDataParallel ddp(model_, group);
    while (step_ < steps_) {
      auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step_));
      const auto rows = torch::randn({batch_size, 10}, generator);
      const auto inputs = rows.slice(0, group.rank(), std::nullopt, group.size());
      const auto targets = inputs.sum(1, /*keepdim=*/true).sin();
      const auto error = torch::mse_loss(ddp.forward(inputs), targets, torch::Reduction::Sum);
      ddp.zero_grad();
      (error * group.size() / batch_size).backward();  // DDP averages over the ranks
      const auto loss = error.detach() / batch_size;
      cpprun::all_reduce(loss, group);
      before_.clear();
      for (const auto& each : tensors_) before_.push_back(each.detach().clone());
      optimizer_.step();
      ++step_;
      if (group.rank() == 0) {
        fmt::print("step {} loss {}\n", step_, loss.item<double>());
        std::fflush(stdout);
      }
      static_cast<void>(::poll(nullptr, 0, pause_milliseconds_));
    }
  }

 private:
  // Some ranks may have completed one step more than others. A new worker has none.
  void synchronize(const cpprun::ProcessGroup& group) {
    const torch::NoGradGuard guard;
    const auto steps = cpprun::all_gather(step_, group);
    int step = -1, source = 0;
    for (int rank = 0; rank < group.size(); ++rank) {
      const int each = static_cast<int>(steps[static_cast<std::size_t>(rank)]);
      if (each < 0 || (step >= 0 && each >= step)) continue;
      step = each;
      source = rank;
    }
    if (step_ > step) {
      for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(before_[i]);
      step_ = step;
    }
    for (const auto& each : tensors_) cpprun::broadcast(each, group, source);
    step_ = std::max(step, 0);  // a new worker only now: the round may break in between
  }

  int steps_;
  int pause_milliseconds_;  // after each step
  torch::nn::Sequential model_{torch::nn::Linear(10, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, 1)};
  torch::optim::SGD optimizer_{model_->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)};
  std::vector<torch::Tensor> tensors_;  // parameters and their momentum
  std::vector<torch::Tensor> before_;   // the same before the last step
  int step_ = -1;                       // completed steps; -1: a new worker, which knows nothing
};

}  // namespace

int main(int argc, char** argv) {
  int steps = 200;
  double step_seconds = 0;
  cpprun::examples::CommandLine app(
      "reconfigure: a training that continues in the same processes when a worker is lost.");
  app.add("--steps", steps, "training steps", {{1, 1 << 20}});
  app.add("--step-seconds", step_seconds, "pause after each step", {{0.0, 3600.0}});
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());  // losses can be compared
  torch::manual_seed(0);
  Training training(steps, step_seconds);
  return cpprun::run_restartable([&](const cpprun::Context& context) {
    const auto group = cpprun::init_process_group(context);
    fmt::print("rank {} of {} has process {}, completed steps: {}\n", group.rank(), group.size(),
               ::getpid(), training.completed_steps());
    std::fflush(stdout);
    training.train(group);
    return 0;
  });
}
