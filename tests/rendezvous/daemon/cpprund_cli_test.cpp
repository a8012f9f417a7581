// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/daemon/daemon_options.h"

#include <doctest/doctest.h>

#include <vector>

namespace cpprund_cli_test {

using namespace cpprun;

namespace {

auto parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "cpprund");
  return parse_daemon_options(static_cast<int>(arguments.size()), arguments.data(), "1.2.3");
}

CommandLineEnd end_of(std::vector<const char*> arguments) {
  const auto parsed = parse(std::move(arguments));
  REQUIRE(std::holds_alternative<CommandLineEnd>(parsed));
  return std::get<CommandLineEnd>(parsed);
}

}  // namespace

TEST_CASE("without flags the daemon listens everywhere on torchrun's port") {
  const auto parsed = parse({});
  REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
  const auto& options = std::get<DaemonOptions>(parsed);
  CHECK(options.host.empty());
  CHECK(options.port == 29400);
  CHECK_FALSE(options.is_quiet);
  CHECK(options.dialect == c10d::Dialect::undecided);
}

TEST_CASE("the man page and the completions list the declared flags") {
  const auto page = end_of({"--print-man"});
  CHECK(page.exit_code == 0);
  CHECK(page.text.find("\"cpprund 1.2.3\"") != std::string::npos);
  CHECK(page.text.find("\\fB\\-\\-port\\fR \\fIN\\fR\n") != std::string::npos);
  CHECK(page.text.find("\\fB\\-\\-no\\-sandbox\\fR\n") != std::string::npos);
  CHECK(page.text.find("One of 1.x, 2.1, 2.2+, auto. Default: auto.") != std::string::npos);
  const auto completion = end_of({"--print-completion", "bash"});
  CHECK(completion.text.find("--status-access) found=(none user host network)") !=
        std::string::npos);
  CHECK(end_of({"--print-completion", "ksh"}).exit_code == 2);
}

TEST_CASE("every flag reaches the options") {
  const auto parsed = parse({"--host", "::1", "--port=0", "--verbose", "--store-dialect", "1.x"});
  REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
  const auto& options = std::get<DaemonOptions>(parsed);
  CHECK(options.host == "::1");
  CHECK(options.port == 0);
  CHECK(options.log_level == LogLevel::debug);
  CHECK(options.dialect == c10d::Dialect::a);
}

TEST_CASE("--state-sync requires --state") {
  const auto parsed = parse({"--state=/s", "--state-sync"});
  REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
  CHECK(std::get<DaemonOptions>(parsed).state_is_synced);
  CHECK_FALSE(std::get<DaemonOptions>(parse({"--state=/s"})).state_is_synced);
  const auto alone = end_of({"--state-sync"});
  CHECK(alone.exit_code == 2);
  CHECK(alone.text.find("--state-sync requires --state") != std::string::npos);
}

TEST_CASE("jobs are kept on disk or in a cluster, and a removed flag names its replacement") {
  const auto both = end_of({"--etcd=http://a:2379", "--state=/s"});
  CHECK(both.exit_code == 2);
  CHECK(both.text.find("--etcd and --state cannot be used together") != std::string::npos);
  CHECK(both.text.find("\n  hint: omit --state") != std::string::npos);
  for (const auto& words : {std::vector<const char*>{"--standby-of", "a:29400"},
                            std::vector<const char*>{"--etcd=http://a:2379", "--standby-of=a"}}) {
    const auto gone = end_of(words);
    CHECK(gone.exit_code == 2);
    CHECK(gone.text.starts_with("cpprund: error: --standby-of was removed"));
    CHECK(
        gone.text.find("\n  hint: for a planned restart, run a single cpprund with --state; for "
                       "several cpprunds, start all of them with the same --etcd and --cluster") !=
        std::string::npos);
  }
}

TEST_CASE("limits for clients can be set within bounds") {
  const auto parsed = parse(
      {"--max-jobs=5", "--max-jobs-per-address=2", "--max-links-per-address=9", "--max-lease=30"});
  REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
  const auto& options = std::get<DaemonOptions>(parsed);
  CHECK(options.jobs_max == 5);
  CHECK(options.jobs_per_address_max == 2);
  CHECK(options.links_per_address_max == 9);
  CHECK(options.lease_max == std::chrono::seconds(30));
  CHECK(end_of({"--max-jobs=0"}).exit_code == 2);
  CHECK(end_of({"--max-lease=0"}).text.find("--max-lease") != std::string::npos);
  CHECK(end_of({"--max-lease=9999999999"}).exit_code == 2);
}

