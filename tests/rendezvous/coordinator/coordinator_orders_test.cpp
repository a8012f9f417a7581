// SPDX-License-Identifier: BSD-3-Clause
// Which jobs a command applies to, how it is answered, and what a daemon forgets on request.

#include <doctest/doctest.h>

#include "rendezvous/coordinator/coordinator.h"

namespace coordinator_orders_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

using Outcome = CommandResult::Kind;

constexpr TimePoint t0{};
const JobOptions job_options{.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7};

template <class A>
std::vector<A> all(const Coordinator::Actions& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
  }
  return found;
}

struct Stage {
  explicit Stage(std::optional<JobTerms> only = {})
      : coordinator({.only = std::move(only), .options = job_options}) {}

  Coordinator::Actions join(LinkId link, const std::string& job, const std::string& host) {
    coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1"}});
    auto begun = coordinator.handle(
        t0, Coordinator::Said{link, link::Join{.job = job, .host = host, .pid = 1}});
    if (all<coordinator::OpenStore>(begun).empty()) return begun;
    return coordinator.handle(t0, Coordinator::StoreReady{job, 7});
  }
  // The answer, which is the last of the actions.
  CommandResult command(TimePoint now, OperatorCommand command) {
    command.by = "uid 7";
    actions = coordinator.handle(now, Coordinator::Ordered{++ticket, command});
    CHECK_FALSE(coordinator.check());
    const auto* answered = std::get_if<coordinator::Answered>(&actions.back());
    REQUIRE(answered != nullptr);
    CHECK(answered->ticket == ticket);
    CHECK(answered->command == command);
    return answered->outcome;
  }

  Coordinator coordinator;
  Coordinator::Actions actions;  // of the last command
  std::uint64_t ticket = 0;
};

OperatorCommand of_job(OperatorCommand::Kind kind, std::string job) {
  return {.kind = kind, .job = std::move(job)};
}
OperatorCommand exclude(std::string host, Duration length = {}) {
  return {.kind = OperatorCommand::Kind::exclude, .whom = std::move(host), .length = length};
}

}  // namespace

TEST_CASE("a command is carried out, recorded and answered once") {
  Stage stage;
  stage.join(LinkId{1}, "a", "alpha");
  CHECK(stage.command(t0, of_job(OperatorCommand::Kind::stop, "a")).is_done());
  CHECK(all<coordinator::Answered>(stage.actions).size() == 1);
  CHECK(all<coordinator::Note>(stage.actions).back().line ==
        "uid 7 asks to stop job \"a\": job \"a\" is stopping its workers on 1 node");
  REQUIRE(all<coordinator::Say>(stage.actions).size() == 1);
  CHECK(std::get<link::Drain>(all<coordinator::Say>(stage.actions)[0].message).reason ==
        "uid 7 stopped the job");
}

TEST_CASE("a command for an unknown or starting job is rejected") {
  Stage stage;
  CHECK(stage.command(t0, of_job(OperatorCommand::Kind::stop, "a")) ==
        CommandResult{Outcome::unknown, "unknown job \"a\""});
  CHECK(all<coordinator::Note>(stage.actions)[0].line ==
        "uid 7 asks to stop job \"a\": refused: unknown job \"a\"");
  stage.coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{1}, .peer = "10.0.0.1"}});
  stage.coordinator.handle(
      t0, Coordinator::Said{LinkId{1}, link::Join{.job = "a", .host = "alpha", .pid = 1}});
  CHECK(stage.command(t0, of_job(OperatorCommand::Kind::stop, "a")).kind == Outcome::not_now);
}

TEST_CASE("a running job is not forgotten, and a hosted job never is") {
  Stage stage;
  stage.join(LinkId{1}, "a", "alpha");
  CHECK(stage.command(t0, of_job(OperatorCommand::Kind::forget, "a")) ==
        CommandResult{Outcome::not_now, "job \"a\" is not over and has nodes; stop it first"});
  Stage hosting(JobTerms{.id = "a"});
  hosting.join(LinkId{1}, "a", "alpha");
  CHECK(hosting.command(t0, of_job(OperatorCommand::Kind::forget, "a")).kind == Outcome::not_now);
}

TEST_CASE("a job that has ended is forgotten, with its store and its links") {
  Stage stage;
  stage.join(LinkId{1}, "a", "alpha");
  stage.command(t0, of_job(OperatorCommand::Kind::stop, "a"));
  stage.coordinator.handle(t0, Coordinator::Said{LinkId{1}, link::Drained{RoundNumber{1}}});
  CHECK(stage.command(t0, of_job(OperatorCommand::Kind::forget, "a")) ==
        CommandResult{Outcome::done, "job \"a\" is forgotten"});
  CHECK(all<coordinator::CloseStore>(stage.actions).size() == 1);
  CHECK(all<coordinator::HangUp>(stage.actions).size() == 1);
  CHECK(stage.coordinator.job_count() == 0);
  CHECK(stage.command(t0, of_job(OperatorCommand::Kind::forget, "a")).kind == Outcome::unknown);
  // Its name and its place are free.
  stage.join(LinkId{2}, "a", "alpha");
  CHECK(stage.coordinator.job_count() == 1);
}

