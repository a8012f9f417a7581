// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/contest_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/etcd_bounds.h"
#include "proto/text.h"

namespace cpprun {

Result<ContestKeys> ContestKeys::make(std::string_view name, std::string_view before) {
  const auto is_plain = [](char byte) { return byte > ' ' && byte <= '~'; };
  const std::string prefix = std::string(before) + std::string(name) + "/";
  if (name.empty()) return failure("the contest in etcd has no name");
  if (prefix.size() > bounds::etcd_prefix_bytes_max) {
    return failure(fmt::format("the keys in etcd would begin with {} bytes, the limit is {}",
                               prefix.size(), bounds::etcd_prefix_bytes_max));
  }
  if (!std::ranges::all_of(prefix, is_plain)) {
    return failure(
        fmt::format("the keys in etcd would begin with \"{}\": only letters, digits and signs of "
                    "ASCII belong there",
                    plain_line(prefix, 80)));
  }
  if (name.find('/') != std::string_view::npos) {
    return failure(fmt::format(
        "the contest in etcd is called \"{}\": a slash would lead to the keys of another", name));
  }
  return ContestKeys(prefix);
}

std::optional<std::string> ContestKeys::name_of_record(std::string_view key) const {
  const std::string before = records();
  if (!key.starts_with(before) || key.size() == before.size()) return std::nullopt;
  return std::string(key.substr(before.size()));
}

}  // namespace cpprun
