// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/io/etcd_access.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "proto/bounds.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

Result<TlsIdentity::Pem> read_pem(const std::string& path) {
  if (path.empty()) return TlsIdentity::Pem{};
  const auto cannot = [&path](const std::string& why) {
    return failure(fmt::format("cannot read \"{}\", which is for etcd: {}", path, why));
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return cannot(errno_text(errno));
  TlsIdentity::Pem pem{{}, path};
  std::array<char, 16 * 1024> chunk;
  while (true) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot(errno_text(errno));
    if (count == 0) break;
    pem.text.append(chunk.data(), static_cast<std::size_t>(count));
    if (pem.text.size() > bounds::etcd_pem_bytes_max) {
      return cannot(fmt::format("it has more than {} bytes", bounds::etcd_pem_bytes_max));
    }
  }
  if (pem.text.empty()) return cannot("it is empty");
  return pem;
}

}  // namespace

Result<std::shared_ptr<TlsClientContext>> open_tls(const EtcdAccess& access) {
  if (std::ranges::none_of(access.endpoints, &EtcdEndpoint::is_secure)) {
    if (access.authorities_file.empty() && access.certificate_file.empty() &&
        access.key_file.empty()) {
      return std::shared_ptr<TlsClientContext>();
    }
    return failure(
        "certificates for etcd are given, but no etcd endpoint begins with https://: the "
        "connection would not be encrypted");
  }
  TlsIdentity identity;
  for (const auto& [pem, path] : {std::pair{&identity.authorities, &access.authorities_file},
                                  std::pair{&identity.certificate, &access.certificate_file},
                                  std::pair{&identity.key, &access.key_file}}) {
    auto read = read_pem(*path);
    if (!read) return tl::unexpected<Error>(read.error());
    *pem = *std::move(read);
  }
  const auto openssl = open_openssl("https://");
  if (!openssl) return tl::unexpected<Error>(openssl.error());
  return TlsClientContext::make(*openssl, identity);
}

}  // namespace cpprun
