// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/io/openssl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cpprun {

#ifdef CPPRUN_STATIC

// A static program has no dynamic linker and cannot open libraries (cmake/package).
Result<OpenSsl> open_openssl(std::string_view purpose) {
  return failure(
      fmt::format("{} needs OpenSSL 3, which a static build of cpprun cannot load; use the tarball "
                  "without \"static\" in its name, the wheel or the .deb",
                  purpose));
}

#else

namespace {

// The functions have had these names and arguments since 1.1.1; 3 is the version of the ABI.
constexpr const char* library_name = "libssl.so.3";

std::string what_went_wrong() {
  const char* const text = ::dlerror();
  return text == nullptr ? "no reason given" : text;
}

}  // namespace

Result<OpenSsl> open_openssl(std::string_view purpose) {
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return failure(
        fmt::format("{} needs OpenSSL 3, which cannot be loaded ({}); install it (package libssl3 "
                    "on Debian and Ubuntu, openssl-libs on others)",
                    purpose, what_went_wrong()));
  }
  OpenSsl functions;
  const char* missing = nullptr;
  // Symbols of libcrypto are found through libssl, which depends on it.
  const auto find = [&](const char* name) {
    void* const found = ::dlsym(library, name);
    if (found == nullptr) missing = name;
    return found;
  };
#define CPPRUN_OPENSSL_FIND(name) \
  functions.name = reinterpret_cast<decltype(functions.name)>(find(#name));
  CPPRUN_OPENSSL_FUNCTIONS(CPPRUN_OPENSSL_FIND)
#undef CPPRUN_OPENSSL_FIND
  if (missing != nullptr) {
    return failure(
        fmt::format("the OpenSSL of this machine ({}) lacks the function {}; install OpenSSL 3 "
                    "(package libssl3 on Debian and Ubuntu, openssl-libs on others)",
                    library_name, missing));
  }
  // Neither openssl.cnf nor exit handlers are wanted here.
  if (functions.OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) !=
      1) {
    return failure("cannot initialize OpenSSL");
  }
  return functions;
}

#endif

Result<void> LinkSecurity::open() {
  if (openssl_) return {};
  auto opened = open_openssl();
  if (!opened) return tl::unexpected<Error>(opened.error());
  openssl_ = std::make_unique<OpenSsl>(*opened);
  return {};
}

Result<std::shared_ptr<SecureContext>> LinkSecurity::for_dialing() {
  if (!has_secret() || client_) return client_;
  if (auto opened = open(); !opened) return tl::unexpected<Error>(opened.error());
  auto made = SecureContext::of_client(*openssl_, secrets_.front());
  if (made) client_ = *made;
  return made;
}

Result<std::shared_ptr<SecureContext>> LinkSecurity::for_hosting() {
  if (!has_secret()) return std::shared_ptr<SecureContext>();
  if (auto opened = open(); !opened) return tl::unexpected<Error>(opened.error());
  return SecureContext::of_server(*openssl_, secrets_);
}

}  // namespace cpprun
