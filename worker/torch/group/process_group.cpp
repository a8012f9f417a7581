// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "worker/env/bounds.h"
#include "worker/env/io/probe_server.h"
#include "worker/env/io/round_connections.h"
#include "worker/env/io/worker.h"
#include "worker/torch/compat/versions.h"
#include "worker/torch/group/bounds.h"
#include "worker/torch/group/collective_check.h"
#include "worker/torch/group/device.h"
#include "worker/torch/group/device_choice.h"
#include "worker/torch/group/failure.h"
#include "worker/torch/group/gloo_backend.h"
#include "worker/torch/group/meeting_store.h"
#include "worker/torch/group/mpi_backend.h"
#include "worker/torch/group/nccl_backend.h"
#include "worker/torch/group/placement.h"
#include "worker/torch/group/probe_handlers.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {

namespace {

// From creating a group to its heartbeat thread's first wait; a few microseconds on an idle
// machine.
constexpr std::chrono::milliseconds heartbeat_thread_start_max{10};

// A public header includes no internal one, so it repeats the figures.
static_assert(ProcessGroupOptions{}.timeout == bounds::worker_collective_wait_max);
static_assert(ProcessGroupOptions{}.join_timeout == bounds::worker_collective_wait_max);

// Ranks that run this library say hello and good-bye at the store. So the rank that serves the
// store knows how long to stay, and duplicate ranks are detected. Python ranks do neither, and no
// rank waits for them.
constexpr const char* hello_key = "cpprun/hello";
constexpr const char* good_bye_key = "cpprun/good_bye";
constexpr const char* all_gone_key = "cpprun/all_gone";

std::string hello_of(int rank) {
  return fmt::format("{}/{}", hello_key, rank);
}

// The key under which a leaving rank writes its number of steps.
std::string steps_of(int rank) {
  return fmt::format("cpprun/steps/{}", rank);
}

void say_hello(const Placement& placement, c10d::Store& store) {
  const std::string mine = hello_of(placement.context.rank.value);
  if (store.add(mine, 1) > 1) throw DistributedError(taken_rank(placement));
  store.add(hello_key, 1);
}

c10d::ProcessGroup::BackendType type_of(Carrier carrier) {
  return c10d::ProcessGroup::strToBackendType(name_of(carrier));
}

void require_all_cpp(const Context& context, std::int64_t cpp_ranks) {
  if (!context.distributed_debug || cpp_ranks == context.world_size) return;
  throw DistributedError(fmt::format(
      "CPPRUN_DISTRIBUTED_DEBUG=DETAIL (or TORCH_DISTRIBUTED_DEBUG) does not work in a group of "
      "C++ and Python ranks, and only {} of {} ranks are C++: unset both variables",
      cpp_ranks, context.world_size));
}

// Ranks that have not published a gloo address have not joined. Returns nothing if even this rank's
// own address is not found: then the key names have changed.
std::vector<int> missing_ranks(const ProcessGroup::Parts& parts, const Context& context) {
  std::vector<int> missing;
  try {
    c10d::PrefixStore addresses("cpu/", parts.numbered);
    const auto came = [&addresses](int rank) {
      return addresses.check({fmt::format("0/{}", rank)});
    };
    if (!came(context.rank.value)) return {};
    for (int rank = 0; rank < context.world_size; ++rank) {
      if (!came(rank)) missing.push_back(rank);
    }
  } catch (const std::exception&) {
    // The store is lost too; the original error says more.
  }
  return missing;
}

// NCCL needs one GPU for each rank. By default it is used only if every worker of this host has its
// own GPU; if workers share a GPU, gloo carries its tensors. An explicit backend is used as given.
Result<BackendMap> backends_of(const ProcessGroupOptions& options, const Context& context) {
  const bool usable = nccl_built() && (!options.backend.empty() ||
                                       each_worker_has_a_device(context, cuda_device_count()));
  return parse_backend(options.backend, {.nccl = usable, .mpi = mpi_built()});
}

std::shared_ptr<GroupFamily> make_family(const Placement& placement,
                                         const ProcessGroupOptions& options) {
  auto family = std::make_shared<GroupFamily>();
  const auto backends = backends_of(options, placement.context);
  if (!backends) throw DistributedError(backends.error().reason);
  family->backends = *backends;
  family->context = placement.context;
  family->options = options;
  // NCCL uses the current device, so set it before the first tensor.
  if (carries(*backends, "cuda", Carrier::nccl)) {
    family->device = bind_cuda_device(placement.context);
  }
  return family;
}

ProcessGroup join(const Placement& placement, c10::intrusive_ptr<c10d::Store> store,
                  const ProcessGroupOptions& options) {
  const RoundConnections::Opening opening;
  // From here on, the answers tell which collective this process waits in.
  set_probe_handlers(&torch_handler_answer);
  if (options.rank || options.init_method.find("rank=") != std::string::npos) {
    name_rank_in_errors(placement.context.rank.value);
  }
  auto parts = std::make_shared<ProcessGroup::Parts>();
  parts->family = make_family(placement, options);
  JoinStage stage = JoinStage::store;
  const auto deadline = std::chrono::steady_clock::now() + options.join_timeout;
  try {
    parts->store = store ? std::move(store) : open_meeting_store(placement, options.join_timeout);
    parts->hosts_store = serves_store(placement);
    say_hello(placement, *parts->store);
    if (parts->family->device.is_cuda()) {
      claim_masked_device(placement.context, cuda_device_count(), *parts->store);
    }
    stage = JoinStage::ranks;
    Connection connection;
    connection.parent = c10::make_intrusive<c10d::PrefixStore>("default_pg", parts->store);
    connection.name = "0";
    connection.rank = placement.context.rank.value;
    connection.global_ranks.resize(static_cast<std::size_t>(placement.context.world_size));
    std::iota(connection.global_ranks.begin(), connection.global_ranks.end(), 0);
    // Pass only the remaining time, so that the whole join keeps to the requested limit.
    ProcessGroupOptions left = options;
    left.join_timeout = std::max(
        std::chrono::milliseconds(1),
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()));
    connect(*parts, connection, parts->family->backends, left);
    parts->family->groups_made = 1;
    // All ranks say hello before connecting, so after connecting the count is complete.
    parts->ranks_that_say_good_bye = parts->store->add(hello_key, 0);
  } catch (const DistributedError&) {
    throw;
  } catch (const std::exception& error) {
    const auto missing =
        stage == JoinStage::ranks ? missing_ranks(*parts, placement.context) : std::vector<int>();
    throw DistributedError(
        join_failure(placement, stage, options.join_timeout, first_line(error), missing));
  }
  // NCCL connects later, so the count is not final before all ranks have arrived.
  if (main_carrier(parts->family->backends) != Carrier::nccl ||
      carries(parts->family->backends, "cpu", Carrier::gloo)) {
    require_all_cpp(placement.context, parts->ranks_that_say_good_bye);
  }
  return ProcessGroup(std::move(parts));
}

