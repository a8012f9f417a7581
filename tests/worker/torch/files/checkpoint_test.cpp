// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/checkpoint.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/record_function.h>
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/worker/temporary_directory.h"
#include "tests/worker/two_ranks.h"
#include "worker/env/checkpoint_names.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/files/safetensors_file.h"

namespace checkpoint_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;
using namespace std::chrono_literals;

namespace {

StateDict state_with(double value) {
  StateDict state;
  state.tensors["weight"] = at::full({3}, value);
  state.set("lr", value);
  return state;
}

void damage(const TemporaryDirectory& directory, std::int64_t step) {
  const std::string name = checkpoint_name(step);
  std::string bytes = directory.read(name);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(directory.file(name), std::ios::binary) << bytes;
}

ProcessGroup alone() {
  return init_process_group(Context{});
}

// Calls `meanwhile` once, between this thread's first and last access to a tensor that it writes.
// LibTorch calls it, which notifies its observers of every operation. So a write takes as long as a
// test wants.
class WriteHeld {
 public:
  explicit WriteHeld(std::function<void()> meanwhile)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&WriteHeld::observe))) {
    meanwhile_ = std::move(meanwhile);
  }
  ~WriteHeld() {
    at::removeCallback(handle_);
    meanwhile_ = {};
  }
  WriteHeld(const WriteHeld&) = delete;
  WriteHeld& operator=(const WriteHeld&) = delete;
  static bool was_met() { return !meanwhile_; }

 private:
  static std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction& operation) {
    const bool writes = std::string_view(operation.name()) == "aten::resolve_neg";
    if (writes && meanwhile_) std::exchange(meanwhile_, {})();
    return nullptr;
  }

  static thread_local std::function<void()> meanwhile_;
  at::CallbackHandle handle_;
};

thread_local std::function<void()> WriteHeld::meanwhile_;

// A collective that the other rank does not call.
void expect_to_give_up(const ProcessGroup& group) {
  try {
    barrier(group);
  } catch (const DistributedError&) {
    return;
  }
  throw DistributedError("a barrier with one rank has ended");
}

}  // namespace

TEST_CASE("the newest checkpoint is loaded with its progress and state") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file("run"));
  const ProcessGroup group = alone();
  CHECK_FALSE(checkpoints.any(group));
  CHECK_FALSE(checkpoints.load_newest(group));
  checkpoints.save({.epoch = 1, .step = 10, .samples = 320}, state_with(1), group);
  checkpoints.save({.epoch = 2, .step = 20, .samples = 64}, state_with(2), group);
  CHECK(checkpoints.any(group));
  const auto found = checkpoints.load_newest(group);
  REQUIRE(found);
  CHECK(found->progress == Progress{.epoch = 2, .step = 20, .samples = 64});
  CHECK(found->state.tensors.at("weight")[0].item<float>() == 2);
  CHECK(found->state.real("lr") == 2);
  CHECK(found->world_size == 1);
  CHECK(found->passed_over.empty());
}

TEST_CASE("only so many checkpoints are kept") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file(""), {.keep = 2});
  const ProcessGroup group = alone();
  for (const std::int64_t step : {1, 2, 3, 4}) {
    checkpoints.save({.step = step}, state_with(0), group);
  }
  CHECK(directory.entries() == 2);
  CHECK(checkpoints.load_newest(group)->progress.step == 4);
}

TEST_CASE("a damaged checkpoint is skipped for the previous one, with a message") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file(""));
  const ProcessGroup group = alone();
  checkpoints.save({.step = 1}, state_with(1), group);
  checkpoints.save({.step = 2}, state_with(2), group);
  damage(directory, 2);
  const auto found = checkpoints.load_newest(group);
  REQUIRE(found);
  CHECK(found->progress.step == 1);
  REQUIRE(found->passed_over.size() == 1);
  CHECK(found->passed_over[0].find("checkpoint-000000000002.safetensors\": damaged") !=
        std::string::npos);
}

TEST_CASE("a directory without an intact checkpoint is an error, not a fresh start") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file(""));
  const ProcessGroup group = alone();
  checkpoints.save({.step = 1}, state_with(1), group);
  damage(directory, 1);
  CHECK_THROWS_AS(static_cast<void>(checkpoints.load_newest(group)), FileError);
}

TEST_CASE("a foreign safetensors file with a checkpoint's name is skipped") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file(""));
  const ProcessGroup group = alone();
  checkpoints.save({.step = 1}, state_with(1), group);
  save_safetensors(directory.file(checkpoint_name(7)), state_with(7));
  const auto found = checkpoints.load_newest(group);
  REQUIRE(found);
  CHECK(found->progress.step == 1);
  CHECK(found->passed_over.at(0).find("not a cpprun checkpoint") != std::string::npos);
}

