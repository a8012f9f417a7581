// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/error_report.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <typeinfo>

#include "proto/text.h"
#include "worker/env/bounds.h"

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

namespace {

bool write_all(int file, const char* bytes, std::size_t size) noexcept {
  while (size > 0) {
    const ssize_t written = ::write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Returns 0 or an errno. link() publishes the whole file and fails if the name exists. Uses rename
// if the file system has no hard links.
int put_in_place(const char* path, const char* temporary_path) noexcept {
  if (::link(temporary_path, path) == 0) {
    ::unlink(temporary_path);
    return 0;
  }
  const int refused = errno;
  const bool no_links = refused == EPERM || refused == EOPNOTSUPP || refused == ENOSYS;
  if (no_links && ::access(path, F_OK) != 0) {
    return ::rename(temporary_path, path) == 0 ? 0 : errno;
  }
  ::unlink(temporary_path);
  return no_links ? EEXIST : refused;
}

int create(const char* path, const char* temporary_path, const char* bytes,
           std::size_t size) noexcept {
  const int file = ::open(temporary_path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  const bool whole = write_all(file, bytes, size);
  const int write_error = errno;
  ::close(file);
  if (whole) return put_in_place(path, temporary_path);
  ::unlink(temporary_path);
  return write_error;
}

}  // namespace

Result<ErrorFile> write_error_file(const std::string& path, std::string_view json) {
  const std::string temporary_path = fmt::format("{}.{}.tmp", path, ::getpid());
  const int error = create(path.c_str(), temporary_path.c_str(), json.data(), json.size());
  if (error == 0) return ErrorFile::written;
  if (error == EEXIST) return ErrorFile::already_there;
  return failure(fmt::format("cannot write error file \"{}\": {}", path, errno_text(error)));
}

void write_error_file_in_signal(const char* path, const char* temporary_path, const char* bytes,
                                std::size_t size) noexcept {
  // A failure cannot be handled: the process is dying of a signal.
  static_cast<void>(create(path, temporary_path, bytes, size));
}

}  // namespace cpprun
