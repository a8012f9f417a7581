// SPDX-License-Identifier: BSD-3-Clause
// Latency and bandwidth of the collectives, in the columns of nccl-tests:
//
//   cpprun --nnodes=2 … --nproc-per-node=1 ./bench_collectives --ops all_reduce --max-bytes 256M
//
// `algbw` is size / time. `busbw` corrects it by the load of each link, so that it compares with
// the hardware bandwidth for any number of ranks. Source of the factors: nccl-tests,
// doc/PERFORMANCE.md.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/group/device.h"
#include "worker/torch/group/process_group.h"

namespace {

using cpprun::ProcessGroup;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string backend;
  std::string op = "all";
  std::string min_bytes = "4";
  std::string max_bytes = "16M";
  int factor = 4;
  int repeats = 20;
  int warmup = 3;
  bool json = false;
};

// Tensors are created once per size, outside the measured time.
struct Stage {
  const ProcessGroup& group;
  at::Tensor whole;                // `bytes` in total
  at::Tensor part;                 // the share of one rank
  std::vector<at::Tensor> shares;  // one for each rank
};

struct Operation {
  const char* name;
  void (*run)(Stage&);
  // The factor from algorithm bandwidth to bus bandwidth, for n ranks.
  double (*bus_factor)(double n);
};

double once(double) {
  return 1;
}
double all_but_one(double n) {
  return (n - 1) / n;
}

// Rank 0 and the last rank exchange messages; the others do nothing.
void ping_pong(Stage& stage) {
  const int last = stage.group.size() - 1;
  if (stage.group.rank() == 0) {
    cpprun::send(stage.whole, last, stage.group);
    cpprun::recv(stage.whole, last, stage.group);
  } else if (stage.group.rank() == last) {
    cpprun::recv(stage.whole, 0, stage.group);
    cpprun::send(stage.whole, 0, stage.group);
  }
}

const Operation operations[] = {
    {"all_reduce", [](Stage& stage) { cpprun::all_reduce(stage.whole, stage.group); },
     [](double n) { return 2 * (n - 1) / n; }},
    {"broadcast", [](Stage& stage) { cpprun::broadcast(stage.whole, stage.group); }, &once},
    {"reduce", [](Stage& stage) { cpprun::reduce(stage.whole, stage.group); }, &once},
    {"all_gather",
     [](Stage& stage) {
       static_cast<void>(cpprun::all_gather_into_tensor(stage.part, stage.group));
     },
     &all_but_one},
    {"reduce_scatter",
     [](Stage& stage) {
       static_cast<void>(cpprun::reduce_scatter_tensor(stage.whole, stage.group));
     },
     &all_but_one},
    {"all_to_all",
     [](Stage& stage) { static_cast<void>(cpprun::all_to_all_single(stage.whole, stage.group)); },
     &all_but_one},
    {"gather", [](Stage& stage) { static_cast<void>(cpprun::gather(stage.part, stage.group)); },
     &all_but_one},
    {"scatter",
     [](Stage& stage) {
       const bool root = stage.group.rank() == 0;
       cpprun::scatter(stage.part, root ? stage.shares : std::vector<at::Tensor>(), stage.group);
     },
     &all_but_one},
    {"send_recv", &ping_pong, &once},
    {"barrier", [](Stage& stage) { cpprun::barrier(stage.group); }, &once},
};

// "256M" → 268435456.
std::int64_t bytes_of(const std::string& text, const std::string& option) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string unit(stop, end);
  const std::vector<std::string> units = {"", "K", "M", "G"};
  const auto found = std::find(units.begin(), units.end(), unit);
  if (error != std::errc{} || value < 1 || found == units.end() || value > (1 << 20)) {
    throw std::runtime_error(
        fmt::format("--{}={}: expected a size such as 4, 64K, 256M or 1G", option, text));
  }
  for (auto step = units.begin(); step != found; ++step) value *= 1024;
  return value;
}

// Kernels run asynchronously; reading an element on the host waits for them.
void finish(const at::Tensor& tensor) {
  if (tensor.is_cuda()) static_cast<void>(tensor.flatten()[0].item<float>());
}

