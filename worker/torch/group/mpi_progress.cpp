// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_progress.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "worker/torch/group/distributed_error.h"
#include "worker/torch/group/mpi_world.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A cancelled receive completes at once, unless its message is already arriving.
constexpr auto taking_back_max = 1s;

}  // namespace

// State shared by MPI's thread, the finisher thread and the callers. Guarded by its mutex.
struct MpiProgress::Desk {
  enum class State { starting, ready, failed };

  std::mutex mutex;
  std::condition_variable changed;  // notifies threads that wait for MPI
  std::condition_variable work;     // notifies MPI's thread
  State state = State::starting;
  std::string fault;
  World world;
  std::deque<std::shared_ptr<MpiOperation>> queue;
  std::map<const void*, int> under_way;  // by group; groups without operations have no entry
  std::vector<std::pair<const void*, const char*>> groups_given_up;
  bool leaving = false;
  std::thread thread;

  std::condition_variable finisher_work;
  std::deque<std::function<void()>> finishing;
  bool finisher_leaving = false;
  std::thread finisher;

  void finish() {
    std::unique_lock lock(mutex);
    while (true) {
      finisher_work.wait(lock, [this] { return finisher_leaving || !finishing.empty(); });
      if (finishing.empty()) return;
      const auto body = std::move(finishing.front());
      finishing.pop_front();
      lock.unlock();
      body();
      lock.lock();
    }
  }
};

// MPI's thread and the state that only it accesses.
class MpiProgress::Thread {
 public:
  explicit Thread(std::shared_ptr<Desk> desk) : desk_(std::move(desk)) {}

  void run() {
    if (!initialise()) return;
    while (take()) look();
    // MPI_Finalize would wait for operations it still holds, or they would write into freed memory.
    if (owns_mpi_ && abandoned_.empty()) MPI_Finalize();
  }

 private:
  struct Active {
    std::shared_ptr<MpiOperation> operation;
    Clock::time_point deadline;
    bool taken_back = false;  // then `deadline` limits the cancellation
    const char* why = nullptr;
  };

  bool initialise();
  void report(Desk::State state, std::string fault);
  bool take();  // false at the end of the thread's work
  void begin(const std::shared_ptr<MpiOperation>& operation);
  void look();
  void end_those_done(int count);
  void give_up_those_late(Clock::time_point now);
  void take_back(std::size_t index, const char* why, Clock::time_point now);
  void rest(Clock::time_point now);
  void end(const Active& active, const MpiEnd& how);
  void remove_ended();
  std::string words_of(const Active& active) const;

  const std::shared_ptr<Desk> desk_;
  bool owns_mpi_ = false;
  // Parallel arrays. A null request belongs to an operation that has ended.
  std::vector<Active> active_;
  std::vector<MPI_Request> requests_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
  std::vector<Active> abandoned_;  // MPI still accesses their memory
  Clock::time_point last_event_;
  Clock::time_point look_until_;
};

bool MpiProgress::Thread::initialise() {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (finalised != 0) {
    report(Desk::State::failed,
           "this program has already called MPI_Finalize: destroy the groups "
           "first, or let this library finalize MPI");
    return false;
  }
  int level = MPI_THREAD_SINGLE;
  if (initialised != 0) {
    MPI_Query_thread(&level);
    if (level != MPI_THREAD_MULTIPLE) {
      report(
          Desk::State::failed,
          "this program has called MPI_Init, which does not allow calls from several threads: call "
          "MPI_Init_thread with MPI_THREAD_MULTIPLE instead, or let init_process_group call it");
      return false;
    }
  } else {
    // The highest level, for the program's own use. This thread may call MPI at any level.
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level)) {
      report(Desk::State::failed, "MPI_Init_thread failed: " + mpi_error_text(code));
      return false;
    }
    owns_mpi_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  int* tag_max = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&tag_max), &found);
  world.tag_max = found != 0 ? *tag_max : 32767;  // the minimum that the standard guarantees
  desk_->world = world;
  last_event_ = look_until_ = Clock::now();
  report(Desk::State::ready, {});
  return true;
}

