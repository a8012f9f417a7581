// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace words_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("dashes and underscores, equals signs and spaces, and glued letters are equivalent") {
  const auto expected = good({"--nproc-per-node=2", "--redirects=3", "--module", "pkg"});
  CHECK(good({"--nproc_per_node", "2", "-r3", "-m", "pkg"}) == expected);
  CHECK(good({"--nproc_per-node=2", "-r", "3", "--module", "pkg"}) == expected);
  CHECK(good({"--nproc-per-node", "2", "-mr3", "pkg"}) == expected);
}

TEST_CASE("unique prefixes are accepted, others are rejected with the candidates") {
  CHECK(good({"--redirect=3", "--nproc=2", "--stand", "x"}).local_world_size == 2);
  // A flag of cpprun takes no prefix from torchrun's.
  CHECK(good({"--nnodes=1:3", "--master-port=1", "--standb=none", "x"}).standby == false);
  CHECK(diagnostics({"--master=1", "x"}) ==
        Words{"--master is ambiguous: --master-addr or --master-port\n  hint: use the full name"});
  CHECK(diagnostics({"--nodes=2", "x"}) ==
        Words{"unknown flag --nodes\n  hint: did you mean --nnodes?"});
}

TEST_CASE("a lone -- is dropped before the script and right after it, and kept elsewhere") {
  CHECK(good({"--", "train.py", "--", "y"}).program.arguments == Words{"--", "y"});
  CHECK(good({"train.py", "--", "y"}).program.arguments == Words{"y"});
  CHECK(good({"train.py", "x", "--", "y"}).program.arguments == Words{"x", "--", "y"});
  CHECK(good({"--", "-odd-name", "y"}).program.script == "-odd-name");
}

TEST_CASE("a value may be a negative number but not another flag") {
  CHECK(diagnostics({"--max-restarts", "-1", "x"}) ==
        Words{"--max-restarts=-1 is not a whole number of at least 0"});
  CHECK(diagnostics({"--role", "--standalone", "x"}) == Words{"--role needs a value: --role=NAME"});
  CHECK(diagnostics({"--standalone=1", "x"}) ==
        Words{"--standalone takes no value\n  hint: remove \"=1\""});
}

TEST_CASE("an unknown flag gets one suggestion if a flag is similar") {
  CHECK(diagnostics({"--nproc-per-nods=2", "x"}) ==
        Words{"unknown flag --nproc-per-nods\n  hint: did you mean --nproc-per-node?"});
  CHECK(diagnostics({"--Nproc_per_node", "x"}).front() ==
        "unknown flag --Nproc_per_node\n  hint: did you mean --nproc-per-node?");
  CHECK(diagnostics({"--frobnicate", "x"}) ==
        Words{"unknown flag --frobnicate\n  hint: cpprun --help all lists the flags"});
  // Its value is not taken for the script.
  CHECK(diagnostics({"--nporc-per-node", "2", "--lr=1"}) ==
        Words{"unknown flag --nporc-per-node\n  hint: did you mean --nproc-per-node?",
              "unknown flag --lr\n  hint: cpprun --help all lists the flags",
              "no script given\n  hint: add the script after the flags"});
}

TEST_CASE("a flag of the launcher after the script gets a note") {
  CHECK(good({"train.py", "--nproc-per-node=4", "--lr=1"}).notes ==
        Words{"--nproc-per-node=4 comes after train.py, so it is passed to the script"});
  CHECK(good({"train.py", "--nproc_per_node", "4"}).notes ==
        Words{"--nproc_per_node comes after train.py, so it is passed to the script"});
  // Scripts have these as well, or the launcher got it too, or it is not a full name.
  CHECK(good({"train.py", "--config=x", "--log-dir", "y", "--role=z"}).notes.empty());
  CHECK(good({"--nnodes=1", "train.py", "--nnodes=1"}).notes.empty());
  CHECK(good({"train.py", "--nproc=4", "--", "nnodes"}).notes.empty());
}

TEST_CASE("a flag that took the script as its value is named") {
  CHECK(diagnostics({"--role", "train.py"}) ==
        Words{"no script given: --role took \"train.py\" as its value\n  hint: write --role=NAME "
              "and then the script"});
  CHECK(diagnostics({"--nproc-per-node", "train.py", "--role=a"})
            .back()
            .starts_with("no script given: --nproc-per-node took \"train.py\" as its value"));
  CHECK(diagnostics({"--role=train.py"}) ==
        Words{"no script given\n  hint: add the script after the flags"});
}

}  // namespace words_test
