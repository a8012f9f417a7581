// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "tests/rendezvous/etcd/election_table.h"

namespace election_check_test {

using namespace cpprun;
using namespace cpprun::test;
using test::Candidate;  // rendezvous/job has one, too

// The test table calls check() after each step, and the simulation calls it millions of times.
TEST_CASE("an election is consistent in every phase") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  CHECK_FALSE(alpha.election().check());
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  CHECK_FALSE(alpha.election().check());
  etcd.model.elect_another(etcd.now);
  alpha.pass(2s);
  alpha.tell(election::Withdraw{});
  CHECK_FALSE(alpha.election().check());
  alpha.pass(1s);
  CHECK_FALSE(alpha.election().check());
}

}  // namespace election_check_test
