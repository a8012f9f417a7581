// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/plan/devices.h"
#include "proto/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
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

// The number of leading one bits in the mask.
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
  std::error_code unreadable;  // treated as empty
  for (const auto& entry : std::filesystem::directory_iterator("/dev", unreadable)) {
    names.push_back(entry.path().filename().string());
  }
  return count_devices(names, environment);
}

int utc_offset_seconds() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  return ::localtime_r(&now, &local) == nullptr ? 0 : static_cast<int>(local.tm_gmtoff);
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
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // never uses a name server
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const auto tried = [&](const std::string& why) {
    return failure(fmt::format("cannot find the route to {}: {}", address, why));
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
  std::error_code unknown;  // that path is skipped
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
  // Grows with the file: `bytes_max` may be far larger.
  constexpr std::size_t read_bytes = 64 * 1024;
  std::string text;
  for (std::size_t got = 1; got > 0 && text.size() <= bytes_max;) {
    const std::size_t before = text.size();
    text.resize(std::min(before + read_bytes, bytes_max + 1));
    got = std::fread(text.data() + before, 1, text.size() - before, file.get());
    text.resize(before + got);
  }
  if (std::ferror(file.get()) != 0) return refuse(errno);
  if (text.size() <= bytes_max) return text;
  return failure(fmt::format("the file has more than {} bytes", bytes_max));
}

std::optional<rlimit> raise_open_files() {
  rlimit before{};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) return std::nullopt;
  const rlimit raised{.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
  // If this fails, the old limit may still be enough. If not, the failing operation reports it.
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &raised));
  return before;
}

namespace {

namespace fs = std::filesystem;

std::string trimmed_text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::string(trimmed(text.str()));
}

// The directories in `directory` named `beginning` plus a number, by that number.
std::map<int, fs::path> numbered(const fs::path& directory, std::string_view beginning) {
  std::map<int, fs::path> found;
  std::error_code missing;  // treated as empty
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(beginning)) continue;
    if (const auto number = exact_number<int>(std::string_view(name).substr(beginning.size()))) {
      found[*number] = entry.path();
    }
  }
  return found;
}

int lowest_or(const CpuSet& cpus, int otherwise) {
  return cpus.empty() ? otherwise : *cpus.begin();
}

// The CPUs that share this CPU's highest-level data cache.
CpuSet cache_sharers(const fs::path& cpu) {
  CpuSet sharers;
  int highest = -1;
  for (const auto& [index, cache] : numbered(cpu / "cache", "index")) {
    const auto type = trimmed_text_of(cache / "type");
    const auto level = exact_number<int>(trimmed_text_of(cache / "level")).value_or(-1);
    if ((type != "Unified" && type != "Data") || level <= highest) continue;
    highest = level;
    sharers = parse_cpu_list(trimmed_text_of(cache / "shared_cpu_list"));
  }
  return sharers;
}

CpuLocation place_of(const fs::path& cpu, int number) {
  return {.core = lowest_or(parse_cpu_list(trimmed_text_of(cpu / "topology/thread_siblings_list")),
                            number),
          .socket =
              exact_number<int>(trimmed_text_of(cpu / "topology/physical_package_id")).value_or(0),
          .cache = lowest_or(cache_sharers(cpu), number)};
}

// A GPU as reported by the driver.
struct Device {
  std::string uuid;
  int node = 0;
};

std::string field(const std::string& information, std::string_view name) {
  const auto at = information.find(name);
  if (at == std::string::npos) return "";
  auto value = information.substr(at + name.size());
  value = value.substr(0, value.find('\n'));
  const auto begin = value.find_first_not_of(": \t");
  return begin == std::string::npos ? "" : value.substr(begin);
}

// The GPUs that have a device file: a container sees only some of the machine's.
std::vector<Device> devices_of(const fs::path& root) {
  std::map<std::string, Device> by_place;
  std::error_code missing;  // no NVIDIA driver
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", missing)) {
    const auto place = entry.path().filename().string();
    const auto information = trimmed_text_of(entry.path() / "information");
    const auto file = root / ("dev/nvidia" + field(information, "Device Minor"));
    if (std::error_code unknown; !fs::exists(file, unknown)) continue;
    const auto node = trimmed_text_of(root / "sys/bus/pci/devices" / place / "numa_node");
    // The driver reports -1 on machines with a single node.
    by_place[place] = {.uuid = field(information, "GPU UUID"),
                       .node = std::max(exact_number<int>(node).value_or(0), 0)};
  }
  std::vector<Device> devices;
  for (auto& [place, device] : by_place) devices.push_back(std::move(device));
  return devices;
}

