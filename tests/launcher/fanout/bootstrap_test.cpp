// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/bootstrap.h"

#include <doctest/doctest.h>

namespace bootstrap_test {

using namespace cpprun::fanout;

namespace {

const OwnBinary own = {"0.1.0 (commit abc)", "/it's here/cpprun"};

std::string refusal(std::string_view line) {
  const auto answer = read_bootstrap_answer(line, own);
  REQUIRE(answer);
  return std::get<ShellRefuses>(*answer).reason;
}

}  // namespace

TEST_CASE("the script quotes the path and the version for any shell, and is one group") {
  const auto script = bootstrap_script(own);
  CHECK(script.find("'/it'\\''s here/cpprun'") != script.npos);
  CHECK(script.find("'cpprun 0.1.0 (commit abc)'") != script.npos);
  CHECK(script.starts_with("{ "));
  CHECK(script.ends_with("; }\n"));
  CHECK(script.find('\n') == script.size() - 1);
}

TEST_CASE("the binary is requested only if it is to be shipped") {
  CHECK(bootstrap_script(own).find("head -c") == std::string::npos);
  auto shipped = own;
  shipped.sha256 = "feed";
  shipped.bytes = 17;
  CHECK(bootstrap_script(shipped).find("head -c 17 ") != std::string::npos);
  CHECK(bootstrap_script(shipped).find(" = feed ]") != std::string::npos);
}

TEST_CASE("answers are distinguished from login banners") {
  CHECK(!read_bootstrap_answer("Welcome to gpu1", own));
  CHECK(!read_bootstrap_answer("", own));
  CHECK(std::holds_alternative<ShellIsReady>(*read_bootstrap_answer("cpprun-fanout ready", own)));
  CHECK(std::holds_alternative<BinaryWanted>(*read_bootstrap_answer("cpprun-fanout send", own)));
  CHECK(refusal("cpprun-fanout none") ==
        "no cpprun at /it's here/cpprun or on PATH; install it there, or use --ship");
  CHECK(refusal("cpprun-fanout other cpprun 0.0.9") ==
        "another cpprun is installed (cpprun 0.0.9), but this machine has 0.1.0 (commit abc); "
        "install the same version, or use --ship");
}

TEST_CASE("another program of the package is looked up by its own name") {
  const OwnBinary tool{.version = "0.1.0", .path = "/bin/cpprunctl", .program = "cpprunctl"};
  const auto script = bootstrap_script(tool);
  CHECK(script.find("'cpprunctl 0.1.0'") != script.npos);
  CHECK(script.find("command -v cpprunctl)") != script.npos);
  const auto answer = read_bootstrap_answer("cpprun-fanout none", tool);
  REQUIRE(answer);
  CHECK(std::get<ShellRefuses>(*answer).reason.starts_with(
      "no cpprunctl at /bin/cpprunctl or on PATH"));
}

}  // namespace bootstrap_test
