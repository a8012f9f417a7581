// SPDX-License-Identifier: BSD-3-Clause
// A daemon that several people use, each with a secret.

#include <doctest/doctest.h>

#include "rendezvous/coordinator/coordinator.h"

namespace job_owners_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
const JobOptions job_options{.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7};

// The answer to the join of that owner's node.
Coordinator::Actions join(Coordinator& coordinator, std::uint64_t link, const std::string& owner) {
  coordinator.handle(
      t0, Coordinator::Opened{{.link = LinkId{link}, .peer = "10.0.0.1", .owner = owner}});
  const link::Join asks{.job = "train",
                        .host = "alpha",
                        .pid = static_cast<int>(link),
                        .nodes_min = 2,
                        .nodes_max = 2};
  return coordinator.handle(t0, Coordinator::Said{LinkId{link}, asks});
}

std::string refusal(const Coordinator::Actions& actions) {
  for (const auto& action : actions) {
    const auto* say = std::get_if<coordinator::Say>(&action);
    const auto* refused = say ? std::get_if<link::Refused>(&say->message) : nullptr;
    if (refused != nullptr) return refused->reason;
  }
  return "";
}

}  // namespace

TEST_CASE("a job can be joined only with the secret of the owner that started it") {
  Coordinator coordinator{{.only = {}, .options = job_options}};
  CHECK(coordinator.owner_of("train") == std::nullopt);
  CHECK(refusal(join(coordinator, 1, "alice")) == "");
  // While its store is being opened, and after that.
  CHECK(coordinator.owner_of("train") == "alice");
  CHECK(refusal(join(coordinator, 2, "bob")) ==
        "job id \"train\" belongs to another user; choose another --rdzv-id");
  coordinator.handle(t0, Coordinator::StoreReady{"train", 4000});
  CHECK(coordinator.owner_of("train") == "alice");
  CHECK(refusal(join(coordinator, 3, "bob")).starts_with("job id \"train\" belongs"));
  CHECK(coordinator.find("train")->round().size() == 1);
  CHECK(refusal(join(coordinator, 4, "alice")) == "");
  CHECK(coordinator.find("train")->round().size() == 2);
}

TEST_CASE("another owner cannot introduce itself as the agent of a job") {
  Coordinator coordinator{{.only = {}, .options = job_options}};
  const auto introduce = [&](std::uint64_t link, const std::string& owner,
                             const std::string& peer) {
    coordinator.handle(t0,
                       Coordinator::Opened{{.link = LinkId{link}, .peer = peer, .owner = owner}});
    coordinator.handle(
        t0,
        Coordinator::Said{
            LinkId{link},
            link::WhoHosts{.job = "train", .host = "alpha", .pid = 1, .agent = 77, .joins = true}});
  };
  const auto seat = [&](std::uint64_t link) {
    coordinator.handle(
        t0, Coordinator::Opened{{.link = LinkId{link}, .peer = "10.0.0.1", .owner = "alice"}});
    coordinator.handle(
        t0, Coordinator::Said{LinkId{link},
                              link::Join{.job = "train", .host = "alpha", .pid = 1, .agent = 77}});
  };
  introduce(1, "bob", "10.0.0.66");  // before its agent has a seat
  introduce(2, "alice", "10.0.0.2");
  seat(3);
  coordinator.handle(t0, Coordinator::StoreReady{"train", 4000});
  introduce(4, "bob", "10.0.0.67");  // and after
  CHECK(coordinator.admit("train", "10.0.0.1"));
  CHECK(coordinator.admit("train", "10.0.0.2"));
  CHECK_FALSE(coordinator.admit("train", "10.0.0.66"));
  CHECK_FALSE(coordinator.admit("train", "10.0.0.67"));
}

}  // namespace job_owners_test
