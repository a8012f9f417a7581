// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A loop with the test's clock, link ends that record what is sent through them, and a coordinator
// that records its calls.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/io/replicated_coordinator.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/link_end.h"

namespace cpprun::test {

class StagedLoop {
 public:
  EventLoop loop() {
    return {.now = [this] { return now_; },
            .soon = [this](std::function<void()> what) { soon_.push_back(std::move(what)); },
            .make_alarm = [this] { return std::make_unique<StagedAlarm>(*this); }};
  }
  TimePoint now() const { return now_; }
  // Runs the posted tasks, including those that they post.
  void run_until_idle() {
    while (!soon_.empty()) {
      const auto what = std::move(soon_.front());
      soon_.pop_front();
      what();
    }
  }
  // Advances the clock and fires the alarms on the way.
  void pass(Duration time) {
    const TimePoint until = now_ + time;
    run_until_idle();
    while (true) {
      StagedAlarm* next = nullptr;
      for (StagedAlarm* const each : alarms_) {
        if (each->what && each->at <= until && (next == nullptr || each->at < next->at))
          next = each;
      }
      if (next == nullptr) break;
      now_ = std::max(now_, next->at);
      std::exchange(next->what, nullptr)();
      run_until_idle();
    }
    now_ = until;
  }

  // Advances the clock as if this process were suspended: alarms fire afterwards.
  void sleep(Duration time) { now_ += time; }

 private:
  struct StagedAlarm : Alarm {
    explicit StagedAlarm(StagedLoop& its) : all(its) { all.alarms_.push_back(this); }
    ~StagedAlarm() override { std::erase(all.alarms_, this); }
    void ring_in(Duration after, std::function<void()> then) override {
      at = all.now_ + after;
      what = std::move(then);
    }
    void call_off() override { what = nullptr; }
    StagedLoop& all;
    TimePoint at{};
    std::function<void()> what;
  };

  TimePoint now_{std::chrono::hours(1)};
  std::deque<std::function<void()>> soon_;
  std::vector<StagedAlarm*> alarms_;
};

// The accepting end of a link.
struct StagedLink : LinkEnd {
  void listen(LinkCallbacks its) override { callbacks = std::move(its); }
  void send(const link::Message& message) override { messages.push_back(message); }
  void send_bytes(std::string_view bytes) override { frames.emplace_back(bytes); }
  bool has_room() const override { return takes_more; }
  void hang_up(std::string reason) override { ended = std::move(reason); }
  void forget() override { callbacks = {}; }
  LinkCallbacks callbacks;
  bool takes_more = true;
  std::vector<link::Message> messages;
  std::vector<std::string> frames;
  std::string ended;
};

// The connecting end of a link.
struct StagedDial : DialledLink {
  struct Line {
    DialCallbacks callbacks;
    bool is_dialled = false;
    bool is_hung_up = false;
    std::vector<link::Message> messages;
    std::vector<std::string> frames;
  };
  explicit StagedDial(std::shared_ptr<Line> its) : line(std::move(its)) {}
  void dial_once() override { line->is_dialled = true; }
  void send(const link::Message& message) override { line->messages.push_back(message); }
  void send_bytes(std::string_view bytes) override { line->frames.emplace_back(bytes); }
  void hang_up() override { line->is_hung_up = true; }
  std::shared_ptr<Line> line;
};

// A coordinator without jobs that records its calls.
class StagedServer : public ReplicatedCoordinator {
 public:
  explicit StagedServer(StagedLoop& loop)
      : routes_(connections_, {.loop = {.now = [&loop] { return loop.now(); }}}),
        logs_(connections_, routes_, {.soon = loop.loop().soon}) {}

  void lead(link::Members members) override { members_ = std::move(members); }
  void let_in() override {}
  void change_members(std::vector<std::string> places) override {
    if (members_) members_->places = std::move(places);
  }
  std::map<std::string, std::string> follow(const Coordinator::Follows& follows) override {
    members_.reset();
    follows_ = follows;
    return {};
  }
  void leader_until(std::optional<TimePoint> until) override { until_ = until; }
  std::optional<TimePoint> speaks_until() const override { return until_; }
  std::size_t link_count() const override { return 0; }
  void wait_for(CommitSource source, std::uint64_t number) override {
    if (source == CommitSource::log) awaited = number;
  }
  void kept(CommitSource source, std::uint64_t through) override {
    (source == CommitSource::log ? replicated : kept_in_etcd) = through;
  }
  StoreLogs& logs() override { return logs_; }
  std::map<std::string, std::string> records() const override { return {}; }
  void recover_hosts(std::vector<Exclusions::Entry> hosts) override {
    excluded_hosts = std::move(hosts);
  }
  void recover_with_replica(JobRecord) override {}
  Result<void> begin_replica(const std::string&, RoundNumber) override { return replica; }
  Result<void> add_to_replica(const std::string&, std::string_view) override { return replica; }
  void replica_is_whole(const std::string&) override { ++whole; }
  void end_replica(const std::string&) override {}
  void end_replicas(const std::map<std::string, std::string>&) override {}

  const Coordinator::Follows& followed() const { return follows_; }
  std::uint64_t kept_in_etcd = 0;
  std::uint64_t awaited = 0;  // of the standbys
  std::uint64_t replicated = 0;
  Result<void> replica;  // the result of calls about a replica
  int whole = 0;         // replicas that were completed
  std::vector<Exclusions::Entry> excluded_hosts;

 private:
  ConnectionSet connections_;
  StreamRoutes routes_;
  StoreLogs logs_;
  std::optional<link::Members> members_;
  Coordinator::Follows follows_;
  std::optional<TimePoint> until_;
};

}  // namespace cpprun::test
