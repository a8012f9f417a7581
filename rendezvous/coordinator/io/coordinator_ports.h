// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The owners of the stores behind the ports of a CoordinatorServer. Only its own files include
// this.

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/store/io/store_forwarder.h"

namespace cpprun {

class CoordinatorServer::Port : public StoreHost {
 public:
  explicit Port(CoordinatorServer& server) : server_(server) {}
  void adopt_link(FileDescriptor socket, PeerAddress peer, std::string first_bytes) override {
    server_.adopt_link(std::move(socket), peer, std::move(first_bytes));
  }
  // TLS is accepted even without a secret, so that the client learns that there is none.
  TakenProtocols taken() const override { return {.http = shows_status_, .secure = true}; }
  void adopt_http(FileDescriptor socket, PeerAddress peer, std::string first_bytes) override {
    server_.status_->adopt(std::move(socket), peer, std::move(first_bytes));
  }
  void adopt_secure(FileDescriptor socket, PeerAddress peer, std::string first_bytes) override {
    server_.adopt_secure(std::move(socket), peer, std::move(first_bytes));
  }
  void note(Note note) override { server_.callbacks_.note(std::move(note)); }
  void show_status() { shows_status_ = true; }

 protected:
  CoordinatorServer& server_;

 private:
  bool shows_status_ = false;
};

// A job's store, for the members of the current round.
class CoordinatorServer::JobPort : public Port {
 public:
  JobPort(CoordinatorServer& server, std::string job) : Port(server), job_(std::move(job)) {}
  Result<void> admit(const PeerAddress& peer) override {
    const Job* const its = server_.coordinator_.machine().find(job_);
    if (its != nullptr && its->terms().store_is_local) {
      return failure(
          "workers of this job must reach its store through cpprun on their node (--store=local)");
    }
    auto admitted = server_.coordinator_.machine().admit(job_, peer.host_text());
    if (admitted) server_.note_asked(job_);
    return admitted;
  }
  // The node has a seat, which was checked when the frame arrived.
  Result<void> admit_stream(const PeerAddress&) override {
    server_.note_asked(job_);
    return {};
  }
  // A job's store is deleted with the job, and its last clients disconnect after that.
  Store& store() override {
    if (replica_ != nullptr) return *replica_;
    return server_.coordinator_.machine().knows(job_) ? server_.coordinator_.machine().store(job_)
                                                      : left_behind_;
  }
  // Sets the store to serve while the coordinator does not lead. Null: the coordinator's own.
  void keep(Store* replica) { replica_ = replica; }

 protected:
  const std::string& job() const { return job_; }

 private:
  std::string job_;
  Store* replica_ = nullptr;
  Store left_behind_;
};

// The same store for the workers of this machine, when stores are local. It accepts only processes
// of the user who started cpprun.
class CoordinatorServer::LocalPort : public JobPort {
 public:
  using JobPort::JobPort;
  void set_port(int port) { port_ = static_cast<std::uint16_t>(port); }
  TakenProtocols taken() const override { return {}; }
  Result<void> admit(const PeerAddress& peer) override {
    PeerAddress ours = peer;  // loopback
    ours.port = port_;
    if (const auto admitted = admit_worker({.theirs = peer, .ours = ours}); !admitted) {
      return admitted;
    }
    server_.note_asked(job());
    return {};
  }
  void adopt_link(FileDescriptor, PeerAddress peer, std::string) override {
    server_.refuse(peer, "an agent connected to the port for local workers");
  }

 private:
  std::uint16_t port_ = 0;
};

// A store that belongs to no job, for any client, unless it is disabled.
class CoordinatorServer::PlainPort : public Port {
 public:
  PlainPort(CoordinatorServer& server, PlainStore plain) : Port(server), plain_(plain) {}
  Result<void> admit(const PeerAddress&) override {
    switch (plain_) {
      case PlainStore::served:
        return {};
      case PlainStore::refused:
        return failure("this daemon serves jobs only (--no-plain-store)");
      case PlainStore::behind_secret:
        return failure("this daemon requires a secret");
    }
    return {};
  }
  Store& store() override { return store_; }

 private:
  PlainStore plain_;
  Store store_;
};

}  // namespace cpprun
