// SPDX-License-Identifier: BSD-3-Clause
// Two checkpoints, parameter by parameter:
//
//   ./compare_models saved_models/rank0-resnet.pth saved_models/rank1-resnet.pth
//
// After a run with DDP, the parameters of all ranks are equal. The running statistics of their
// batch normalisations are not, because each rank normalised with its own share of each batch; with
// SyncBatchNorm (resnet_cifar --sync-bn) they are. A model in a DDP or DataParallel wrapper (names
// begin with `module.`) counts as the model itself. Exits with 0 if the files agree within
// --tolerance, else with 1.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "worker/examples/command_line.h"
#include "worker/torch/files/pth_file.h"
#include "worker/torch/files/safetensors_file.h"

namespace {

using cpprun::StateDict;

struct Settings {
  double tolerance = 0;
  bool all = false;
};

// In a saved wrapper, all names begin with its member `module`.
StateDict without_wrapper(StateDict state, const std::string& path) {
  constexpr const char* wrapper = "module";
  const auto inside = [](const auto& each) { return each.first.starts_with("module."); };
  const bool wrapped =
      !state.tensors.empty() && std::all_of(state.tensors.begin(), state.tensors.end(), inside);
  if (!wrapped) return state;
  fmt::print("{}: ignoring the prefix \"{}.\" of all names\n", path, wrapper);
  return without_wrapper(state.part(wrapper), path);
}

StateDict read(const std::string& path) {
  return without_wrapper(path.ends_with(".safetensors")
                             ? cpprun::load_safetensors(path)
                             : cpprun::state_dict_from(cpprun::load_pth(path)),
                         path);
}

bool is_statistic(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var") ||
         name.ends_with("num_batches_tracked");
}

struct Difference {
  std::string name;
  double largest = 0;  // of any element
  double mean = 0;     // over the elements
  bool comparable = true;
  std::string shapes;  // if they are not comparable
};

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().begin(), tensor.sizes().end(), "x"));
}

Difference compare(const std::string& name, const at::Tensor& first, const at::Tensor& second) {
  Difference difference{.name = name, .shapes = {}};
  if (first.sizes() != second.sizes()) {
    difference.comparable = false;
    difference.shapes = shape_of(first) + " and " + shape_of(second);
    return difference;
  }
  if (first.numel() == 0) return difference;
  const at::Tensor distance = (first.to(at::kDouble) - second.to(at::kDouble)).abs();
  difference.largest = distance.max().item<double>();
  difference.mean = distance.mean().item<double>();
  return difference;
}

struct Tally {
  int parameters = 0;
  int parameters_differ = 0;
  int statistics = 0;
  int statistics_differ = 0;
  int elsewhere = 0;  // names that are in one file only
};

Tally compare(const StateDict& first, const StateDict& second, const Settings& settings) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : first.tensors) names.insert(name);
  for (const auto& [name, tensor] : second.tensors) names.insert(name);
  Tally tally;
  for (const std::string& name : names) {
    const auto one = first.tensors.find(name);
    const auto other = second.tensors.find(name);
    if (one == first.tensors.end() || other == second.tensors.end()) {
      ++tally.elsewhere;
      fmt::print("{:<40} only in the {} file\n", name,
                 one == first.tensors.end() ? "second" : "first");
      continue;
    }
    const Difference difference = compare(name, one->second, other->second);
    // NaN counts as a difference.
    const bool differs = !difference.comparable || !(difference.largest <= settings.tolerance);
    const bool statistic = is_statistic(name);
    ++(statistic ? tally.statistics : tally.parameters);
    if (differs) ++(statistic ? tally.statistics_differ : tally.parameters_differ);
    if (!difference.comparable) {
      fmt::print("{:<40} shapes differ: {}\n", name, difference.shapes);
    } else if (differs || settings.all) {
      fmt::print("{:<40} largest difference {:.3e}  mean {:.3e}\n", name, difference.largest,
                 difference.mean);
    }
  }
  return tally;
}

int report(const Tally& tally) {
  fmt::print("{} of {} parameters and {} of {} running statistics differ\n",
             tally.parameters_differ, tally.parameters, tally.statistics_differ, tally.statistics);
  if (tally.elsewhere > 0) {
    fmt::print("{} names are in one file only: these are different models\n", tally.elsewhere);
  } else if (tally.parameters_differ == 0 && tally.statistics_differ > 0) {
    fmt::print(
        "only running statistics differ, because each rank normalised its own part of the batch; "
        "SyncBatchNorm (resnet_cifar --sync-bn) makes them equal\n");
  } else if (tally.parameters_differ == 0) {
    fmt::print("the models are the same\n");
  }
  return tally.parameters_differ + tally.statistics_differ + tally.elsewhere == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::string first, second;
  cpprun::examples::CommandLine app(
      "compare_models FIRST SECOND: compares two .pth or .safetensors files. Exits with 0 if they "
      "agree, 1 if they differ, 2 if one cannot be read.");
  app.add_word("FIRST", first, "first file");
  app.add_word("SECOND", second, "second file");
  app.add("--tolerance", settings.tolerance, "largest difference that counts as equal",
          {{0.0, 1e6}});
  app.add_flag("--all", settings.all, "list equal parameters too");
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  try {
    return report(compare(read(first), read(second), settings));
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare_models: {}\n", error.what());
    return 2;
  }
}
