// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/event_history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "tree/path.h"

namespace quorate::rpc {
namespace {

constexpr uint8_t kFormat = 2;
constexpr uint8_t kFormatWithoutParents = 1;  // has no lists of parents
// The maximum size of a chunk in bytes. A chunk is dropped as a whole, and so must be a small part
// of the history.
constexpr size_t kChunkBytesMax = 16u << 10;
constexpr size_t kChunksMin = 16;
constexpr size_t kVarintBytesMax = 10;
// The maximum size of an encoded event, without its path.
constexpr size_t kEventBytesMax = 6 * kVarintBytesMax;
// The size of an encoded chunk without its lists and events: format, base, number of events, and
// number of lists.
constexpr size_t kHeadBytes = sizeof(uint8_t) + 2 * sizeof(uint64_t) + sizeof(uint32_t);
constexpr uint32_t kEverybody = 0;  // the list number of an event that everyone may read

void PutVarint(uint64_t value, std::string* to) {
  uint8_t bytes[kVarintBytesMax];
  const uint8_t* const end =
      google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes);
  to->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

// Decodes an event that Encoder wrote. `*event` is the previous event and becomes the next one,
// except for its readers. Returns false if there is no event, or `*in` is damaged.
bool TakeEvent(uint8_t format, google::protobuf::io::CodedInputStream* in, Event* event,
               uint32_t* list, uint32_t* parent_list) {
  uint64_t grown = 0;
  uint32_t type = 0;
  uint32_t same = 0;
  uint32_t rest = 0;
  if (!in->ReadVarint64(&grown) || !in->ReadVarint32(&type) || !in->ReadVarint32(list)) {
    return false;
  }
  event->type = static_cast<tree::EventType>(type);
  *parent_list = *list;
  if (format != kFormatWithoutParents && event->changes_children() &&
      !in->ReadVarint32(parent_list)) {
    return false;
  }
  if (!in->ReadVarint32(&same) || !in->ReadVarint32(&rest) || same > event->path.size()) {
    return false;
  }
  event->zxid =
      tree::Zxid(static_cast<int64_t>(static_cast<uint64_t>(event->zxid.value()) + grown));
  event->path.resize(same);
  if (rest == 0) return true;
  const void* bytes = nullptr;
  int size = 0;
  if (!in->GetDirectBufferPointer(&bytes, &size) || static_cast<uint32_t>(size) < rest)
    return false;
  event->path.append(static_cast<const char*>(bytes), rest);
  return in->Skip(static_cast<int>(rest));
}

// --- Filters of paths ---

// About one in fifty chunks that have no event of a path cannot be skipped.
constexpr size_t kFilterBitsPerEvent = 16;  // for the paths above the znodes, too
constexpr int kFilterBitsPerPath = 4;

// Returns the size of the filter of so many events, in words of 64 bits.
constexpr size_t FilterWords(uint64_t events) { return events * kFilterBitsPerEvent / 64 + 1; }

// The hash of a path is FNV-1a of its characters, so that the hashes of all paths above a znode are
// steps on the way to its own. The root is the empty path.
constexpr uint64_t kHashBegin = 14695981039346656037u;
constexpr uint64_t HashNext(uint64_t hash, char c) {
  return (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
}

// Calls `call` with the hash of each path above the znode, from the root on, and of its own.
template <class Call>
void ForEachPathAbove(std::string_view path, const Call& call) {
  uint64_t hash = kHashBegin;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '/') call(hash);
    hash = HashNext(hash, path[i]);
  }
  if (path != "/") call(hash);
}

// Calls `call` with the place of each bit of a hash, as the index of its word and the bit, until it
// returns false. Returns whether it never did.
template <class Call>
bool ForEachBit(uint64_t hash, size_t words, const Call& call) {
  // Two halves that are well mixed make any number of places.
  hash ^= hash >> 32;
  hash *= 0x9E3779B97F4A7C15u;
  const uint64_t step = (hash >> 32) | 1;
  uint64_t place = hash & 0xFFFFFFFF;
  for (int i = 0; i < kFilterBitsPerPath; ++i, place += step) {
    const uint64_t bit = place % (words * 64);
    if (!call(static_cast<size_t>(bit / 64), uint64_t{1} << (bit % 64))) return false;
  }
  return true;
}

size_t BytesOf(const std::vector<tree::Acl>& acl) {
  size_t bytes = sizeof(acl);
  for (const tree::Acl& entry : acl) {
    bytes += sizeof(entry) + entry.identity.scheme.size() + entry.identity.id.size();
  }
  return bytes;
}

void PutList(const std::vector<tree::Acl>& acl, std::string* to) {
  LittleEndianWriter writer(to);
  writer.Int(static_cast<uint32_t>(acl.size()));
  for (const tree::Acl& entry : acl) {
    writer.Int(entry.permissions);
    writer.String(entry.identity.scheme);
    writer.String(entry.identity.id);
  }
}

Readers TakeList(LittleEndianReader* reader) {
  std::vector<tree::Acl> acl;
  for (auto left = reader->Int<uint32_t>(); left > 0 && reader->ok(); --left) {
    tree::Acl& entry = acl.emplace_back();
    entry.permissions = reader->Int<int32_t>();
    entry.identity.scheme = reader->String();
    entry.identity.id = reader->String();
  }
  return std::make_shared<const std::vector<tree::Acl>>(std::move(acl));
}

}  // namespace

