// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Bytes as the JSON of etcd's gateway has them: RFC 4648, the common alphabet, padded.

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

std::string base64_of(std::string_view bytes);
// Nothing where that is not what they are, to the last bit.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace cpprun
