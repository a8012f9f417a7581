// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Several hosts on this machine: network namespaces, each with a cable to one switch and a second,
// unconnected card, a name and addresses of its own. They show what real machines would of
// addresses, interfaces and pulled cables.

#include <string>

#include "tests/integration/command.h"

namespace cpprun::integration {

class Hosts {
 public:
  // Creates them; if that is not permitted `why_not` returns the reason.
  explicit Hosts(int count);
  // Removes them, and kills the processes still on them.
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  const std::string& why_not() const { return why_not_; }

  // The same command, run on that host.
  Words on(int host, const Words& words) const;

  // The card with the cable, which has the same name on all hosts, and the unconnected one.
  static constexpr const char* fabric = "fabric0";
  static constexpr const char* blind = "blind0";
  static std::string address(int host) { return "10.77.0." + std::to_string(host + 1); }
  static std::string address_v6(int host) { return "fd77::" + std::to_string(host + 1); }
  static std::string host_name(int host) { return "node" + std::to_string(host); }

  // Carrier lost and regained. No peer is notified: no FIN, no RST.
  void pull_cable(int host) const;
  void plug_in(int host) const;

  // Drops packets, as behind a firewall: received ones, sent ones, or both.
  enum class Way { in, out, both };
  void drop(int host, Way way) const;
  // Why that is not possible; empty if it is.
  std::string why_no_drop() const;
  void let_through(int host) const;

  // The /etc/hosts of that host, in place of this machine's.
  void know(int host, const std::string& lines) const;
  // A further address of one of that host's cards.
  void add_address(int host, const std::string& address, const std::string& card = fabric) const;

  // Waits until no process is left on any host, and fails if a socket is left: a listener, or a
  // connection other than in TIME_WAIT.
  void expect_nothing_left() const;

 private:
  void ip(const std::string& arguments);
  void set_up(int host);
  std::string name(int host) const;
  std::string name_of_switch() const;

  int count_;
  std::string id_;
  std::string why_not_;
};

}  // namespace cpprun::integration
