// SPDX-License-Identifier: BSD-3-Clause
#include "proto/state_machine.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace driver_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// Repeats every text twice, and says "late" a second after the last.
class Parrot {
 public:
  using Event = std::string;
  using Action = std::string;
  using Actions = std::vector<std::string>;

  Actions handle(TimePoint now, const Event& event) {
    late_at_ = now + 1s;
    return {event, event + "!"};
  }
  Actions advance(TimePoint) {
    late_at_.reset();
    return {"late"};
  }
  std::optional<TimePoint> next_deadline() const { return late_at_; }
  std::optional<std::string> check() const { return std::nullopt; }

 private:
  std::optional<TimePoint> late_at_;
};

struct Cage {
  TimePoint now{};
  std::vector<std::string> heard;
  std::vector<std::optional<TimePoint>> armed;
  std::function<void(const std::string&)> on_word = [](const std::string&) {};
  Driver<Parrot> driver{{.now = [this] { return now; },
                         .perform =
                             [this](const std::string& word) {
                               heard.push_back(word);
                               on_word(word);
                             },
                         .arm = [this](std::optional<TimePoint> when) { armed.push_back(when); },
                         .decided = [this](const auto&) { heard.emplace_back("<"); },
                         .performed = [this] { heard.emplace_back(">"); }}};
};

using Words = std::vector<std::string>;

enum class Light { red, green, yellow };
constexpr PhaseStep<Light> steps[] = {
    {Light::red, Light::green}, {Light::green, Light::yellow}, {Light::yellow, Light::red}};

}  // namespace

TEST_CASE("events caused by an action are handled after the actions before it") {
  Cage cage;
  cage.driver.begin({});
  cage.on_word = [&](const std::string& word) {
    if (word == "a") cage.driver.post("b");
  };
  cage.driver.post("a");
  CHECK(cage.heard == Words{"<", "a", "a!", ">", "<", "b", "b!", ">"});
  // Armed once, when all actions were done.
  CHECK(cage.armed == std::vector<std::optional<TimePoint>>{TimePoint{1s}});
}

TEST_CASE("a machine that starts with actions performs them before events posted meanwhile") {
  Cage cage;
  cage.driver.begin({});
  cage.on_word = [&](const std::string& word) {
    if (word == "hello") cage.driver.post("a");
  };
  cage.driver.start([](Parrot&, TimePoint) { return Words{"hello", "you"}; });
  CHECK(cage.heard == Words{"<", "hello", "you", ">", "<", "a", "a!", ">"});
}

TEST_CASE("a timer that fires too early is armed again without other effects") {
  Cage cage;
  cage.driver.begin({});
  cage.driver.post("a");
  cage.heard.clear();
  cage.now += 500ms;
  cage.driver.advance();
  CHECK(cage.heard.empty());
  CHECK(cage.armed.back() == TimePoint{1s});
  cage.now += 500ms;
  cage.driver.advance();
  CHECK(cage.heard == Words{"<", "late", ">"});
  CHECK(cage.armed.back() == std::nullopt);
}

TEST_CASE("an action that ends the machine is the last, even if others remain") {
  Cage cage;
  cage.driver.begin({});
  cage.on_word = [&](const std::string& word) {
    if (word != "end") return;
    cage.driver.post("never");
    cage.driver.end();
  };
  cage.driver.post("end");
  CHECK(cage.heard == Words{"<", "end"});
  CHECK(cage.armed.empty());
  cage.driver.post("ignored");
  cage.driver.advance();
  CHECK_FALSE(cage.driver.running());
  CHECK(cage.heard.size() == 2);
  // The next machine starts without actions.
  cage.driver.begin({});
  cage.driver.post("a");
  CHECK(cage.heard == Words{"<", "end", "<", "a", "a!", ">"});
}

TEST_CASE("a phase changes only to a permitted next phase") {
  PhaseOf<Light> light{Light::red, steps};
  CHECK(light.may_become(Light::green));
  CHECK(light.may_become(Light::red));
  CHECK_FALSE(light.may_become(Light::yellow));
  light.become(Light::green);
  CHECK(light == Light::green);
}

}  // namespace driver_test
