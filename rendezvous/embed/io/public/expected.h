// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A value or the reason for a failure. The public classes return it instead of throwing.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/embed/io/public/store.h"

namespace cpprun {
inline namespace v1 {

// Why something failed: a clause with the action, its target and the cause; and a code: for the
// store, one of CPPRUN_STORE_TIMEOUT, … in <cpprun/store.h>.
struct Failure {
  std::string reason;
  int code = 0;
};

namespace detail {

inline Failure store_failure() {
  return {cpprun_store_error(), cpprun_store_error_code()};
}

// For callbacks, which C code calls.
template <class Body>
void without_exceptions(Body body) noexcept {
#if defined(__cpp_exceptions)
  try {
    body();
  } catch (...) {
  }
#else
  body();
#endif
}

}  // namespace detail

// Accessing the value of a failure aborts the program and prints the reason to stderr.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}
  Expected(Failure failure) : failure_(std::move(failure)) {}

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }

  T& value() & { return demand(), *value_; }
  const T& value() const& { return demand(), *value_; }
  T&& value() && { return demand(), std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Empty, and 0, if there is a value.
  const std::string& error() const { return failure_.reason; }
  int code() const { return failure_.code; }

 private:
  void demand() const {
    if (value_) return;
    std::fprintf(stderr, "cpprun: value() was called on an error: %s\n", error().c_str());
    std::abort();
  }

  std::optional<T> value_;
  Failure failure_;
};

// For calls that return no value. May be ignored if failure does not matter.
template <>
class Expected<void> {
 public:
  Expected() = default;
  Expected(Failure failure) : failure_(std::move(failure)) {}

  bool has_value() const { return !failure_; }
  explicit operator bool() const { return has_value(); }
  std::string error() const { return failure_ ? failure_->reason : std::string(); }
  int code() const { return failure_ ? failure_->code : 0; }

 private:
  std::optional<Failure> failure_;
};

}  // namespace v1
}  // namespace cpprun
