#pragma once
// What ranks that compare their next collective find out about each other, in words. Knows no
// LibTorch: a call is a text such as `all_reduce(sum, Float [4, 3] on cpu)`.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

// `calls` has one text per rank. Absent when all are the same.
std::optional<std::string> disagreement(std::int64_t number, const std::vector<std::string>& calls);

// Some ranks did not call anything in time: their place in `calls` is empty.
std::string absence(std::int64_t number, const std::vector<std::optional<std::string>>& calls,
                    std::chrono::milliseconds waited);

}  // namespace cpprun
