// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/host_facts.h"

#include <algorithm>

namespace cpprun::doctor {

std::vector<Target> others_of(int number, const std::vector<Target>& all) {
  std::vector<Target> others;
  const auto self = std::ranges::find(all, number, &Target::number);
  if (self == all.end()) return others;
  const auto place = static_cast<std::size_t>(self - all.begin());
  const auto count = std::min<std::size_t>(others_max, all.size() - 1);
  for (std::size_t step = 1; step <= count; ++step) {
    others.push_back(all[(place + step) % all.size()]);
  }
  const bool has_first =
      place == 0 || std::ranges::find(others, all.front().number, &Target::number) != others.end();
  if (!has_first) others.push_back(all.front());
  return others;
}

}  // namespace cpprun::doctor