void MpiProgress::Thread::report(Desk::State state, std::string fault) {
  const std::scoped_lock lock(desk_->mutex);
  desk_->state = state;
  desk_->fault = std::move(fault);
  desk_->changed.notify_all();
}

bool MpiProgress::Thread::take() {
  std::deque<std::shared_ptr<MpiOperation>> fresh;
  std::vector<std::pair<const void*, const char*>> given_up;
  {
    std::unique_lock lock(desk_->mutex);
    if (active_.empty()) {
      desk_->work.wait(lock, [this] { return desk_->leaving || !desk_->queue.empty(); });
      if (desk_->queue.empty()) return false;
    }
    fresh.swap(desk_->queue);
    given_up.swap(desk_->groups_given_up);
    // Groups that were left in order have no operation under way by now.
    if (desk_->leaving) {
      for (const Active& each : active_) each.operation->given_up = mpi_aborted;
    }
  }
  for (const auto& operation : fresh) begin(operation);
  for (const auto& [group, why] : given_up) {
    for (const Active& each : active_) {
      if (each.operation->group == group) each.operation->given_up = why;
    }
  }
  return true;
}

void MpiProgress::Thread::begin(const std::shared_ptr<MpiOperation>& operation) {
  last_event_ = Clock::now();
  MPI_Request request = MPI_REQUEST_NULL;
  const Active active{.operation = operation, .deadline = last_event_ + operation->timeout};
  const int code = operation->begin(&request);
  operation->begin = nullptr;
  if (code != MPI_SUCCESS) {
    end(active, {.failure = mpi_error_text(code)});
  } else if (request == MPI_REQUEST_NULL) {
    end(active, {});
  } else {
    active_.push_back(active);
    requests_.push_back(request);
  }
}

void MpiProgress::Thread::look() {
  if (active_.empty()) return;
  const int count = static_cast<int>(requests_.size());
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int done = 0;
  const int code = MPI_Testsome(count, requests_.data(), &done, done_.data(), statuses_.data());
  if (code == MPI_SUCCESS) {
    for (MPI_Status& status : statuses_) status.MPI_ERROR = MPI_SUCCESS;
  } else if (code != MPI_ERR_IN_STATUS) {
    for (const Active& each : active_) end(each, {.failure = mpi_error_text(code)});
    std::fill(requests_.begin(), requests_.end(), MPI_REQUEST_NULL);
    remove_ended();
    return;
  }
  if (done != MPI_UNDEFINED && done > 0) end_those_done(done);
  const auto now = Clock::now();
  give_up_those_late(now);
  remove_ended();
  if (done == 0 && !active_.empty()) rest(now);
}

void MpiProgress::Thread::end_those_done(int count) {
  last_event_ = Clock::now();
  for (int n = 0; n < count; ++n) {
    const auto index = static_cast<std::size_t>(done_[static_cast<std::size_t>(n)]);
    const MPI_Status& status = statuses_[static_cast<std::size_t>(n)];
    const Active& active = active_[index];
    requests_[index] = MPI_REQUEST_NULL;
    int taken_back = 0;
    if (active.taken_back) MPI_Test_cancelled(&status, &taken_back);
    if (taken_back != 0) {
      end(active, {.failure = words_of(active)});
    } else if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
      end(active, {.failure = mpi_error_text(status.MPI_ERROR)});
    } else {
      end(active, {.failure = {}, .status = &status});
    }
  }
}

void MpiProgress::Thread::give_up_those_late(Clock::time_point now) {
  for (std::size_t index = 0; index < active_.size(); ++index) {
    if (requests_[index] == MPI_REQUEST_NULL) continue;
    Active& active = active_[index];
    const char* const asked = active.operation->given_up;
    if (active.taken_back) {
      if (now < active.deadline) continue;
    } else if (asked == nullptr && now < active.deadline) {
      continue;
    } else {
      take_back(index, asked != nullptr ? asked : mpi_timed_out, now);
      if (active.taken_back) continue;
    }
    end(active, {.failure = words_of(active)});
    abandoned_.push_back(active);
    requests_[index] = MPI_REQUEST_NULL;
  }
}