TEST_CASE("a checkpoint that lacks its progress is skipped with its name") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file(""));
  const ProcessGroup group = alone();
  checkpoints.save({.step = 1}, state_with(1), group);
  StateDict halved = state_with(2);
  halved.set("cpprun.format", std::int64_t{1});
  halved.set("epoch", std::int64_t{0});
  save_safetensors(directory.file(checkpoint_name(2)), halved);
  const auto found = checkpoints.load_newest(group);
  REQUIRE(found);
  CHECK(found->progress.step == 1);
  REQUIRE(found->passed_over.size() == 1);
  CHECK(found->passed_over[0].find(checkpoint_name(2)) != std::string::npos);
}

TEST_CASE("the random numbers continue where they were") {
  const TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file(""));
  const ProcessGroup group = alone();
  static_cast<void>(at::rand({5}));
  checkpoints.save({.step = 1}, state_with(1), group);
  const at::Tensor expected = at::rand({8});
  static_cast<void>(at::rand({5}));
  CHECK(checkpoints.load_newest(group));
  CHECK(at::rand({8}).equal(expected));
}

TEST_CASE("ranks with separate directories load the newest checkpoint of any rank") {
  const TemporaryDirectory directory;
  const auto failure = testing::on_two_ranks([&directory](const ProcessGroup& group) {
    // As on two machines without a shared file system, after rank 0 has moved to the other one.
    const Checkpoints mine(directory.file(group.rank() == 0 ? "here" : "there"));
    if (group.rank() == 1) {
      mine.save({.epoch = 3, .step = 30}, state_with(3), init_process_group(Context{}));
    }
    const auto found = mine.load_newest(group);
    const bool same = found && found->progress.step == 30 &&
                      found->state.tensors.at("weight")[2].item<float>() == 3;
    if (!same) throw DistributedError("another checkpoint was loaded");
  });
  CHECK(failure.empty());
}

TEST_CASE("a checkpoint that one rank finds damaged is skipped by all") {
  const TemporaryDirectory directory;
  const auto failure = testing::on_two_ranks([&directory](const ProcessGroup& group) {
    const Checkpoints checkpoints(directory.file(""));
    checkpoints.save({.step = 1}, state_with(group.rank()), group);
    checkpoints.save({.step = 2}, state_with(group.rank()), group);
    if (group.rank() == 0) damage(directory, 2);
    const auto found = checkpoints.load_newest(group);
    if (!found || found->progress.step != 1) throw DistributedError("wrong step");
    if (found->passed_over.size() != 1) throw DistributedError("not said");
    if (found->world_size != 2 || found->state.real("lr") != 0) {
      throw DistributedError("not rank 0's state");
    }
  });
  CHECK(failure.empty());
}

TEST_CASE("ranks wait for the writing rank, and get its error") {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("no-directory")) << "a file";
  std::string reason;
  const auto failure = testing::on_two_ranks([&](const ProcessGroup& group) {
    const Checkpoints checkpoints(directory.file("no-directory"));
    try {
      checkpoints.save({.step = 1}, state_with(1), group);
    } catch (const FileError& error) {
      if (group.rank() == 1) reason = error.what();
    }
    // No rank is a collective ahead of the others.
    const Checkpoints others(directory.file("run"));
    others.save({.step = 1}, state_with(1), group);
    testing::expect(!directory.read("run/" + checkpoint_name(1)).empty(),
                    "it is there on every rank");
  });
  CHECK(failure == "");
  INFO(reason);
  CHECK(reason.starts_with("rank 0 cannot create directory \"" + directory.file("no-directory") +
                           "\": "));
}

TEST_CASE("a write that takes longer than the group's timeout fails no rank") {
  const TemporaryDirectory directory;
  const auto failure = testing::on_two_ranks(
      [&directory](const ProcessGroup& group) {
        // Two groups that only rank 0 calls: each gives up when the timeout has passed once more.
        // The second is needed because the other rank may have started to wait a little later.
        const auto first = new_group(group, {0, 1});
        const auto second = new_group(group, {0, 1});
        const auto outlast = [&] {
          expect_to_give_up(*first);
          expect_to_give_up(*second);
        };
        {
          std::optional<WriteHeld> held;
          if (group.rank() == 0) held.emplace(outlast);
          Checkpoints(directory.file("run")).save({.step = 1}, state_with(1), group);
          testing::expect(!held || held->was_met(), "the write was never held");
        }
        testing::expect(!directory.read("run/" + checkpoint_name(1)).empty(), "it is there");
        barrier(group);
      },
      {.timeout = 1500ms});
  CHECK(failure == "");
}

