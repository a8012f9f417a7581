// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A LeaderElection and its etcd under the control of a test: time passes only on request, and
// requests are answered automatically or by hand.

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/etcd/leader_election.h"
#include "tests/rendezvous/etcd/etcd_model.h"

namespace cpprun::test {

using namespace std::chrono_literals;

inline const ElectionKeys table_keys = *ElectionKeys::make("test");

inline ElectionOptions options_named(const std::string& name) {
  return {.name = name,
          .card = "card of " + name,
          .keys = table_keys,
          .endpoints = {{false, "a", 2379}, {false, "b", 2379}, {false, "c", 2379}},
          .ttl = 2s,
          .seed = std::hash<std::string>{}(name)};
}

// An etcd with exact clocks, and the time.
struct Etcd {
  EtcdModel model{{.members = 3}, 1};
  TimePoint now{};

  // The value of a key, as etcdctl would show it.
  std::optional<std::string> value(const std::string& key) const {
    const auto* const pair = model.find(key);
    return pair == nullptr ? std::nullopt : std::optional(pair->value);
  }
  etcd::Decided change(std::vector<etcd::Operation> operations) {
    const auto heard = model.ask(now, 0, etcd::Transaction{.success = std::move(operations)});
    return std::get<etcd::Decided>(**heard);
  }
};

class Candidate {
 public:
  Candidate(Etcd& etcd, ElectionOptions options) : etcd_(etcd), election_(std::move(options)) {
    keep(election_.advance(etcd_.now));
  }
  Candidate(Etcd& etcd, const std::string& name) : Candidate(etcd, options_named(name)) {}

  LeaderElection& election() { return election_; }
  const std::vector<election::Action>& said() const { return said_; }
  void forget() { said_.clear(); }

  void tell(const election::Event& event) { keep(election_.handle(etcd_.now, event)); }
  // Answers all requests, including those that follow, by the member that was asked.
  void serve() {
    while (!asks_.empty()) {
      const auto ask = take();
      const auto heard = etcd_.model.ask(etcd_.now, static_cast<int>(ask.endpoint), ask.request);
      REQUIRE_MESSAGE(heard.has_value(), "etcd does not answer");
      tell(election::Answered{ask.id, *heard});
    }
  }
  void advance() { keep(election_.advance(etcd_.now)); }
  // Advances to the next deadline, and no further.
  void ring() {
    const auto due = election_.next_deadline();
    REQUIRE(due);
    etcd_.now = std::max(etcd_.now, *due);
    advance();
  }
  // Advances the time and handles everything that becomes due.
  void pass(Duration time) {
    const TimePoint end = etcd_.now + time;
    serve();
    while (true) {
      const auto due = election_.next_deadline();
      if (!due || *due > end) break;
      etcd_.now = std::max(etcd_.now, *due);
      etcd_.model.advance(etcd_.now);
      advance();
      serve();
    }
    etcd_.now = end;
    etcd_.model.advance(end);
    advance();
    serve();
  }

  // The same with a delay of each response, or with no response: a request fails after its timeout.
  void pass_slowly(Duration time, std::optional<Duration> delay) {
    struct Late {
      TimePoint due;
      election::Ask ask;
      bool is_silent;
    };
    std::vector<Late> late;
    const TimePoint end = etcd_.now + time;
    while (true) {
      while (!asks_.empty()) {
        auto ask = take();
        const bool is_silent = !delay || *delay > ask.timeout;
        late.push_back({etcd_.now + (is_silent ? ask.timeout : *delay), std::move(ask), is_silent});
      }
      const auto first = std::ranges::min_element(late, {}, &Late::due);
      const auto due = election_.next_deadline();
      const bool is_answer = first != late.end() && (!due || first->due <= *due);
      const TimePoint next = is_answer ? first->due : due.value_or(end);
      if (next >= end) break;
      etcd_.now = std::max(etcd_.now, next);
      etcd_.model.advance(etcd_.now);
      if (!is_answer) {
        advance();
        continue;
      }
      const Late now = *first;
      late.erase(first);
      now.is_silent ? fail(now.ask, etcd::Failure::Kind::silent) : answer(now.ask);
    }
    etcd_.now = end;
    etcd_.model.advance(end);
    for (auto& each : late) asks_.push_back(std::move(each.ask));
  }

  // --- by hand -----------------------------------------------------------------------------------
  const std::deque<election::Ask>& asks() const { return asks_; }
  election::Ask take() {
    REQUIRE_FALSE(asks_.empty());
    election::Ask ask = std::move(asks_.front());
    asks_.pop_front();
    return ask;
  }
  // Takes the pending request of that kind.
  template <class R>
  election::Ask take() {
    for (auto at = asks_.begin(); at != asks_.end(); ++at) {
      if (!std::holds_alternative<R>(at->request)) continue;
      election::Ask ask = std::move(*at);
      asks_.erase(at);
      return ask;
    }
    FAIL("nothing of that kind is asked");
    return {};
  }
  void answer(const election::Ask& ask) {
    const auto heard = etcd_.model.ask(etcd_.now, 0, ask.request);
    REQUIRE(heard);
    tell(election::Answered{ask.id, *heard});
  }
  void fail(const election::Ask& ask, etcd::Failure::Kind kind, const std::string& said = "so") {
    tell(election::Answered{ask.id, tl::unexpected(etcd::Failure{kind, said})});
  }

  // --- its actions -------------------------------------------------------------------------------
  template <class Said>
  std::vector<Said> all() const {
    std::vector<Said> found;
    for (const auto& each : said_) {
      if (const auto* const said = std::get_if<Said>(&each)) found.push_back(*said);
    }
    return found;
  }
  template <class Said>
  Said last() const {
    const auto found = all<Said>();
    REQUIRE_FALSE(found.empty());
    return found.back();
  }
  template <class Said>
  std::size_t count() const {
    return all<Said>().size();
  }
  bool leads() const { return election_.is_leading(); }

  // Campaigns and wins.
  void lead() {
    tell(election::Enter{});
    pass(20ms);
    REQUIRE(leads());
  }

 private:
  void keep(const election::Actions& actions) {
    for (const auto& each : actions) {
      if (const auto* const ask = std::get_if<election::Ask>(&each)) {
        asks_.push_back(*ask);
      } else {
        said_.push_back(each);
      }
    }
    const auto broken = election_.check();
    REQUIRE_MESSAGE(!broken, *broken);
  }

  Etcd& etcd_;
  LeaderElection election_;
  std::deque<election::Ask> asks_;
  std::vector<election::Action> said_;
};

}  // namespace cpprun::test
