// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/shared_ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "proto/text.h"

namespace cpprun {

namespace {

struct Head {
  std::uint64_t kind = 0;
  std::uint64_t number = 0;
  std::uint64_t generation = 0;
  std::uint64_t ticket = 0;
  std::uint64_t size = 0;
};

// An empty ring restarts at its first byte once it has used more than this fraction of its size.
constexpr std::size_t parts_before_begin = 64;

// Reserved for Shared in front of the ring, so that the ring starts on a page boundary.
constexpr std::size_t shared_bytes = 4096;

}  // namespace

Result<std::unique_ptr<SharedRing>> SharedRing::make(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, shared_bytes + bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return failure(errno_text(errno));
  return std::unique_ptr<SharedRing>(new SharedRing(memory, bytes));
}

SharedRing::SharedRing(void* memory, std::size_t bytes)
    : shared_(new(memory) Shared{}),
      bytes_(static_cast<char*>(memory) + shared_bytes),
      size_(bytes) {
  static_assert(sizeof(Shared) <= shared_bytes);
}

SharedRing::~SharedRing() {
  (void)::munmap(shared_, shared_bytes + size_);  // cannot fail for a mapped range
}

void SharedRing::copy_in(std::uint64_t at, const void* from, std::size_t count) {
  if (count == 0) return;  // memcpy with count 0 still requires valid pointers
  const std::size_t place = at % size_;
  const std::size_t first = std::min(count, size_ - place);
  std::memcpy(bytes_ + place, from, first);
  std::memcpy(bytes_, static_cast<const char*>(from) + first, count - first);
}

void SharedRing::copy_out(std::uint64_t at, void* to, std::size_t count) const {
  if (count == 0) return;
  const std::size_t place = at % size_;
  const std::size_t first = std::min(count, size_ - place);
  std::memcpy(to, bytes_ + place, first);
  std::memcpy(static_cast<char*>(to) + first, bytes_, count - first);
}

SharedRing::Put SharedRing::put(const Entry& entry, std::string_view bytes) {
  const std::uint64_t written = shared_->written.load(std::memory_order_relaxed);
  const std::uint64_t needed = sizeof(Head) + bytes.size();
  if (size_ - held() < needed) return Put::full;
  const std::uint64_t at = begin_if_empty(written);
  const Head head{entry.kind, entry.number, entry.generation, entry.ticket, bytes.size()};
  copy_in(at, &head, sizeof head);
  copy_in(at + sizeof head, bytes.data(), bytes.size());
  // Publishes the complete entry. `written` and `taken` are in one total order, so at least one
  // side sees the other's update: either this side wakes the reader, or the reader has seen this
  // entry.
  shared_->written.store(at + needed, std::memory_order_seq_cst);
  return shared_->taken.load(std::memory_order_seq_cst) == written ? Put::wake : Put::quiet;
}

// Position of the next entry. An empty ring restarts at its first byte to reuse the pages that it
// has touched: the kernel does not allocate the others.
std::uint64_t SharedRing::begin_if_empty(std::uint64_t written) {
  const std::uint64_t place = written % size_;
  if (place < size_ / parts_before_begin || held() != 0) return written;
  const std::uint64_t begun = written - place + size_;
  shared_->begun.store(begun, std::memory_order_seq_cst);
  return begun;
}

bool SharedRing::is_empty() const {
  return shared_->written.load(std::memory_order_seq_cst) ==
         shared_->taken.load(std::memory_order_seq_cst);
}

std::uint64_t SharedRing::held() const {
  const std::uint64_t written = shared_->written.load(std::memory_order_acquire);
  return written - std::min(first(), written);
}

void SharedRing::set_incomplete(bool is_incomplete) {
  shared_->incomplete.store(is_incomplete ? 1 : 0, std::memory_order_seq_cst);
}

bool SharedRing::is_incomplete() const {
  return shared_->incomplete.load(std::memory_order_seq_cst) != 0;
}

// Position of the next entry. A range is only ever skipped when everything before it was taken.
std::uint64_t SharedRing::first() const {
  return std::max(shared_->taken.load(std::memory_order_acquire),
                  shared_->begun.load(std::memory_order_seq_cst));
}

std::optional<SharedRing::Entry> SharedRing::next() const {
  if (is_empty()) return std::nullopt;
  const std::uint64_t at = first();
  Head head;
  copy_out(at, &head, sizeof head);
  Entry entry{.kind = head.kind,
              .number = head.number,
              .generation = head.generation,
              .ticket = head.ticket,
              .bytes = std::string(head.size, '\0')};
  copy_out(at + sizeof head, entry.bytes.data(), head.size);
  return entry;
}

void SharedRing::drop() {
  const std::uint64_t at = first();
  Head head;
  copy_out(at, &head, sizeof head);
  shared_->taken.store(at + sizeof head + head.size, std::memory_order_seq_cst);
}

}  // namespace cpprun