c10::intrusive_ptr<c10d::Backend> make_backend(const BackendPlan& plan,
                                               const ProcessGroup::Parts& parts,
                                               const Connection& connection,
                                               const ProcessGroupOptions& options) {
  const int size = static_cast<int>(connection.global_ranks.size());
  const Context& context = parts.family->context;
  const auto store =
      c10::make_intrusive<c10d::PrefixStore>(plan.devices.front() + "/", parts.numbered);
  switch (plan.carrier) {
    case Carrier::gloo:
      return make_gloo_backend(store, connection.rank, size,
                               {.join = options.join_timeout, .collective = options.timeout},
                               context.gloo_interfaces);
    case Carrier::nccl:
      return make_nccl_backend(store, connection.rank, size, options.timeout);
    case Carrier::mpi:
      return make_mpi_backend(store, connection.rank, size,
                              {.world_size = context.world_size,
                               .group = connection.name,
                               .join = options.join_timeout,
                               .collective = options.timeout});
  }
  return nullptr;
}

// The step count of a rank that left; absent if it has not left.
std::optional<std::int64_t> left_after(c10d::Store& store, int rank) {
  const std::string key = steps_of(rank);
  if (!store.check({key})) return std::nullopt;
  return std::stoll(store.get_to_str(key));
}

