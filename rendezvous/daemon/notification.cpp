// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/notification.h"

#include <fmt/format.h>
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::size_t shown_bytes_max = 40;

}  // namespace

Result<std::string> notify_address(const Environment& environment) {
  const std::string* const said = find_variable(environment, "NOTIFY_SOCKET");
  if (said == nullptr || said->empty()) return std::string();
  if (said->size() > notify_name_bytes_max) {
    return failure(
        fmt::format("NOTIFY_SOCKET has {} bytes, and no socket's name has more than "
                    "{}",
                    said->size(), notify_name_bytes_max));
  }
  const bool is_path = said->front() == '/';
  const bool is_abstract = said->front() == '@';
  if ((!is_path && !is_abstract) || said->size() == 1) {
    return failure(fmt::format("NOTIFY_SOCKET={} is neither a path nor @ and a name",
                               plain_line(*said, shown_bytes_max)));
  }
  std::string name = *said;
  if (is_abstract) name.front() = '\0';
  return name;
}

std::string ready_message(std::string_view address) {
  return fmt::format("READY=1\nSTATUS=listening on {}\n", plain_line(address));
}

std::string stopping_message() {
  return "STOPPING=1\n";
}

}  // namespace cpprun