namespace {

// Holds every write of a thread that a background save has started until release(). LibTorch calls
// observe() for every operation in every thread.
class BackgroundHeld {
 public:
  BackgroundHeld() : handle_(at::addGlobalCallback(at::RecordFunctionCallback(&observe))) {
    foreground_ = std::this_thread::get_id();
    released_ = std::promise<void>();
    gate_ = released_.get_future().share();
  }
  ~BackgroundHeld() { at::removeCallback(handle_); }
  BackgroundHeld(const BackgroundHeld&) = delete;
  BackgroundHeld& operator=(const BackgroundHeld&) = delete;
  static void release() { released_.set_value(); }

 private:
  static std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction& operation) {
    const bool writes = std::string_view(operation.name()) == "aten::resolve_neg";
    if (writes && std::this_thread::get_id() != foreground_) gate_.wait();
    return nullptr;
  }

  inline static std::thread::id foreground_;
  inline static std::promise<void> released_;
  inline static std::shared_future<void> gate_;
  at::CallbackHandle handle_;
};

}  // namespace

TEST_CASE("a background save writes the state of its call, and the next one skips or waits") {
  const TemporaryDirectory directory;
  const ProcessGroup group = alone();
  const Checkpoints skipping(directory.file("run"), {.when_busy = WhenBusy::skip});
  const BackgroundHeld held;
  StateDict state = state_with(1);
  CHECK(skipping.save_async({.step = 1}, state, group));
  state.tensors.at("weight").fill_(7);  // training goes on
  CHECK_FALSE(skipping.save_async({.step = 2}, state, group));
  BackgroundHeld::release();
  skipping.wait(group);
  skipping.wait(group);  // nothing is left
  auto found = skipping.load_newest(group);
  REQUIRE(found);
  CHECK(found->progress.step == 1);
  CHECK(found->state.tensors.at("weight")[0].item<float>() == 1);
  CHECK(skipping.save_async({.step = 3}, state, group));
  const Checkpoints waiting(directory.file("waiting"));
  for (int step = 1; step <= 3; ++step) CHECK(waiting.save_async({.step = step}, state, group));
  waiting.save({.step = 4}, state, group);
  found = waiting.load_newest(group);
  REQUIRE(found);
  CHECK(found->progress.step == 4);
  CHECK(directory.read("waiting/" + checkpoint_name(3)) != "");
}

TEST_CASE("the error of a background save is thrown once, on every rank, by the next call") {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("no-directory")) << "a file";
  CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
          const Checkpoints checkpoints(directory.file("no-directory"));
          testing::expect(checkpoints.save_async({.step = 1}, state_with(1), group), "started");
          bool thrown = false;
          try {
            checkpoints.wait(group);
          } catch (const FileError& error) {
            thrown = std::string_view(error.what()).find("cannot create directory") !=
                     std::string_view::npos;
          }
          testing::expect(thrown, "the error of rank 0");
          checkpoints.wait(group);
        }) == "");
}

TEST_CASE("a state that rank 0 cannot copy is an error on every rank, and no rank waits for it") {
  const TemporaryDirectory directory;
  CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
          StateDict state = state_with(1);
          state.tensors["nowhere"] = at::full({2}, 1, at::TensorOptions(at::kMeta));
          const Checkpoints checkpoints(directory.file("run"));
          testing::expect(checkpoints.save_async({.step = 1}, state, group), "started");
          bool thrown = false;
          try {
            checkpoints.save({.step = 2}, state_with(2), group);
          } catch (const FileError& error) {
            thrown = std::string_view(error.what()).find("cannot copy the state") !=
                     std::string_view::npos;
          }
          testing::expect(thrown, "the error of rank 0");
          checkpoints.save({.step = 2}, state_with(2), group);
          testing::expect(checkpoints.load_newest(group)->progress.step == 2, "it goes on");
        }) == "");
}

TEST_CASE("what a background save writes is seen by a load, and not removed by another object") {
  const TemporaryDirectory directory;
  const ProcessGroup group = alone();
  const Checkpoints first(directory.file("run"));
  const Checkpoints second(directory.file("run"));
  CHECK(first.save_async({.step = 1}, state_with(1), group));
  second.save({.step = 2}, state_with(2), group);
  first.wait(group);
  CHECK(first.save_async({.step = 3}, state_with(3), group));
  CHECK(first.load_newest(group)->progress.step == 3);
}

TEST_CASE("invalid options are rejected") {
  CHECK_THROWS_AS(Checkpoints(""), std::invalid_argument);
  CHECK_THROWS_AS(Checkpoints("x", {.keep = 0}), std::invalid_argument);
}

}  // namespace checkpoint_test