// --- Reading -------------------------------------------------------------------------------------

EventHistory::Reader::Reader(const EventHistory& history, uint64_t number)
    : history_(history), number_(number) {
  ASSERT(!history.IsLost(number) && number <= history.next_number());
  if (at_end()) return;
  const auto after =
      std::partition_point(history.chunks_.begin(), history.chunks_.end(),
                           [number](const auto& chunk) { return chunk->first_number <= number; });
  ASSERT(after != history.chunks_.begin());
  BeginChunk(static_cast<size_t>(after - history.chunks_.begin()) - 1);
  for (number_ = chunk_->first_number; number_ < number;) Next();
}

void EventHistory::Reader::BeginChunk(size_t chunk) {
  position_ = chunk;
  chunk_ = history_.chunks_[chunk].get();
  in_.emplace(reinterpret_cast<const uint8_t*>(chunk_->bytes.data()),
              static_cast<int>(chunk_->bytes.size()));
  event_.zxid = chunk_->base;
  event_.path.clear();
}

const Event& EventHistory::Reader::Next() {
  ASSERT(!at_end());
  if (number_ == chunk_->end_number()) BeginChunk(position_ + 1);
  uint32_t list = kEverybody;
  uint32_t parent_list = kEverybody;
  const bool taken = TakeEvent(kFormat, &*in_, &event_, &list, &parent_list);
  ASSERT(taken);
  const auto readers_of = [this](uint32_t number) {
    return number == kEverybody ? nullptr : chunk_->lists[number - 1];
  };
  event_.readers = readers_of(list);
  event_.parent_readers = event_.changes_children() ? readers_of(parent_list) : nullptr;
  ++number_;
  return event_;
}

size_t EventHistory::Reader::SkipOthers(std::span<const uint64_t> hashes, size_t max) {
  if (at_end()) return 0;
  if (number_ == chunk_->end_number()) BeginChunk(position_ + 1);
  size_t work = 0;
  // The last chunk still grows, so it has no filter.
  while (work < max && number_ == chunk_->first_number && position_ + 1 < history_.chunks_.size() &&
         !MayHave(*chunk_, hashes, &work)) {
    number_ = chunk_->end_number();
    BeginChunk(position_ + 1);
    ++work;
  }
  return work;
}

bool EventHistory::Reader::MayHave(const Chunk& chunk, std::span<const uint64_t> hashes,
                                   size_t* work) {
  PathFilter& filter = *chunk.filter;
  absl::call_once(filter.once, [&chunk, &filter, work] {
    *work += chunk.events;
    filter.bits.resize(FilterWords(chunk.events));
    Event event;
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(chunk.bytes.data()),
                                              static_cast<int>(chunk.bytes.size()));
    uint32_t list = kEverybody;
    while (TakeEvent(kFormat, &in, &event, &list, &list)) {
      ForEachPathAbove(event.path, [&filter](uint64_t hash) {
        ForEachBit(hash, filter.bits.size(), [&filter](size_t word, uint64_t bit) {
          filter.bits[word] |= bit;
          return true;
        });
      });
    }
  });
  return std::ranges::any_of(hashes, [&filter](uint64_t hash) {
    return ForEachBit(hash, filter.bits.size(), [&filter](size_t word, uint64_t bit) {
      return (filter.bits[word] & bit) != 0;
    });
  });
}

uint64_t EventHistory::HashOf(std::string_view path) {
  uint64_t hash = kHashBegin;
  if (path == "/") return hash;
  for (const char c : path) hash = HashNext(hash, c);
  return hash;
}

uint64_t EventHistory::NumberAfter(tree::Zxid zxid) const {
  ASSERT(zxid >= oldest_);
  const auto chunk = std::partition_point(
      chunks_.begin(), chunks_.end(), [zxid](const auto& before) { return before->last <= zxid; });
  if (chunk == chunks_.end()) return next_number_;
  Reader reader(*this, (*chunk)->first_number);
  while (reader.Next().zxid <= zxid) {
  }
  return reader.number() - 1;
}

