#pragma once
// How cpprund was asked to run.

#include <cstdint>
#include <string>

#include "proto/c10d/dialect.h"

namespace cpprun {

struct DaemonOptions {
  std::string host{};          // empty: every interface, IPv6 and IPv4
  std::uint16_t port = 29400;  // torchrun's default for a rendezvous endpoint; 0: any
  bool is_quiet = false;       // says nothing about closed clients
  bool is_verbose = false;     // says it also of clients that simply left
  c10d::Dialect dialect = c10d::Dialect::undecided;  // taken for granted where it is given
};

}  // namespace cpprun
