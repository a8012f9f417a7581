// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/worker_mark.h"

namespace cpprun {

namespace {

// From the top: four bits that say that this is a mark, the outer run's number, the inner one's.
// With the first bit 0 it is below "unlimited", with the second 1 above every limit that is meant.
constexpr int number_bits = 30;
constexpr std::uint64_t number_max = (1ULL << number_bits) - 1;
constexpr std::uint64_t kind = 0b0101;
constexpr int kind_at = 2 * number_bits;

std::uint64_t outer_number(std::uint64_t worn) {
  return (worn >> number_bits) & number_max;
}

std::uint64_t own_number(std::uint64_t worn) {
  return worn & number_max;
}

bool is_mark(std::uint64_t worn) {
  return worn >> kind_at == kind;
}

}  // namespace

WorkerMark make_worker_mark(std::uint32_t random, std::uint64_t worn) {
  const std::uint64_t own = random & number_max;
  // Of cppruns within each other the outermost is remembered: its end is the end of them all.
  const std::uint64_t outer = is_mark(worn) ? outer_number(worn) : own;
  return {kind << kind_at | outer << number_bits | own};
}

bool is_marked(std::uint64_t worn, WorkerMark mark) {
  if (!is_mark(worn)) return false;
  const std::uint64_t own = own_number(mark.value);
  return own_number(worn) == own || outer_number(worn) == own;
}

}  // namespace cpprun
