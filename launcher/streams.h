// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which of a worker's two output streams a flag means, for which local ranks: the syntax of -r and
// -t. `3` means both streams of everybody, `0:1,1:3` names local ranks.

#include <map>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

struct StreamChoice {
  bool out = false;
  bool err = false;
  friend bool operator==(const StreamChoice&, const StreamChoice&) = default;
};

struct StreamChoices {
  StreamChoice everybody;  // holds where `by_local_rank` is empty
  std::map<int, StreamChoice> by_local_rank;
  friend bool operator==(const StreamChoices&, const StreamChoices&) = default;

  // A rank that a map does not name means neither stream.
  StreamChoice of(int local_rank) const;
  bool any() const;
};

Result<StreamChoices> parse_stream_choices(std::string_view text);

}  // namespace cpprun
