// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What nodes say behind their join while nobody can hear it yet: the store of their job is being
// opened, or this coordinator is about to lead. Whoever comes back says again what may have been
// missed, and only once.

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

class EarlyWords {
 public:
  // Its words are kept from now on, those of before too.
  void expect(LinkId link) { words_.try_emplace(link); }
  // False: it says more than any agent does, or all of them together do. Of a link that is not
  // expected nothing is kept, and of heartbeats neither: they are for the moment.
  bool keep(LinkId link, const link::Message& message);
  std::vector<link::Message> take(LinkId link);
  void forget(LinkId link) { (void)take(link); }

  std::size_t size() const { return words_.size(); }

 private:
  struct Kept {
    std::vector<link::Message> messages;
    std::size_t bytes = 0;
  };

  std::unordered_map<LinkId, Kept> words_;
  std::size_t bytes_ = 0;  // of all of them, as they came
};

}  // namespace cpprun
