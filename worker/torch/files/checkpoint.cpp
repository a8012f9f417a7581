// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/checkpoint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "worker/env/checkpoint_names.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/compat/versions.h"
#include "worker/torch/files/bounds.h"
#include "worker/torch/files/safetensors_file.h"
#include "worker/torch/group/device.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {
namespace {

namespace fs = std::filesystem;

// A public header includes no internal one, so it repeats the figure.
static_assert(CheckpointOptions{}.write_timeout == bounds::checkpoint_write_wait_max);

constexpr const char* format_key = "cpprun.format";
constexpr std::int64_t format_version = 1;
constexpr const char* user_prefix = "state";
// The store key under which rank 0 reports that a checkpoint is written, or the error.
constexpr const char* written_key = "cpprun/checkpoint";
constexpr const char* well_written = "written";

struct RandomGenerator {
  const char* prefix;  // of the state names; the rank follows
  c10::DeviceType device;
};
constexpr std::array random_generators = {RandomGenerator{"random", c10::kCPU},
                                          RandomGenerator{"random_cuda", c10::kCUDA}};

std::string random_name(const RandomGenerator& generator, std::size_t rank) {
  return fmt::format("{}.{}", generator.prefix, rank);
}

// Collects the states of all ranks; only rank 0 receives them.
void put_random_states(StateDict& whole, const ProcessGroup& group) {
  for (const RandomGenerator& each : random_generators) {
    const at::Tensor mine = random_state(each.device);
    const auto states = gather_object(
        mine.defined() ? std::string(static_cast<const char*>(mine.const_data_ptr()), mine.nbytes())
                       : std::string(),
        group);
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      const std::string& bytes = states[rank];
      if (bytes.empty()) continue;
      const at::Tensor state = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
      std::memcpy(state.mutable_data_ptr(), bytes.data(), bytes.size());
      whole.tensors[random_name(each, rank)] = state;
    }
  }
}

// Sent in slices: gloo may need a buffer of the same size, and a group that carries only GPU
// tensors needs them on the GPU.
void send_bytes(const at::Tensor& bytes, const ProcessGroup& group, int source) {
  for (const at::Tensor& slice : bytes.split(bounds::checkpoint_broadcast_bytes)) {
    if (slice.numel() == 0) continue;
    const at::Tensor carried = slice.to(group.device());
    broadcast(carried, group, source);
    if (!carried.is_same(slice)) slice.copy_(carried);
  }
}

std::int64_t send_number(std::int64_t number, const ProcessGroup& group, int source) {
  const at::Tensor tensor =
      at::full({1}, number, at::TensorOptions(at::kLong).device(group.device()));
  broadcast(tensor, group, source);
  return tensor.item<std::int64_t>();
}

