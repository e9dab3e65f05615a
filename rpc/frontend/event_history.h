// SPDX-License-Identifier: Apache-2.0

// The recent events, so that a watch can continue where its broken connection ended. One history
// serves all front ends of a server (frontends.h). It is bounded in bytes: the events of the oldest
// transactions are dropped for new ones. Events are stored encoded, not as objects: an event takes a
// few bytes, the part of its path that differs from the path of the previous event, and its access
// control list if not everyone may read it.
//
// A reader that wants the events of a few paths skips most others: each chunk of events has a filter
// of the paths in it, which the first such reader makes. So very many clients that connect again at
// once do not each decode the whole history.
//
// The events are stored with a checkpoint (Take, Restore), because a server that starts applies
// only the entries after the checkpoint again.
//
// Thread-safety: protected by the tree's lock. The apply thread calls the functions that are not
// const while it holds the write lock. Const functions and Readers may run concurrently under the
// read lock. The result of Take is immutable, and any thread may use it.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "rpc/frontend/event.h"
#include "rpc/frontend/service.h"
#include "tree/tree.h"

namespace quorate::rpc {

class EventHistory {
  // Which paths a chunk may have events of: a Bloom filter of the paths of its events and of those
  // above them. It is made at its first use, also while several threads read.
  struct PathFilter {
    absl::once_flag once;
    std::vector<uint64_t> bits;
  };

  // Consecutive events. A chunk is dropped as a whole. It is immutable once another chunk follows.
  struct Chunk {
    uint64_t first_number = 0;
    uint64_t events = 0;
    tree::Zxid base;  // the zxid before the first event
    tree::Zxid last;
    std::string bytes;
    std::vector<Readers> lists;  // the distinct lists of the events
    size_t list_bytes = 0;
    size_t filter_bytes = 0;  // that `filter` may take; 0 while events are added
    std::shared_ptr<PathFilter> filter = std::make_shared<PathFilter>();

    uint64_t end_number() const { return first_number + events; }
  };

 public:
  // Reads consecutive events while the tree stays locked.
  class Reader {
   public:
    // Starts with the event that has this number. REQUIRES: !history.IsLost(number), number <=
    // history.next_number().
    Reader(const EventHistory& history, uint64_t number);

    // Returns the number of the next event; history.next_number() if there is none.
    uint64_t number() const { return number_; }
    bool at_end() const { return number_ == history_.next_number(); }
    // Returns the next event, which is valid until the next call. REQUIRES: !at_end().
    const Event& Next();
    // If the next event begins a chunk, skips chunks that have no event of a znode at or below the
    // paths with these hashes (HashOf). The events that follow may still be of any path. Returns the
    // work that was done, as a number of events that take about as long to read: one for a skipped
    // chunk, and all of a chunk whose filter was made. Stops when that is `max` or more.
    size_t SkipOthers(std::span<const uint64_t> hashes, size_t max);

   private:
    void BeginChunk(size_t chunk);
    // Adds the number of events of the chunk to `*work` if this call makes its filter.
    static bool MayHave(const Chunk& chunk, std::span<const uint64_t> hashes, size_t* work);

    const EventHistory& history_;
    uint64_t number_;
    size_t position_ = 0;                                       // the index of chunk_ in chunks_
    const Chunk* chunk_ = nullptr;                              // the chunk of the previous event
    std::optional<google::protobuf::io::CodedInputStream> in_;  // the rest of the chunk's bytes
    Event event_;
  };

  // Returns the hash of a path for Reader::SkipOthers. The same in each process.
  static uint64_t HashOf(std::string_view path);

  // Creates a history that keeps events of about `bytes_max` bytes, including the overhead in
  // memory. It has all events after `zxid`.
  explicit EventHistory(size_t bytes_max, tree::Zxid zxid = tree::Zxid(0));
  EventHistory(const EventHistory&) = delete;
  EventHistory& operator=(const EventHistory&) = delete;

  // Adds an event. `parent_readers` is only for a creation or deletion. REQUIRES: zxids do not
  // decrease.
  void Add(tree::EventType type, std::string_view path, tree::Zxid zxid, const Readers& readers,
           const Readers& parent_readers = nullptr);
  // Drops all events, so that those up to `zxid` are lost.
  void Clear(tree::Zxid zxid);

  // Returns the zxid after which every event is kept. Events of this zxid and before must not be
  // requested.
  tree::Zxid oldest() const { return oldest_; }

  // Returns the number of the next event to be added. Events have consecutive numbers.
  uint64_t next_number() const { return next_number_; }
  // Returns the number of the first event after `zxid`. REQUIRES: zxid >= oldest().
  uint64_t NumberAfter(tree::Zxid zxid) const;
  // Returns whether the event of this number is no longer kept.
  bool IsLost(uint64_t number) const { return number < first_number_; }

  size_t bytes() const { return bytes_; }

  // Returns a copy of all events. O(bytes() / 16 KiB).
  std::shared_ptr<const RecentEvents> Take() const;
  // Restores the result of Take of a history that had all events up to `zxid`. Each part is
  // encoded. Returns DataLoss if the parts cannot be such a result; then all events up to `zxid`
  // are lost. REQUIRES: the history was created, or cleared, with `zxid`, and no event was added
  // since.
  absl::Status Restore(std::span<const std::string> parts, tree::Zxid zxid);

 private:
  class Taken;
  using Chunks = std::deque<std::shared_ptr<Chunk>>;

  // Encodes consecutive events, each relative to the previous one: the difference of the zxids, the
  // type, the number of its list (0: everyone may read it), the number of the parent's list (of a
  // creation or deletion), the length of the common prefix of the paths, and the rest of the path.
  class Encoder {
   public:
    explicit Encoder(tree::Zxid zxid) : zxid_(zxid) {}
    void Put(tree::EventType type, std::string_view path, tree::Zxid zxid, uint32_t list,
             uint32_t parent_list, std::string* to);

   private:
    tree::Zxid zxid_;
    std::string path_;
  };
  static size_t BytesOf(const Chunk& chunk);
  // Returns the index of an event's readers in the last chunk's lists, plus one. Returns 0 if
  // everyone may read the event.
  uint32_t ListOf(const Readers& readers);
  void BeginChunk();
  void DropFirst();
  // Adds the events of a part, all up to `zxid`. They must follow the event of `*last`, which is
  // set to the zxid of the last event of the part.
  absl::Status RestorePart(std::string_view bytes, tree::Zxid zxid,
                           std::optional<tree::Zxid>* last);

  const size_t bytes_max_;
  const size_t chunk_bytes_;
  tree::Zxid oldest_;
  uint64_t first_number_ = 0;
  uint64_t next_number_ = 0;
  Chunks chunks_;  // none is empty
  // The encoder and the lists of the last chunk.
  Encoder encoder_;
  std::map<std::vector<tree::Acl>, uint32_t> last_lists_;
  // The two lists that events of the last chunk had last: they are found without comparing them.
  struct RecentList {
    Readers readers;
    uint32_t list = 0;
  };
  std::array<RecentList, 2> recent_lists_;
  size_t bytes_ = 0;
};

}  // namespace quorate::rpc
