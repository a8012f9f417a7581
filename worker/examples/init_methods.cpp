// SPDX-License-Identifier: BSD-3-Clause
// Shows how ranks find each other, and the error messages if they cannot:
//
//   cpprun --standalone --nproc-per-node=2 ./init_methods                     env://, by a launcher
//   ./init_methods --init-method tcp://10.0.0.1:29500 --rank 1 --world-size 2     each by hand
//   ./init_methods --init-method file:///shared/meeting --rank 1 --world-size 3   a shared path
//   srun -N2 -n4 ./init_methods                                               Slurm's variables

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/group/process_group.h"

namespace {

struct Settings {
  std::string init_method = "env://";
  std::string backend = "gloo";
  int rank = -1;
  int world_size = -1;
  int timeout = 30;
};

int meet(const cpprun::Context& context, const Settings& settings) {
  cpprun::ProcessGroupOptions options;
  options.backend = settings.backend;
  options.init_method = settings.init_method;
  options.join_timeout = std::chrono::seconds(settings.timeout);
  if (settings.rank >= 0) options.rank = settings.rank;
  if (settings.world_size >= 0) options.world_size = settings.world_size;
  const auto start = std::chrono::steady_clock::now();
  const auto group = cpprun::init_process_group(context, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size()) != 0) host = "?";
  host.resize(host.find('\0') == std::string::npos ? host.size() : host.find('\0'));
  const auto who = cpprun::gather_object(fmt::format("rank {} on {}", group.rank(), host), group);
  const at::Tensor sum = at::full({1}, group.rank() + 1, at::kFloat).to(group.device());
  cpprun::all_reduce(sum, group);
  if (group.rank() == 0) {
    fmt::print("init_methods: {} ranks joined through {} in {:.2f} s: {}\n", group.size(),
               settings.init_method, seconds.count(), fmt::join(who, ", "));
    fmt::print("init_methods: the sum of 1 to {} is {}\n", group.size(), sum.item<double>());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  cpprun::examples::CommandLine app(
      "init_methods: demonstrates the ways in which ranks find each other.");
  app.add("--init-method", settings.init_method, "env://, tcp://host:port or file:///path");
  app.add_backend(settings.backend);
  app.add("--rank", settings.rank, "rank of this process; -1: from the environment",
          {{-1, 1 << 20}});
  app.add("--world-size", settings.world_size, "number of ranks; -1: from the environment",
          {{-1, 1 << 20}});
  app.add("--timeout", settings.timeout, "seconds to wait for the other ranks", {{1, 86400}});
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run([&](const cpprun::Context& context) { return meet(context, settings); });
}
