#pragma once
// Two hosts on this machine: two network namespaces with a cable between them, and on each a second
// card that leads nowhere. What two real machines would show of addresses and interfaces, without
// the second machine.

#include <string>

#include "tests/integration/command.h"

namespace cpprun::integration {

class TwoHosts {
 public:
  // Makes them; where that is not permitted `why_not` says so.
  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  const std::string& why_not() const { return why_not_; }

  // The same words, run on host 0 or 1.
  Words on(int host, const Words& words) const;

  // The card with the cable, called alike on both, and the one that leads nowhere.
  static constexpr const char* fabric = "fabric0";
  static constexpr const char* blind = "blind0";
  static std::string address(int host) { return host == 0 ? "10.77.0.1" : "10.77.0.2"; }
  static std::string address_v6(int host) { return host == 0 ? "fd77::1" : "fd77::2"; }

 private:
  void ip(const std::string& arguments);
  void set_up(int host);
  std::string name(int host) const;

  std::string id_;
  std::string why_not_;
};

}  // namespace cpprun::integration
