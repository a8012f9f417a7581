// SPDX-License-Identifier: BSD-3-Clause
#include "tests/integration/hosts.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace cpprun::integration {

namespace {

Words words_of(const std::string& text) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Sets the host name, and then runs the command in the same process.
const Words under_a_name = {"unshare", "--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\""};

std::vector<pid_t> processes_in(const std::string& netns) {
  std::vector<pid_t> pids;
  for (const auto& word : words_of(run({"ip", "netns", "pids", netns}).out)) {
    pids.push_back(std::atoi(word.c_str()));
  }
  return pids;
}

// `ip netns exec` mounts the contents over /etc.
std::string etc_of(const std::string& netns) {
  return "/etc/netns/" + netns;
}

void attempt(const std::string& command) {
  const auto ended = run(words_of(command));
  REQUIRE_MESSAGE(ended.code == 0, command, ": ", ended.err);
}

}  // namespace

Hosts::Hosts(int count) : count_(count), id_(std::to_string(::getpid())) {
  ip("netns add " + name_of_switch());
  ip("-n " + name_of_switch() + " link add switch0 type bridge");
  ip("-n " + name_of_switch() + " link set switch0 up");
  for (int host = 0; host < count_; ++host) set_up(host);
  // It mounts, which a chroot rejects.
  if (count_ > 0) ip("netns exec " + name(0) + " true");
}

Hosts::~Hosts() {
  // The cables go with the namespaces; a process would hold its namespace forever.
  for (int host = 0; host < count_; ++host) {
    for (const pid_t pid : processes_in(name(host))) ::kill(pid, SIGKILL);
    run({"ip", "netns", "del", name(host)});
    std::error_code ignored;  // Absent if no file was written there.
    std::filesystem::remove_all(etc_of(name(host)), ignored);
  }
  run({"ip", "netns", "del", name_of_switch()});
}

Words Hosts::on(int host, const Words& words) const {
  Words all = {"ip", "netns", "exec", name(host)};
  all.insert(all.end(), under_a_name.begin(), under_a_name.end());
  all.push_back(host_name(host));
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void Hosts::pull_cable(int host) const {
  attempt("ip -n " + name_of_switch() + " link set port" + std::to_string(host) + " down");
}

void Hosts::plug_in(int host) const {
  attempt("ip -n " + name_of_switch() + " link set port" + std::to_string(host) + " up");
}

void Hosts::drop(int host, Way way) const {
  const std::string enter = "ip netns exec " + name(host) + " iptables -w -A ";
  const std::string fabric_card = std::string(" ") + fabric + " -j DROP";
  if (way != Way::out) attempt(enter + "INPUT -i" + fabric_card);
  if (way != Way::in) attempt(enter + "OUTPUT -o" + fabric_card);
}

std::string Hosts::why_no_drop() const {
  const auto ended = run(words_of("ip netns exec " + name(0) + " iptables -w -S"));
  return ended.code == 0 ? "" : "iptables cannot be used here: " + ended.err;
}

void Hosts::let_through(int host) const {
  attempt("ip netns exec " + name(host) + " iptables -w -F");
}

void Hosts::know(int host, const std::string& lines) const {
  std::filesystem::create_directories(etc_of(name(host)));
  std::ofstream(etc_of(name(host)) + "/hosts") << "127.0.0.1 localhost\n" << lines;
}

void Hosts::add_address(int host, const std::string& address, const std::string& card) const {
  attempt("ip -n " + name(host) + " addr add " + address + " dev " + card);
}

void Hosts::expect_nothing_left() const {
  for (int host = 0; host < count_; ++host) {
    for (const pid_t pid : processes_in(name(host))) {
      REQUIRE_MESSAGE(ends_in_time(pid), "process ", pid, " is left on ", host_name(host));
    }
    const auto sockets = run({"ip", "netns", "exec", name(host), "ss", "-Htan", "state",
                              "listening", "state", "established", "state", "close-wait"});
    CHECK_MESSAGE(sockets.out == "", "left on ", host_name(host), ": ", sockets.out);
  }
}

void Hosts::ip(const std::string& arguments) {
  if (!why_not_.empty()) return;
  const auto ended = run(words_of("ip " + arguments));
  if (ended.code == 0) return;
  why_not_ = "cannot make network namespaces: ip " + arguments + ": " +
             ended.err.substr(0, ended.err.find('\n'));
}

void Hosts::set_up(int host) {
  const std::string port = "port" + std::to_string(host);
  ip("netns add " + name(host));
  ip("link add " + std::string(fabric) + " netns " + name(host) + " type veth peer name " + port +
     " netns " + name_of_switch());
  ip("-n " + name_of_switch() + " link set " + port + " master switch0 up");
  const std::string inside = "-n " + name(host) + " ";
  ip(inside + "link set lo up");
  ip(inside + "addr add " + address(host) + "/24 dev fabric0");
  // Without `nodad` the address would be unusable for the first second or two.
  ip(inside + "addr add " + address_v6(host) + "/64 dev fabric0 nodad");
  ip(inside + "link set fabric0 up");
  ip(inside + "link add blind0 type veth peer name blind1");
  ip(inside + "addr add 10.78." + std::to_string(host) + ".1/24 dev blind0");
  ip(inside + "link set blind0 up");
  ip(inside + "link set blind1 up");
}

std::string Hosts::name(int host) const {
  return "cpprun-" + id_ + "-" + std::to_string(host);
}

std::string Hosts::name_of_switch() const {
  return "cpprun-" + id_ + "-switch";
}

}  // namespace cpprun::integration