// The median over the repetitions of the slowest rank's time, in seconds.
double time_of(const Operation& operation, Stage& stage, const Settings& settings) {
  for (int i = 0; i < settings.warmup; ++i) operation.run(stage);
  finish(stage.whole);
  std::vector<double> times;
  for (int i = 0; i < settings.repeats; ++i) {
    cpprun::barrier(stage.group);
    const auto start = Clock::now();
    operation.run(stage);
    finish(stage.whole);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const at::Tensor all = at::tensor(times, at::kDouble).to(stage.group.device());
  cpprun::all_reduce(all, stage.group, cpprun::ReduceOp::max);
  return all.median().item<double>();
}

void print_row(const Operation& operation, std::int64_t bytes, double seconds, int ranks,
               bool json) {
  // A ping-pong sends the data there and back.
  const bool there_and_back = operation.run == &ping_pong;
  const double once_seconds = there_and_back ? seconds / 2 : seconds;
  const double algorithm = static_cast<double>(bytes) / once_seconds / 1e9;
  const double bus = algorithm * operation.bus_factor(ranks);
  if (json) {
    fmt::print(
        "{{\"op\": \"{}\", \"bytes\": {}, \"ranks\": {}, \"seconds\": {:.9f}, \"algbw_gbps\": "
        "{:.6f}, \"busbw_gbps\": {:.6f}}}\n",
        operation.name, bytes, ranks, once_seconds, algorithm, bus);
  } else {
    fmt::print("{:>14} {:>12} {:>12.1f} {:>10.3f} {:>10.3f}\n", operation.name, bytes,
               once_seconds * 1e6, algorithm, bus);
  }
  std::fflush(stdout);
}

int bench(const cpprun::Context& context, const Settings& settings) {
  const std::int64_t least = bytes_of(settings.min_bytes, "min-bytes");
  const std::int64_t most = bytes_of(settings.max_bytes, "max-bytes");
  cpprun::ProcessGroupOptions options;
  options.backend = settings.backend;
  const auto group = cpprun::init_process_group(context, options);
  if (group.size() < 2) {
    throw std::runtime_error("bench_collectives needs at least two ranks");
  }
  const bool talks = context.leads();
  if (talks && !settings.json) {
    fmt::print("bench_collectives: {} ranks, tensors on {}, median of {} of the slowest rank\n",
               group.size(), group.device().str(), settings.repeats);
    fmt::print("{:>14} {:>12} {:>12} {:>10} {:>10}\n", "operation", "bytes", "time us",
               "algbw GB/s", "busbw GB/s");
  }
  const auto on_device = at::TensorOptions(group.device()).dtype(at::kFloat);
  for (const Operation& operation : operations) {
    if (settings.op != "all" && settings.op != operation.name) continue;
    for (std::int64_t bytes = least; bytes <= most; bytes *= settings.factor) {
      // The same whole number of elements for every rank.
      const std::int64_t share = std::max<std::int64_t>(1, bytes / 4 / group.size());
      Stage stage{.group = group,
                  .whole = at::zeros({share * group.size()}, on_device),
                  .part = at::zeros({share}, on_device),
                  .shares = {}};
      stage.shares = stage.whole.split(share);
      const double seconds = time_of(operation, stage, settings);
      if (talks) {
        print_row(operation, stage.whole.numel() * 4, seconds, group.size(), settings.json);
      }
      if (std::string(operation.name) == "barrier") break;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> names = {"all"};
  for (const Operation& operation : operations) names.emplace_back(operation.name);
  cpprun::examples::CommandLine app(
      "bench_collectives: latency and bandwidth of the collectives, in the units of nccl-tests.");
  app.add("--ops", settings.op, "operation to measure", names);
  app.add_backend(settings.backend);
  app.add("--min-bytes", settings.min_bytes, "smallest size");
  app.add("--max-bytes", settings.max_bytes, "largest size");
  app.add("--factor", settings.factor, "factor from one size to the next", {{2, 1024}});
  app.add("--repeats", settings.repeats, "measured runs", {{1, 1 << 20}});
  app.add("--warmup", settings.warmup, "warm-up runs per size", {{0, 1 << 20}});
  app.add_flag("--json", settings.json, "print one JSON object per line");
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run([&](const cpprun::Context& context) { return bench(context, settings); });
}