// Not so if a Python rank, or none yet.
bool runs_this_library(c10d::Store& store, int rank) {
  return store.check({hello_of(rank)});
}

// Over NCCL, its watchdog ends the process at the time limit, so the report must come before.
std::chrono::milliseconds stall_interval(const ProcessGroup::Parts& parts) {
  if (!parts.family->device.is_cuda()) return bounds::worker_stall_interval;
  return std::min(bounds::worker_stall_interval, parts.timeout / 5);
}

std::shared_ptr<StallWatch> make_stall_watch(const ProcessGroup::Parts& parts, int rank) {
  return std::make_shared<StallWatch>(
      parts.store,
      StallWatch::Options{
          .group = parts.name,
          .rank = rank,
          .ranks = parts.global_ranks,
          .steps = [family = parts.family] { return family->steps.load(); },
          .left_after = left_after,
          .say = [](const std::string& words) { fmt::print(stderr, "cpprun: {}\n", words); },
          .interval = stall_interval(parts),
          .timeout = parts.timeout,
          .has_watch = runs_this_library});
}

}  // namespace

// The names and order of the prefixes are torch.distributed's, including the double slashes:
// `default_pg` for the default group, `0` for its running number, `cpu` for the first device.
void connect(ProcessGroup::Parts& parts, const Connection& connection, const BackendMap& backends,
             const ProcessGroupOptions& options) {
  const int size = static_cast<int>(connection.global_ranks.size());
  const GroupFamily& family = *parts.family;
  parts.name = connection.name;
  parts.timeout = options.timeout;
  parts.global_ranks = connection.global_ranks;
  parts.numbered = c10::make_intrusive<c10d::PrefixStore>(connection.name + "/", connection.parent);
  parts.group = c10::make_intrusive<c10d::ProcessGroup>(parts.numbered, connection.rank, size);
  if (main_carrier(backends) == Carrier::nccl) parts.group->setBoundDeviceId(family.device);
  parts.group->setDefaultBackend(type_of(main_carrier(backends)));
  for (const BackendPlan& plan : plan_backends(backends)) {
    const auto backend = make_backend(plan, parts, connection, options);
    for (const std::string& device : plan.devices) {
      parts.group->setBackend(device == "cpu" ? c10::kCPU : c10::kCUDA, type_of(plan.carrier),
                              backend);
    }
  }
  parts.met_by_joining = meets_by_joining(backends, family.context.gloo_lazy);
  parts.group->setGroupName(connection.name);
  if (size > 1) parts.stalls = make_stall_watch(parts, connection.rank);
  if (!family.context.distributed_debug || size < 2) return;
  // A separate client: a client blocked at the store blocks all other users of it, and another
  // thread may be in another group's check.
  const auto desk = c10::make_intrusive<c10d::PrefixStore>("cpprun/check/" + connection.name,
                                                           compat::own_client(parts.store));
  parts.check = std::make_unique<CollectiveCheck>(desk, connection.rank, size, options.timeout);
}

std::string first_line(const std::exception& error) {
  const std::string words = error.what();
  return words.substr(0, words.find('\n'));
}

bool all_cpp(const ProcessGroup& group) {
  std::vector<std::string> hellos;
  for (const int rank : group.global_ranks()) hellos.push_back(hello_of(rank));
  return group.store()->check(hellos);
}

std::string departures(const ProcessGroup& group, const std::string& operation,
                       const std::string& cause) {
  const auto& stalls = group.parts().stalls;
  if (stalls && means_time_is_up(cause)) return stalls->explain(operation);
  if (!means_peer_ended(cause)) return {};
  if (stalls) {
    if (auto others = stalls->explain_lost_peer(operation); !others.empty()) return others;
  }
  std::vector<std::optional<std::int64_t>> steps;
  std::vector<int> left;
  try {
    for (const int rank : group.global_ranks()) {
      steps.push_back(left_after(*group.store(), rank));
      if (steps.back()) left.push_back(rank);
    }
    steps[static_cast<std::size_t>(group.rank())] = group.parts().family->steps;
  } catch (const std::exception&) {
    return {};  // The store is lost too; the original error says more.
  }
  if (left.empty()) return {};
  return "; " + name_ranks(left) + " left the group normally" +
         short_of_steps(steps, group.global_ranks());
}

