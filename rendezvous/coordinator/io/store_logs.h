// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The logs of jobs' stores: the image at their start (StoreImage), reading them (StoreReplay), and
// distributing them to keepers (StoreLogs).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/result.h"
#include "rendezvous/coordinator/io/node_streams.h"
#include "rendezvous/store/store_log.h"

namespace cpprun {

// The contents of a job's store at one moment, as the start of a log (StoreLog, "image"). Reading
// the image, and then what is logged from that moment on, gives the same store. It is made in
// slices, with all links served in between. Only the job's own workers wait meanwhile.
class StoreImage {
 public:
  struct Context {
    ConnectionSet& connections;
    const StreamRoutes& routes;
    ListenerId listener;
    const Store& store;
    std::string job;
    const StoreLog& log;  // of what happens in the meantime
  };
  explicit StoreImage(Context place);
  ~StoreImage();
  StoreImage(const StoreImage&) = delete;
  StoreImage& operator=(const StoreImage&) = delete;

  // Makes one slice. Returns true when the image is complete.
  bool go_on();
  // Returns the part that was made since the last call.
  std::string take() { return image_.take(); }
  // The position in the log that the image corresponds to. Nothing if it has not started.
  std::optional<std::uint64_t> at() const { return at_; }
  // Memory has run out; the image is unusable.
  bool is_lost() const { return image_.is_lost(); }

 private:
  void show_clients();

  const Context place_;
  StoreLog image_;
  std::optional<std::uint64_t> at_;
  std::size_t next_shard_ = 0;
};

// The contents of a store, all at once, at the end of such an image.
void write_contents(const Store& store, StoreLog& image);

// A copy of a job's store from another process. It reads what that process has logged (StoreLog)
// and recreates its sessions, streams and values. Until end(), the copy decides nothing and has no
// links. After that it is a normal store, and nodes find in it what they were last sent.
class StoreReplay {
 public:
  struct Context {
    ConnectionSet& connections;
    StreamRoutes& routes;
    ListenerId listener;  // through which the job's clients come here
    Store& store;         // the listener's store; empty at first
    std::string job;
    RoundNumber round;
  };
  explicit StoreReplay(Context place);
  StoreReplay(const StoreReplay&) = delete;
  StoreReplay& operator=(const StoreReplay&) = delete;

  // That client of the log's writer is this one here. Not for clients that come through links,
  // which are in the log.
  void adopt(ConnectionId name, ConnectionId here) { clients_[name] = {here, {}, {}}; }
  // Reads a piece of the log, cut anywhere. After an error, the log and its copy are unusable.
  Result<void> hear(std::string_view bytes);
  // Whether the log ends between two records.
  bool is_whole() const { return reader_.left() == 0; }
  // From now on the store is decided here.
  void end();
  // Logs the local names of the clients, for keepers that continue the same log.
  void rename(StoreLog& log) const;

 private:
  // The local client for a client of the log's writer.
  struct Client {
    ConnectionId id;
    GroupRank node;
    StreamId stream;
  };
  Result<void> go_on(StoreSessions& sessions, bool& has_more);
  Result<void> on(StoreSessions& sessions, StoreRecord record);
  Result<void> on_client(StoreSessions& sessions, const StoreRecord& record);
  Result<void> open(const StoreRecord& record);
  NodeStreams* streams_of(GroupRank node);

  const Context place_;
  StoreLogReader reader_;
  std::unordered_map<ConnectionId, Client> clients_;  // by the writer's name
  std::unordered_map<ConnectionId, Client> renamed_;  // by the writer's new name, as far as known
  std::unordered_map<GroupRank, std::shared_ptr<NodeStreams>> nodes_;
};

// Stores the logs. Its functions are called in order, and from within calls of StoreLogs.
class LogKeeper {
 public:
  virtual ~LogKeeper() = default;
  // A new log of the job begins, in that round. The previous log stays valid until this one is
  // complete.
  virtual void begin_log(const std::string& job, RoundNumber round) = 0;
  // Adds to the log that has begun and is not complete.
  virtual void add_image(const std::string& job, std::string_view bytes) = 0;
  // Whether it accepts a slice of an image now. If not, it calls resume_images() once it does.
  virtual bool has_room_for_image() = 0;
  // The log that has begun is complete: the job can be resumed from it, with what is added from now
  // on.
  virtual void log_is_whole(const std::string& job) = 0;
  // Adds to the complete log.
  virtual void add_log(const std::string& job, std::string_view bytes) = 0;
  // Another process's log of the job is continued. Returns false unless the keeper has all of it.
  virtual bool go_on_log(const std::string& job) = 0;
  // The log is no longer needed or usable.
  virtual void end_log(const std::string& job) = 0;

