// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace log_settings_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("the log settings are a directory, none, a filter or a template") {
  const auto config = good({"--log-dir=/logs", "-t", "1:3", "--local-ranks-filter=0,2", "x"},
                           {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}: "}});
  CHECK(config.logs.root == "/logs");
  CHECK(config.logs.tee.of(1) == StreamChoice{true, true});
  CHECK(config.logs.console_ranks == std::vector<int>{0, 2});
  CHECK(config.logs.prefix_template == "${rank}: ");
  CHECK(good({"--log-line-prefix-template=${hostname} ", "x"},
             {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}: "}})
            .logs.prefix_template == "${hostname} ");
  CHECK(good({"x"}, {{"PET_LOG_LINE_PREFIX_TEMPLATE", "${role_name} "},
                     {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}: "}})
            .logs.prefix_template == "${role_name} ");
  CHECK(good({"--log-line-prefix-template=", "x"}).logs.prefix_template == std::nullopt);
  CHECK(good({"--log-dir=/dev/null", "x"}).logs.disabled);
  CHECK(diagnostics({"--local-ranks-filter=a", "x"}).size() == 1);
}

TEST_CASE("duplicate filters are separated by commas, and two commas are one") {
  const auto logs = good({"--tee=3", "--duplicate-stdout-filters=apple,a,,b,",
                          "--duplicate_stderr_filters=", "x"})
                        .logs;
  CHECK(logs.duplicate_out == Words{"apple", "a,b"});
  CHECK(logs.duplicate_err.empty());
}

TEST_CASE("duplicate filters are noted when no stream feeds them, or no file takes them") {
  CHECK(good({"-t", "0:1", "--duplicate-stderr-filters=a", "x"}).notes ==
        Words{"--duplicate-stderr-filters has no effect: it applies only to streams that --tee "
              "selects"});
  CHECK(diagnostics({"-t", "1", "--log-dir=/dev/null", "--duplicate-stdout-filters=a", "x"}) ==
        Words{"--duplicate-stdout-filters writes to a file, but --log-dir=/dev/null disables log "
              "files"});
}

TEST_CASE("stderr passes through cpprun unless it is inherited") {
  CHECK_FALSE(good({"x"}).logs.stderr_inherited);
  CHECK_FALSE(good({"--stderr=pass", "x"}).logs.stderr_inherited);
  CHECK(good({"--stderr=inherit", "x"}).logs.stderr_inherited);
  CHECK(good({"x"}, {{"PET_STDERR", "inherit"}}).logs.stderr_inherited);
  CHECK(diagnostics({"--stderr=tee", "x"})
            .front()
            .starts_with("--stderr=tee is invalid; expected pass ("));
}

TEST_CASE("logs are limited in attempts and in bytes, with an optional unit") {
  const auto logs = good({"--log-keep=5", "--log-max-bytes=64M", "x"}).logs;
  CHECK(logs.attempts_kept == 5);
  CHECK(logs.file_bytes_max == 64ULL << 20U);
  CHECK(good({"--log-max-bytes=5000", "x"}).logs.file_bytes_max == 5000);
  CHECK(good({"--log-max-bytes= 2T ", "x"}).logs.file_bytes_max == 2ULL << 40U);
  CHECK(diagnostics({"--log-keep=0", "x"}).size() == 1);
  for (const char* wrong : {"1", "64X", "M", "-5K", ""}) {
    CHECK(diagnostics({std::string("--log-max-bytes=") + wrong, "x"}).size() == 1);
  }
}

TEST_CASE("the log level comes from its flag, else from the environment") {
  CHECK(good({"x"}).logs.level == LogLevel::info);
  CHECK(good({"x"}, {{"CPPRUN_LOG_LEVEL", "debug"}}).logs.level == LogLevel::debug);
  CHECK(good({"x"}, {{"CPPRUN_LOG_LEVEL", ""}}).logs.level == LogLevel::info);
  CHECK(good({"--log-level=error", "x"}, {{"CPPRUN_LOG_LEVEL", "debug"}}).logs.level ==
        LogLevel::error);
  CHECK(diagnostics({"--log-level", "loud", "x"}) ==
        Words{"--log-level=loud is not a log level\n  hint: use error, warning, info or debug"});
  CHECK(
      diagnostics({"x"}, {{"CPPRUN_LOG_LEVEL", "loud"}}) ==
      Words{"CPPRUN_LOG_LEVEL=loud is not a log level\n  hint: use error, warning, info or debug"});
}

TEST_CASE("lines have a time if it is requested, or by default when stderr is no terminal") {
  CHECK(good({"x"}).logs.times == LogTimes::automatic);
  CHECK(good({"--log-time=auto", "x"}).logs.times == LogTimes::automatic);
  CHECK(good({"--log-time", "always", "x"}).logs.times == LogTimes::always);
  CHECK(good({"x"}, {{"PET_LOG_TIME", "never"}}).logs.times == LogTimes::never);
  CHECK(diagnostics({"--log-time=now", "x"}) ==
        Words{"--log-time=now is not one of auto, always, never"});
}

TEST_CASE("the report and the events cannot have the same file") {
  CHECK(diagnostics({"--report=a", "--events=./a", "x"}) ==
        Words{"--events=./a is also the file of --report\n  hint: use two files"});
  CHECK(good({"--report=a", "--events=b", "x"}).logs.events_file == "b");
  CHECK(good({"--report=/dev/stderr", "--events=/dev/stderr", "x"}).logs.events_file ==
        "/dev/stderr");
}

TEST_CASE("events go to the console only by torchrun's name for it") {
  CHECK(good({"--event-log-handler=console", "--events=e", "x"}).logs.events_on_console);
  CHECK(good({"x"}, {{"PET_EVENT_LOG_HANDLER", "console"}}).logs.events_on_console);
  for (const char* nothing : {"null", "dynamic_rendezvous"}) {
    CHECK_FALSE(good({"--event-log-handler", nothing, "x"}).logs.events_on_console);
  }
  CHECK_FALSE(good({"x"}).logs.events_on_console);
  CHECK(diagnostics({"--event-log-handler=mine", "x"}) ==
        Words{"--event-log-handler=mine is not supported; expected console (events on stderr) or "
              "null (no events)\n  hint: use --events=FILE to write events to a file"});
}

}  // namespace log_settings_test
