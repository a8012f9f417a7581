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
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/env/io/worker.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/ddp/activation_checkpoint.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/ddp/join.h"
#include "worker/torch/ddp/zero_redundancy_optimizer.h"
#include "worker/torch/optim/averaged_model.h"
#include "worker/torch/optim/grad_scaler.h"
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
  bool recomputes = false;  // activation checkpointing
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const Mode& mode)
      : two_heads_(mode.options.find_unused_parameters), recomputes_(mode.recomputes) {
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
    const auto through_body = [this](const torch::Tensor& each) { return body->forward(each); };
    const torch::Tensor features =
        recomputes_ ? cpprun::activation_checkpoint(through_body, input) : through_body(input);
    return two_heads_ && step % 3 == 0 ? head_b->forward(features) : head_a->forward(features);
  }

  torch::nn::Sequential body;
  torch::nn::Linear head_a{nullptr}, head_b{nullptr};
  torch::nn::Embedding table{nullptr};
  bool two_heads_;
  bool recomputes_;
};
TORCH_MODULE(Net);

torch::Tensor inputs_of(int rank, int step) {
  const auto numbers = torch::arange(1, batch * 16 + 1, torch::kFloat);
  return torch::sin(numbers * (0.37 * (rank + 1)) + 0.11 * step).view({batch, 16});
}

torch::Tensor targets_of(int rank, int step) {
  return (torch::arange(batch) * 7 + rank + step) % 4;
}

void write_tensors(const std::string& name, const cpprun::TensorsByName& tensors,
                   std::ofstream& out) {
  for (const auto& [key, tensor] : tensors) {
    const auto flat = tensor.detach().flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      out << fmt::format("{} {} {} {:.9g}\n", name, key, i, flat[i].item<double>());
    }
  }
}

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
    const auto x = inputs_of(rank, step);
    const auto y = targets_of(rank, step);
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
  cpprun::TensorsByName parameters;
  for (const auto& item : net->named_parameters())
    parameters.emplace_back(item.key(), item.value());
  write_tensors(mode.name, parameters, out);
}

// What a training has around DistributedDataParallel, one piece at a time.
void train_with(const std::string& piece, const cpprun::ProcessGroup& group, std::ofstream& out) {
  torch::manual_seed(1234);
  Net net(Mode{.name = piece, .options = {}, .recomputes = piece == "recomputed"});
  cpprun::DistributedDataParallel<Net> ddp(net, group);
  const cpprun::SgdOptions options{.lr = 0.05, .momentum = 0.9};
  cpprun::FusedSgd sgd(ddp.parameters(), options);
  std::optional<cpprun::ZeroRedundancyOptimizer<cpprun::FusedSgd>> zero;
  if (piece == "zero") zero.emplace(ddp.parameters(), options, group);
  cpprun::AveragedModelOptions averages;
  if (piece == "ema") averages = {.decay = 0.9, .use_buffers = true};
  cpprun::AveragedModel average(*net, averages);
  cpprun::GradScaler scaler({.growth_interval = 4, .enabled = piece == "scaler"});
  std::optional<cpprun::Join> join;
  if (piece.starts_with("join")) {
    join.emplace(cpprun::JoinOptions{.divide_by_initial_world_size = piece == "join"}, ddp);
  }
  // Rank 1 has fewer batches, before the reducer has built its final buckets.
  const int own_steps = join && group.rank() == 1 ? (piece == "join" ? 1 : 12) : steps;
  for (int step = 0; step < own_steps; ++step) {
    auto loss = torch::nn::functional::cross_entropy(
        ddp.forward(inputs_of(group.rank(), step), step), targets_of(group.rank(), step));
    out << fmt::format("{} loss {} {:.9g}\n", piece, step, loss.item<double>());
    const bool overflows = scaler.enabled() && step == 5 && group.rank() == 1;
    if (overflows) loss = loss * std::numeric_limits<double>::infinity();
    scaler.scale(loss).backward();
    zero ? zero->step() : static_cast<void>(scaler.step(sgd));
    scaler.update();
    out << fmt::format("{} scale {} {:.9g}\n", piece, step, scaler.get_scale());
    average.update();
    ddp.zero_grad();
  }
  if (join) join->finish();
  join.reset();
  cpprun::TensorsByName all = cpprun::tensors_of(*net);
  if (piece == "ema" || piece == "swa") {
    for (const auto& [name, tensor] : average.state().tensors) all.emplace_back(name, tensor);
  }
  write_tensors(piece, all, out);
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
  for (const char* const piece : {"join", "join_divided", "recomputed", "scaler", "ema", "swa"}) {
    if (only.empty() || only == piece) train_with(piece, group, out);
  }
  if (only == "zero") train_with(only, group, out);
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