 private:
  friend class StoreLogs;
  std::uint64_t attached_as_ = 0;  // a number that StoreLogs counts
};

// Passes the logs of jobs' stores to keepers: a directory, another cpprund, or both. It does so for
// all jobs whose workers connect through links. A keeper has everything of a job since its round
// began, or since an image that was made for it. A keeper that has lost its copy asks for an image
// (renew). So does one whose log has become long (shorten), which gets all further records until
// the image is complete, so that its copy is complete at any moment. Without keepers nothing is
// logged.
class StoreLogs {
 public:
  struct Callbacks {
    // For a job that has a store.
    std::function<ListenerId(const std::string& job)> listener_of;
    std::function<const Store&(const std::string& job)> store_of;
    // Calls the function after everything else that has arrived was processed.
    std::function<void(std::function<void()>)> soon;
  };
  StoreLogs(ConnectionSet& connections, StreamRoutes& routes, Callbacks callbacks)
      : connections_(connections), routes_(routes), callbacks_(std::move(callbacks)) {}
  ~StoreLogs();
  StoreLogs(const StoreLogs&) = delete;
  StoreLogs& operator=(const StoreLogs&) = delete;

  // From now on the keeper has all logs, or none. It has to outlive this object or be detached.
  void attach(LogKeeper& keeper);
  void detach(LogKeeper& keeper);
  // Whether the keeper has all of every job's log, and gets what is added.
  bool is_whole_at(LogKeeper& keeper) const;
  // The keeper has lost its copy of the job, or a part of an image: it gets a new image.
  void renew(LogKeeper& keeper, const std::string& job);
  // A keeper that had no room for images may have room again.
  void resume_images();
  // The keeper has all of the job's log, and wants to replace it with an image.
  void shorten(LogKeeper& keeper, const std::string& job);

  // A round of the job begins with an empty store.
  void begin(const std::string& job, RoundNumber round);
  // Continues a log that was read by `replay`. Null: this process has kept the store until now.
  void go_on(const std::string& job, RoundNumber round, const StoreReplay* replay);
  void end(const std::string& job);
  // Ends all logs without telling the keepers, which keep what they have.
  void end_all();

  // The log for a job's clients; null: none.
  StoreLog* log_of(const std::string& job);
  // Passes what was logged, of one job or of all, to the keepers.
  void flush(const std::string& job);
  void flush();

 private:
  // Keepers are served in the order in which they were attached, so that a simulated run does not
  // depend on addresses.
  struct InOrder {
    bool operator()(const LogKeeper* a, const LogKeeper* b) const {
      if (a->attached_as_ != b->attached_as_) return a->attached_as_ < b->attached_as_;
      return std::less<>()(a, b);
    }
  };
  using Keepers = std::set<LogKeeper*, InOrder>;
  struct Log {
    RoundNumber round{};
    StoreLog log;
    Keepers live;         // have all of it
    Keepers wants_image;  // have nothing yet, or too much
    std::optional<StoreImage> image;
    Keepers image_for;
    std::string since_image;  // what was logged since the image began
  };
  void take_down(const std::string& job, Log& log);
  void leave(const std::string& job, Log& log);
  void flush(const std::string& job, Log& log);
  void make_images(const std::string& job, Log& log);
  static bool has_room(const Log& log);
  void go_on_soon();
  void go_on_with_images();
  void go_on_with_image(const std::string& job, Log& log);

  ConnectionSet& connections_;
  StreamRoutes& routes_;
  const Callbacks callbacks_;
  std::uint64_t attached_ = 0;
  Keepers keepers_;
  std::map<std::string, std::unique_ptr<Log>> logs_;  // of the current rounds
  bool is_going_on_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