TEST_CASE("the name of a job is reserved while its nodes may still compute") {
  Stage stage;
  stage.join(LinkId{1}, "a", "alpha");
  stage.coordinator.handle(t0 + 1s, Coordinator::Closed{LinkId{1}, "reset", true});
  CHECK(stage.command(t0 + 2s, of_job(OperatorCommand::Kind::forget, "a")).sentence ==
        "job \"a\" is forgotten; a new job can use its name in 2 s, when none of its workers can "
        "still be running");
  stage.coordinator.handle(t0 + 3s, Coordinator::Opened{{.link = LinkId{2}, .peer = "10.0.0.1"}});
  const auto refused = stage.coordinator.handle(
      t0 + 3s, Coordinator::Said{LinkId{2}, link::Join{.job = "a", .host = "alpha", .pid = 2}});
  CHECK(std::holds_alternative<link::Refused>(all<coordinator::Say>(refused)[0].message));
  stage.coordinator.advance(t0 + 5s);
  stage.coordinator.handle(t0 + 5s, Coordinator::Opened{{.link = LinkId{3}, .peer = "10.0.0.1"}});
  const auto begun = stage.coordinator.handle(
      t0 + 5s, Coordinator::Said{LinkId{3}, link::Join{.job = "a", .host = "alpha", .pid = 2}});
  CHECK(all<coordinator::OpenStore>(begun).size() == 1);
}

TEST_CASE("a daemon excludes a host from current and future jobs") {
  Stage stage;
  CHECK(stage.command(t0, exclude("beta")).kind == Outcome::not_now);
  CHECK(stage.command(t0, exclude("beta", 60s)) ==
        CommandResult{Outcome::done, "beta is excluded from all jobs for 60 s"});
  CHECK(std::holds_alternative<link::Refused>(
      all<coordinator::Say>(stage.join(LinkId{1}, "a", "beta"))[0].message));
  stage.join(LinkId{2}, "a", "alpha");
  CHECK(std::holds_alternative<link::Refused>(
      all<coordinator::Say>(stage.join(LinkId{3}, "a", "beta"))[0].message));
  CHECK(stage.command(t0, {.kind = OperatorCommand::Kind::include, .whom = "beta"}).is_done());
  CHECK(stage.command(t0, {.kind = OperatorCommand::Kind::include, .whom = "beta"}).kind ==
        Outcome::unknown);
}

TEST_CASE("a host may be excluded from one job alone, and included again") {
  Stage stage;
  stage.join(LinkId{1}, "a", "alpha");
  stage.join(LinkId{2}, "b", "alpha");
  OperatorCommand command = exclude("beta", 60s);
  command.job = "a";
  CHECK(
      stage.command(t0, command).sentence.starts_with("beta is excluded from job \"a\" for 60 s"));
  CHECK(stage.coordinator.excluded_hosts().empty());  // from future jobs
  OperatorCommand include{.kind = OperatorCommand::Kind::include, .job = "b", .whom = "beta"};
  CHECK(stage.command(t0, include).kind == Outcome::unknown);
  include.job = "a";
  CHECK(stage.command(t0, include).is_done());
  command.job = "c";
  CHECK(stage.command(t0, command) == CommandResult{Outcome::unknown, "unknown job \"c\""});
}

TEST_CASE("a job that cannot do without a host keeps it, but other jobs do not") {
  Stage stage;
  stage.join(LinkId{1}, "b", "beta");
  const std::string objection =
      "job \"b\": only 0 nodes would be left, but the job needs at least 1; start another node "
      "first";
  CHECK(stage.command(t0, exclude("beta")) == CommandResult{Outcome::not_now, objection});
  // Future jobs can do without it, whatever other jobs exist.
  const CommandResult alone = stage.command(t0, exclude("beta", 60s));
  CHECK(alone.is_done());
  CHECK(alone.sentence == "beta is excluded from all new jobs for 60 s; but " + objection);
  CHECK(alone.kept_by == std::vector<std::string>{"b"});
  CHECK(std::holds_alternative<link::Refused>(
      all<coordinator::Say>(stage.join(LinkId{4}, "d", "beta"))[0].message));
  stage.join(LinkId{2}, "a", "alpha");
  const CommandResult outcome = stage.command(t0, exclude("beta", 60s));
  CHECK(outcome.is_done());
  CHECK(outcome.sentence ==
        "beta is excluded from job \"a\" for 60 s; no node is on this host; this also applies to "
        "new jobs; but " +
            objection);
  CHECK(outcome.kept_by == std::vector<std::string>{"b"});
  stage.join(LinkId{3}, "c", "beta");  // rejected: the job is still in the future
  CHECK(stage.command(t0, exclude("alpha", 60s)).kind == Outcome::done);
  CHECK(stage.command(t0, exclude("gamma")).sentence ==
        "gamma is excluded from job \"a\" until the job is over; no node is on this host; this "
        "applies to all 2 jobs here");
}

TEST_CASE("a job hosted by one of its nodes cannot be transferred, and the answer has a hint") {
  Stage hosting(JobTerms{.id = "a"});
  const auto outcome = hosting.command(t0, {.kind = OperatorCommand::Kind::handover});
  CHECK(outcome.kind == CommandResult::Kind::not_now);
  CHECK(outcome.sentence.starts_with(
      "job \"a\" is hosted by one of its nodes, not by a cpprund, so it cannot be handed"));
}

}  // namespace coordinator_orders_test