void MpiProgress::Thread::take_back(std::size_t index, const char* why, Clock::time_point now) {
  Active& active = active_[index];
  active.why = why;
  if (!active.operation->is_receive) return;
  if (MPI_Cancel(&requests_[index]) != MPI_SUCCESS) return;
  active.taken_back = true;
  active.deadline = now + taking_back_max;
}

void MpiProgress::Thread::rest(Clock::time_point now) {
  std::int64_t bytes = 0;
  for (const Active& each : active_) bytes += each.operation->bytes;
  const auto quiet = std::chrono::duration_cast<std::chrono::microseconds>(now - last_event_);
  const auto pause = pause_between_looks(quiet, bytes);
  if (now < look_until_ || pause == pause.zero()) {
    std::this_thread::yield();
    return;
  }
  std::unique_lock lock(desk_->mutex);
  desk_->work.wait_for(lock, pause, [this] { return !desk_->queue.empty(); });
  look_until_ = Clock::now() + look_at_least;
}

void MpiProgress::Thread::end(const Active& active, const MpiEnd& how) {
  const auto tell = std::exchange(active.operation->end, nullptr);
  if (tell) tell(how);
  const std::scoped_lock lock(desk_->mutex);
  const auto count = desk_->under_way.find(active.operation->group);
  if (--count->second == 0) desk_->under_way.erase(count);
  desk_->changed.notify_all();
}

void MpiProgress::Thread::remove_ended() {
  std::size_t kept = 0;
  for (std::size_t index = 0; index < active_.size(); ++index) {
    if (requests_[index] == MPI_REQUEST_NULL) continue;
    if (kept != index) active_[kept] = std::move(active_[index]);
    requests_[kept++] = requests_[index];
  }
  active_.resize(kept);
  requests_.resize(kept);
}

std::string MpiProgress::Thread::words_of(const Active& active) const {
  if (active.why != mpi_timed_out) return active.why;
  const std::chrono::duration<double> limit = active.operation->timeout;
  return fmt::format("{} after {:.3g} s over MPI", mpi_timed_out, limit.count());
}

MpiProgress::MpiProgress() : desk_(std::make_shared<Desk>()) {
  desk_->thread = std::thread([desk = desk_] { Thread(desk).run(); });
}

MpiProgress::~MpiProgress() {
  finish();
}

void MpiProgress::finish() {
  bool answers = true;
  {
    const std::scoped_lock lock(desk_->mutex);
    if (desk_->leaving) return;
    answers = desk_->state != Desk::State::starting;
    desk_->leaving = true;
    desk_->work.notify_all();
  }
  answers ? desk_->thread.join() : desk_->thread.detach();  // a thread that hangs in MPI_Init stays
  {
    const std::scoped_lock lock(desk_->mutex);
    desk_->finisher_leaving = true;
    desk_->finisher_work.notify_all();
  }
  if (desk_->finisher.joinable()) desk_->finisher.join();
}

MpiProgress::World MpiProgress::wait_until_ready(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(desk_->mutex);
  const bool answered = desk_->changed.wait_for(
      lock, timeout, [this] { return desk_->state != Desk::State::starting; });
  if (!answered) {
    throw DistributedError(
        fmt::format("backend mpi: MPI_Init_thread did not return within {:.3g} s: check that all "
                    "processes of mpirun call init_process_group, and that their hosts can connect "
                    "to each other",
                    std::chrono::duration<double>(timeout).count()));
  }
  if (desk_->state == Desk::State::failed) throw DistributedError("backend mpi: " + desk_->fault);
  return desk_->world;
}

void MpiProgress::submit(const std::shared_ptr<MpiOperation>& operation) {
  const std::scoped_lock lock(desk_->mutex);
  if (desk_->leaving) throw DistributedError("backend mpi: MPI is finalized, the process exits");
  ++desk_->under_way[operation->group];
  desk_->queue.push_back(operation);
  desk_->work.notify_one();
}

void MpiProgress::give_up_all(const void* group, const char* why) {
  const std::scoped_lock lock(desk_->mutex);
  desk_->groups_given_up.emplace_back(group, why);
}

