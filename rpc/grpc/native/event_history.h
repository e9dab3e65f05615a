// The events of the recent past, so that a watch can go on where its broken stream ended. Bounded
// in bytes: the oldest transactions' events make room for the newest. They are kept as bytes, not
// as objects: an event costs a few bytes and what its path has that the one before it has not, and
// its access control list if that is not for everybody.
//
// A checkpoint has them beside it (Take, Restore): what is applied again at the start of a server
// begins behind the checkpoint only.
//
// Thread-safety: none inside. The apply thread calls what is not const while it holds the write
// side of the tree; const functions, and Readers, may be used together under the read side. What
// Take returns is immutable, and of any thread.
#pragma once

#include <google/protobuf/io/coded_stream.h>

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

#include "absl/status/status.h"
#include "rpc/grpc/native/event.h"
#include "rpc/grpc/native/scope.h"
#include "rpc/server/service.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

class EventHistory {
  // Events that follow each other. Forgotten as a whole. Immutable once another one follows.
  struct Chunk {
    uint64_t first_number = 0;
    uint64_t events = 0;
    tree::Zxid base;  // what the first one is relative to
    tree::Zxid last;
    std::string bytes;
    std::vector<Readers> lists;  // which the events have, each once
    size_t list_bytes = 0;
  };

 public:
  // Reads events one after the other, while the tree stays locked.
  class Reader {
   public:
    // Begins with the event of `number`. REQUIRES: !history.IsLost(number), number <=
    // history.next_number().
    Reader(const EventHistory& history, uint64_t number);

    // The number of the next event; next_number() of the history if there is none.
    uint64_t number() const { return number_; }
    bool at_end() const { return number_ == history_.next_number(); }
    // Goes on to the next event, which is valid until the next call. REQUIRES: !at_end().
    const Event& Next();

   private:
    void BeginChunk(size_t chunk);

    const EventHistory& history_;
    uint64_t number_;
    size_t position_ = 0;                                       // of chunk_ in the history
    const Chunk* chunk_ = nullptr;                              // with the event before
    std::optional<google::protobuf::io::CodedInputStream> in_;  // the rest of its bytes
    Event event_;
  };

  // Keeps events of about `bytes_max` bytes, all of what they take in memory counted. It knows
  // everything behind `zxid`.
  explicit EventHistory(size_t bytes_max, tree::Zxid zxid = tree::Zxid(0));
  EventHistory(const EventHistory&) = delete;
  EventHistory& operator=(const EventHistory&) = delete;

  // REQUIRES: zxids do not go back.
  // `parent_readers` is of a creation or deletion.
  void Add(tree::EventType type, std::string_view path, tree::Zxid zxid, const Readers& readers,
           const Readers& parent_readers = nullptr);
  // Forgets everything: what happened up to `zxid` is not known any more.
  void Clear(tree::Zxid zxid);

  // Every event behind this zxid is here; of this one and those before it, none may be asked for.
  tree::Zxid oldest() const { return oldest_; }

  // Events have numbers without gaps: the next one's.
  uint64_t next_number() const { return next_number_; }
  // The number of the first event behind `zxid`. REQUIRES: zxid >= oldest().
  uint64_t NumberAfter(tree::Zxid zxid) const;
  // Whether the event of this number is not kept any more.
  bool IsLost(uint64_t number) const { return number < first_number_; }

  size_t bytes() const { return bytes_; }

  // All events, as they are now. O(bytes() / 16 KiB).
  std::shared_ptr<const RecentEvents> Take() const;
  // Puts what Take returned, each part encoded, before what will come: of a history that had seen
  // everything up to `zxid`. DataLoss if that cannot have made it; then nothing up to `zxid` is
  // known. REQUIRES: nothing was added since the history was made, or cleared, with `zxid`.
  absl::Status Restore(std::span<const std::string> parts, tree::Zxid zxid);

 private:
  class Taken;
  using Chunks = std::deque<std::shared_ptr<Chunk>>;

  // Makes bytes of events that follow each other, each relative to the one before it: by how much
  // the zxid grew, the type, the number of its list (0: everybody may see it), the same of the
  // parent's (of a creation or deletion), and of the path how much is the same and what is not.
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
  // Where the readers of an event are in the last chunk's lists, plus one; 0: everybody.
  uint32_t ListOf(const Readers& readers);
  void BeginChunk();
  void DropFirst();
  // Adds a part whose events, all up to `zxid`, follow those up to `*last`, which becomes that of
  // the last of them.
  absl::Status RestorePart(std::string_view bytes, tree::Zxid zxid,
                           std::optional<tree::Zxid>* last);

  const size_t bytes_max_;
  const size_t chunk_bytes_;
  tree::Zxid oldest_;
  uint64_t first_number_ = 0;
  uint64_t next_number_ = 0;
  Chunks chunks_;  // none is empty
  // Of the last one.
  Encoder encoder_;
  std::map<std::vector<tree::Acl>, uint32_t> last_lists_;
  size_t bytes_ = 0;
};

}  // namespace quorate::rpc::native
