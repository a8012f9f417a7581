// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "launcher/plan/devices.h"
#include "launcher/plan/io/topology.h"
#include "proto/text.h"
#include "rendezvous/io/random_bytes.h"

namespace cpprun::io {

namespace {

std::string literal_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return text;
}

// The bits that lead in the mask.
int prefix_of(const sockaddr* mask) {
  const auto count = [](const void* bytes, std::size_t size) {
    int bits = 0;
    for (const auto* at = static_cast<const unsigned char*>(bytes); size > 0; ++at, --size) {
      bits += __builtin_popcount(*at);
    }
    return bits;
  };
  if (mask->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in*>(mask)->sin_addr;
    return count(&v4, sizeof v4);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  return count(&v6, sizeof v6);
}

}  // namespace

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "localhost";
}

int cpu_count() {
  if (const auto usable = own_cpus().size(); usable > 0) return static_cast<int>(usable);
  const auto count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<int>(count) : 1;
}

int device_count(const Environment& environment) {
  std::vector<std::string> names;
  std::error_code unreadable;  // then there are none for us
  for (const auto& entry : std::filesystem::directory_iterator("/dev", unreadable)) {
    names.push_back(entry.path().filename().string());
  }
  return count_devices(names, environment);
}

std::string random_token(int bytes) {
  std::vector<unsigned char> random(static_cast<std::size_t>(bytes));
  need_random(random);
  std::string token;
  for (const unsigned char byte : random) token += fmt::format("{:02x}", byte);
  return token;
}

Result<std::vector<NetworkInterface>> network_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return failure(fmt::format("cannot list the network interfaces: {}", errno_text(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const auto* each = list; each != nullptr; each = each->ifa_next) {
    auto found = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const auto& known) { return known.name == each->ifa_name; });
    if (found == interfaces.end()) {
      interfaces.push_back({.name = each->ifa_name,
                            .up = (each->ifa_flags & IFF_UP) != 0,
                            .loopback = (each->ifa_flags & IFF_LOOPBACK) != 0,
                            .addresses = {}});
      found = interfaces.end() - 1;
    }
    if (each->ifa_addr == nullptr) continue;
    auto literal = literal_of(each->ifa_addr);
    if (literal.empty()) continue;
    if (each->ifa_netmask != nullptr) {
      found->networks.push_back(fmt::format("{}/{}", literal, prefix_of(each->ifa_netmask)));
    }
    found->addresses.push_back(std::move(literal));
  }
  return interfaces;
}

Result<std::string> local_address_towards(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // never asks a name server
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const auto tried = [&](const std::string& why) {
    return failure(fmt::format("cannot find the way to {}: {}", address, why));
  };
  // Connecting a datagram socket sends nothing; the kernel only looks up the route.
  if (const int error =
          ::getaddrinfo(address.c_str(), std::to_string(std::max(port, 1)).c_str(), &hints, &found);
      error != 0) {
    return tried(::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const int probe = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return tried(errno_text(errno));
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  const bool known = ::connect(probe, found->ai_addr, found->ai_addrlen) == 0 &&
                     ::getsockname(probe, reinterpret_cast<sockaddr*>(&local), &size) == 0;
  const int error_number = errno;
  ::close(probe);
  if (!known) return tried(errno_text(error_number));
  return literal_of(reinterpret_cast<const sockaddr*>(&local));
}

std::vector<std::string> own_paths() {
  std::vector<std::string> paths;
  std::error_code unknown;  // then that way is not looked at
  const auto* called = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (called != nullptr) paths.push_back(std::filesystem::absolute(called, unknown));
  if (unknown) paths.pop_back();
  auto target = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown) paths.push_back(std::move(target));
  return paths;
}

FileKind probe_file(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return FileKind::missing;
  if (S_ISDIR(found.st_mode)) return FileKind::directory;
  if (::access(path.c_str(), X_OK) == 0) return FileKind::executable;
  struct statvfs disk {};
  const bool noexec = (found.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0 &&
                      ::statvfs(path.c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) != 0;
  return noexec ? FileKind::noexec : FileKind::plain;
}

Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max) {
  const auto refuse = [](int error) { return failure(errno_text(error)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             std::fclose);
  if (!file) return refuse(errno);
  std::string text(bytes_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return refuse(errno);
  if (text.size() <= bytes_max) return text;
  return failure(fmt::format("it has more than {} bytes", bytes_max));
}

std::optional<rlimit> raise_open_files() {
  rlimit before{};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) return std::nullopt;
  const rlimit raised{.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
  // Where that fails the old limit may do; whoever meets it is told.
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &raised));
  return before;
}

}  // namespace cpprun::io
