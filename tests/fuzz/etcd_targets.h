// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The answers of etcd, or of a server in its place (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void etcd_answers(std::string_view bytes);
void etcd_endpoints(std::string_view bytes);

}  // namespace cpprun::fuzz