TEST_CASE("the limit of jobs per address follows --max-jobs") {
  const auto share = [](const std::vector<const char*>& arguments) {
    const auto parsed = parse(arguments);
    REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
    return std::get<DaemonOptions>(parsed).jobs_per_address_max;
  };
  CHECK(share({}) == 256);
  CHECK(share({"--max-jobs=9000"}) == 256);
  CHECK(share({"--max-jobs=100"}) == 25);
  CHECK(share({"--max-jobs=4"}) == 8);
  CHECK(share({"--max-jobs=100", "--max-jobs-per-address=100"}) == 100);
}

TEST_CASE("an invalid flag exits with 2 and is named in the error") {
  CHECK(end_of({"--port", "70000"}).exit_code == 2);
  CHECK(end_of({"--port", "70000"}).text.find("--port") != std::string::npos);
  CHECK(end_of({"--prot", "1"}).exit_code == 2);
  CHECK(end_of({"--prot", "1"}).text.find("--prot") != std::string::npos);
  CHECK(end_of({"--store-dialect", "3"}).exit_code == 2);
  CHECK(end_of({"--quiet", "--verbose"}).exit_code == 2);
}

TEST_CASE("no flag accepts an empty value or a number that is not decimal") {
  for (const char* flag : {"--host", "--port", "--state", "--etcd", "--name", "--secret-file",
                           "--max-memory", "--max-jobs", "--log-level", "--advertise"}) {
    CAPTURE(flag);
    const auto refused = end_of({flag, ""});
    CHECK(refused.exit_code == 2);
    CHECK(refused.text.starts_with(std::string("cpprund: error: ") + flag + ": empty value\n"));
  }
  for (const char* wrong : {"-1", "0x10", "18446744073709551616", "1e3", "+5", ""}) {
    CAPTURE(wrong);
    for (const char* flag : {"--port", "--max-jobs", "--max-keys-per-address", "--max-lease",
                             "--max-connections-per-address", "--max-memory"}) {
      CAPTURE(flag);
      const auto refused = end_of({flag, wrong});
      CHECK(refused.exit_code == 2);
      CHECK(refused.text.size() < 200);
    }
  }
  CHECK(std::get<DaemonOptions>(parse({"--port", "029400"})).port == 29400);
}

TEST_CASE("the log level comes from its flag, then the environment, then defaults to info") {
  const auto level = [](std::vector<const char*> arguments, const Environment& environment) {
    arguments.insert(arguments.begin(), "cpprund");
    const auto parsed = parse_daemon_options(static_cast<int>(arguments.size()), arguments.data(),
                                             "1.2.3", environment);
    REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
    return std::get<DaemonOptions>(parsed).log_level;
  };
  const Environment error{{"CPPRUN_LOG_LEVEL", "error"}};
  CHECK(level({}, {}) == LogLevel::info);
  CHECK(level({}, {{"CPPRUN_LOG_LEVEL", ""}}) == LogLevel::info);
  CHECK(level({}, error) == LogLevel::error);
  CHECK(level({"--log-level", "warning"}, error) == LogLevel::warning);
  CHECK(level({"--verbose"}, error) == LogLevel::debug);
  CHECK(end_of({"--log-level", "loud"}).exit_code == 2);
  CHECK(end_of({"--verbose", "--log-level", "info"}).exit_code == 2);
  const char* none[] = {"cpprund"};
  const auto wrong = parse_daemon_options(1, none, "1.2.3", {{"CPPRUN_LOG_LEVEL", "loud"}});
  REQUIRE(std::holds_alternative<CommandLineEnd>(wrong));
  CHECK(std::get<CommandLineEnd>(wrong).exit_code == 2);
  CHECK(std::get<CommandLineEnd>(wrong).text ==
        "cpprund: error: CPPRUN_LOG_LEVEL=loud is not a log level\n  hint: use error, warning, "
        "info or debug\n");
}

TEST_CASE("--no-plain-store disables the plain store") {
  CHECK(std::get<DaemonOptions>(parse({})).has_plain_store);
  CHECK_FALSE(std::get<DaemonOptions>(parse({"--no-plain-store"})).has_plain_store);
}

TEST_CASE("the sandbox is on by default") {
  CHECK(std::get<DaemonOptions>(parse({})).has_sandbox);
  CHECK_FALSE(std::get<DaemonOptions>(parse({"--no-sandbox"})).has_sandbox);
}

TEST_CASE("the options record whether an address was given") {
  CHECK_FALSE(std::get<DaemonOptions>(parse({})).names_address);
  CHECK(std::get<DaemonOptions>(parse({"--port", "29400"})).names_address);
  CHECK(std::get<DaemonOptions>(parse({"--host", "::1"})).names_address);
}

