// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The logs of jobs' stores: their beginning (StoreImage), reading one again (StoreReplay), and who
// keeps them (StoreLogs).

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

// What a job's store holds at one moment, as the beginning of a log (StoreLog, "image"): whoever
// reads it, and then what is written down from that moment on, comes to the same. It is made a
// slice at a time, with all links served in between; the job's own workers wait meanwhile, and
// nobody else does.
class StoreImage {
 public:
  struct Place {
    ConnectionSet& connections;
    const StreamRoutes& routes;
    ListenerId listener;
    const Store& store;
    std::string job;
    const StoreLog& log;  // of what happens meanwhile
  };
  explicit StoreImage(Place place);
  ~StoreImage();
  StoreImage(const StoreImage&) = delete;
  StoreImage& operator=(const StoreImage&) = delete;

  // One slice. True: it is whole.
  bool go_on();
  // What there is of it and was not taken yet.
  std::string take() { return image_.take(); }
  // It is what the store was when so much of the log was written; nothing: that is still to come.
  std::optional<std::uint64_t> at() const { return at_; }
  // There was no memory for it.
  bool is_lost() const { return image_.is_lost(); }

 private:
  void show_clients();

  const Place place_;
  StoreLog image_;
  std::optional<std::uint64_t> at_;
  std::size_t next_shard_ = 0;
};

// One job's store as another process has it, or had it: what that one has written down (StoreLog)
// is read here, and the same sessions, streams and values come into being. Until end() nothing is
// decided here and no link leads to it; from then on it is a store like any other, and its nodes
// find in it what they were last told of.
class StoreReplay {
 public:
  struct Place {
    ConnectionSet& connections;
    StreamRoutes& routes;
    ListenerId listener;  // that the job's clients come through here
    Store& store;         // which is empty, and the listener's
    std::string job;
    RoundNumber round;
  };
  explicit StoreReplay(Place place);
  StoreReplay(const StoreReplay&) = delete;
  StoreReplay& operator=(const StoreReplay&) = delete;

  // A piece of the log, cut anywhere. An error: it does not lead anywhere, and what came of it is
  // of no use.
  Result<void> hear(std::string_view bytes);
  // It has ended between two records.
  bool is_whole() const { return reader_.left() == 0; }
  // It is decided here from now on.
  void end();
  // Whoever goes on with the same log calls its clients what they are called here.
  void rename(StoreLog& log) const;

 private:
  // A client of the writer's, here.
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

  const Place place_;
  StoreLogReader reader_;
  std::unordered_map<ConnectionId, Client> clients_;  // by what the writer calls them
  std::unordered_map<ConnectionId, Client> renamed_;  // and will call them, as far as it has said
  std::unordered_map<GroupRank, std::shared_ptr<NodeStreams>> nodes_;
};

// It is called in order, and from within the calls of StoreLogs.
class LogKeeper {
 public:
  virtual ~LogKeeper() = default;
  // Another log of the job begins, of that round. What it had of it before is of no use once this
  // is whole, and not sooner.
  virtual void begin_log(const std::string& job, RoundNumber round) = 0;
  // To the log that has begun and is not whole.
  virtual void add_image(const std::string& job, std::string_view bytes) = 0;
  // Whether it takes a slice of an image now; where it does not, it calls resume_images() when it
  // does.
  virtual bool has_room_for_image() = 0;
  // Somebody could go on with the log that has begun, and with whatever is added from now on.
  virtual void log_is_whole(const std::string& job) = 0;
  // To the one that is whole.
  virtual void add_log(const std::string& job, std::string_view bytes) = 0;
  // Somebody goes on with what it has of the job, whole; false: it has nothing of it, or not all.
  virtual bool go_on_log(const std::string& job) = 0;
  // There is nothing to go on with any more.
  virtual void end_log(const std::string& job) = 0;
};

// The logs of the stores of all jobs whose workers come through links, for whoever keeps them: a
// folder, another cpprund, or both. A keeper has of each job what was written down since its round
// began, or since an image that was made for it. One that has lost that asks for an image (renew);
// one for which it has become long, too (shorten), and is told what happens until the image is
// whole: it has all of the job at any moment. Where nobody keeps anything nothing is written.
class StoreLogs {
 public:
  struct Callbacks {
    // Of a job that has a store.
    std::function<ListenerId(const std::string& job)> listener_of;
    std::function<const Store&(const std::string& job)> store_of;
    // To be called when everything else that has come was looked at.
    std::function<void(std::function<void()>)> soon;
  };
  StoreLogs(ConnectionSet& connections, StreamRoutes& routes, Callbacks callbacks)
      : connections_(connections), routes_(routes), callbacks_(std::move(callbacks)) {}
  ~StoreLogs();
  StoreLogs(const StoreLogs&) = delete;
  StoreLogs& operator=(const StoreLogs&) = delete;

  // It keeps all of them from now on, or none any more. It outlives this, or is taken away.
  void attach(LogKeeper& keeper);
  void detach(LogKeeper& keeper);
  // It has all of every job's, and is told what happens.
  bool is_whole_at(LogKeeper& keeper) const;
  // It has lost what it had of that job, be it a part of an image: another one is made.
  void renew(LogKeeper& keeper, const std::string& job);
  // One that had no room for images may have some.
  void resume_images();
  // It has all of that job, and would rather have an image.
  void shorten(LogKeeper& keeper, const std::string& job);

  // A round of that job begins, on an empty store.
  void begin(const std::string& job, RoundNumber round);
  // It goes on with what another process has written down.
  // `replay` has read it here; null: this process had decided it, and goes on.
  void go_on(const std::string& job, RoundNumber round, const StoreReplay* replay);
  void end(const std::string& job);
  // All of them, and nobody is told: what they keep is what there was.
  void end_all();

  // Where a job's clients are written down; null: nowhere.
  StoreLog* log_of(const std::string& job);
  // Brings to the keepers what was written down of that job, or of all.
  void flush(const std::string& job);
  void flush();

 private:
  struct Log {
    RoundNumber round{};
    StoreLog log;
    std::set<LogKeeper*> live;         // that have all of it
    std::set<LogKeeper*> wants_image;  // that have nothing of it yet, or too much
    std::optional<StoreImage> image;
    std::set<LogKeeper*> image_for;
    std::string since_image;  // what was written down since it began
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
  std::set<LogKeeper*> keepers_;
  std::map<std::string, std::unique_ptr<Log>> logs_;  // of the rounds that run
  bool is_going_on_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
