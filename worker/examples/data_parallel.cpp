// SPDX-License-Identifier: BSD-3-Clause
// Compares three ways to train: one process with one device, one process with several (the older
// DataParallel), and DistributedDataParallel over one machine and over all:
//
//   cpprun --standalone --nproc-per-node=2 ./data_parallel
//   cpprun --nnodes=2 … --nproc-per-node=2 ./data_parallel      adds the row of several machines
//
// All ways use the same number of images in batches of the same size. Efficiency is the speed
// divided by that of one device and by the number of devices.

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/examples/resnet.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/ddp/data_parallel.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/group/device.h"
#include "worker/torch/optim/sgd.h"

namespace {

using cpprun::ProcessGroup;
using cpprun::examples::ResNet18;
using Clock = std::chrono::steady_clock;

struct Settings {
  int images = 256;  // per epoch
  int batch_size = 32;
  int width = 16;
  int threads = 1;
  std::string backend;
};

struct Row {
  std::string name;
  int devices = 1;
  double seconds = 0;  // of one epoch
};

// A model in any of the wrappers.
struct Trainee {
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::vector<torch::Tensor> parameters;
  torch::Device device;
};

// Seconds for this rank's share of one epoch, after one warm-up step.
double train_epoch(const Trainee& trainee, const Settings& settings, int ranks) {
  cpprun::FusedSgd sgd(trainee.parameters, {.lr = 0.01, .momentum = 0.9});
  const std::int64_t share = std::max(1, settings.batch_size / ranks);
  const torch::Tensor images = torch::randn({share, 3, 32, 32}).to(trainee.device);
  const torch::Tensor labels = torch::randint(10, {share}, torch::kLong).to(trainee.device);
  const int steps = std::max(1, settings.images / settings.batch_size);
  auto start = Clock::now();
  for (int step = -1; step < steps; ++step) {
    if (step == 0) start = Clock::now();
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(trainee.forward(images), labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    static_cast<void>(loss.item<float>());  // waits for the GPU
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ResNet18 make_model(const Settings& settings) {
  torch::manual_seed(0);
  return ResNet18(cpprun::examples::ResNetOptions{.width = settings.width});
}

Row alone(const Settings& settings, const torch::Device& device) {
  ResNet18 model = make_model(settings);
  model->to(device);
  const double seconds =
      train_epoch({[&](const torch::Tensor& images) { return model->forward(images); },
                   model->parameters(), device},
                  settings, 1);
  return {.name = "one process, one device", .seconds = seconds};
}

Row data_parallel(const Settings& settings, const std::vector<torch::Device>& devices) {
  cpprun::DataParallel<ResNet18> model(make_model(settings), devices);
  const double seconds =
      train_epoch({[&](const torch::Tensor& images) { return model.forward(images); },
                   model.module()->parameters(), devices.front()},
                  settings, 1);
  return {.name = fmt::format("one process, DataParallel over {}", devices.size()),
          .devices = static_cast<int>(devices.size()),
          .seconds = seconds};
}

// Every rank of the group must call it.
Row distributed(const Settings& settings, const ProcessGroup& group, const torch::Device& device,
                const std::string& where) {
  ResNet18 module = make_model(settings);
  module->to(device);
  cpprun::DistributedDataParallel<ResNet18> model(module, group);
  cpprun::barrier(group);
  const double seconds =
      train_epoch({[&](const torch::Tensor& images) { return model.forward(images); },
                   model.parameters(), device},
                  settings, group.size());
  const auto all = cpprun::all_gather(seconds, group);
  return {.name = fmt::format("{} processes on {}, DDP", group.size(), where),
          .devices = group.size(),
          .seconds = *std::max_element(all.begin(), all.end())};
}

void print_table(const std::vector<Row>& rows, const Settings& settings) {
  const int steps = std::max(1, settings.images / settings.batch_size);
  const double images = static_cast<double>(steps) * settings.batch_size;
  fmt::print("{:<42} {:>10} {:>10} {:>10} {:>11}\n", "", "s/epoch", "ms/batch", "images/s",
             "efficiency");
  for (const Row& row : rows) {
    const double speedup = rows.front().seconds / row.seconds;
    fmt::print("{:<42} {:>10.3f} {:>10.2f} {:>10.1f} {:>9.0f} %\n", row.name, row.seconds,
               1000 * row.seconds / steps, images / row.seconds, 100 * speedup / row.devices);
  }
}

int compare(const cpprun::Context& context, const Settings& settings) {
  at::set_num_threads(settings.threads);
  const torch::Device device = cpprun::default_device(context);
  const auto group = cpprun::init_process_group(context, {.backend = settings.backend});
  // The ranks on rank 0's machine.
  std::vector<int> neighbours;
  const auto nodes = cpprun::all_gather(static_cast<double>(context.group_rank.value), group);
  for (int rank = 0; rank < group.size(); ++rank) {
    if (nodes[static_cast<std::size_t>(rank)] == nodes.front()) neighbours.push_back(rank);
  }
  const bool several_nodes = neighbours.size() < static_cast<std::size_t>(group.size());
  std::vector<Row> rows;
  if (context.leads()) {
    fmt::print("data_parallel: ResNet-18 of width {}, {} images in batches of {}, {} ranks\n",
               settings.width, settings.images, settings.batch_size, group.size());
    rows.push_back(alone(settings, device));
    rows.push_back(data_parallel(settings, cpprun::all_devices(static_cast<int>(
                                               std::max<std::size_t>(2, neighbours.size())))));
  }
  cpprun::barrier(group);
  const auto node = several_nodes ? cpprun::new_group(group, neighbours) : std::nullopt;
  if (neighbours.size() > 1 && (!several_nodes || node)) {
    rows.push_back(distributed(settings, node ? *node : group, device, "one machine"));
  }
  cpprun::barrier(group);
  if (several_nodes) rows.push_back(distributed(settings, group, device, "several machines"));
  if (context.leads()) print_table(rows, settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  cpprun::examples::CommandLine app(
      "data_parallel: compares one device, DataParallel and DistributedDataParallel.");
  app.add("--images", settings.images, "images per epoch", {{1, 1 << 20}});
  app.add("--batch-size", settings.batch_size, "images per step on all devices together",
          {{1, 1 << 20}});
  app.add("--width", settings.width, "channels of the first stage", {{1, 4096}});
  app.add("--threads", settings.threads, "CPU threads per rank", {{1, 4096}});
  app.add_backend(settings.backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run([&](const cpprun::Context& context) { return compare(context, settings); });
}
