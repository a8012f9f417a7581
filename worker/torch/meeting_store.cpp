#include "worker/torch/meeting_store.h"

#include <filesystem>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace cpprun {
namespace {

c10::intrusive_ptr<c10d::Store> open_tcp(const Placement& placement,
                                         std::chrono::milliseconds timeout) {
  const Context& context = placement.context;
  c10d::TCPStoreOptions options;
  options.port = context.store.port;
  options.isServer = serves_store(placement);
  options.multiTenant = options.isServer;
  // A Python rank that serves the store waits until every rank of the world has checked in. A C++
  // rank does not: that the others are missing is found out later, with their numbers.
  options.numWorkers = static_cast<std::size_t>(context.world_size);
  options.waitWorkers = !options.isServer;
  options.timeout = timeout;
  options.useLibUV = context.store.use_libuv;
  try {
    return c10::make_intrusive<c10d::TCPStore>(context.store.address, options);
  } catch (const std::exception& error) {
    // Some builds of LibTorch have no libuv; the older server speaks the same protocol.
    if (!options.useLibUV || std::string(error.what()).find("libuv") == std::string::npos) throw;
    options.useLibUV = false;
    return c10::make_intrusive<c10d::TCPStore>(context.store.address, options);
  }
}

c10::intrusive_ptr<c10d::Store> open_file(const Placement& placement,
                                          std::chrono::milliseconds timeout) {
  // LibTorch would wait five minutes for the folder to come.
  const std::filesystem::path folder = std::filesystem::path(placement.file).parent_path();
  if (!std::filesystem::is_directory(folder)) {
    throw std::runtime_error("there is no folder " + folder.string());
  }
  auto store = c10::make_intrusive<c10d::FileStore>(placement.file, placement.context.world_size);
  store->setTimeout(timeout);
  return store;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_meeting_store(const Placement& placement,
                                                   std::chrono::milliseconds timeout) {
  switch (placement.meeting) {
    case Meeting::tcp:
      return open_tcp(placement, timeout);
    case Meeting::file:
      return open_file(placement, timeout);
    case Meeting::alone:
    case Meeting::given:
      break;
  }
  return c10::make_intrusive<c10d::HashStore>();
}

}  // namespace cpprun
