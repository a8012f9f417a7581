// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What etcd, or whoever stands in its place, answers (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void etcd_answers(std::string_view bytes);
void etcd_endpoints(std::string_view bytes);

}  // namespace cpprun::fuzz
