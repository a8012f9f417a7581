// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

namespace cpprun {

// To a descriptor that blocks. Gives how many bytes were written; fewer than all where errno says
// why.
inline std::size_t write_all(int descriptor, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto put = ::write(descriptor, text.data() + done, text.size() - done);
    if (put > 0) {
      done += static_cast<std::size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      break;
    }
  }
  return done;
}

}  // namespace cpprun
