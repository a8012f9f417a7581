// SPDX-License-Identifier: BSD-3-Clause
// The C++ half of ddp_parity.py: trains the same little models on the same numbers as its Python
// half, under every option of DistributedDataParallel, and writes down losses and parameters. Then
// it calls the collectives that both languages have.
// Usage: ddp_worker <output file> [<mode>]
//        ddp_worker hang <kind>: for hangs_test.py
//        ddp_worker restart: for warm_bench.py, whose Python worker does the same

#include <fcntl.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "worker/env/io/worker.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/optim/sgd.h"

namespace {

constexpr int steps = 20;
constexpr int batch = 8;

struct Mode {
  std::string name;
  cpprun::DdpOptions options;
  bool accumulates = false;
  std::string frozen;       // the module whose parameters are not trained
  bool has_table = false;   // an Embedding with sparse gradients
  bool two_passes = false;  // two forwards before the backward
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const Mode& mode) : two_heads_(mode.options.find_unused_parameters) {
    body->push_back(torch::nn::Linear(16, 32));
    body->push_back(torch::nn::BatchNorm1d(32));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::Linear(32, 32));
    body->push_back(torch::nn::BatchNorm1d(32));
    body->push_back(torch::nn::ReLU());
    register_module("body", body);
    head_a = register_module("head_a", torch::nn::Linear(32, 4));
    if (two_heads_) head_b = register_module("head_b", torch::nn::Linear(32, 4));
    if (mode.has_table) {
      table = register_module(
          "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 16).sparse(true)));
    }
    for (auto& item : named_parameters()) {
      if (!mode.frozen.empty() && item.key().starts_with(mode.frozen)) {
        item.value().set_requires_grad(false);
      }
    }
  }

  torch::Tensor forward(const torch::Tensor& x, int step) {
    torch::Tensor input = x;
    if (!table.is_empty()) input = x + table->forward((torch::arange(batch) + step) % 10);
    const torch::Tensor features = body->forward(input);
    return two_heads_ && step % 3 == 0 ? head_b->forward(features) : head_a->forward(features);
  }

  torch::nn::Sequential body;
  torch::nn::Linear head_a{nullptr}, head_b{nullptr};
  torch::nn::Embedding table{nullptr};
  bool two_heads_;
};
TORCH_MODULE(Net);

void train(const Mode& mode, const cpprun::ProcessGroup& group, std::ofstream& out) {
  torch::manual_seed(1234);
  const int rank = group.rank();
  Net net(mode);
  {
    // Rank 0's values are to arrive in the tensors they came from.
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) parameter.add_(rank);
  }
  cpprun::DistributedDataParallel<Net> ddp(net, group, mode.options);
  // Python's fused kernel fails on a parameter whose first gradient comes late, and on a sparse
  // one, so there both halves take the loop, whose rounding differs.
  const bool looping = mode.options.find_unused_parameters || mode.has_table;
  const double momentum = mode.has_table ? 0 : 0.9;
  std::vector<torch::Tensor> trained;
  for (const auto& each : ddp.parameters()) {
    if (each.requires_grad()) trained.push_back(each);
  }
  cpprun::FusedSgd fused(trained, {.lr = 0.05, .momentum = momentum});
  torch::optim::SGD looped(trained, torch::optim::SGDOptions(0.05).momentum(momentum));
  for (int step = 0; step < steps; ++step) {
    const auto numbers = torch::arange(1, batch * 16 + 1, torch::kFloat);
    const auto x = torch::sin(numbers * (0.37 * (rank + 1)) + 0.11 * step).view({batch, 16});
    const auto y = (torch::arange(batch) * 7 + rank + step) % 4;
    const bool local = mode.accumulates && step % 2 == 0;
    const auto run = [&] {
      auto loss = torch::nn::functional::cross_entropy(ddp.forward(x, step), y);
      if (mode.two_passes) {
        loss = loss + torch::nn::functional::cross_entropy(ddp.forward(x.flip(0), step), y);
      }
      loss.backward();
      out << fmt::format("{} loss {} {:.9g}\n", mode.name, step, loss.item<double>());
    };
    if (local) {
      const auto guard = ddp.no_sync();
      run();
      continue;
    }
    run();
    looping ? static_cast<void>(looped.step()) : fused.step();
    ddp.zero_grad();
  }
  for (const auto& item : ddp.module()->named_parameters()) {
    const auto flat = item.value().detach().flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      out << fmt::format("{} {} {} {:.9g}\n", mode.name, item.key(), i, flat[i].item<double>());
    }
  }
}

// A user's hook: the sum of all ranks, divided afterwards.
cpprun::Work divide_last(const cpprun::GradientBucket& bucket, const cpprun::ProcessGroup& group) {
  return cpprun::all_reduce_async(bucket.buffer, group)
      .then([buffer = bucket.buffer, size = group.size()] {
        return std::vector<torch::Tensor>{buffer.div_(size)};
      });
}

