// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The network connections of a process group that run_restartable() can break: a collective that
// waits for a lost worker then fails at once, and the worker can leave the round. There is one set
// per process. It does nothing in a program that does not use run_restartable(). Thread-safe.

#include <memory>

namespace cpprun {

class RoundConnections {
 public:
  // Network sockets that any thread of this process opens while such an object exists belong to the
  // round.
  class Opening {
   public:
    Opening();
    ~Opening();
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;
  };

  // A round begins. It has no connections yet.
  static void begin();
  // The round is broken: whatever waits for its connections fails now. May be called repeatedly.
  static void shut_down();
  // The round has ended: destroys what was kept, in this thread. So it waits until no other thread
  // uses it: a process group must not be destroyed by its own threads, which its destructor joins.
  static void end();

  // Keeps an object that waits for other ranks in its destructor until end(), when its connections
  // are shut down. False: there is no round, and nothing was kept.
  static bool keep(std::shared_ptr<void> object);
};

}  // namespace cpprun
