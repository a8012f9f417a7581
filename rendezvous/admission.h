#pragma once
// Whose workers may use a job's store: the machines of the round that runs, and the keeper's own.
// A node that was given up is fenced by this: once the next round is sealed its address is strange.

#include <string>
#include <unordered_set>

#include "proto/result.h"
#include "rendezvous/round.h"

namespace cpprun {

class Admission {
 public:
  // From here on the seated members, and nobody else.
  void follow(const Round& round);
  // The reason if that numeric address may not.
  Result<void> check(const std::string& address) const;

 private:
  std::unordered_set<std::string> admitted_;
};

}  // namespace cpprun