TEST_CASE("--version prints the program and the version and exits with 0") {
  CHECK(end_of({"--version"}).exit_code == 0);
  CHECK(end_of({"--version"}).text == "cpprund 1.2.3\n");
}

TEST_CASE("--help exits with 0") {
  CHECK(end_of({"--help"}).exit_code == 0);
  CHECK(end_of({"--help"}).text.find("--port") != std::string::npos);
}

TEST_CASE("sizes accept units, and an invalid size is rejected") {
  const auto parsed = parse({"--max-memory", "2GiB", "--max-memory-per-address=512MiB",
                             "--max-keys-per-address", "1000", "--max-connections-per-address=64"});
  REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
  const auto& options = std::get<DaemonOptions>(parsed);
  CHECK(options.memory_bytes_max == 2ULL * 1024 * 1024 * 1024);
  CHECK(options.address_bytes_max == 512ULL * 1024 * 1024);
  CHECK(options.address_keys_max == 1000);
  CHECK(options.address_connections_max == 64);
  CHECK(end_of({"--max-memory", "much"}).exit_code == 2);
  CHECK(end_of({"--max-memory", "much"}).text.find("--max-memory") != std::string::npos);
  CHECK(end_of({"--max-keys-per-address", "0"}).exit_code == 2);
}

TEST_CASE("without flags the default limits apply and memory is unlimited") {
  const auto parsed = parse({});
  REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
  const auto& options = std::get<DaemonOptions>(parsed);
  CHECK(options.memory_bytes_max == 0);
  CHECK(options.address_bytes_max == 0);
  CHECK(options.address_keys_max == bounds::store_address_keys_max);
  CHECK(options.address_connections_max == bounds::store_address_connections_max);
}

TEST_CASE("--status-access accepts only its listed values") {
  CHECK(std::get<DaemonOptions>(parse({})).status_access == StatusAccess::user);
  CHECK(std::get<DaemonOptions>(parse({"--status-access=host"})).status_access ==
        StatusAccess::host);
  CHECK(end_of({"--status-access=all"}).exit_code == 2);
}

TEST_CASE("--secrets and --secret-file are mutually exclusive") {
  const auto of = [](const std::vector<const char*>& arguments) {
    const auto parsed = parse(arguments);
    REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
    return std::get<DaemonOptions>(parsed);
  };
  CHECK(of({}).secrets_directory.empty());
  CHECK(of({}).secret_file.empty());
  CHECK(of({"--secrets", "/s"}).secrets_directory == "/s");
  CHECK(of({"--secret-file=/f"}).secret_file == "/f");
  CHECK(end_of({"--secrets=/s", "--secret-file=/f"}).exit_code == 2);
  CHECK(end_of({"--secrets="}).exit_code == 2);
}

TEST_CASE("a daemon finds its secret in the same places as cpprun") {
  const auto of = [](std::vector<const char*> arguments, const Environment& environment) {
    arguments.insert(arguments.begin(), "cpprund");
    const auto parsed = parse_daemon_options(static_cast<int>(arguments.size()), arguments.data(),
                                             "1.2.3", environment);
    REQUIRE(std::holds_alternative<DaemonOptions>(parsed));
    return std::get<DaemonOptions>(parsed);
  };
  const Environment both{{"CPPRUN_SECRET_FILE", "/v"}, {"HOME", "/h"}};
  CHECK(of({}, both).secret_file == "/v");
  CHECK(of({"--secret-file=/f"}, both).secret_file == "/f");
  CHECK(of({"--secrets=/s"}, both).secret_file.empty());
  CHECK(of({"--secrets=/s"}, {{"HOME", "/h"}}).own_secret_file.empty());
  // The user's own secret file may be missing.
  const auto own = of({}, {{"HOME", "/h"}});
  CHECK(own.secret_file.empty());
  CHECK_FALSE(own.has_secrets());
  CHECK(own.own_secret_file == "/h/.config/cpprun/secret");
  const auto none = of({"--no-secret"}, both);
  CHECK_FALSE(none.has_secrets());
  CHECK(none.own_secret_file.empty());
  CHECK(end_of({"--no-secret", "--secret-file=/f"}).exit_code == 2);
  CHECK(of({}, {{"CPPRUN_REQUIRE_SECRET", "1"}}).requires_secret);
  CHECK_FALSE(of({}, {{"CPPRUN_REQUIRE_SECRET", "0"}}).requires_secret);
}

}  // namespace cpprund_cli_test
