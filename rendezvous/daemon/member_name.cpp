// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/member_name.h"

namespace cpprun {

std::string member_name(std::string_view name, std::string_view life) {
  std::string member(name);
  member += life_mark;
  member += life;
  return member;
}

std::string_view called(std::string_view member) {
  return member.substr(0, member.rfind(life_mark));
}

}  // namespace cpprun
