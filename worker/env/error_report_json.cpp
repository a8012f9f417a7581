// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/error_report.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <typeinfo>

#include "proto/bounds.h"

namespace cpprun {
namespace {

// In c10::Error::what(), the C++ stack follows this line. This room does not use LibTorch, but its
// users do.
constexpr std::string_view stack_marker = "\nException raised from ";

std::string demangled_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name ? name.get() : type.name();
}

}  // namespace

ErrorReport describe(const std::exception_ptr& error, std::int64_t unix_seconds) {
  ErrorReport report{.message = {}, .callstack = {}, .unix_seconds = unix_seconds};
  if (!error) {
    report.message = "std::terminate was called without an exception";
    return report;
  }
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    report.message = demangled_name(typeid(known)) + ": " + known.what();
  } catch (const std::string& text) {
    report.message = "std::string: " + text;
  } catch (const char* text) {
    report.message = "const char*: " + std::string(text == nullptr ? "(null)" : text);
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    report.message = (type == nullptr ? std::string("unknown") : demangled_name(*type)) +
                     ": not derived from std::exception";
  }
  if (const std::size_t cut = report.message.find(stack_marker); cut != std::string::npos) {
    report.callstack = report.message.substr(cut + 1);
    report.message.resize(cut);
  }
  return report;
}

namespace {

std::string cut(const std::string& text) {
  if (text.size() <= bounds::worker_error_bytes_max) return text;
  return text.substr(0, bounds::worker_error_bytes_max) + " … (cut)";
}

}  // namespace

std::string to_json(const ErrorReport& report) {
  // The schema calls a call stack py_callstack, in any language.
  const nlohmann::json file = {{"message",
                                {{"message", cut(report.message)},
                                 {"extraInfo",
                                  {{"py_callstack", cut(report.callstack)},
                                   {"timestamp", std::to_string(report.unix_seconds)}}}}}};
  return file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cpprun