// --- Keeping -------------------------------------------------------------------------------------

void EventHistory::Encoder::Put(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                uint32_t list, uint32_t parent_list, std::string* to) {
  const auto differs = std::mismatch(path.begin(), path.end(), path_.begin(), path_.end());
  const auto same = static_cast<size_t>(differs.first - path.begin());
  PutVarint(static_cast<uint64_t>(zxid - zxid_), to);
  PutVarint(static_cast<uint64_t>(type), to);
  PutVarint(list, to);
  if (type != tree::EventType::kNodeDataChanged) PutVarint(parent_list, to);
  PutVarint(same, to);
  PutVarint(path.size() - same, to);
  to->append(path.substr(same));
  zxid_ = zxid;
  path_.resize(same);
  path_.append(path.substr(same));
}

EventHistory::EventHistory(size_t bytes_max, tree::Zxid zxid)
    : bytes_max_(bytes_max),
      chunk_bytes_(std::min(bytes_max / kChunksMin, kChunkBytesMax)),
      oldest_(zxid),
      encoder_(zxid) {}

size_t EventHistory::BytesOf(const Chunk& chunk) {
  return sizeof(Chunk) + sizeof(PathFilter) + chunk.bytes.capacity() + chunk.list_bytes +
         chunk.filter_bytes;
}

void EventHistory::Add(tree::EventType type, std::string_view path, tree::Zxid zxid,
                       const Readers& readers, const Readers& parent_readers) {
  ++next_number_;
  if (zxid == oldest_) {
    // This is the rest of a transaction that is too large to be kept: its first events were
    // dropped.
    ASSERT(chunks_.empty());
    first_number_ = next_number_;
    return;
  }
  ASSERT(chunks_.empty() ? zxid > oldest_ : zxid >= chunks_.back()->last, "zxids do not decrease");
  if (chunks_.empty() ||
      chunks_.back()->list_bytes + chunks_.back()->bytes.size() + path.size() + kEventBytesMax >
          chunk_bytes_) {
    BeginChunk();
  }
  Chunk& last = *chunks_.back();
  bytes_ -= BytesOf(last);
  const uint32_t list = ListOf(readers);
  const uint32_t parent_list = ListOf(parent_readers);
  encoder_.Put(type, path, zxid, list, parent_list, &last.bytes);
  ++last.events;
  last.last = zxid;
  bytes_ += BytesOf(last);
  while (bytes_ > bytes_max_) {
    // The events of a transaction are kept or dropped together.
    oldest_ = chunks_.front()->last;
    do {
      DropFirst();
    } while (!chunks_.empty() && chunks_.front()->last == oldest_);
  }
}

uint32_t EventHistory::ListOf(const Readers& readers) {
  if (readers == nullptr) return kEverybody;
  for (const RecentList& recent : recent_lists_) {
    if (recent.readers == readers) return recent.list;
  }
  Chunk& last = *chunks_.back();
  const auto [list, is_new] =
      last_lists_.try_emplace(*readers, static_cast<uint32_t>(last.lists.size()) + 1);
  if (is_new) {
    last.lists.push_back(readers);
    last.list_bytes += 2 * rpc::BytesOf(*readers);  // it is also a key, until the chunk is full
  }
  recent_lists_[1] = std::exchange(recent_lists_[0], RecentList{readers, list->second});
  return list->second;
}

void EventHistory::BeginChunk() {
  last_lists_.clear();
  recent_lists_ = {};
  if (!chunks_.empty()) {
    Chunk& full = *chunks_.back();
    bytes_ -= full.list_bytes / 2;
    full.list_bytes /= 2;
    full.filter_bytes = FilterWords(full.events) * sizeof(uint64_t);
    bytes_ += full.filter_bytes;
  }
  const tree::Zxid base = chunks_.empty() ? oldest_ : chunks_.back()->last;
  Chunk& chunk = *chunks_.emplace_back(std::make_shared<Chunk>());
  chunk.base = base;
  encoder_ = Encoder(base);
  chunk.first_number = next_number_ - 1;
  chunk.bytes.reserve(chunk_bytes_);
  bytes_ += BytesOf(chunk);
}

void EventHistory::DropFirst() {
  const Chunk& first = *chunks_.front();
  bytes_ -= BytesOf(first);
  first_number_ = first.first_number + first.events;
  chunks_.pop_front();
}

