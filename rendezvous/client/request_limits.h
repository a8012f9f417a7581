// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a request, checked by the client before anything is sent: the server would read for
// a long time and then close the connection. And keys as
// requests and error texts have them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d/request.h"
#include "rendezvous/client/store_error.h"

namespace cpprun {

// Why no store of cpprun accepts that request, whatever it holds; nothing if one does.
std::optional<StoreError> objection_to(const c10d::Request& request);

inline std::vector<c10d::Bytes> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// A key may have thousands of bytes, and a wait may name a hundred thousand.
std::string shown(std::string_view key);
std::string shown(const std::vector<std::string>& keys);

}  // namespace cpprun
