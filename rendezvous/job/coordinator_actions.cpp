// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/coordinator_actions.h"

#include <fmt/format.h>

namespace cpprun::coordinator {

void refuse(const Whom& whom, const std::string& host, const std::string& reason,
            Actions& actions) {
  actions.emplace_back(Say{whom.link, link::Refused{reason}});
  actions.emplace_back(HangUp{whom.link, reason});
  actions.emplace_back(
      Note{.line = fmt::format("rejected the node on {} ({}): {}", host, whom.peer, reason),
           .level = LogLevel::warning,
           .of_stranger = true});
}

}  // namespace cpprun::coordinator