void EventHistory::Clear(tree::Zxid zxid) {
  // The numbers continue, but one number is left out for the skipped events: a reader that waits
  // for that number finds that it is lost.
  first_number_ = ++next_number_;
  chunks_.clear();
  last_lists_.clear();
  recent_lists_ = {};
  bytes_ = 0;
  oldest_ = zxid;
}

// --- With a checkpoint ---------------------------------------------------------------------------

class EventHistory::Taken : public RecentEvents {
 public:
  explicit Taken(const EventHistory& history)
      : chunks_(history.chunks_.begin(), history.chunks_.end()) {
    if (chunks_.empty()) {
      // An empty chunk records the zxid after which there was no event.
      Chunk nothing;
      nothing.first_number = history.next_number_;
      nothing.base = history.oldest_;
      chunks_.push_back(std::make_shared<const Chunk>(std::move(nothing)));
    } else {
      // Copies the last chunk, because events are still added to it.
      chunks_.back() = std::make_shared<const Chunk>(*chunks_.back());
    }
  }
  std::vector<Part> parts() const override {
    std::vector<Part> parts;
    for (const auto& chunk : chunks_) {
      parts.push_back({chunk->first_number, kHeadBytes + chunk->bytes.size()});
    }
    return parts;
  }
  std::string Encode(size_t i) const override {
    const Chunk& chunk = *chunks_[i];
    std::string encoded;
    LittleEndianWriter writer(&encoded);
    writer.Int(kFormat);
    writer.Int(chunk.base.value());
    writer.Int(chunk.events);
    writer.Int(static_cast<uint32_t>(chunk.lists.size()));
    for (const Readers& list : chunk.lists) PutList(*list, &encoded);
    writer.Raw(chunk.bytes);
    return encoded;
  }

 private:
  std::vector<std::shared_ptr<const Chunk>> chunks_;
};

std::shared_ptr<const RecentEvents> EventHistory::Take() const {
  return std::make_shared<Taken>(*this);
}

absl::Status EventHistory::Restore(std::span<const std::string> parts, tree::Zxid zxid) {
  ASSERT(chunks_.empty() && oldest_ == zxid);
  std::optional<tree::Zxid> last;
  for (const std::string& part : parts) {
    if (absl::Status s = RestorePart(part, zxid, &last); !s.ok()) {
      Clear(zxid);
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status EventHistory::RestorePart(std::string_view bytes, tree::Zxid zxid,
                                       std::optional<tree::Zxid>* last) {
  LittleEndianReader reader(bytes);
  const auto format = reader.Int<uint8_t>();
  if (format != kFormat && format != kFormatWithoutParents) {
    return absl::DataLossError(absl::StrCat("recent events of an unknown format, ", format));
  }
  const tree::Zxid base(reader.Int<int64_t>());
  const auto count = reader.Int<uint64_t>();
  std::vector<Readers> lists = {nullptr};
  for (auto left = reader.Int<uint32_t>(); left > 0 && reader.ok(); --left) {
    lists.push_back(TakeList(&reader));
  }
  if (!reader.ok() || base < tree::Zxid(0) || base > zxid) {
    return absl::DataLossError("the head of recent events is damaged");
  }
  if (!last->has_value()) oldest_ = base;
  if (base != last->value_or(base)) {
    return absl::DataLossError(absl::StrCat("the recent events after zxid ", (*last)->value(),
                                            " are missing: the next part begins after zxid ",
                                            base.value()));
  }
  const std::string_view events = reader.rest();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(events.data()),
                                            static_cast<int>(events.size()));
  Event event;
  event.zxid = base;
  for (uint64_t i = 0; i < count; ++i) {
    const tree::Zxid before = event.zxid;
    uint32_t list = kEverybody;
    uint32_t parent_list = kEverybody;
    const bool is_valid = TakeEvent(format, &in, &event, &list, &parent_list) &&
                          event.type >= tree::EventType::kNodeCreated &&
                          event.type <= tree::EventType::kNodeDataChanged && event.zxid >= before &&
                          event.zxid <= zxid && list < lists.size() && parent_list < lists.size() &&
                          tree::IsValidPath(event.path, /*sequential=*/false);
    if (!is_valid) {
      return absl::DataLossError(
          absl::StrCat("the recent event after zxid ", before.value(), " is damaged"));
    }
    Add(event.type, event.path, event.zxid, lists[list],
        event.changes_children() ? lists[parent_list] : nullptr);
  }
  if (in.CurrentPosition() != static_cast<int>(events.size())) {
    return absl::DataLossError("there are bytes after the recent events");
  }
  *last = event.zxid;
  return absl::OkStatus();
}

}  // namespace quorate::rpc
