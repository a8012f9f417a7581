#include "worker/torch/process_group.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <exception>
#include <utility>

#include "worker/torch/gloo_backend.h"
#include "worker/torch/joining.h"

namespace cpprun {

// Invariant: either all members are set, or the object was left or moved from.
struct ProcessGroup::Parts {
  c10::intrusive_ptr<c10d::Store> store;  // without the prefixes of the group
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  bool hosts_store = false;
  std::int64_t ranks_that_say_good_bye = 0;
};

namespace {

// Ranks that run this library say hello and good-bye, so that a rank that serves the store itself
// knows for whom to stay. Python ranks do neither, and nobody waits for them.
constexpr const char* hello_key = "cpprun/hello";
constexpr const char* good_bye_key = "cpprun/good_bye";
constexpr const char* all_gone_key = "cpprun/all_gone";

c10::intrusive_ptr<c10d::Store> open_store(const Context& context,
                                           const ProcessGroupOptions& options) {
  if (context.alone() && context.store.address.empty()) {
    return c10::make_intrusive<c10d::HashStore>();
  }
  c10d::TCPStoreOptions store;
  store.port = context.store.port;
  store.isServer = serves_store(context);
  store.multiTenant = store.isServer;
  // A Python rank that serves the store waits until every rank of the world has checked in.
  store.numWorkers = static_cast<std::size_t>(context.world_size);
  store.timeout = options.join_timeout;
  store.useLibUV = context.store.use_libuv;
  return c10::make_intrusive<c10d::TCPStore>(context.store.address, store);
}

// Names and order of the prefixes are torch.distributed's, doubled slashes included: `default_pg`
// for the group everybody is in, `0` for its running number, `cpu` for the first device.
c10::intrusive_ptr<c10d::ProcessGroup> connect(const Context& context,
                                               const ProcessGroupOptions& options,
                                               const c10::intrusive_ptr<c10d::Store>& store) {
  const auto everybody = c10::make_intrusive<c10d::PrefixStore>("default_pg", store);
  const auto numbered = c10::make_intrusive<c10d::PrefixStore>("0/", everybody);
  const auto for_device = c10::make_intrusive<c10d::PrefixStore>("cpu/", numbered);
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(numbered, context.rank.value, context.world_size);
  const auto gloo =
      make_gloo_backend(for_device, context.rank.value, context.world_size,
                        {.join = options.join_timeout, .collective = options.timeout});
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setGroupName("0");
  return group;
}

std::string first_line(const std::exception& error) {
  const std::string words = error.what();
  return words.substr(0, words.find('\n'));
}

}  // namespace

ProcessGroup::ProcessGroup(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;

ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  if (this != &other) {
    if (parts_) leave();
    parts_ = std::move(other.parts_);
  }
  return *this;
}

ProcessGroup::~ProcessGroup() {
  if (!parts_) return;
  if (std::uncaught_exceptions() > 0) {
    // Taking the backend down waits for collectives under way, up to their time-out, while the
    // peers wait for this process to end. So it is left alone.
    static_cast<void>(parts_.release());
    return;
  }
  leave();
}

void ProcessGroup::leave() {
  try {
    if (parts_->ranks_that_say_good_bye > 1) {
      const std::int64_t gone = parts_->store->add(good_bye_key, 1);
      if (gone == parts_->ranks_that_say_good_bye) parts_->store->set(all_gone_key, "1");
    }
    if (parts_->hosts_store && parts_->ranks_that_say_good_bye > 1) {
      parts_->store->wait({all_gone_key}, bounds::worker_goodbye_wait_max);
    }
  } catch (const std::exception&) {
    // Whoever is missing now has failed and says so itself; for this rank all is done.
  }
  parts_.reset();
}

int ProcessGroup::rank() const {
  return parts_->group->getRank();
}
int ProcessGroup::size() const {
  return parts_->group->getSize();
}

const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::native() const {
  return parts_->group;
}

const c10::intrusive_ptr<c10d::Store>& ProcessGroup::store() const {
  return parts_->store;
}

ProcessGroup init_process_group(const Context& context, const ProcessGroupOptions& options) {
  auto parts = std::make_unique<ProcessGroup::Parts>();
  JoinStage stage = JoinStage::store;
  try {
    parts->store = open_store(context, options);
    parts->hosts_store = serves_store(context);
    parts->store->add(hello_key, 1);
    stage = JoinStage::ranks;
    parts->group = connect(context, options, parts->store);
    // Everybody said hello before connecting, so after connecting the count is complete.
    parts->ranks_that_say_good_bye = parts->store->add(hello_key, 0);
  } catch (const std::exception& error) {
    throw DistributedError(join_failure(context, stage, options.join_timeout, first_line(error)));
  }
  return ProcessGroup(std::move(parts));
}

}  // namespace cpprun
