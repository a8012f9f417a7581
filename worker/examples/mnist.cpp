// SPDX-License-Identifier: BSD-3-Clause
// MNIST as in well-known tutorials, with their options -n (nodes), -g (workers per node) and -i
// (index of this node):
//
//   ./mnist --make-synthetic 600                                where it cannot be downloaded
//   ./mnist -n 2 -g 4 -i 0 --master-addr A --master-port P      on the first machine
//   ./mnist -n 2 -g 4 -i 1 --master-addr A --master-port P      on the second
//   ./mnist -n 2 -g 4,2 -i 0 …                                  unequal numbers of workers
//   ./mnist -n 2 -g 4 -i 0 --init-method file:///shared/meeting     by a shared directory
//   ./mnist --rank 0 --world-size 2 --init-method tcp://A:P     one process, started by hand
//   cpprun --nnodes=2 --nproc-per-node=4 … ./mnist              the same by a launcher

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "worker/env/io/environment.h"
#include "worker/env/io/spawn.h"
#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/data/image_files.h"
#include "worker/torch/data/sampler.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/group/device.h"
#include "worker/torch/optim/sgd.h"

namespace {

struct Settings {
  int nodes = 1;
  std::string gpus = "0";  // 0: this process is itself a worker
  int index = 0;
  std::string init_method = "env://";
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  std::string data = "mnist-data";
  int make_synthetic = 0;
  int epochs = 2;
  int batch_size = 100;
  double lr = 0.01;
  int log_every = 100;
  std::string backend;
};

struct ConvNetImpl : torch::nn::Module {
  ConvNetImpl() {
    add_stage(1, 16);
    add_stage(16, 32);
    body->push_back(torch::nn::Flatten());
    body->push_back(torch::nn::Linear(7 * 7 * 32, 10));
    register_module("body", body);
  }
  void add_stage(int in, int out) {
    body->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).padding(2)));
    body->push_back(torch::nn::BatchNorm2d(out));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::MaxPool2d(2));
  }
  torch::Tensor forward(const torch::Tensor& images) { return body->forward(images); }

  torch::nn::Sequential body;
};
TORCH_MODULE(ConvNet);

torch::Tensor as_input(const torch::Tensor& bytes, const torch::Device& device) {
  return bytes.to(device, torch::kFloat).div(255);
}

// Over all ranks, each with its share of the images.
double accuracy(ConvNet& net, const cpprun::ImageSet& set, const cpprun::ProcessGroup& group,
                const torch::Device& device) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const torch::Tensor mine = torch::arange(group.rank(), set.size(), group.size());
  const torch::Tensor outputs = net->forward(as_input(set.images.index_select(0, mine), device));
  const torch::Tensor right =
      outputs.argmax(1).cpu().eq(set.labels.index_select(0, mine)).sum().to(group.device());
  cpprun::all_reduce(right, group);
  net->train();
  return 100 * static_cast<double>(right.item<std::int64_t>()) / static_cast<double>(set.size());
}

int train(const cpprun::Context& context, const Settings& settings) {
  const auto start = std::chrono::steady_clock::now();
  const auto group = cpprun::init_process_group(
      context, {.backend = settings.backend, .init_method = settings.init_method});
  const torch::Device device = cpprun::default_device(context);
  const auto training = cpprun::read_mnist(settings.data, cpprun::Part::training);
  const auto test = cpprun::read_mnist(settings.data, cpprun::Part::test);
  torch::manual_seed(0);
  ConvNet net;
  net->to(device);
  cpprun::DistributedDataParallel<ConvNet> model(net, group);
  cpprun::FusedSgd sgd(model.parameters(), {.lr = settings.lr});
  const cpprun::DistributedSampler sampler(
      {.dataset_size = training.size(), .replicas = group.size(), .rank = group.rank()});
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const auto order = torch::tensor(sampler.indices(epoch - 1));
    const auto batches = order.split(settings.batch_size);
    for (std::size_t step = 1; step <= batches.size(); ++step) {
      const torch::Tensor& chosen = batches[step - 1];
      const torch::Tensor outputs =
          model.forward(as_input(training.images.index_select(0, chosen), device));
      const torch::Tensor labels = training.labels.index_select(0, chosen).to(device);
      const torch::Tensor loss = torch::nn::functional::cross_entropy(outputs, labels);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
      const bool told = step % static_cast<std::size_t>(settings.log_every) == 0;
      if (told && context.leads()) {
        fmt::print("Epoch [{}/{}], Step [{}/{}], Loss: {:.4f}\n", epoch, settings.epochs, step,
                   batches.size(), loss.item<double>());
      }
    }
  }
  const double percent = accuracy(net, test, group, device);
  if (context.leads()) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("mnist: {} ranks, accuracy {:.1f} %\n", group.size(), percent);
    fmt::print("Training complete in: {:.2f} s\n", seconds.count());
  }
  return 0;
}

