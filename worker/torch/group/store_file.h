// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the file of a c10d FileStore looks like: records of a key and a value, each with its length
// in four bytes in front; keys begin with / or -, LibTorch's own end with /. Knows no
// LibTorch.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cpprun {

// Fills `to` with `count` bytes from offset `at`; false if they are not there.
using ReadAt = std::function<bool(std::uint64_t at, void* to, std::size_t count)>;

// Why a file of `size` bytes is none; absent if it is one, or empty.
std::optional<std::string> store_file_fault(std::uint64_t size, const ReadAt& read_at);

// Of a store's file: whether whoever used it is gone, `ranks` of them or more. LibTorch removes
// such a file itself; but of two that let go of it in one moment each leaves that to the other, and
// the next to come finds keys of a group that is over.
bool is_left_behind(std::uint64_t size, const ReadAt& read_at, int ranks);

}  // namespace cpprun
