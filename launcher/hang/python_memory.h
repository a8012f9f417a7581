// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Python stacks of another process, read from its memory. CPython 3.13 and newer publish where
// the members of their structures are (_Py_DebugOffsets); the table itself differs between
// versions, and those of 3.13 and 3.14 are known. Nothing runs in that process, so it may be
// stopped, or hold the GIL. What is read may change meanwhile, and may be anything.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun::hang {

struct MemoryAccess {
  // Copies memory of the process; false where that is not possible, or no time is left.
  std::function<bool(std::uint64_t address, std::span<char> to)> read;
  // Lets the process run for some milliseconds.
  std::function<void()> pause;
};

struct PythonMemory {
  // Of all threads, as faulthandler writes it; the main one is last. Of at most
  // `memory_traceback_bytes_max`: other threads are omitted beyond that.
  std::string traceback = {};
  bool main_holds_gil = false;  // all the time, while no thread moved
  friend bool operator==(const PythonMemory&, const PythonMemory&) = default;
};

inline constexpr std::size_t memory_traceback_bytes_max = 256 << 10;

// The releases whose layout is known: "3.13", "3.14.2", but not "3.14.2t", which is free-threaded.
bool has_known_layout(std::string_view version);

// Where the state of the interpreter begins in a copy of the writable memory of Python. Nothing: it
// was not found, as in Python before 3.13.
std::optional<std::size_t> find_python(std::string_view memory);
// `runtime`: the address of that. `main_thread`: the id of the process.
Result<PythonMemory> read_python(const MemoryAccess& memory, std::uint64_t runtime,
                                 int main_thread);

}  // namespace cpprun::hang