cpprun::Result<int> spawn(const Settings& settings, int argc, char** argv) {
  const bool by_file = settings.init_method.starts_with("file://");
  if (settings.nodes > 1 && settings.master_port == 0 && !by_file) {
    return cpprun::failure(
        "-n with several nodes needs --master-addr and --master-port, the same on all nodes, or "
        "--init-method file:///… in a shared directory");
  }
  const cpprun::Environment own = cpprun::read_environment();
  if (cpprun::find_variable(own, "RANK") != nullptr) {
    return cpprun::failure(
        "the launcher has already started the workers of this node: omit -n, -g and -i under "
        "cpprun");
  }
  auto port = static_cast<std::uint16_t>(settings.master_port);
  if (port == 0) {
    const auto found = cpprun::free_port();
    if (!found) return cpprun::failure(found.error().reason);
    port = *found;
  }
  const auto counts = cpprun::examples::worker_counts(settings.gpus, settings.nodes);
  if (counts.empty()) {
    return cpprun::failure(fmt::format(
        "-g {}: expected the number of workers of each machine, or one for each of the {} machines "
        "of -n, such as 2,1",
        settings.gpus, settings.nodes));
  }
  const auto environments = cpprun::spawned_environments({.workers_of_node = counts,
                                                          .node = settings.index,
                                                          .master_address = settings.master_address,
                                                          .master_port = port},
                                                         own);
  if (!environments) return cpprun::failure(environments.error().reason);
  const auto program = cpprun::own_program();
  if (!program) return cpprun::failure(program.error().reason);
  std::vector<std::string> command(argv, argv + argc);
  command.front() = *program;
  command.emplace_back("--spawned");
  const auto end = cpprun::spawn_workers(command, *environments);
  if (!end) return cpprun::failure(end.error().reason);
  if (end->exit_code != 0) {
    fmt::print(stderr, "mnist: the worker with local rank {} exited with code {}\n",
               end->local_rank, end->exit_code);
  }
  return end->exit_code;
}

int make_data(const Settings& settings) {
  try {
    cpprun::make_synthetic_mnist(settings.data, {.training_images = settings.make_synthetic,
                                                 .test_images = settings.make_synthetic / 5 + 1});
  } catch (const std::exception& error) {
    fmt::print(stderr, "mnist: {}\n", error.what());
    return 1;
  }
  fmt::print("mnist: wrote {} training images to {}\n", settings.make_synthetic, settings.data);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool spawned = false;
  cpprun::examples::CommandLine app(
      "mnist: MNIST as in the tutorials, with its own workers (-n, -g, -i) or under cpprun.");
  app.add("-n,--nodes", settings.nodes, "number of machines", {{1, 4096}});
  app.add("-g,--gpus", settings.gpus,
          "number of workers to start on each machine, or one for each, such as 2,1; 0: this "
          "process is a worker itself");
  app.add("-i,--index,--id,--nr", settings.index, "index of this machine, from 0", {{0, 4095}});
  app.add_meeting(settings.init_method);
  app.add("--master-addr", settings.master_address, "address of rank 0");
  app.add("--master-port", settings.master_port, "port of rank 0; 0: any free port", {{0, 65535}});
  app.add("--data", settings.data, "directory with train-images-idx3-ubyte etc.");
  app.add("--make-synthetic", settings.make_synthetic, "write this many images to --data, and exit",
          {{0, 1 << 20}});
  app.add("--epochs", settings.epochs, "number of epochs", {{1, 1 << 20}});
  app.add("--batch-size", settings.batch_size, "images per step and rank", {{1, 1 << 20}});
  app.add("--lr", settings.lr, "learning rate", {{0.0, 1e6}});
  app.add("--log-every", settings.log_every, "steps between log lines", {{1, 1 << 20}});
  app.add_flag("--spawned", spawned, "this process was started by -g");
  app.add_backend(settings.backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  if (settings.make_synthetic > 0) return make_data(settings);
  if (!spawned && settings.gpus != "0") {
    const auto code = spawn(settings, argc, argv);
    if (code) return *code;
    fmt::print(stderr, "mnist: {}\n", code.error().reason);
    return 2;
  }
  if (!spawned && (settings.nodes > 1 || settings.index > 0)) {
    fmt::print(stderr, "mnist: -n and -i need -g, the number of workers of each machine\n");
    return 2;
  }
  return cpprun::run([&](const cpprun::Context& context) { return train(context, settings); });
}
