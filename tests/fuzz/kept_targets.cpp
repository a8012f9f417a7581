// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/kept_targets.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/link/binary_frame.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/store/store_sessions.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {

namespace {

// A process that is the standby for a store, and has no node of its own.
class FollowedStore : public StoreHost {
 public:
  FollowedStore() : routes_(connections_, callbacks(), small_window) {
    const auto listening = connections_.listen(*this, {.streams_only = true});
    promise(listening.has_value(), "cannot listen for streams");
    replay_.emplace(StoreReplay::Context{connections_, routes_, listening->id, store_, job, round});
  }

  // False: the log is invalid.
  bool hear(std::string_view bytes) {
    const auto heard = replay_->hear(bytes);
    if (!heard) promise(!heard.error().reason.empty(), "a refusal without a reason");
    if (heard) look();
    return heard.has_value();
  }
  // Resumes from the log as the leader.
  void go_on() {
    if (!replay_->is_whole()) return;
    replay_->end();
    for (int turns = 0; turns < turns_max; ++turns) {
      bool has_more = !soon_.empty();
      for (const auto& what : std::exchange(soon_, {})) what();
      has_more = connections_.serve(TimePoint{}) || has_more;
      if (!has_more) return look();
    }
    promise(false, "never stops answering");
  }

  Result<void> admit(const PeerAddress&) override { return {}; }
  Store& store() override { return store_; }
  void adopt_link(FileDescriptor, PeerAddress, std::string) override {}
  void note(Note) override {}

 private:
  static constexpr std::size_t small_window = 96;
  static constexpr int turns_max = 10'000;
  static constexpr RoundNumber round{1};
  inline static const std::string job = "job";

  StreamRoutes::Callbacks callbacks() {
    return {.seat_of =
                [](LinkId link) {
                  return Coordinator::Seat{job, round, GroupRank{static_cast<int>(link.value)}};
                },
            .listener_of = [](const std::string&) { return ListenerId{}; },
            .loop = {.has_room = [](LinkId) { return true; },
                     .send = [](LinkId, std::string_view) {},
                     .soon = [this](std::function<void()> what) { soon_.push_back(what); },
                     .now = [] { return TimePoint{}; }},
            .log_of = [](const std::string&) -> StoreLog* { return nullptr; }};
  }

  void look() {
    connections_.with_sessions([](StoreSessions& sessions) {
      if (const auto broken = sessions.check()) promise(false, broken->c_str());
    });
  }

  ConnectionSet connections_;
  Store store_;
  std::vector<std::function<void()>> soon_;
  StreamRoutes routes_;
  std::optional<StoreReplay> replay_;
};

// All records of the bytes in pieces of that size; the result is the same for every size.
std::string records_of(std::string_view bytes, std::size_t piece) {
  StoreLogReader reader;
  StoreLog again;
  while (!bytes.empty()) {
    reader.hear(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      const auto record = reader.next();
      if (!record) {
        promise(!record.error().reason.empty(), "a refusal without a reason");
        return again.take() + record.error().reason;
      }
      if (!*record) break;
      again.add(**record);
    }
  }
  return again.take();
}

}  // namespace

void standby_frames(std::string_view bytes) {
  while (true) {
    const auto frame = link::first_frame(bytes);
    if (!frame || !*frame) return;
    bytes.remove_prefix((*frame)->size() + 4);
    const auto record = link::read_standby_frame(**frame);
    if (!record) {
      promise(!record.error().reason.empty(), "a refusal without a reason");
      return;
    }
    promise(record->bytes.size() <= link::standby_frame_room(record->job), "more than fits");
    promise(std::string_view(link::standby_frame(*record)).substr(4) == **frame,
            "a second frame of one record");
  }
}

void store_log(std::string_view bytes) {
  promise(records_of(bytes, bytes.size()) == records_of(bytes, 3),
          "the result depends on where it was cut");
  FollowedStore follower;
  const std::size_t half = bytes.size() / 2;
  if (follower.hear(bytes.substr(0, half)) && follower.hear(bytes.substr(half))) follower.go_on();
}

void log_file(std::string_view bytes) {
  const auto file = read_log_file(bytes);
  if (!file) {
    promise(!file.error().clause.empty(), "a refusal without a reason");
    return;
  }
  promise(file->size <= bytes.size(), "more than there is");
  std::string again = log_file_head(file->round, file->is_synced, file->boot);
  if (!file->bytes.empty()) again += log_chunk(LogChunk::bytes, file->bytes);
  if (file->is_whole) again += log_chunk(LogChunk::whole, {});
  if (file->has_end) again += log_chunk(LogChunk::end, {});
  const auto echo = read_log_file(again);
  promise(echo && echo->bytes == file->bytes && echo->round == file->round &&
              echo->is_whole == file->is_whole && echo->has_end == file->has_end,
          "cannot read what it would write");
}

}  // namespace cpprun::fuzz
