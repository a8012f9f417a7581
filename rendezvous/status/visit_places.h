// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who gives way where all places of those who look are taken. Strangers are told no and no more, so
// whoever may look takes a stranger's place at any time, and strangers push out each other: of the
// source that has most of them whoever has been there longest, so that a flood pushes out itself.
// Among equals only those go that wait for their own next request.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

// In what regard somebody is held; the greatest first to be served.
enum class Standing {
  stranger,  // may not look, so far
  admitted,  // may, as everybody may who comes this way
  proven,    // may by what it is: its user, or what it has shown of a secret
};

struct VisitPlace {
  Standing standing = Standing::stranger;
  bool is_idle = false;  // nobody is answering it
  std::string source;    // the address that it counts for
  std::chrono::steady_clock::time_point since{};
};

// Its index; nothing: none of them does for somebody like that.
std::optional<std::size_t> who_gives_way(const std::vector<VisitPlace>& taken, Standing newcomer);

}  // namespace cpprun
