// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/probe.h"

#include <doctest/doctest.h>

#include <string>

#include "proto/worker_contract.h"

namespace probe_test {

using namespace cpprun;

TEST_CASE("the probe's directory comes before the user's PYTHONPATH") {
  const std::string path = "PYTHONPATH";
  const std::string name(contract::probe_socket);
  Environment variables;
  hang::add_probe(variables, {}, "/run/p", "/run/p/w0");
  CHECK(variables == Environment{{path, "/run/p"}, {name, "/run/p/w0"}});
  variables = {};
  hang::add_probe(variables, {{path, "/a:/b"}}, "/run/p", "/run/p/w0");
  CHECK(variables[path] == "/run/p:/a:/b");
  variables = {{path, "/own"}};
  hang::add_probe(variables, {{path, "/a:/b"}}, "/run/p", "/run/p/w0");
  CHECK(variables[path] == "/run/p:/own");
}

TEST_CASE("a path that is too long for a socket is rejected") {
  CHECK(hang::probe_socket("/run/p", LocalRank{3}).value() == "/run/p/w3");
  CHECK_FALSE(hang::probe_socket(std::string(105, 'x'), LocalRank{3}).has_value());
  CHECK(hang::probe_socket(std::string(104, 'x'), LocalRank{3}).has_value());
}

TEST_CASE("a Python with the probe handles the signal for its stack") {
  const std::string handled =
      "faulthandler.register(" + std::to_string(hang::stack_dump_signal) + ", file=2)";
  CHECK(hang::probe_source.find(handled) != std::string_view::npos);
}

}  // namespace probe_test