// The NUMA nodes of the devices, in the order in which the workers see them.
Result<std::vector<int>> visible_nodes(const std::vector<Device>& devices,
                                       const std::string* visible) {
  std::vector<int> nodes;
  if (visible == nullptr) {
    for (const auto& device : devices) nodes.push_back(device.node);
    return nodes;
  }
  std::istringstream list(*visible);
  for (std::string entry; !devices.empty() && std::getline(list, entry, ',');) {
    std::erase(entry, ' ');
    const auto index = exact_number<int>(entry);
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const Device& device) {
      return entry.starts_with("GPU-") && device.uuid.starts_with(entry);
    });
    if (index && *index >= 0 && static_cast<std::size_t>(*index) < devices.size()) {
      nodes.push_back(devices[static_cast<std::size_t>(*index)].node);
    } else if (found != devices.end()) {
      nodes.push_back(found->node);
    } else {
      return failure(fmt::format("{}={}: the NUMA node of \"{}\" is unknown",
                                 contract::cuda_visible_devices, *visible, entry));
    }
  }
  return nodes;
}

}  // namespace

Result<Topology> read_topology(const Environment& environment, const CpuSet& allowed,
                               const std::string& root) {
  const fs::path top = root.empty() ? "/" : root;
  Topology topology;
  for (const auto& [number, path] : numbered(top / "sys/devices/system/cpu", "cpu")) {
    if (allowed.contains(number)) topology.cpus[number] = place_of(path, number);
  }
  for (const auto& [number, path] : numbered(top / "sys/devices/system/node", "node")) {
    topology.nodes[number] = parse_cpu_list(trimmed_text_of(path / "cpulist"));
  }
  // A kernel without NUMA support lists no nodes: treat everything as one node.
  if (topology.nodes.empty()) topology.nodes[0] = allowed;
  auto nodes =
      visible_nodes(devices_of(top), find_variable(environment, contract::cuda_visible_devices));
  if (!nodes) return tl::unexpected(nodes.error());
  topology.node_of_device = std::move(*nodes);
  return topology;
}

CpuSet own_cpus() {
  std::vector<cpu_set_t> mask(bounds::cpus_max / CPU_SETSIZE);
  const auto bytes = mask.size() * sizeof(cpu_set_t);
  CpuSet cpus;
  if (::sched_getaffinity(0, bytes, mask.data()) != 0) return cpus;
  for (int cpu = 0; cpu < bounds::cpus_max; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.data())) cpus.insert(cpu);
  }
  return cpus;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view nvidia = "0x10de";
constexpr std::string_view display = "0x03";  // prefix of the PCI class of display controllers

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_gpu(const fs::path& device) {
  // A virtual function is part of a device that is already counted.
  std::error_code unknown;
  return trimmed(text_of(device / "vendor")) == nvidia &&
         text_of(device / "class").starts_with(display) && !fs::exists(device / "physfn", unknown);
}

// The number after "Device Minor:".
std::string minor_of(const std::string& information) {
  constexpr std::string_view name = "Device Minor:";
  const auto at = information.find(name);
  if (at == std::string::npos) return {};
  const auto rest = std::string_view(information).substr(at + name.size());
  return std::string(trimmed(rest.substr(0, rest.find('\n'))));
}

template <class Judge>
int count_in(const fs::path& directory, const Judge& counts) {
  int count = 0;
  std::error_code missing;  // treated as empty
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    if (counts(entry.path())) ++count;
  }
  return count;
}

}  // namespace

GpuCounts count_gpus(const std::string& root) {
  const fs::path top = root.empty() ? "/" : root;
  const fs::path known = top / "proc/driver/nvidia/gpus";
  return {.on_bus = count_in(top / "sys/bus/pci/devices", is_gpu),
          .in_driver = count_in(known, [](const fs::path&) { return true; }),
          .usable = count_in(known, [&](const fs::path& gpu) {
            const auto number = minor_of(text_of(gpu / "information"));
            const auto file = top / ("dev/nvidia" + number);
            return !number.empty() && ::access(file.c_str(), R_OK | W_OK) == 0;
          })};
}

namespace {

using asio::ip::tcp;

std::vector<std::string> literals_of(const tcp::resolver::results_type& results) {
  std::vector<std::string> addresses;
  for (const auto& each : results) {
    auto address = each.endpoint().address().to_string();
    const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!known) addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace

std::optional<std::string> literal_address(const std::string& host) {
  asio::error_code not_literal;
  const auto literal = asio::ip::make_address(host, not_literal);
  if (not_literal) return std::nullopt;
  return literal.to_string();
}

std::vector<std::string> addresses_of(const std::string& host) {
  if (const auto literal = literal_address(host)) return {*literal};
  asio::io_context resolving;
  asio::error_code unknown;  // treated as not this machine's; the later connect reports the reason
  return literals_of(tcp::resolver{resolving}.resolve(host, "", unknown));
}

void look_up(asio::io_context& context, const std::string& host,
             std::function<void(const Result<std::vector<std::string>>&)> found) {
  if (const auto literal = literal_address(host)) {
    asio::post(context, [found = std::move(found), literal = *literal] {
      found(std::vector<std::string>{literal});
    });
    return;
  }
  auto resolver = std::make_shared<tcp::resolver>(context);
  resolver->async_resolve(
      host, "",
      [resolver, found = std::move(found)](const asio::error_code& error,
                                           const tcp::resolver::results_type& results) {
        if (error || results.empty()) {
          found(failure(error ? error.message() : "the name has no address"));
        } else {
          found(literals_of(results));
        }
      });
}

}  // namespace cpprun::io