void send_text(std::string& text, const ProcessGroup& group, int source) {
  const std::int64_t size = send_number(static_cast<std::int64_t>(text.size()), group, source);
  text.resize(static_cast<std::size_t>(size));
  const at::Tensor bytes = at::empty({size}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  send_bytes(bytes, group, source);
  std::memcpy(text.data(), bytes.const_data_ptr(), text.size());
}

// The available steps, newest first, and the lowest rank that has each.
using Offers = std::map<std::int64_t, int, std::greater<>>;

Offers offers_of_all(const std::vector<std::int64_t>& steps, const ProcessGroup& group) {
  const at::Tensor mine = at::full({bounds::checkpoints_offered_max}, -1, at::kLong);
  auto* const first = mine.mutable_data_ptr<std::int64_t>();
  std::copy_n(steps.begin(),
              std::min(steps.size(), static_cast<std::size_t>(bounds::checkpoints_offered_max)),
              first);
  Offers offers;
  int rank = 0;
  for (const at::Tensor& each : all_gather(mine.to(group.device()), group)) {
    const at::Tensor here = each.cpu();
    const auto* const offered = here.const_data_ptr<std::int64_t>();
    for (int i = 0; i < bounds::checkpoints_offered_max && offered[i] >= 0; ++i) {
      offers.emplace(offered[i], rank);
    }
    ++rank;
  }
  return offers;
}

StateDict open_checked(const SafetensorsBytes& bytes, const std::string& path) {
  StateDict whole = open_safetensors(bytes, path);
  if (!whole.texts.contains(format_key)) {
    throw FileError(fmt::format("\"{}\": not a cpprun checkpoint: no {}", path, format_key));
  }
  if (const auto version = whole.integer(format_key); version != format_version) {
    throw FileError(fmt::format("\"{}\": unsupported {} {} (supported: {})", path, format_key,
                                version, format_version));
  }
  return whole;
}

Checkpoint checkpoint_from(const StateDict& whole, std::string path) {
  return {.progress = {.epoch = whole.integer("epoch"),
                       .step = whole.integer("step"),
                       .samples = whole.integer("samples")},
          .state = whole.part(user_prefix),
          .world_size = static_cast<int>(whole.integer("world_size")),
          .path = std::move(path),
          .passed_over = {}};
}

// Reads on `source` and broadcasts. Returns the error, the same on every rank; empty on success.
std::string read_together(const std::string& path, int source, const ProcessGroup& group,
                          SafetensorsBytes& bytes) {
  std::string wrong;
  if (group.rank() == source) {
    try {
      bytes = read_safetensors(path);
      static_cast<void>(checkpoint_from(open_checked(bytes, path), path));
    } catch (const StateError& error) {
      wrong = fmt::format("\"{}\": {}", path, error.what());
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }
  send_text(wrong, group, source);
  if (!wrong.empty()) return wrong;
  send_text(bytes.head, group, source);
  const std::int64_t mine = bytes.data.defined() ? bytes.data.numel() : 0;
  const std::int64_t size = send_number(mine, group, source);
  if (group.rank() != source) bytes.data = at::empty({size}, at::kByte);
  send_bytes(bytes.data, group, source);
  bytes.checksum = static_cast<std::uint32_t>(send_number(bytes.checksum, group, source));
  return {};
}

std::string path_of(const std::string& directory, std::int64_t step) {
  return (fs::path(directory) / checkpoint_name(step)).string();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  // A missing directory has no checkpoints.
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw FileError(
        fmt::format("cannot list the checkpoints in \"{}\": {}", directory, error.message()));
  }
  return names;
}

// Every save has its own key, numbered by rank 0.
std::string next_key(const ProcessGroup& group) {
  const std::int64_t number = send_number(
      group.rank() == 0 ? group.store()->add(fmt::format("{}/count", written_key), 1) : 0, group,
      0);
  return fmt::format("{}/{}", written_key, number);
}

// On rank 0: releases the other ranks, which wait for this key.
void report_written(const std::string& key, const std::string& wrong, const ProcessGroup& group) {
  if (group.size() > 1) group.store()->set(key, wrong.empty() ? well_written : wrong);
  if (!wrong.empty()) throw FileError(wrong);
}

}  // namespace

struct Checkpoints::Background {
  std::string key;                   // of the checkpoint that is being written; empty: none
  std::future<std::string> written;  // on rank 0, with the error; its destructor waits
};

Checkpoints::Checkpoints(std::string directory, const Options& options)
    : directory_(std::move(directory)),
      options_(options),
      background_(std::make_shared<Background>()) {
  if (directory_.empty())
    throw std::invalid_argument("the path of the checkpoint directory is empty");
  if (options.keep < 1) {
    throw std::invalid_argument(fmt::format("keep must be at least 1, not {}", options.keep));
  }
}

StateDict Checkpoints::with_random_states(const Progress& progress, const StateDict& state,
                                          const ProcessGroup& group) const {
  StateDict whole;
  put_random_states(whole, group);
  if (group.rank() != 0) return whole;
  whole.put(user_prefix, state);
  whole.set(format_key, format_version);
  whole.set("epoch", progress.epoch);
  whole.set("step", progress.step);
  whole.set("samples", progress.samples);
  whole.set("world_size", static_cast<std::int64_t>(group.size()));
  return whole;
}

void Checkpoints::save(const Progress& progress, const StateDict& state,
                       const ProcessGroup& group) const {
  wait(group);
  const StateDict whole = with_random_states(progress, state, group);
  const std::string key = next_key(group);
  if (group.rank() != 0) return wait_until_written(key, group);
  report_written(key, write(directory_, options_.keep, progress, whole), group);
}

