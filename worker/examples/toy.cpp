// SPDX-License-Identifier: BSD-3-Clause
// The toy model of the DDP tutorial, with all ways to launch it:
//
//   cpprun --standalone --nproc-per-node=2 ./toy              by a launcher
//   ./toy --spawn 2                                           by itself, as mp.spawn does
//   ./toy --spawn 2,1 --nr 0 --master-addr A --master-port P  on several machines, unequal numbers
//   ./toy --spawn 2,1 --nr 1 --master-addr A --master-port P

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>

#include "worker/env/io/environment.h"
#include "worker/env/io/spawn.h"
#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/optim/sgd.h"

namespace {

struct Settings {
  std::string spawn;
  std::string gpus;
  int nr = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  std::string demo = "basic";
  int steps = 5;
  double lr = 0.01;
  std::string init_method = "env://";
  std::string backend;
};

struct ToyModelImpl : torch::nn::Module {
  ToyModelImpl() {
    net1 = register_module("net1", torch::nn::Linear(10, 10));
    net2 = register_module("net2", torch::nn::Linear(10, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return net2->forward(torch::relu(net1->forward(x)));
  }
  torch::nn::Linear net1{nullptr}, net2{nullptr};
};
TORCH_MODULE(ToyModel);

// The same in two parts, which may be on two devices; DDP then reduces over both.
struct ToySplitModelImpl : torch::nn::Module {
  ToySplitModelImpl(torch::Device first_device, torch::Device second_device)
      : first(first_device), second(second_device) {
    net1 = register_module("net1", torch::nn::Linear(10, 10));
    net2 = register_module("net2", torch::nn::Linear(10, 5));
    net1->to(first);
    net2->to(second);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor middle = torch::relu(net1->forward(x.to(first)));
    return net2->forward(middle.to(second));
  }
  torch::Device first, second;
  torch::nn::Linear net1{nullptr}, net2{nullptr};
};
TORCH_MODULE(ToySplitModel);

// Ranks have different data; DDP keeps their models equal.
template <class Module>
int train(const cpprun::Context& context, const Settings& settings,
          const cpprun::ProcessGroup& group, Module module) {
  cpprun::DistributedDataParallel<Module> model(std::move(module), group);
  cpprun::FusedSgd sgd(model.parameters(), {.lr = settings.lr});
  torch::manual_seed(static_cast<std::uint64_t>(context.rank.value));
  for (int step = 1; step <= settings.steps; ++step) {
    const torch::Tensor outputs = model.forward(torch::randn({20, 10}));
    const torch::Tensor labels = torch::randn({20, 5}).to(outputs.device());
    const torch::Tensor loss = torch::mse_loss(outputs, labels);
    model.zero_grad();
    loss.backward();
    sgd.step();
    const torch::Tensor mean = loss.detach().to(torch::kCPU);
    cpprun::all_reduce(mean, group, cpprun::ReduceOp::average);
    if (context.leads()) fmt::print("step {}  mean loss {:.6f}\n", step, mean.item<double>());
  }
  double sum = 0;
  for (const auto& parameter : model.parameters()) sum += parameter.sum().template item<double>();
  const auto sums = cpprun::all_gather(sum, group);
  for (const double each : sums) {
    if (each != sums.front()) throw std::runtime_error("the ranks' models differ");
  }
  fmt::print("rank {} of {} (node {}, local rank {}): done, parameters sum to {:.6f}\n",
             context.rank.value, context.world_size, context.group_rank.value,
             context.local_rank.value, sum);
  return 0;
}

int work(const cpprun::Context& context, const Settings& settings) {
  torch::manual_seed(0);
  const auto group = cpprun::init_process_group(
      context, {.backend = settings.backend, .init_method = settings.init_method});
  if (settings.demo == "basic") return train(context, settings, group, ToyModel());
  // Each rank uses two devices if there are enough; the CPU counts as one device, used twice.
  const auto devices = static_cast<int>(torch::cuda::device_count());
  const int first = 2 * context.local_rank.value;
  const bool cuda = devices >= 2 * context.local_world_size;
  const auto device = [cuda](int index) {
    return cuda ? torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index))
                : torch::Device(torch::kCPU);
  };
  return train(context, settings, group, ToySplitModel(device(first), device(first + 1)));
}

cpprun::Result<int> spawn(const Settings& settings, int argc, char** argv) {
  const std::string& list = settings.spawn.empty() ? settings.gpus : settings.spawn;
  const auto nodes = 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
  const auto counts = cpprun::examples::worker_counts(list, nodes);
  if (counts.empty()) {
    return cpprun::failure(fmt::format(
        "--spawn={}: expected the number of workers per node, such as 2, or one number for "
        "each node, such as 8,2",
        list));
  }
  if (counts.size() > 1 && settings.master_port == 0) {
    return cpprun::failure("several nodes need --master-addr and --master-port");
  }
  auto port = static_cast<std::uint16_t>(settings.master_port);
  if (port == 0) {
    const auto found = cpprun::free_port();
    if (!found) return cpprun::failure(found.error().reason);
    port = *found;
  }
  const auto environments = cpprun::spawned_environments({.workers_of_node = counts,
                                                          .node = settings.nr,
                                                          .master_address = settings.master_address,
                                                          .master_port = port},
                                                         cpprun::read_environment());
  if (!environments) return cpprun::failure(environments.error().reason);
  const auto program = cpprun::own_program();
  if (!program) return cpprun::failure(program.error().reason);
  std::vector<std::string> command(argv, argv + argc);
  command.front() = *program;
  command.emplace_back("--spawned");
  const auto end = cpprun::spawn_workers(command, *environments);
  if (!end) return cpprun::failure(end.error().reason);
  if (end->exit_code != 0) {
    fmt::print(stderr, "toy: the worker with local rank {} exited with code {}\n", end->local_rank,
               end->exit_code);
  }
  return end->exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool spawned = false;
  cpprun::examples::CommandLine app(
      "toy: the model of the DDP tutorial, under cpprun or with its own workers (--spawn).");
  app.add("--spawn", settings.spawn,
          "number of workers to start on this node, or one number for each node, such as 8,2");
  app.add("--gpus", settings.gpus, "alias of --spawn, as in tutorials");
  app.add("--nr", settings.nr, "index of this node, from 0", {{0, 4096}});
  app.add("--master-addr", settings.master_address, "address of rank 0");
  app.add("--master-port", settings.master_port, "port of rank 0; 0: any free port", {{0, 65535}});
  app.add("--demo", settings.demo, "model to train", {"basic", "model_parallel"});
  app.add("--steps", settings.steps, "training steps", {{1, 1 << 20}});
  app.add("--lr", settings.lr, "learning rate", {{0.0, 1e6}});
  app.add_flag("--spawned", spawned, "this process was started by --spawn");
  app.add_meeting(settings.init_method);
  app.add_backend(settings.backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  if (!spawned && (!settings.spawn.empty() || !settings.gpus.empty())) {
    const auto code = spawn(settings, argc, argv);
    if (code) return *code;
    fmt::print(stderr, "toy: {}\n", code.error().reason);
    return 2;
  }
  return cpprun::run([&](const cpprun::Context& context) { return work(context, settings); });
}
