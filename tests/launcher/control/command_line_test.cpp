// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_line.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

namespace command_line_test {

using namespace cpprun;

namespace {

std::variant<Wish, CommandLineEnd> read(std::initializer_list<const char*> words) {
  std::vector<const char*> argv{"cpprunctl"};
  argv.insert(argv.end(), words);
  return read_control_line(static_cast<int>(argv.size()), argv.data(), "1.2.3");
}

Wish wish(std::initializer_list<const char*> words) {
  const auto outcome = read(words);
  REQUIRE(std::holds_alternative<Wish>(outcome));
  return std::get<Wish>(outcome);
}

CommandLineEnd end(std::initializer_list<const char*> words) {
  const auto outcome = read(words);
  REQUIRE(std::holds_alternative<CommandLineEnd>(outcome));
  return std::get<CommandLineEnd>(outcome);
}

}  // namespace

TEST_CASE("each command is read with what it takes") {
  CHECK(wish({"ls"}).verb == Verb::list);
  CHECK(wish({"list"}).verb == Verb::list);
  CHECK(wish({"ls", "--names"}).names_alone);
  CHECK(wish({"status", "a"}).job == "a");
  CHECK(wish({"top"}).job.empty());
  CHECK(wish({"events", "-f", "a"}).follows);
  CHECK(wish({"report", "a"}).verb == Verb::report);
  CHECK(wish({"wait"}).verb == Verb::wait);
  CHECK(wish({"stop", "a", "--reason", "tired"}).reason == "tired");
  CHECK(wish({"restart", "a"}).verb == Verb::restart);
  CHECK(wish({"save", "a", "--signal=SIGUSR2"}).signal == "SIGUSR2");
  CHECK(wish({"forget", "a"}).verb == Verb::forget);
  CHECK(wish({"handover"}).verb == Verb::handover);
  CHECK(wish({"handover", "--reason=upgrade", "--address=h"}).reason == "upgrade");
  const auto drained = wish({"drain", "node-7", "--job=a", "--reason=ECC"});
  CHECK(drained.subject == "node-7");
  CHECK(drained.job == "a");
  CHECK(wish({"exclude", "h", "--for", "2h"}).for_seconds == 7200);
  CHECK(wish({"exclude", "h", "--job=a"}).job == "a");
  CHECK(wish({"include", "h", "--all"}).to_all);
  CHECK_FALSE(wish({"include", "h"}).to_all);
  CHECK(wish({"include", "h"}).verb == Verb::include);
}

TEST_CASE("the doctor is told the hosts, and how to get there") {
  const auto told = wish({"doctor", "--hosts", "a,b", "--remote-shell", "rsh {host}", "--port",
                          "29500", "--ship", "--json"});
  CHECK(told.verb == Verb::doctor);
  CHECK(told.doctor.hosts == "a,b");
  CHECK(told.doctor.remote_shell == "rsh {host}");
  CHECK(told.doctor.port == 29500);
  CHECK(told.doctor.ship);
  CHECK(told.as_json);
  CHECK_FALSE(wish({"doctor"}).doctor.hosts);
}

TEST_CASE("a doctor for hosts that nobody named, or twice, is refused") {
  for (const auto& words : {std::initializer_list<const char*>{"doctor", "--ship"},
                            {"doctor", "--remote-shell=rsh"},
                            {"doctor", "--hosts=a", "--hostfile=b"},
                            {"doctor", "--port=x"}}) {
    CHECK(end(words).exit_code == control_code::misuse);
  }
}

TEST_CASE("what is the same for all commands may stand before or behind them") {
  CHECK(wish({"--json", "ls"}).as_json);
  CHECK(wish({"ls", "--json"}).as_json);
  CHECK(wish({"ls", "--all-users"}).of_all_users);
  CHECK(wish({"ls", "--address", "[::1]:77"}).address == Endpoint{"::1", 77});
  CHECK(wish({"ls", "--address", "head"}).address == Endpoint{"head", 29400});
}

TEST_CASE("misuse is refused with a sentence and exit code 2") {
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

TEST_CASE("an empty value is not the same as none") {
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

TEST_CASE("the help names the commands and the exit codes, and the version is told") {
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

TEST_CASE("a secret is made somewhere, called something, or added to what is there") {
  CHECK(wish({"keygen"}).verb == Verb::keygen);
  CHECK(wish({"keygen"}).subject.empty());
  CHECK(wish({"keygen", "/s", "--id", "tonight"}).id == "tonight");
  CHECK(wish({"keygen", "/s", "--add"}).adds);
  CHECK(wish({"keygen", "-"}).subject == "-");
  CHECK(wish({"ls", "--secret-file", "/s"}).secret_file == "/s");
  CHECK(end({"keygen", "--id", "a b"}).text.find("--id takes 1 to 64") != std::string::npos);
  CHECK(end({"keygen", "-", "--add"}).text.find("--add needs a file") != std::string::npos);
  CHECK(end({"keygen", "--json"}).exit_code == control_code::misuse);
}

TEST_CASE("a token is for reading or for orders, for a while, and for one job or all") {
  const auto reads = wish({"token", "--read"});
  CHECK(reads.verb == Verb::token);
  CHECK_FALSE(reads.token_orders);
  CHECK(reads.for_seconds == 3600);
  const auto orders = wish({"token", "--order", "--for=2d", "--job", "a"});
  CHECK(orders.token_orders);
  CHECK(orders.for_seconds == 172800);
  CHECK(orders.job == "a");
  CHECK(end({"token"}).text.find("needs either --read or --order") != std::string::npos);
  CHECK(end({"token", "--read", "--order"}).exit_code == control_code::misuse);
  CHECK(end({"token", "--read", "--for=soon"}).text.find("--for: \"soon\"") != std::string::npos);
  const std::string long_name(257, 'j');
  CHECK(end({"token", "--read", "--job", long_name.c_str()}).exit_code == control_code::misuse);
  CHECK_FALSE(wish({"ls"}).for_seconds);
}

}  // namespace command_line_test