bool Checkpoints::save_async(const Progress& progress, const StateDict& state,
                             const ProcessGroup& group) const {
  if (!background_->key.empty() && options_.when_busy == WhenBusy::skip) {
    const bool busy = group.rank() == 0 && background_->written.wait_for(std::chrono::seconds(0)) !=
                                               std::future_status::ready;
    if (send_number(busy ? 1 : 0, group, 0) == 1) return false;
  }
  wait(group);
  StateDict whole = with_random_states(progress, state, group);
  const std::string key = next_key(group);
  background_->key = key;
  if (group.rank() == 0) background_->written = begin_write(progress, std::move(whole));
  return true;
}

// Never throws: the other ranks already wait for the result.
std::future<std::string> Checkpoints::begin_write(const Progress& progress, StateDict whole) const {
  std::string wrong;
  try {
    for (auto& [name, tensor] : whole.tensors) {
      tensor = tensor.detach().to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true);
    }
    return std::async(std::launch::async, [directory = directory_, keep = options_.keep, progress,
                                           whole = std::move(whole)]() mutable {
      // The future keeps the function; the copy of the state ends with the write.
      const StateDict written = std::exchange(whole, {});
      return write(directory, keep, progress, written);
    });
  } catch (const std::exception& error) {
    wrong = fmt::format("cannot copy the state for a checkpoint in \"{}\": {}", directory_,
                        first_line(error));
  }
  std::promise<std::string> failed;
  failed.set_value(wrong);
  return failed.get_future();
}

void Checkpoints::wait(const ProcessGroup& group) const {
  const std::string key = std::exchange(background_->key, {});
  if (key.empty()) return;
  if (group.rank() != 0) return wait_until_written(key, group);
  report_written(key, background_->written.get(), group);
}

// Waits at the store, not in a collective: a collective would end after the group's timeout, and
// writing a checkpoint may take longer than any other joint operation.
void Checkpoints::wait_until_written(const std::string& key, const ProcessGroup& group) const {
  const auto store = compat::own_client(group.store());
  try {
    store->wait({key}, options_.write_timeout);
  } catch (const std::exception& error) {
    throw DistributedError(fmt::format(
        "rank 0 did not finish writing a checkpoint to \"{}\" within {:.3g} s: {} (check the disk "
        "or file server, or raise CheckpointOptions::write_timeout)",
        directory_, std::chrono::duration<double>(options_.write_timeout).count(),
        first_line(error)));
  }
  const std::string said = store->get_to_str(key);
  if (said != well_written) throw FileError("rank 0 " + said);
}

std::string Checkpoints::write(const std::string& directory, int keep, const Progress& progress,
                               const StateDict& whole) {
  // One at a time in this process: the temporary file of another write would count as a leftover.
  static std::mutex writing;
  const std::scoped_lock lock(writing);
  try {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
      return fmt::format("cannot create directory \"{}\": {}", directory, error.message());
    }
    save_safetensors(path_of(directory, progress.step), whole);
    for (const std::string& name : superfluous(names_in(directory), progress.step, keep)) {
      // A file that cannot be removed only costs space; the next save tries again.
      fs::remove(fs::path(directory) / name, error);
    }
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
  return "";
}

std::optional<Checkpoint> Checkpoints::load_newest(const ProcessGroup& group) const {
  wait(group);
  const Offers offers = offers_of_all(checkpoint_steps(names_in(directory_)), group);
  std::vector<std::string> passed_over;
  for (const auto& [step, source] : offers) {
    std::string path = path_of(directory_, step);
    SafetensorsBytes bytes;
    std::string wrong = read_together(path, source, group, bytes);
    if (!wrong.empty()) {
      passed_over.push_back(std::move(wrong));
      continue;
    }
    const StateDict whole = open_checked(bytes, path);
    Checkpoint found = checkpoint_from(whole, std::move(path));
    found.passed_over = std::move(passed_over);
    for (const RandomGenerator& each : random_generators) {
      const auto random =
          whole.tensors.find(random_name(each, static_cast<std::size_t>(group.rank())));
      if (random != whole.tensors.end()) set_random_state(each.device, random->second);
    }
    return found;
  }
  if (offers.empty()) return std::nullopt;
  throw FileError(fmt::format("no checkpoint in \"{}\" can be read: {}", directory_,
                              fmt::join(passed_over, "; ")));
}

bool Checkpoints::any(const ProcessGroup& group) const {
  wait(group);
  return !offers_of_all(checkpoint_steps(names_in(directory_)), group).empty();
}

}  // namespace cpprun