// A group of the first and the last rank, and a message around the ring of all.
void talk(const cpprun::ProcessGroup& group, std::ofstream& out) {
  const int rank = group.rank();
  const int size = group.size();
  const auto say = [&out](const char* what, double value) {
    out << fmt::format("collectives {} 0 {:.9g}\n", what, value);
  };
  const auto number = [](double value) { return torch::full({3}, value, torch::kFloat); };
  say("gathered", cpprun::all_gather(rank + 0.5, group).at(1));
  const torch::Tensor sum = number(rank + 1);
  cpprun::all_reduce(sum, group);
  cpprun::broadcast(sum, group, 1);
  say("reduced", sum[0].item<double>());
  const torch::Tensor rows = torch::arange(size * 2, torch::kFloat) + rank;
  say("scattered", cpprun::reduce_scatter_tensor(rows, group)[0].item<double>());
  say("exchanged", cpprun::all_to_all_single(rows, group)[size].item<double>());
  const torch::Tensor incoming = number(0);
  cpprun::Work sending = cpprun::isend(number(rank), (rank + 1) % size, group, 7);
  cpprun::recv(incoming, (rank + size - 1) % size, group, 7);
  sending.wait();
  say("received", incoming[0].item<double>());
  const auto ends = cpprun::new_group(group, {0, size - 1});
  if (ends) {
    const torch::Tensor both = number(rank + 3);
    cpprun::all_reduce(both, *ends);
    say("ends", both[0].item<double>());
  }
  cpprun::barrier(group);
}

int write_all(const cpprun::Context& context, const std::string& path, const std::string& only) {
  std::ofstream out(path);
  const auto group = cpprun::init_process_group(context);
  const std::vector<Mode> modes = {
      {.name = "default", .options = {}},
      {.name = "small_buckets", .options = {.bucket_cap_mb = 0.004}},
      {.name = "find_unused", .options = {.find_unused_parameters = true}},
      {.name = "bucket_view", .options = {.bucket_cap_mb = 0.004, .gradient_as_bucket_view = true}},
      {.name = "own_buffers", .options = {.broadcast_buffers = false}},
      {.name = "static_graph", .options = {.static_graph = true}},
      {.name = "no_sync", .options = {}, .accumulates = true},
      {.name = "frozen_first", .options = {}, .frozen = "body.0"},
      {.name = "frozen_middle", .options = {}, .frozen = "body.3"},
      {.name = "frozen_last", .options = {}, .frozen = "head_a"},
      {.name = "sparse", .options = {}, .has_table = true},
      {.name = "two_passes", .options = {}, .two_passes = true},
      {.name = "fp16_hook", .options = {.comm_hook = cpprun::fp16_compress_hook}},
      {.name = "bf16_hook", .options = {.comm_hook = cpprun::bf16_compress_hook}},
      {.name = "user_hook", .options = {.comm_hook = divide_last}}};
  for (const Mode& mode : modes) {
    if (only.empty() || only == mode.name) train(mode, group, out);
  }
  talk(group, out);
  return out.flush() ? 0 : 1;
}

}  // namespace

// --- hangs ---------------------------------------------------------------------------------------

// Their names are exported, and so they are in stacks.
namespace hangs {

[[gnu::noinline]] void taken_lock() {
  std::mutex mutex;
  std::thread([&] { mutex.lock(); }).join();
  mutex.lock();
}

[[gnu::noinline]] void empty_pipe() {
  int ends[2];
  char byte = 0;
  if (::pipe(ends) == 0 && ::read(ends[0], &byte, 1) < 0) std::abort();
}

}  // namespace hangs

namespace {

int hang(const cpprun::Context& context, const std::string& kind) {
  const auto group = cpprun::init_process_group(context);
  const torch::Tensor tensor = torch::ones({4});
  cpprun::all_reduce(tensor, group);
  if (group.rank() == group.size() - 2) {
    if (const char* const path = std::getenv("HANG_BEGAN")) std::ofstream out(path);
    if (kind == "taken_lock") hangs::taken_lock();
    if (kind == "empty_pipe") hangs::empty_pipe();
    if (kind == "different_collectives") cpprun::broadcast(tensor, group, 0);
  }
  cpprun::all_reduce(tensor, group);
  cpprun::barrier(group);
  return 0;
}

// Reports when it has trained for a step, and when it dies, on command.
int restart(const cpprun::Context& context) {
  const auto group = cpprun::init_process_group(context);
  const torch::Tensor sum = torch::ones({1000});
  cpprun::all_reduce(sum, group);
  torch::nn::Linear layer(100, 100);
  cpprun::DistributedDataParallel model(layer, group);
  model(torch::ones({8, 100})).sum().backward();
  const auto report = [rank = group.rank()](const char* what) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::string line =
        fmt::format("{} {} {:.6f}\n", what, rank, std::chrono::duration<double>(now).count());
    const int results = ::open(std::getenv("RESULTS"), O_WRONLY | O_CLOEXEC);
    if (::write(results, line.data(), line.size()) < 0) std::abort();
  };
  report("done");
  std::ifstream gate(std::getenv("GATE") + std::to_string(group.rank()));
  std::string line;
  std::getline(gate, line);
  report("died");
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  if (std::string(argv[1]) == "hang") {
    return cpprun::run([kind = std::string(argv[argc - 1])](const cpprun::Context& context) {
      return hang(context, kind);
    });
  }
  if (std::string(argv[1]) == "restart") return cpprun::run(&restart);
  const std::string only = argc == 3 ? argv[2] : "";
  return cpprun::run([path = std::string(argv[1]), only](const cpprun::Context& context) {
    return write_all(context, path, only);
  });
}
