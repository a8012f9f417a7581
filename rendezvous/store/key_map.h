// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A map for keys chosen by untrusted clients. Keys are hashed with a seed. Entries are divided into
// shards, so that a map of millions neither grows nor is freed in one step that all clients wait
// for. Entries do not move until they are erased.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/store/memory_accounting.h"

namespace cpprun {

struct HashedKey {
  std::string_view text;
  std::size_t hash = 0;
};
struct StoredKey {
  std::string text;
  std::size_t hash = 0;
  explicit StoredKey(const HashedKey& key) : text(key.text), hash(key.hash) {}
};

template <class T>
class KeyMap {
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const StoredKey& key) const noexcept { return key.hash; }
    std::size_t operator()(const HashedKey& key) const noexcept { return key.hash; }
  };
  struct Equal {
    using is_transparent = void;
    template <class Left, class Right>
    bool operator()(const Left& left, const Right& right) const noexcept {
      return left.hash == right.hash && left.text == right.text;
    }
  };
  using Shard = std::unordered_map<StoredKey, T, Hash, Equal>;

 public:
  using Entry = typename Shard::value_type;

  KeyMap() = default;
  explicit KeyMap(HashSeed seed) : seed_(seed) {}
  KeyMap(KeyMap&& other) noexcept
      : seed_(other.seed_),
        shards_(std::move(other.shards_)),
        size_(std::exchange(other.size_, 0)) {}
  KeyMap& operator=(KeyMap&& other) noexcept {
    seed_ = other.seed_;
    std::swap(shards_, other.shards_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // For tests: the buckets of all shards together.
  std::size_t bucket_count() const {
    std::size_t count = 0;
    for (const Shard& shard : shards_) count += shard.bucket_count();
    return count;
  }

  // Null if there is no such key.
  Entry* find(std::string_view text) {
    if (size_ == 0) return nullptr;
    const HashedKey key = hashed(text);
    Shard& shard = shard_of(key.hash);
    const auto found = shard.find(key);
    return found == shard.end() ? nullptr : &*found;
  }
  const Entry* find(std::string_view text) const {
    return const_cast<KeyMap*>(this)->find(text);  // changes nothing
  }
  bool contains(std::string_view text) const { return find(text) != nullptr; }

  // The entry of that key, constructed from the arguments if there is none.
  template <class... Arguments>
  Entry& try_emplace(std::string_view text, Arguments&&... arguments) {
    if (shards_.empty()) make_shards();
    const HashedKey key = hashed(text);
    Shard& shard = shard_of(key.hash);
    if (const auto found = shard.find(key); found != shard.end()) return *found;
    const auto made =
        shard.try_emplace(StoredKey(key), std::forward<Arguments>(arguments)...).first;
    ++size_;
    return *made;
  }

  void erase(Entry* entry) {
    Shard& shard = shard_of(entry->first.hash);
    shard.erase(shard.find(entry->first));
    --size_;
  }

  // In no particular order. One shard at a time, for callers that cannot wait for all of them.
  static constexpr std::size_t shard_count = 64;
  template <class Visit>
  void visit_shard(std::size_t index, Visit visit) const {
    if (index >= shards_.size()) return;
    for (const auto& [key, thing] : shards_[index]) visit(key.text, thing);
  }

  // Empties the map. The accounting frees its contents in pieces.
  void free_later(MemoryAccounting& accounting) {
    if (size_ > 0) accounting.free_later(std::make_unique<Deferred>(std::move(shards_)));
    shards_.clear();
    size_ = 0;
  }

 private:
  class Deferred : public DeferredFree {
   public:
    explicit Deferred(std::vector<Shard> shards) : shards_(std::move(shards)) {}
    bool free_some(std::size_t& work) override {
      // Finding, freeing and unbooking an entry costs about as much as copying this many bytes.
      constexpr std::size_t work_of_entry = 512;
      while (work >= work_of_entry) {
        while (!shards_.empty() && shards_.back().empty()) shards_.pop_back();
        if (shards_.empty()) return true;
        Shard& shard = shards_.back();
        // A large entry is freed in pieces, too.
        if constexpr (requires(T& thing) { thing.free_some(work); }) {
          if (!shard.begin()->second.free_some(work)) return false;
        }
        shard.erase(shard.begin());
        work -= std::min(work, work_of_entry);
      }
      return false;
    }

   private:
    std::vector<Shard> shards_;
  };

  // Keys fill all shards evenly. Each shard grows at a size of its own, somewhere between one
  // doubling of the map and the next. Otherwise all of them would grow within a few thousand keys.
  void make_shards() {
    shards_.resize(shard_count);
    float fullest = 0.75F;
    for (Shard& shard : shards_) {
      shard.max_load_factor(fullest);
      fullest *= 1.0108892861F;  // the 64th root of two
    }
  }

  HashedKey hashed(std::string_view text) const { return {text, key_hash(seed_, text)}; }
  // Selects by the upper bits, because the lower ones select the bucket.
  Shard& shard_of(std::size_t hash) { return shards_[hash >> 58]; }

  HashSeed seed_;
  std::vector<Shard> shards_;  // none until there is an entry
  std::size_t size_ = 0;
};

}  // namespace cpprun
