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
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/plan/devices.h"
#include "proto/link/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/io/program.h"
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

std::string link_target(const std::string& path) {
  std::error_code none;  // treated as empty
  return std::filesystem::read_symlink(path, none);
}

std::vector<std::string> own_paths() {
  std::vector<std::string> paths;
  std::error_code unknown;  // that path is skipped
  const auto* called = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (called != nullptr) paths.push_back(std::filesystem::absolute(called, unknown));
  if (unknown) paths.pop_back();
  if (auto target = link_target("/proc/self/exe"); !target.empty()) {
    paths.push_back(std::move(target));
  }
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
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::string(trimmed(text));
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
  std::string place;  // on the PCI bus
  std::string uuid;
  fs::path file;  // empty: unknown
};

std::string field(const std::string& information, std::string_view name) {
  const auto at = information.find(name);
  if (at == std::string::npos) return "";
  const auto rest = std::string_view(information).substr(at + name.size());
  return std::string(trimmed(rest.substr(0, rest.find('\n'))));
}

// In bus order.
std::vector<Device> devices_of(const fs::path& root) {
  std::vector<Device> devices;
  std::error_code missing;  // no NVIDIA driver
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", missing)) {
    const auto information = trimmed_text_of(entry.path() / "information");
    const auto number = field(information, "Device Minor:");
    devices.push_back({.place = entry.path().filename(),
                       .uuid = field(information, "GPU UUID:"),
                       .file = number.empty() ? fs::path() : root / ("dev/nvidia" + number)});
  }
  std::ranges::sort(devices, {}, &Device::place);
  return devices;
}

// A container sees only some of the machine's device files.
bool is_visible(const Device& device) {
  std::error_code unknown;
  return fs::exists(device.file, unknown);
}

int node_of(const fs::path& root, const Device& device) {
  const auto node = trimmed_text_of(root / "sys/bus/pci/devices" / device.place / "numa_node");
  // The driver reports -1 on machines with a single node.
  return std::max(exact_number<int>(node).value_or(0), 0);
}

// The NUMA nodes of the devices, in the order in which the workers see them.
Result<std::vector<int>> visible_nodes(const fs::path& root, const std::string* visible) {
  auto devices = devices_of(root);
  std::erase_if(devices, [](const Device& each) { return !is_visible(each); });
  std::vector<int> nodes;
  if (visible == nullptr) {
    for (const auto& device : devices) nodes.push_back(node_of(root, device));
    return nodes;
  }
  if (devices.empty()) return nodes;
  for (const std::string& entry : listed_devices(*visible)) {
    const auto index = exact_number<std::size_t>(entry);
    const auto found = index ? devices.begin() + static_cast<long>(std::min(*index, devices.size()))
                             : std::ranges::find_if(devices, [&](const Device& device) {
                                 return entry.starts_with("GPU-") && device.uuid.starts_with(entry);
                               });
    if (found == devices.end()) {
      return failure(fmt::format("{}={}: the NUMA node of \"{}\" is unknown",
                                 contract::cuda_visible_devices, *visible, entry));
    }
    nodes.push_back(node_of(root, *found));
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
  auto nodes = visible_nodes(top, find_variable(environment, contract::cuda_visible_devices));
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

constexpr std::string_view nvidia = "0x10de";
constexpr std::string_view display = "0x03";  // prefix of the PCI class of display controllers

bool is_gpu(const fs::directory_entry& device) {
  // A virtual function is part of a device that is already counted.
  std::error_code unknown;
  return trimmed_text_of(device.path() / "vendor") == nvidia &&
         trimmed_text_of(device.path() / "class").starts_with(display) &&
         !fs::exists(device.path() / "physfn", unknown);
}

std::optional<std::uint64_t> finite(rlim_t limit) {
  return limit == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(limit);
}

Limits own_limits() {
  rlimit files{}, locked{}, processes{};
  (void)::getrlimit(RLIMIT_NOFILE, &files);  // these calls cannot fail
  (void)::getrlimit(RLIMIT_MEMLOCK, &locked);
  (void)::getrlimit(RLIMIT_NPROC, &processes);
  return {.open_files = finite(files.rlim_max),
          .locked_bytes = finite(locked.rlim_cur),
          .processes = finite(processes.rlim_cur)};
}

}  // namespace

GpuCounts count_gpus(const std::string& root) {
  const fs::path top = root.empty() ? "/" : root;
  const auto devices = devices_of(top);
  std::error_code missing;  // no PCI bus
  const fs::directory_iterator bus(top / "sys/bus/pci/devices", missing);
  return {.on_bus = static_cast<int>(std::count_if(fs::begin(bus), fs::end(bus), is_gpu)),
          .in_driver = static_cast<int>(devices.size()),
          .usable = static_cast<int>(std::ranges::count_if(devices, [](const Device& each) {
            return ::access(each.file.c_str(), R_OK | W_OK) == 0;
          }))};
}

Disk examine_disk(const std::string& path) {
  Disk disk{.path = path};
  struct statvfs found {};
  if (::statvfs(path.c_str(), &found) != 0) {
    disk.refusal = errno_text(errno);
    return disk;
  }
  disk.size = std::uint64_t{found.f_blocks} * found.f_frsize;
  disk.free = std::uint64_t{found.f_bavail} * found.f_frsize;
  if (::access(path.c_str(), W_OK | X_OK) != 0) disk.refusal = errno_text(errno);
  return disk;
}

HostFacts collect_host_facts(const Environment& environment) {
  const auto* temporary = find_variable(environment, "TMPDIR");
  const bool is_set = temporary != nullptr && !temporary->empty();
  std::error_code missing;  // no InfiniBand
  HostFacts facts{.host = machine_name(),
                  // Of the running kernel, and of this process's network namespace.
                  .network = trimmed_text_of("/proc/sys/kernel/random/boot_id") + " " +
                             link_target("/proc/self/ns/net"),
                  .gpus = count_gpus(),
                  .has_infiniband = fs::directory_iterator("/sys/class/infiniband", missing) !=
                                    fs::directory_iterator(),
                  .limits = own_limits(),
                  .shared_memory = examine_disk("/dev/shm"),
                  .temporary = examine_disk(is_set ? *temporary : "/tmp")};
  facts.missing_gpus = missing_gpus(facts.gpus, environment).value_or("");
  return facts;
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
