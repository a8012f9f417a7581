// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/backtrace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "proto/bounds.h"
#include "worker/env/io/fixed_text.h"

namespace cpprun {
namespace {

using Frames = std::array<void*, bounds::worker_backtrace_frames_max>;

struct Place {
  const char* function = nullptr;  // null if no symbol is known
  const char* object = nullptr;
  std::uintptr_t offset = 0;  // from the function, or from the object
};

// A return address may belong to the next function already: one byte before it is the call.
Place place_of(void* frame) noexcept {
  Dl_info info{};
  void* const call = static_cast<char*>(frame) - 1;
  if (::dladdr(call, &info) == 0 || info.dli_fname == nullptr) return {};
  const char* const slash = std::strrchr(info.dli_fname, '/');
  void* const base = info.dli_sname != nullptr ? info.dli_saddr : info.dli_fbase;
  return {
      .function = info.dli_sname,
      .object = slash != nullptr ? slash + 1 : info.dli_fname,
      .offset = static_cast<std::uintptr_t>(static_cast<char*>(frame) - static_cast<char*>(base))};
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && readable ? readable.get() : name;
}

std::string line_of(std::size_t number, void* frame) {
  const Place place = place_of(frame);
  if (place.object == nullptr) return fmt::format("#{} {}\n", number, frame);
  if (place.function == nullptr) {
    return fmt::format("#{} {}+{:#x}\n", number, place.object, place.offset);
  }
  return fmt::format("#{} {} ({}+{:#x})\n", number, demangled(place.function), place.object,
                     place.offset);
}

// What lies between the throw and us is the way std::terminate takes.
std::size_t first_of_interest(const Frames& frames, std::size_t count) {
  constexpr std::size_t searched_max = 16;
  std::size_t first = 0;
  for (std::size_t i = 0; i < std::min(count, searched_max); ++i) {
    const char* const function = place_of(frames[i]).function;
    if (function == nullptr) continue;
    const std::string_view name(function);
    // std::terminate() is _ZSt9terminatev.
    if (name == "__cxa_throw" || name == "__cxa_rethrow" || name == "_ZSt9terminatev") {
      first = i + 1;
    }
  }
  return first;
}

}  // namespace

std::string backtrace_of_throw() {
  Frames frames{};
  const auto count = static_cast<std::size_t>(
      std::max(0, ::backtrace(frames.data(), static_cast<int>(frames.size()))));
  const std::size_t first = first_of_interest(frames, count);
  std::string text;
  for (std::size_t i = first; i < count; ++i) text += line_of(i - first, frames[i]);
  if (text.size() > bounds::worker_backtrace_bytes_max) {
    text.resize(bounds::worker_backtrace_bytes_max);
  }
  return text;
}

void prepare_backtrace() {
  std::array<void*, 1> frame{};
  static_cast<void>(::backtrace(frame.data(), 1));
}

std::size_t backtrace_in_signal(char* text, std::size_t size) noexcept {
  // Not on the stack: a handler's may be small.
  static Frames frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  FixedText lines(text, size);
  for (int i = 0; i < count; ++i) {
    const Place place = place_of(frames[static_cast<std::size_t>(i)]);
    lines.text("#").number(static_cast<std::uintmax_t>(i)).text(" ");
    lines.text(place.function != nullptr ? place.function : "?").text(" (");
    lines.text(place.object != nullptr ? place.object : "?").text("+0x");
    lines.number(place.offset, 16).text(")\n");
  }
  return lines.size();
}

}  // namespace cpprun
