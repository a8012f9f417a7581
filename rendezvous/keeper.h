#pragma once
// The whole daemon as one machine: which jobs there are, which link belongs to which, and for each
// job its store. It knows no socket: links are numbers, time is an argument, and what is to be done
// comes back as a list.
//
// Store clients are not events: a request goes to the job's Store directly (`store`), because at a
// million requests a second nothing should stand in between. Whether a client may speak at all is
// asked once, when it connects (`admit`).

#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "proto/machine.h"
#include "rendezvous/job.h"
#include "rendezvous/store.h"

namespace cpprun {

struct KeeperOptions {
  JobTerms job;  // the one job that this keeper hosts
  JobOptions options;
};

class Keeper {
 public:
  // A link was opened, by an agent that has greeted with the preamble.
  struct Opened {
    Caller caller;
  };
  struct Said {
    LinkId link;
    link::Message message;
  };
  struct Closed {
    LinkId link;
    std::string reason;
  };

  using Event = std::variant<Opened, Said, Closed>;
  using Action = keeper::Action;
  using Actions = keeper::Actions;

  explicit Keeper(KeeperOptions options);

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // May a store client from that numeric address speak? The reason if not.
  Result<void> admit(const std::string& peer) const { return job_.admit(peer); }
  Store& store() { return store_; }
  // The job is over and every agent has hung up, or was never there.
  bool done() const { return job_.over() && job_.round().size() == 0; }
  const Job& job() const { return job_; }

 private:
  void said(TimePoint now, const Said& event, Actions& actions);
  void empty_store(const Actions& actions);

  Job job_;
  Store store_;
  // Links that have greeted but not joined yet, by id.
  std::unordered_map<LinkId, Caller> newcomers_;
};

static_assert(StateMachine<Keeper>);

}  // namespace cpprun