ProcessGroup::ProcessGroup(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;

ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  if (this != &other) {
    leave();
    parts_ = std::move(other.parts_);
    is_alias_ = other.is_alias_;
  }
  return *this;
}

ProcessGroup::~ProcessGroup() {
  if (parts_ && !is_alias_ && std::uncaught_exceptions() > 0) {
    // Destroying the backend waits for collectives under way, up to their timeout, while the peers
    // wait for this process to end. So leak it, or keep it until its connections are closed.
    if (parts_->stalls) parts_->stalls->abandon();
    if (RoundConnections::keep(parts_)) return;
    static_cast<void>(std::make_unique<std::shared_ptr<Parts>>(std::move(parts_)).release());
    return;
  }
  leave();
}

ProcessGroup ProcessGroup::alias() const {
  static_cast<void>(live());
  ProcessGroup same(parts_);
  same.is_alias_ = true;
  return same;
}

void ProcessGroup::leave() {
  if (is_alias_) parts_.reset();
  if (!parts_) return;
  Parts& parts = *parts_;
  try {
    if (parts.check) parts.check->leave(parts.family->steps);
    std::int64_t& members = parts.ranks_that_say_good_bye;
    // With nccl alone, joining waited for no other rank; by now all have arrived.
    if (members > 0) members = parts.store->add(hello_key, 0);
    if (members > 1) {
      // Written before the connections close, because peers read it when they see them close.
      parts.store->set(steps_of(parts.family->context.rank.value),
                       fmt::format("{}", parts.family->steps.load()));
      const std::int64_t gone = parts.store->add(good_bye_key, 1);
      if (gone == members) parts.store->set(all_gone_key, "1");
    }
    // Destroy the communicators before CUDA; the order at process exit is not guaranteed.
    // Before that, the watch must have put its last question to CUDA.
    if (parts.stalls) parts.stalls->close();
    if (parts.family->device.is_cuda()) {
      compat::shutdown(*parts.group);
      // ProcessGroupNCCL tells its heartbeat thread to stop here and again in its destructor, both
      // times without the thread's lock. A thread that is only about to wait misses both, and then
      // sleeps for TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC, 8 minutes, while the destructor waits for it.
      std::this_thread::sleep_for(heartbeat_thread_start_max);
    }
    // Before the wait below: peers that still wait in a collective of this group fail now.
    parts.group.reset();
    if (parts.hosts_store && members > 1) {
      parts.store->wait({all_gone_key}, bounds::worker_goodbye_wait_max);
    }
  } catch (const std::exception&) {
    // A rank that is missing now has failed and reports it itself; this rank is done.
  }
  // Aliases are empty from now on. The connections go before the store they use.
  parts.check.reset();
  parts.stalls.reset();
  parts.group.reset();
  parts.numbered.reset();
  parts.store.reset();
  parts_.reset();
}

ProcessGroup::Parts& ProcessGroup::live() const {
  if (!parts_) {
    throw DistributedError(
        "this ProcessGroup was moved from and is empty: use the ProcessGroup it was moved to");
  }
  if (!parts_->group) {
    throw DistributedError(
        "this process group is still in use but was destroyed, by destroy_process_group or at the "
        "end of its scope: keep the ProcessGroup as long as it is used");
  }
  return *parts_;
}

