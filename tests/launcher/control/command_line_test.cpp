// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_line.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

namespace command_line_test {

using namespace cpprun;

namespace {

std::variant<ControlOptions, CommandLineEnd> read(std::initializer_list<const char*> words) {
  std::vector<const char*> argv{"cpprunctl"};
  argv.insert(argv.end(), words);
  return read_control_line(static_cast<int>(argv.size()), argv.data(), "1.2.3");
}

ControlOptions options(std::initializer_list<const char*> words) {
  const auto outcome = read(words);
  REQUIRE(std::holds_alternative<ControlOptions>(outcome));
  return std::get<ControlOptions>(outcome);
}

CommandLineEnd end(std::initializer_list<const char*> words) {
  const auto outcome = read(words);
  REQUIRE(std::holds_alternative<CommandLineEnd>(outcome));
  return std::get<CommandLineEnd>(outcome);
}

}  // namespace

TEST_CASE("each command is parsed with its arguments") {
  CHECK(options({"ls"}).kind == CommandKind::list);
  CHECK(options({"list"}).kind == CommandKind::list);
  CHECK(options({"ls", "--names"}).names_alone);
  CHECK(options({"status", "a"}).job == "a");
  CHECK(options({"top"}).job.empty());
  CHECK(options({"events", "-f", "a"}).follows);
  CHECK(options({"report", "a"}).kind == CommandKind::report);
  CHECK(options({"wait"}).kind == CommandKind::wait);
  CHECK(options({"stop", "a", "--reason", "tired"}).reason == "tired");
  CHECK(options({"restart", "a"}).kind == CommandKind::restart);
  CHECK(options({"save", "a", "--signal=SIGUSR2"}).signal == "SIGUSR2");
  CHECK(options({"forget", "a"}).kind == CommandKind::forget);
  CHECK(options({"handover"}).kind == CommandKind::handover);
  CHECK(options({"handover", "--reason=upgrade", "--address=h"}).reason == "upgrade");
  const auto drained = options({"drain", "node-7", "--job=a", "--reason=ECC"});
  CHECK(drained.subject == "node-7");
  CHECK(drained.job == "a");
  CHECK(options({"exclude", "h", "--for", "2h"}).for_seconds == 7200);
  CHECK(options({"exclude", "h", "--job=a"}).job == "a");
  CHECK(options({"include", "h", "--all"}).to_all);
  CHECK_FALSE(options({"include", "h"}).to_all);
  CHECK(options({"include", "h"}).kind == CommandKind::include);
}

TEST_CASE("view takes a report and an output file, and rejects --json") {
  const auto view = options({"view", "report.json", "-o", "a.html"});
  CHECK(view.kind == CommandKind::view);
  CHECK(view.subject == "report.json");
  CHECK(view.output == "a.html");
  CHECK(end({"view"}).exit_code == control_code::misuse);
  CHECK(end({"view", "report.json", "--json"}).exit_code == control_code::misuse);
}

TEST_CASE("the doctor takes hosts and a remote shell") {
  const auto parsed = options({"doctor", "--hosts", "a,b", "--remote-shell", "rsh {host}", "--port",
                               "29500", "--ship", "--json"});
  CHECK(parsed.kind == CommandKind::doctor);
  CHECK(parsed.doctor.hosts == "a,b");
  CHECK(parsed.doctor.remote_shell == "rsh {host}");
  CHECK(parsed.doctor.port == 29500);
  CHECK(parsed.doctor.ship);
  CHECK(parsed.as_json);
  CHECK_FALSE(options({"doctor"}).doctor.hosts);
}

TEST_CASE("a doctor without hosts, or with hosts given twice, is rejected") {
  for (const auto& words : {std::initializer_list<const char*>{"doctor", "--ship"},
                            {"doctor", "--remote-shell=rsh"},
                            {"doctor", "--hosts=a", "--hostfile=b"},
                            {"doctor", "--port=x"}}) {
    CHECK(end(words).exit_code == control_code::misuse);
  }
}

TEST_CASE("flags that all commands share may stand before or after the command") {
  CHECK(options({"--json", "ls"}).as_json);
  CHECK(options({"ls", "--json"}).as_json);
  CHECK(options({"ls", "--all-users"}).of_all_users);
  CHECK(options({"ls", "--address", "[::1]:77"}).address == Endpoint{"::1", 77});
  CHECK(options({"ls", "--address", "head"}).address == Endpoint{"head", 29400});
}

TEST_CASE("misuse is rejected with a sentence and exit code 2") {
  CHECK(end({}).exit_code == control_code::misuse);
  CHECK(end({"lss"}).exit_code == control_code::misuse);
  CHECK(end({"drain"}).text.find("NODE|HOST is required") != std::string::npos);
  CHECK(end({"exclude", "h", "--all", "--job=a"}).text.find("--all and --job exclude each other") !=
        std::string::npos);
  CHECK(end({"exclude", "h", "--for=soon"}).text.find("--for: \"soon\" is not a duration") !=
        std::string::npos);
  CHECK(end({"ls", "--address=h:x"}).text.starts_with("cpprunctl: error: --address: "));
  CHECK(end({"ls", "--address=h:0"}).text ==
        "cpprunctl: error: --address: port \"0\" is not a number from 1 to 65535\n");
}

TEST_CASE("an empty value is rejected, unlike a missing one") {
  for (const auto& words : {std::initializer_list<const char*>{"stop", ""},
                            {"wait", ""},
                            {"--address", "", "ls"},
                            {"--address=", "ls"},
                            {"token", "--order", "--job", ""},
                            {"drain", ""},
                            {"drain", "n", "--job="},
                            {"keygen", ""},
                            {"keygen", "--id="},
                            {"doctor", "--hosts", ""},
                            {"policy", "simulate", "", "--trace=t"},
                            {"stop", "a", "--reason", ""},
                            {"--secret-file=", "ls"}}) {
    const auto refused = end(words);
    CHECK(refused.exit_code == control_code::misuse);
    CHECK(refused.text.find(": empty value\n  hint: ") != std::string::npos);
  }
}

TEST_CASE("the help names the commands and the exit codes, and the version is printed") {
  const auto help = end({"--help"});
  CHECK(help.exit_code == 0);
  for (const auto* word : {"ls", "status", "top", "events", "report", "wait", "stop", "restart",
                           "save", "drain", "exclude", "include", "forget", "Exit codes"}) {
    CAPTURE(word);
    CHECK(help.text.find(word) != std::string::npos);
  }
  CHECK(end({"--print-man"}).text.find("\\fBdrain\\fR \\fINODE|HOST\\fR") != std::string::npos);
  CHECK(end({"--print-completion", "bash"}).text.find("ls status top") != std::string::npos);
  CHECK(end({"--print-completion", "sh"}).exit_code == control_code::misuse);
  CHECK(end({"--version"}).text == "cpprunctl 1.2.3\n");
}

TEST_CASE("a secret is created in a file, with a name, or added to existing ones") {
  CHECK(options({"keygen"}).kind == CommandKind::keygen);
  CHECK(options({"keygen"}).subject.empty());
  CHECK(options({"keygen", "/s", "--id", "tonight"}).id == "tonight");
  CHECK(options({"keygen", "/s", "--add"}).adds);
  CHECK(options({"keygen", "-"}).subject == "-");
  CHECK(options({"ls", "--secret-file", "/s"}).secret_file == "/s");
  CHECK(end({"keygen", "--id", "a b"}).text.find("--id takes 1 to 64") != std::string::npos);
  CHECK(end({"keygen", "-", "--add"}).text.find("--add needs a file") != std::string::npos);
  CHECK(end({"keygen", "--json"}).exit_code == control_code::misuse);
}

TEST_CASE("a token is for reading or control, for a limited time, for one job or all") {
  const auto reads = options({"token", "--read"});
  CHECK(reads.kind == CommandKind::token);
  CHECK_FALSE(reads.token_controls);
  CHECK(reads.for_seconds == 3600);
  const auto orders = options({"token", "--order", "--for=2d", "--job", "a"});
  CHECK(orders.token_controls);
  CHECK(orders.for_seconds == 172800);
  CHECK(orders.job == "a");
  CHECK(end({"token"}).text.find("needs either --read or --order") != std::string::npos);
  CHECK(end({"token", "--read", "--order"}).exit_code == control_code::misuse);
  CHECK(end({"token", "--read", "--for=soon"}).text.find("--for: \"soon\"") != std::string::npos);
  const std::string long_name(257, 'j');
  CHECK(end({"token", "--read", "--job", long_name.c_str()}).exit_code == control_code::misuse);
  CHECK_FALSE(options({"ls"}).for_seconds);
}

}  // namespace command_line_test
