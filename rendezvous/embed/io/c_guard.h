// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every function of the C interface does: nothing of C++ gets out. A failure and an exception
// both become -1 or a null pointer, and a text that the caller's thread may ask for.

#include <exception>
#include <new>
#include <string>

#include "proto/result.h"

namespace cpprun::c {

// The text of cpprun_store_error(); a thread has one of its own.
std::string& last_error() noexcept;

// Keeps the reason; one for which there is no memory is shortened to nothing.
inline void keep(const char* reason) noexcept {
  try {
    last_error() = reason;
  } catch (...) {
    last_error().clear();
  }
}

// What a function says of an argument that must not be null: which function, and which of them.
inline std::string null_pointer_text(const char* function, const std::string& argument) {
  return std::string(function) + ": " + argument + " is a null pointer";
}

// False: it is null, and the thread's text says so.
inline bool is_given(const char* function, const char* argument, const void* pointer) noexcept {
  if (pointer != nullptr) return true;
  try {
    keep(null_pointer_text(function, argument).c_str());
  } catch (...) {
    keep("");
  }
  return false;
}

// `body` returns a Result<T>; `take` puts its value where the caller wants it.
template <class Body, class Take>
int guarded(Body body, Take take) noexcept {
  try {
    auto result = body();
    if (result) {
      take(std::move(*result));
      return 0;
    }
    keep(result.error().reason.c_str());
  } catch (const std::bad_alloc&) {
    keep("out of memory");
  } catch (const std::exception& error) {
    keep(error.what());
  } catch (...) {
    keep("an exception of an unknown type");
  }
  return -1;
}

// The same where there is nothing to take.
template <class Body>
int guarded(Body body) noexcept {
  return guarded(
      [&body]() -> Result<bool> {
        if (auto result = body(); !result) return tl::unexpected<Error>(result.error());
        return true;
      },
      [](bool) {});
}

// The same for what makes an object: `body` returns a Result<std::unique_ptr<Object>>.
template <class Object, class Body>
Object* made(Body body) noexcept {
  Object* object = nullptr;
  static_cast<void>(guarded(body, [&object](auto owner) { object = owner.release(); }));
  return object;
}

}  // namespace cpprun::c
