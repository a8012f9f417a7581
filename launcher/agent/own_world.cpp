// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/own_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace cpprun {

namespace {

// The second look comes after this part of the time-out.
constexpr int second_look_part = 6;
// A retry now and then costs less than this part of the time; a step of training all of it.
constexpr int idle_part = 20;
constexpr std::size_t named_max = 4;

std::string first_few(std::vector<std::string> names) {
  const bool more = names.size() > named_max;
  if (more) names.resize(named_max);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? " and others" : "");
}

std::string to_text(Duration silence, const std::string& sign) {
  return fmt::format(
      "no worker has asked this job's store for {:.0f} s, and {}: a script that starts a world of "
      "its own (mp.spawn, init_method=\"tcp://…\", a MASTER_PORT it sets itself) waits for ever "
      "here, because cpprun has already started one process per rank and hosts the store; let it "
      "take RANK, LOCAL_RANK and WORLD_SIZE from the environment and call init_process_group() "
      "without init_method, rank and world_size, or run it with python alone",
      in_seconds(silence), sign);
}

}  // namespace

void OwnWorld::began(TimePoint now) {
  began_ = now;
  due_ = now + timeouts_.silence;
  pause_ = timeouts_.silence / second_look_part;
  processor_time_.reset();
}

bool OwnWorld::take_due(TimePoint now) {
  if (!due_ || *due_ > now) return false;
  due_ = now + pause_;
  pause_ *= 2;
  return true;
}

std::optional<std::string> OwnWorld::judge(TimePoint now, const WorldLook& look) {
  if (!due_) return std::nullopt;
  if (look.store_asked) {
    over();
    return std::nullopt;
  }
  const auto before = std::exchange(processor_time_, look.processor_time);
  const Duration pause = now - std::exchange(looked_, now);
  std::string sign;
  if (!look.listeners.empty()) {
    sign = fmt::format("its first one, or what that has started, serves on its own ({})",
                       first_few(look.listeners));
  } else if (!look.spawned.empty()) {
    sign = fmt::format("its first one has started processes with multiprocessing ({})",
                       first_few(look.spawned));
  } else if (timeouts_.sleepers && before) {
    const bool idle = look.processor_time - *before < pause / idle_part;
    if (idle) sign = fmt::format("its first one has done nothing for {:.0f} s", in_seconds(pause));
  }
  if (sign.empty()) return std::nullopt;
  over();
  return to_text(now - began_, sign);
}

}  // namespace cpprun