void MpiProgress::drain(const void* group) {
  std::unique_lock lock(desk_->mutex);
  desk_->changed.wait(lock, [&] { return desk_->under_way.count(group) == 0; });
}

int MpiProgress::call(const std::function<int()>& body) {
  std::promise<int> result;
  const auto operation = std::make_shared<MpiOperation>();
  operation->group = &result;
  operation->timeout = 1h;  // never used: there is no request
  operation->begin = [&](MPI_Request*) {
    result.set_value(body());
    return MPI_SUCCESS;
  };
  submit(operation);
  drain(&result);
  return result.get_future().get();
}

void MpiProgress::later(std::function<void()> body) {
  const std::scoped_lock lock(desk_->mutex);
  if (!desk_->finisher.joinable()) {
    desk_->finisher = std::thread([desk = desk_.get()] { desk->finish(); });
  }
  desk_->finishing.push_back(std::move(body));
  desk_->finisher_work.notify_one();
}

std::shared_ptr<MpiProgress> mpi_progress() {
  static const auto only = std::make_shared<MpiProgress>();
  // Finishes even if the object is still in use: a group unwound by an exception keeps it forever.
  [[maybe_unused]] static const int ends = std::atexit([] { only->finish(); });
  return only;
}

namespace {

using Future = c10::ivalue::Future;

void complete(Future& future, const std::exception_ptr& failure,
              const std::vector<at::Tensor>& outputs) {
  if (failure) {
    future.setError(failure);
  } else {
    future.markCompleted(c10::IValue(outputs));
  }
}

// The memory that MPI reads and writes.
struct Kept {
  std::vector<at::Tensor> tensors;
  std::shared_ptr<const std::vector<int>> counts;
};

// Checks and copies received data. No exception may escape on MPI's thread.
std::string settle(const MpiCall& call, const MPI_Status& status) {
  if (!call.finish) return {};
  try {
    const at::NoGradGuard no_grad;
    return call.finish(status);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void MpiHealth::breaks(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (why_.empty()) why_ = why;
}

std::string MpiHealth::why_broken() const {
  const std::scoped_lock lock(mutex_);
  return why_;
}

c10::intrusive_ptr<MpiWork> MpiWork::start(const std::shared_ptr<MpiProgress>& progress,
                                           const std::shared_ptr<MpiHealth>& health,
                                           const void* group, int rank, MpiCall call) {
  auto work = c10::make_intrusive<MpiWork>(rank, call.type, progress, call.outputs);
  const auto operation = std::make_shared<MpiOperation>();
  operation->group = group;
  operation->bytes = call.bytes;
  operation->timeout = call.timeout;
  operation->is_receive = call.is_receive;
  operation->begin = std::move(call.begin);
  operation->keeps = std::make_shared<const Kept>(Kept{std::move(call.tensors), call.counts});
  operation->end = [work, health, call = std::move(call)](const MpiEnd& how) {
    std::string failure = how.failure;
    if (failure.empty() && how.status != nullptr) {
      failure = settle(call, *how.status);
      if (failure.empty() && call.source) work->source_ = call.source(*how.status);
    }
    if (!failure.empty() && !call.is_message) health->breaks(failure);
    work->end(failure);
  };
  work->operation_ = operation;
  progress->submit(operation);
  return work;
}

MpiWork::MpiWork(int rank, c10d::OpType type, std::shared_ptr<MpiProgress> progress,
                 std::vector<at::Tensor> outputs)
    : Work(rank, type), progress_(std::move(progress)), outputs_(std::move(outputs)) {}

void MpiWork::end(const std::string& failure) {
  const auto error =
      failure.empty() ? nullptr : std::make_exception_ptr(std::runtime_error(failure));
  c10::intrusive_ptr<Future> future;
  {
    // After this, getFuture() returns a completed future.
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    failure_ = error;
    future = future_;
  }
  finish(error);
  if (!future) return;
  progress_->later([future, error, outputs = outputs_] { complete(*future, error, outputs); });
}

bool MpiWork::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return completed_; };
  if (timeout != kNoTimeout && !cv_.wait_for(lock, timeout, ended)) {
    if (gave_up_.empty()) {
      gave_up_ = fmt::format("{} after {:.3g} s over MPI", mpi_timed_out,
                             std::chrono::duration<double>(timeout).count());
      operation_->given_up = gave_up_.c_str();
    }
  }
  cv_.wait(lock, ended);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void MpiWork::abort() {
  operation_->given_up = mpi_aborted;
}

c10::intrusive_ptr<Future> MpiWork::getFuture() {
  const std::scoped_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<Future>(c10::ListType::ofTensors());
  if (ended_) complete(*future_, failure_, outputs_);
  return future_;
}

namespace {

using c10::ScalarType;
using c10d::ReduceOp;

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Most {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

// MPI has no 16-bit floating point types. As in gloo, each step rounds to them.
template <class T, class Step>
void reduce_small(void* more, void* into, int* count, MPI_Datatype*) {
  const T* const from = static_cast<const T*>(more);
  T* const to = static_cast<T*>(into);
  for (int n = 0; n < *count; ++n) to[n] = Step::template of<T>(from[n], to[n]);
}

// Each MPI operation is created once and lives as long as MPI.
template <class T, class Step>
MPI_Op small_op() {
  static const MPI_Op made = [] {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(&reduce_small<T, Step>, /*commute=*/1, &op);
    return op;
  }();
  return made;
}

template <class T>
MPI_Op small_op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::PRODUCT:
      return small_op<T, Product>();
    case ReduceOp::MIN:
      return small_op<T, Least>();
    case ReduceOp::MAX:
      return small_op<T, Most>();
    default:
      return small_op<T, Sum>();
  }
}

// LibTorch's enumeration grows from version to version, so there is a `default`.
MPI_Op op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::PRODUCT:
      return MPI_PROD;
    case ReduceOp::MIN:
      return MPI_MIN;
    case ReduceOp::MAX:
      return MPI_MAX;
    case ReduceOp::BAND:
      return MPI_BAND;
    case ReduceOp::BOR:
      return MPI_BOR;
    case ReduceOp::BXOR:
      return MPI_BXOR;
    default:
      return MPI_SUM;
  }
}

