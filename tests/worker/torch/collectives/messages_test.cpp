// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/messages.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include <set>

#include "tests/worker/two_ranks.h"

namespace messages_test {

using namespace cpprun;
using testing::expect;

namespace {

at::Tensor number(double value) {
  return at::full({2}, value, at::kFloat);
}

float value_of(const at::Tensor& tensor) {
  return tensor[0].item<float>();
}

}  // namespace

TEST_CASE("a message arrives at its receiver, distinguished by its tag") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          if (group.rank() == 0) {
            // Both are sent before the other side receives either.
            Work seven = isend(number(7), 1, group, 7);
            Work eight = isend(number(8), 1, group, 8);
            seven.wait();
            eight.wait();
            return;
          }
          const at::Tensor eight = number(0);
          const at::Tensor seven = number(0);
          expect(recv(eight, 0, group, 8) == 0, "source");
          recv(seven, 0, group, 7);
          expect(value_of(eight) == 8 && value_of(seven) == 7, "tags");
        }) == "");
}

TEST_CASE("two ranks may send to each other at once when neither blocks") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const int other = 1 - group.rank();
          const at::Tensor incoming = number(-1);
          Work sending = isend(number(group.rank()), other, group);
          Work receiving = irecv(incoming, other, group);
          sending.wait();
          expect(value_of(receiving.wait().front()) == static_cast<float>(other), "exchange");
        }) == "");
}

TEST_CASE("a receive from any rank returns the sender") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          if (group.rank() != 0) {
            send(number(group.rank()), 0, group);
            return;
          }
          std::set<int> senders;
          for (int i = 0; i < 2; ++i) {
            const at::Tensor incoming = number(0);
            const int sender = recv(incoming, any_source, group);
            expect(value_of(incoming) == static_cast<float>(sender), "sender and content");
            senders.insert(sender);
          }
          expect(senders == std::set<int>{1, 2}, "both senders");
        }) == "");
}

TEST_CASE("a message to a missing rank or to oneself is rejected") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto refused = [&](int destination, int tag) {
            try {
              send(number(0), destination, group, tag);
              return false;
            } catch (const DistributedError&) {
              return true;
            }
          };
          expect(refused(group.rank(), 0), "itself");
          expect(refused(2, 0), "a missing rank");
          expect(refused(1 - group.rank(), -1), "tag");
        }) == "");
}

}  // namespace messages_test
