// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Several hosts on this machine: network namespaces, each with a cable to one switch and a second
// card that leads nowhere, a name and addresses of its own. What real machines would show of
// addresses, interfaces and pulled cables, without the machines.

#include <string>

#include "tests/integration/command.h"

namespace cpprun::integration {

class Hosts {
 public:
  // Makes them; where that is not permitted `why_not` says so.
  explicit Hosts(int count);
  // Removes them, and ends whoever is still on them.
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  const std::string& why_not() const { return why_not_; }

  // The same words, run on that host.
  Words on(int host, const Words& words) const;

  // The card with the cable, called alike on all, and the one that leads nowhere.
  static constexpr const char* fabric = "fabric0";
  static constexpr const char* blind = "blind0";
  static std::string address(int host) { return "10.77.0." + std::to_string(host + 1); }
  static std::string address_v6(int host) { return "fd77::" + std::to_string(host + 1); }
  static std::string host_name(int host) { return "node" + std::to_string(host); }

  // The carrier is gone and back. Nobody is told: no FIN, no RST.
  void pull_cable(int host) const;
  void plug_in(int host) const;

  // Packets vanish, as behind a firewall. Only what arrives, only what is sent, or both.
  enum class Way { in, out, both };
  void drop(int host, Way way) const;
  // Why that is not possible; empty: it is.
  std::string why_no_drop() const;
  void let_through(int host) const;

  // What that host finds in its /etc/hosts, in place of this machine's.
  void know(int host, const std::string& lines) const;
  // A further address of one of that host's cards.
  void add_address(int host, const std::string& address, const std::string& card = fabric) const;

  // Waits until no process is left on any host, and fails where a socket is left: a listener, or a
  // connection that does not wait for its own end.
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
