// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The elections of one test in one event loop, with the actions of each.

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/etcd/io/election_driver.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/random_bytes.h"
#include "tests/integration/command.h"

namespace cpprun::test {

// Short, so that tests can wait for its end.
inline constexpr Duration stage_ttl = std::chrono::seconds(2);

// A program that takes part in the election.
class Candidate {
 public:
  Candidate(asio::io_context& context, const std::string& name, const EtcdAccess& access,
            Duration ttl = stage_ttl)
      : name_(name),
        host_(context, options_of(name, access, ttl), access, tls_of(access),
              [this](const election::Action& action) { hear(action); }) {
    host_.start();
  }

  void tell(election::Event event) { host_.tell(std::move(event)); }
  const std::string& name() const { return name_; }
  bool leads() const { return leads_; }
  TimePoint until() const { return until_; }
  etcd::Revision epoch() const { return epoch_; }
  const std::vector<election::Action>& said() const { return said_; }

  // How often an action occurred, and its last occurrence; nothing: never.
  template <class Said>
  std::size_t count() const {
    std::size_t count = 0;
    for (const auto& each : said_) count += std::holds_alternative<Said>(each) ? 1 : 0;
    return count;
  }
  template <class Said>
  std::optional<Said> last() const {
    for (auto each = said_.rbegin(); each != said_.rend(); ++each) {
      if (const auto* const said = std::get_if<Said>(&*each)) return *said;
    }
    return std::nullopt;
  }
  void forget() { said_.clear(); }

 private:
  static ElectionOptions options_of(const std::string& name, const EtcdAccess& access,
                                    Duration ttl) {
    return {.name = name,
            .card = "card of " + name,
            .keys = *ElectionKeys::make("test"),
            .endpoints = access.endpoints,
            .ttl = ttl,
            .seed = random_word()};
  }
  static std::shared_ptr<SecureContext> tls_of(const EtcdAccess& access) {
    auto tls = open_tls(access);
    REQUIRE_MESSAGE(tls.has_value(), tls.error().reason);
    return *tls;
  }
  void hear(const election::Action& action) {
    const bool is_renewal = std::holds_alternative<election::Renewed>(action);
    if (const auto* const leads = std::get_if<election::Leads>(&action)) {
      leads_ = true;
      epoch_ = leads->epoch;
      until_ = leads->until;
    }
    if (is_renewal) until_ = std::get<election::Renewed>(action).until;
    if (std::holds_alternative<election::Deposed>(action)) leads_ = false;
    if (is_renewal && count<election::Renewed>() > 0) return;  // one renewal is enough
    said_.push_back(action);
  }

  std::string name_;
  bool leads_ = false;
  TimePoint until_{};
  etcd::Revision epoch_ = 0;
  std::vector<election::Action> said_;
  ElectionDriver host_;
};

class Stage {
 public:
  explicit Stage(EtcdAccess access = {}) : access_(std::move(access)) {}
  void reach(EtcdAccess access) { access_ = std::move(access); }

  Candidate& add(const std::string& name, Duration ttl = stage_ttl) {
    candidates_.push_back(std::make_unique<Candidate>(context_, name, access_, ttl));
    return *candidates_.back();
  }
  // As if its process were killed: it sends nothing more.
  void kill(const Candidate& candidate) {
    std::erase_if(candidates_, [&](const auto& each) { return each.get() == &candidate; });
  }
  // Runs until `is_so`; fails after a timeout.
  void await(const std::function<bool()>& is_so, const std::string& what) {
    const auto deadline = std::chrono::steady_clock::now() + integration::timeout;
    while (!is_so()) {
      REQUIRE_MESSAGE(std::chrono::steady_clock::now() < deadline, "timed out: ", what);
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(50));
      check_one_leader();
    }
  }
  // Runs for that time.
  void run_for(Duration time) {
    const auto end = boot_now() + time;
    while (boot_now() < end) {
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(20));
      check_one_leader();
    }
  }
  // The current or next leader; fails if there is none.
  Candidate& leader() {
    Candidate* found = nullptr;
    const auto find = [this, &found] {
      for (const auto& each : candidates_) {
        if (each->leads()) found = each.get();
      }
      return found != nullptr;
    };
    await(find, "a leader is elected");
    return *found;
  }
  std::size_t leaders() const {
    std::size_t count = 0;
    for (const auto& each : candidates_)
      count += each->leads() && boot_now() < each->until() ? 1 : 0;
    return count;
  }
  asio::io_context& context() { return context_; }

 private:
  void check_one_leader() const { REQUIRE(leaders() <= 1); }

  asio::io_context context_;
  EtcdAccess access_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
};

}  // namespace cpprun::test
