// SPDX-License-Identifier: BSD-3-Clause
// Nodes that join and leave: torchrun's c10d command lines, spares, ranges of nodes, and jobs that
// meet at a cpprund.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/command.h"

namespace membership_test {

using namespace cpprun::integration;

namespace {

// A job that meets at an endpoint; any number of agents on this machine.
struct Meeting {
  std::string endpoint = "localhost:" + std::to_string(free_port());
  std::string nodes = "2";
  std::string id = "meeting";
  // A short lease and settle window: the tests wait for them to pass.
  std::string timeout = "keep_alive_interval=1,keep_alive_max_attempt=1,last_call_timeout=1";

  Words agent(const Words& actions) const {
    Words words = {"--nnodes=" + nodes, "--rdzv-backend=c10d",    "--rdzv-endpoint=" + endpoint,
                   "--rdzv-id=" + id,   "--rdzv-conf=" + timeout, worker()};
    words.insert(words.end(), actions.begin(), actions.end());
    return with_cpprun(words);
  }
};

const Words stay = {"say", "here", "hang"};

}  // namespace

TEST_CASE("two agents meet at an endpoint: the first hosts, the second finds the port in use") {
  const Meeting meeting;
  Command first(meeting.agent({"environment"}));
  Command second(meeting.agent({"environment"}));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK(of_first.code == 0);
  CHECK(of_second.code == 0);
  CHECK(contains(of_first.out, "\nWORLD_SIZE=2\n"));
  CHECK(contains(of_second.out, "\nWORLD_SIZE=2\n"));
  CHECK(contains(of_first.out + of_second.out, "\nRANK=0\n"));
  CHECK(contains(of_first.out + of_second.out, "\nRANK=1\n"));
  CHECK(contains(of_second.out, "\nTORCHELASTIC_RUN_ID=meeting\n"));
}

TEST_CASE("a third agent of a job for two is a spare, and takes the seat of a killed one") {
  const Meeting meeting;
  Command first(meeting.agent(stay));
  first.expect_err("cpprun");  // it has started, so it is the host
  Command second(meeting.agent(stay));
  first.expect_out("here\n");
  second.expect_out("here\n");
  Command spare(meeting.agent(stay));
  spare.expect_err("this node is a spare");
  second.signal(SIGKILL);
  spare.expect_out("here\n");
  first.expect_out("here\nhere\n");
  second.expect_no_process_left();
  first.signal(SIGTERM);
  CHECK(first.wait().code == 143);
  CHECK(spare.wait().code == 143);
  spare.expect_no_worker_left();
}

TEST_CASE("a job for one to two nodes starts with one, grows with a second, and shrinks to one") {
  Meeting meeting;
  meeting.nodes = "1:2";
  Command first(meeting.agent(stay));
  first.expect_out("here\n");
  Command second(meeting.agent(stay));
  second.expect_out("here\n");
  first.expect_out("here\nhere\n");
  first.expect_err("1 more node joined");
  second.signal(SIGTERM);
  CHECK(second.wait().code == 143);
  first.expect_out("here\nhere\nhere\n");
  first.signal(SIGTERM);
  CHECK(first.wait().code == 143);
  first.expect_no_worker_left();
}

TEST_CASE("changes of membership do not use the restart budget") {
  Meeting meeting;
  meeting.nodes = "1:2";
  Command first(meeting.agent({"environment", "say", "here", "hang"}));
  first.expect_out("here\n");
  Command second(meeting.agent({"say", "here", "hang"}));
  second.expect_out("here\n");
  first.expect_out("\nWORLD_SIZE=2\n");
  first.signal(SIGTERM);
  const auto ended = first.wait();
  CHECK(second.wait().code == 143);
  CHECK(count(ended.out, "\nTORCHELASTIC_RESTART_COUNT=0\n") == 2);
}

TEST_CASE("two jobs meet at one cpprund, each with a store of its own; both are forgotten") {
  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=0"});
  daemon.expect_out("\n");
  const auto colon = daemon.out().rfind(':');
  Meeting one;
  one.endpoint = "127.0.0.1:" + daemon.out().substr(colon + 1, daemon.out().size() - colon - 2);
  Meeting other = one;
  other.id = "other";
  Command a(one.agent({"environment"}));
  Command b(other.agent({"environment"}));
  Command c(one.agent({"environment"}));
  Command d(other.agent({"environment"}));
  const auto of_a = a.wait();
  const auto of_b = b.wait();
  CHECK(of_a.code == 0);
  CHECK(of_b.code == 0);
  CHECK(c.wait().code == 0);
  CHECK(d.wait().code == 0);
  const auto port_of = [](const std::string& out) {
    const auto at = out.find("\nMASTER_PORT=");
    return out.substr(at, out.find('\n', at + 1) - at);
  };
  CHECK(port_of(of_a.out) != port_of(of_b.out));
  daemon.expect_err("job \"meeting\" is over");
  daemon.expect_err("job \"other\" is over");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

}  // namespace membership_test
