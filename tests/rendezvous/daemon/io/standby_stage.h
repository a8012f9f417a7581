// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A loop with the test's clock, and link ends that record what is sent through them.

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace cpprun::test
