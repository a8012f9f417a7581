// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A process with one job's store, as its nodes and its followers see it. It either decides and
// writes its decisions to a log, or reads the log of another process and resumes from there.

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/coordinator/io/node_streams.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

inline const std::string replayed_job = "job";
inline constexpr RoundNumber round_one{1};
inline constexpr std::size_t replayed_window = 96;

// The contents of a store without their owners.
class Contents : public Store::Viewer {
 public:
  void value(std::string_view key, const StoredValue& value) override { note("=", key, value); }
  void queued(std::string_view key, const StoredValue& value) override { note("q", key, value); }
  void waits(ConnectionId, std::string_view key, bool in_barrier) override {
    ++lines["w" + std::string(key) + (in_barrier ? "!" : "")];
  }
  void watches(ConnectionId, std::string_view key) override { ++lines["s" + std::string(key)]; }
  void owed(ConnectionId, std::string_view key) override { ++lines["o" + std::string(key)]; }
  std::map<std::string, int> lines;

 private:
  void note(const char* what, std::string_view key, const StoredValue& value) {
    ++lines[what + std::string(key) + ":" + value.beginning(value.size())];
  }
};

inline std::map<std::string, int> contents_of(const Store& store) {
  Contents contents;
  for (std::size_t shard = 0; shard < Store::shard_count; ++shard) {
    store.show_shard(shard, contents);
  }
  return contents.lines;
}

// Decides, or reads the decisions of another process.
class ReplayedProcess : public StoreHost {
 public:
  explicit ReplayedProcess(std::size_t window = replayed_window)
      : routes_(connections, callbacks(), window) {
    const auto listening = connections.listen(*this, {.streams_only = true});
    REQUIRE(listening);
    listener = listening->id;
  }

  // --- the two roles ---
  void decide() {
    connections.with_sessions(
        [this](StoreSessions& sessions) { sessions.keep_journal(listener.value, &log); });
    routes_.keep_log(replayed_job, &log);
    has_log_ = true;
  }
  void read() {
    replay.emplace(
        StoreReplay::Context{connections, routes_, listener, store_, replayed_job, round_one});
  }
  void take_over() {
    REQUIRE(replay->is_whole());
    replay->end();
    decide();
  }
  void begin_image() {
    image.emplace(StoreImage::Context{connections, routes_, listener, store_, replayed_job, log});
  }

  // Like decide(), with these log keepers attached.
  StoreLogs& keep_logs() {
    logs.emplace(connections, routes_,
                 StoreLogs::Callbacks{
                     .listener_of = [this](const std::string&) { return listener; },
                     .store_of = [this](const std::string&) -> const Store& { return store_; },
                     .soon = [this](std::function<void()> what) { soon.push_back(what); }});
    return *logs;
  }

  // Processes the messages in flight.
  void work() {
    for (int turns = 0; turns < 10'000; ++turns) {
      bool has_more = !soon.empty();
      for (auto all = std::exchange(soon, {}); const auto& what : all) what();
      has_more = connections.serve(TimePoint{}) || has_more;
      if (!has_more) return;
    }
  }
  void hear(int node, std::string_view frame) {
    const LinkId link{static_cast<std::uint64_t>(node) + 1};
    CHECK(routes_.hear(link, PeerAddress{}, frame.substr(4)) == "");
    work();
  }
  // Leaves deferred work undone.
  void hear_only(int node, std::string_view frame) {
    const LinkId link{static_cast<std::uint64_t>(node) + 1};
    CHECK(routes_.hear(link, PeerAddress{}, frame.substr(4)) == "");
    // A held port is never done.
    for (int turns = 0; turns < 100 && connections.serve(TimePoint{}); ++turns) continue;
  }
  void forget_links() {
    for (std::uint64_t link = 1; link <= down.size(); ++link) routes_.forget(LinkId{link});
    for (auto& each : down) each.clear();
  }

  // --- StoreHost ---
  Result<void> admit(const PeerAddress&) override { return failure("no client uses a socket"); }
  Store& store() override { return store_; }
  void adopt_link(FileDescriptor, PeerAddress, std::string) override {}
  void note(Note note) override {
    CHECK_MESSAGE(!note.text.starts_with("closed: unknown"), note.text);
    CHECK_MESSAGE(!note.text.starts_with("closed: malformed"), note.text);
  }

  ConnectionSet connections;
  StoreLog log;
  ListenerId listener{};
  std::array<std::deque<std::string>, 3> down;  // frames to each node
  std::optional<StoreReplay> replay;
  std::optional<StoreImage> image;
  std::deque<std::function<void()>> soon;

 private:
  StreamRoutes::Callbacks callbacks() {
    return {.seat_of =
                [](LinkId link) {
                  return Coordinator::Seat{replayed_job, round_one, GroupRank{int(link.value) - 1}};
                },
            .listener_of = [this](const std::string&) { return listener; },
            .loop = {.has_room = [](LinkId) { return true; },
                     .send =
                         [this](LinkId link, std::string_view frame) {
                           down.at(link.value - 1).emplace_back(frame);
                         },
                     .soon = [this](std::function<void()> what) { soon.push_back(what); },
                     .now = [] { return TimePoint{}; }},
            .log_of =
                [this](const std::string& job) {
                  return logs ? logs->log_of(job) : (has_log_ ? &log : nullptr);
                }};
  }

  Store store_;
  bool has_log_ = false;
  StreamRoutes routes_;

 public:
  std::optional<StoreLogs> logs;  // last member: destroyed first
};

}  // namespace cpprun