MPI_Op truth_op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
      return MPI_MAX;
    case ReduceOp::PRODUCT:
      return MPI_MIN;
    default:
      return op_of(op);
  }
}

// The type for MPI's arithmetic. Null for types it cannot compute with.
MPI_Datatype number_type(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::Byte:
      return MPI_UINT8_T;
    case ScalarType::Char:
      return MPI_INT8_T;
    case ScalarType::Short:
      return MPI_INT16_T;
    case ScalarType::Int:
      return MPI_INT32_T;
    case ScalarType::Long:
      return MPI_INT64_T;
    case ScalarType::UInt16:
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return MPI_UINT16_T;
    case ScalarType::UInt32:
      return MPI_UINT32_T;
    case ScalarType::UInt64:
      return MPI_UINT64_T;
    case ScalarType::Float:
      return MPI_FLOAT;
    case ScalarType::Double:
      return MPI_DOUBLE;
    case ScalarType::ComplexFloat:
      return MPI_C_FLOAT_COMPLEX;
    case ScalarType::ComplexDouble:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_DATATYPE_NULL;
  }
}

}  // namespace

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  if (MPI_Error_string(code, words.data(), &length) != MPI_SUCCESS) {
    return fmt::format("MPI error {}", code);
  }
  return {words.data(), static_cast<std::size_t>(length)};
}

MPI_Datatype mpi_element(ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    case 16:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      break;
  }
  throw DistributedError(fmt::format(
      "backend mpi does not support tensors of {}: convert them first", c10::toString(type)));
}

MpiReduction mpi_reduction(ScalarType type, ReduceOp::RedOpType op) {
  const MPI_Datatype numbers = number_type(type);
  switch (type) {
    case ScalarType::Half:
      return {numbers, small_op_of<c10::Half>(op)};
    case ScalarType::BFloat16:
      return {numbers, small_op_of<c10::BFloat16>(op)};
    case ScalarType::Bool:
      return {numbers, truth_op_of(op)};
    default:
      return {numbers, op_of(op)};
  }
}

}  // namespace cpprun