int ProcessGroup::rank() const {
  return live().group->getRank();
}
int ProcessGroup::size() const {
  return live().group->getSize();
}
const std::string& ProcessGroup::name() const {
  return live().name;
}
const std::vector<int>& ProcessGroup::global_ranks() const {
  return live().global_ranks;
}
c10::Device ProcessGroup::device() const {
  const Parts& parts = live();
  return compat::carries(*parts.group, c10::kCPU) ? c10::Device(c10::kCPU) : parts.family->device;
}
const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::native() const {
  return live().group;
}
const c10::intrusive_ptr<c10d::Store>& ProcessGroup::store() const {
  return live().store;
}
CollectiveCheck* ProcessGroup::check() const {
  return live().check.get();
}

ProcessGroup init_process_group(const Context& context, const ProcessGroupOptions& options) {
  const auto placement = place(
      context,
      {.init_method = options.init_method, .rank = options.rank, .world_size = options.world_size});
  if (!placement) throw DistributedError(placement.error().reason);
  return join(*placement, nullptr, options);
}

ProcessGroup init_process_group(const Context& context,
                                const c10::intrusive_ptr<c10d::Store>& store,
                                const ProcessGroupOptions& options) {
  const auto placement =
      place(context, {.rank = options.rank, .world_size = options.world_size, .store_given = true});
  if (!placement) throw DistributedError(placement.error().reason);
  return join(*placement, store, options);
}

void destroy_process_group(ProcessGroup group) {
  static_cast<void>(group);
}

namespace {

void require_ranks(const std::vector<int>& ranks, int world_size) {
  const auto fail = [&ranks](const std::string& why) {
    throw DistributedError(fmt::format("new_group({}): {}", fmt::join(ranks, ", "), why));
  };
  if (ranks.empty()) fail("a group needs at least one rank");
  if (ranks.front() < 0 || ranks.back() >= world_size) {
    fail(fmt::format("ranks must be from 0 to {}", world_size - 1));
  }
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) fail("a rank is listed twice");
}

}  // namespace

std::optional<ProcessGroup> new_group(const ProcessGroup& default_group, std::vector<int> ranks,
                                      const NewGroupOptions& options) {
  std::sort(ranks.begin(), ranks.end());
  require_ranks(ranks, default_group.size());
  const ProcessGroup::Parts& world = default_group.parts();
  GroupFamily& family = *world.family;
  if (world.name != "0") {
    throw DistributedError(fmt::format(
        "new_group needs the group that init_process_group returned, and ranks of that group, but "
        "got sub-group {}",
        world.name));
  }
  BackendMap backends = family.backends;
  if (!options.backend.empty()) {
    const auto parsed = parse_backend(options.backend, {.nccl = nccl_built(), .mpi = mpi_built()});
    if (!parsed) throw DistributedError(parsed.error().reason);
    backends = *parsed;
  }
  // All ranks count, members or not: the members meet under this name.
  Connection connection{.parent = world.numbered,
                        .name = fmt::format("{}", family.groups_made++),
                        .global_ranks = ranks,
                        .rank = 0};
  const auto mine = std::find(ranks.begin(), ranks.end(), default_group.rank());
  if (mine == ranks.end()) return std::nullopt;
  connection.rank = static_cast<int>(mine - ranks.begin());
  const bool nccl = std::any_of(backends.begin(), backends.end(), [](const DeviceCarrier& each) {
    return each.carrier == Carrier::nccl;
  });
  // The default group may have needed no GPU.
  if (nccl && !family.device.is_cuda()) {
    family.device = bind_cuda_device(family.context);
    claim_masked_device(family.context, cuda_device_count(), *world.store);
  }
  ProcessGroupOptions group_options = family.options;
  if (options.timeout) group_options.timeout = *options.timeout;
  auto parts = std::make_shared<ProcessGroup::Parts>();
  parts->store = world.store;
  parts->family = world.family;
  const RoundConnections::Opening opening;
  try {
    connect(*parts, connection, backends, group_options);
  } catch (const std::exception& error) {
    throw DistributedError(fmt::format(
        "rank {} cannot join the new group of ranks {}: {} (every rank must call new_group, in the "
        "same order)",
        default_group.rank(), fmt::join(ranks, ", "), first_line(error)));
  }
  return ProcessGroup(std::move(parts));
}

}  // namespace cpprun
