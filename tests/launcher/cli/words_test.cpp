// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/words.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("dashes and underscores, equals and space, glued letters are all the same") {
  const auto expected = good({"--nproc-per-node=2", "--redirects=3", "--module", "pkg"});
  CHECK(good({"--nproc_per_node", "2", "-r3", "-m", "pkg"}) == expected);
  CHECK(good({"--nproc_per-node=2", "-r", "3", "--module", "pkg"}) == expected);
  CHECK(good({"--nproc-per-node", "2", "-mr3", "pkg"}) == expected);
}

TEST_CASE("unique beginnings are enough, others are refused with what they could mean") {
  CHECK(good({"--redirect=3", "--nproc=2", "--stand", "x"}).local_world_size == 2);
  // A flag of ours takes nothing from torchrun's.
  CHECK(good({"--nnodes=1:3", "--master-port=1", "--standb=none", "x"}).standby == false);
  CHECK(mistakes({"--master=1", "x"}) ==
        Words{"--master could mean --master-addr or --master-port; write it out"});
  CHECK(mistakes({"--nodes=2", "x"}) ==
        Words{"unknown flag --nodes; cpprun --help lists all flags"});
}

TEST_CASE("dashes alone: dropped before the script and right after it, kept elsewhere") {
  CHECK(good({"--", "train.py", "--", "y"}).program.arguments == Words{"--", "y"});
  CHECK(good({"train.py", "--", "y"}).program.arguments == Words{"y"});
  CHECK(good({"train.py", "x", "--", "y"}).program.arguments == Words{"x", "--", "y"});
  CHECK(good({"--", "-odd-name", "y"}).program.script == "-odd-name");
}

TEST_CASE("a value may be a negative number but not another flag") {
  CHECK(mistakes({"--max-restarts", "-1", "x"}) ==
        Words{"--max-restarts=-1 is not a whole number from 0"});
  CHECK(mistakes({"--role", "--standalone", "x"}) == Words{"--role needs a value: --role=NAME"});
  CHECK(mistakes({"--standalone=1", "x"}) ==
        Words{"--standalone takes no value; leave out \"=1\""});
}
