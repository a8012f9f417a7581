// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The frame of every function of a C interface: it checks pointers and structs, and turns failures
// and exceptions into an error of the calling thread.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "proto/clock.h"
#include "rendezvous/client/store_error.h"

// The frame of every function of the C interface. No C++ exception gets out: failures and
// exceptions become -1 or a null pointer, with an error for the calling thread.
namespace cpprun::c {

using Code = StoreErrorCode;

// The calling thread's last error. Without a destructor: a function may be called when other
// thread-local objects have been destroyed, for instance by a static destructor.
struct LastError {
  std::array<char, 1024> text{};  // longer ones are cut
  int code = 0;
};
LastError& last_error() noexcept;

inline void keep(Code code, std::string_view reason) noexcept {
  LastError& last = last_error();
  std::size_t size = std::min(reason.size(), last.text.size() - 1);
  // Not within a character of UTF-8.
  while (size > 0 && size < reason.size() && (reason[size] & 0xC0) == 0x80) --size;
  std::memcpy(last.text.data(), reason.data(), size);
  last.text[size] = '\0';
  last.code = static_cast<int>(code);
}

// The error text for a null argument, with the names of the function and the argument.
inline std::string null_pointer_text(const char* function, const std::string& argument) {
  return std::string(function) + ": " + argument + " is a null pointer";
}

// Returns false, and sets the error, if the pointer is null.
inline bool is_given(const char* function, const char* argument, const void* pointer) noexcept {
  if (pointer != nullptr) return true;
  try {
    keep(Code::bad_argument, null_pointer_text(function, argument));
  } catch (...) {
    keep(Code::no_memory, "");
  }
  return false;
}

// Runs `body`, which returns a StoreResult<T>, and passes its value to `take`.
template <class Body, class Take>
int guarded(Body body, Take take) noexcept {
  try {
    auto result = body();
    if (result) {
      take(std::move(*result));
      return 0;
    }
    keep(result.error().code, result.error().reason);
  } catch (const std::bad_alloc&) {
    keep(Code::no_memory, "out of memory");
  } catch (const std::invalid_argument& error) {
    keep(Code::bad_argument, error.what());
  } catch (const std::exception& error) {
    keep(Code::system, error.what());
  } catch (...) {
    keep(Code::system, "unknown exception");
  }
  return -1;
}

// The same without a value.
template <class Body>
int guarded(Body body) noexcept {
  return guarded(
      [&body]() -> StoreResult<bool> {
        if (auto result = body(); !result) return tl::unexpected(std::move(result.error()));
        return true;
      },
      [](bool) {});
}

// The same for functions that create an object: `body` returns a
// StoreResult<std::unique_ptr<Object>>.
template <class Object, class Body>
Object* made(Body body) noexcept {
  Object* object = nullptr;
  static_cast<void>(guarded(body, [&object](auto owner) { object = owner.release(); }));
  return object;
}

// A struct that begins with its size, from a program that was compiled against an older or a newer
// header. `type` is its name, and `least` the size of its first version.
template <class Struct>
StoreResult<Struct> read_struct(const char* function, const char* type, const Struct* given,
                                std::size_t least) {
  constexpr std::size_t most = 4096;  // a larger size was never set
  if (given->size < least || given->size > most) {
    return failure(Code::bad_argument, std::string(function) + ": options->size is " +
                                           std::to_string(given->size) + "; set it to sizeof(" +
                                           type + ")");
  }
  const auto* const bytes = reinterpret_cast<const char*>(given);
  for (std::size_t at = sizeof(Struct); at < given->size; ++at) {
    if (bytes[at] == 0) continue;
    return failure(Code::version, std::string(function) +
                                      ": the options have a member that version " + CPPRUN_VERSION +
                                      " does not know, at byte " + std::to_string(at));
  }
  Struct read{};
  std::memcpy(&read, bytes, std::min(sizeof(Struct), given->size));
  return read;
}

// Timeouts are capped at one year, well below the three hundred years that a Duration holds.
inline constexpr std::int64_t milliseconds_max = std::int64_t{366} * 24 * 3600 * 1000;

inline Duration duration_of(std::int64_t milliseconds) {
  return std::chrono::milliseconds(std::min(milliseconds, milliseconds_max));
}

inline std::optional<Duration> timeout_of(std::int64_t milliseconds) {
  if (milliseconds < 0) return std::nullopt;
  return duration_of(milliseconds);
}

}  // namespace cpprun::c
