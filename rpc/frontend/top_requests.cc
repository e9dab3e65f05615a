// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/top_requests.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace quorate::rpc {
namespace {

constexpr size_t kPathComponents = 2;

// Appends to the `*size` bytes of `*to` as much of `text` as fits and leaves `reserved` bytes free.
template <size_t kSize>
void AppendTo(std::array<char, kSize>* to, size_t* size, std::string_view text,
              size_t reserved = 0) {
  const size_t length = std::min(text.size(), kSize - *size - reserved);
  std::copy_n(text.data(), length, to->data() + *size);
  *size += length;
}

// Returns "#" and four digits that tell apart the users of a name with different passwords: they are the
// same on all members. Made of a hash (FNV-1a) of the whole id.
std::array<char, 5> FingerprintOf(std::string_view id) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash ^= hash >> 32;
  hash ^= hash >> 16;
  std::array<char, 5> text{'#'};
  for (size_t i = 1; i < text.size(); ++i, hash >>= 4) text[i] = "0123456789abcdef"[hash % 16];
  return text;
}

}  // namespace

std::string_view NameOf(RequestKey key) {
  switch (key) {
    case RequestKey::kClient:
      return "client";
    case RequestKey::kIdentity:
      return "identity";
    case RequestKey::kPath:
      return "path";
    case RequestKey::kOperation:
      return "operation";
  }
  return "";
}

// --- Sketches ------------------------------------------------------------------------------------

void LiveSketch::Add(std::string_view text, int64_t session, int64_t weight) {
  text = text.substr(0, kTextBytesMax);
  const uint64_t hash =
      std::hash<std::string_view>()(text) ^ (static_cast<uint64_t>(session) * 0x9e3779b97f4a7c15u);
  const size_t used = used_.load(std::memory_order_relaxed);
  const auto known = static_cast<size_t>(
      std::find(hashes_.begin(), hashes_.begin() + static_cast<ptrdiff_t>(used), hash) -
      hashes_.begin());
  if (known < used) {
    const int64_t count = counts_[known].load(std::memory_order_relaxed);
    counts_[known].store(count + weight, std::memory_order_relaxed);
    return;
  }
  size_t place = used;
  int64_t error = 0;
  if (used == kCounters) {
    place = 0;
    for (size_t i = 0; i < kCounters; ++i) {
      if (counts_[i].load(std::memory_order_relaxed) <
          counts_[place].load(std::memory_order_relaxed)) {
        place = i;
      }
    }
    error = counts_[place].load(std::memory_order_relaxed);
  }
  hashes_[place] = hash;
  SetKey(&slots_[place], text, session, error);
  counts_[place].store(error + weight, std::memory_order_relaxed);
  if (used < kCounters) used_.store(used + 1, std::memory_order_release);
}

void LiveSketch::SetKey(Slot* slot, std::string_view text, int64_t session, int64_t error) {
  const uint32_t version = slot->version.load(std::memory_order_relaxed);
  slot->version.store(version + 1, std::memory_order_relaxed);
  // A reader that sees one of these values also sees the version above.
  slot->length.store(static_cast<uint32_t>(text.size()), std::memory_order_release);
  slot->session.store(session, std::memory_order_release);
  slot->error.store(error, std::memory_order_release);
  for (size_t i = 0; i * sizeof(uint64_t) < text.size(); ++i) {
    uint64_t word = 0;
    const std::string_view part = text.substr(i * sizeof(uint64_t), sizeof(uint64_t));
    std::memcpy(&word, part.data(), part.size());
    slot->text[i].store(word, std::memory_order_release);
  }
  slot->version.store(version + 2, std::memory_order_release);
}

void LiveSketch::Clear() { used_.store(0, std::memory_order_release); }

void LiveSketch::AddTo(std::vector<TopEntry>* entries) const {
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    const Slot& slot = slots_[i];
    const uint32_t version = slot.version.load(std::memory_order_acquire);
    if (version % 2 != 0) continue;
    TopEntry entry;
    const size_t length =
        std::min<size_t>(slot.length.load(std::memory_order_acquire), kTextBytesMax);
    entry.session = slot.session.load(std::memory_order_acquire);
    const int64_t error = slot.error.load(std::memory_order_acquire);
    std::array<uint64_t, kWords> words;
    for (size_t word = 0; word < kWords; ++word) {
      words[word] = slot.text[word].load(std::memory_order_acquire);
    }
    entry.count = counts_[i].load(std::memory_order_acquire) - error;
    if (slot.version.load(std::memory_order_acquire) != version || entry.count <= 0) continue;
    entry.text.resize(length);
    std::memcpy(entry.text.data(), words.data(), length);
    entries->push_back(std::move(entry));
  }
}

// --- The requests of a loop ----------------------------------------------------------------------

void LoopTopRequests::Add(const RequestSample& sample, TimePoint now) {
  const int64_t weight = gap_;
  ChooseNext();
  const int64_t number = Steps::NumberAt(now);
  Slot& slot = slots_[static_cast<size_t>(number) % kSlots];
  if (slot.number.load(std::memory_order_relaxed) != number) {
    slot.number.store(-1, std::memory_order_release);
    for (LiveSketch& sketch : slot.sketches) sketch.Clear();
    slot.number.store(number, std::memory_order_release);
  }
  const auto sketch = [&slot](RequestKey key) -> LiveSketch& {
    return slot.sketches[static_cast<size_t>(key)];
  };
  sketch(RequestKey::kClient).Add(sample.client, sample.session, weight);
  sketch(RequestKey::kOperation).Add(sample.operation, 0, weight);
  if (!sample.path.empty()) {
    sketch(RequestKey::kPath).Add(PathPrefixOf(sample.path), 0, weight);
  }
  if (sample.scheme.empty()) return;
  std::array<char, LiveSketch::kTextBytesMax> text;
  size_t size = 0;
  AppendTo(&text, &size, sample.scheme, /*reserved=*/1);
  text[size++] = ':';
  // A name with any password is an identity, so that the name alone does not say who it is.
  const size_t name = sample.scheme == "digest" ? sample.id.find(':') : std::string_view::npos;
  if (name == std::string_view::npos) {
    AppendTo(&text, &size, sample.id);
  } else {
    const std::array<char, 5> fingerprint = FingerprintOf(sample.id);
    AppendTo(&text, &size, sample.id.substr(0, name), fingerprint.size());
    AppendTo(&text, &size, {fingerprint.data(), fingerprint.size()});
  }
  sketch(RequestKey::kIdentity).Add({text.data(), size}, 0, weight);
}

void LoopTopRequests::BeginSecond(TimePoint now) {
  constexpr int64_t kHalvingsMax = 63;
  const int64_t seconds = 1 + (now - second_end_) / std::chrono::seconds(1);
  second_end_ += std::chrono::seconds(seconds);
  samples_ = 0;
  const int64_t before = gap_;
  gap_ = std::max<int64_t>(gap_ >> std::min(seconds, kHalvingsMax), 1);
  // In proportion, so that those who send at this moment are chosen as often as others.
  left_ = std::clamp<int64_t>((left_ * gap_ + before - 1) / before, 1, 2 * gap_ - 1);
}

void LoopTopRequests::ChooseNext() {
  if (++samples_ >= kSamplesPerSecond) {
    samples_ = 0;
    gap_ = std::min(gap_ * 2, kGapMax);
  }
  // From 1 to 2 * gap_ - 1, and gap_ on average.
  left_ = 1 + static_cast<int64_t>(Random() % static_cast<uint64_t>(2 * gap_ - 1));
}

// Xorshift (Marsaglia, 2003).
uint64_t LoopTopRequests::Random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_ >> 11;
}

void LoopTopRequests::AddTo(RequestKey key, TimePoint now, std::vector<TopEntry>* entries) const {
  for (int64_t number = Steps::FirstOf(kWindow, now); number <= Steps::NumberAt(now); ++number) {
    if (number < 0) continue;
    const Slot& slot = slots_[static_cast<size_t>(number) % kSlots];
    if (slot.number.load(std::memory_order_acquire) != number) continue;
    const size_t before = entries->size();
    slot.sketches[static_cast<size_t>(key)].AddTo(entries);
    // The step is over for so long that its place was taken meanwhile.
    if (slot.number.load(std::memory_order_acquire) != number) entries->resize(before);
  }
}

// --- Values --------------------------------------------------------------------------------------

std::string_view PathPrefixOf(std::string_view path) {
  size_t end = 0;
  for (size_t i = 0; i < kPathComponents && end < path.size(); ++i) {
    end = std::min(path.find('/', end + 1), path.size());
  }
  return path.substr(0, end);
}

std::vector<TopEntry> TopOf(std::vector<TopEntry> entries, size_t count_max) {
  std::ranges::sort(entries, {}, [](const TopEntry& entry) {
    return std::pair<std::string_view, int64_t>(entry.text, entry.session);
  });
  std::vector<TopEntry> sums;
  for (TopEntry& entry : entries) {
    if (!sums.empty() && sums.back().text == entry.text && sums.back().session == entry.session) {
      sums.back().count += entry.count;
    } else {
      sums.push_back(std::move(entry));
    }
  }
  std::ranges::stable_sort(sums, std::greater(), &TopEntry::count);
  if (sums.size() > count_max) sums.resize(count_max);
  return sums;
}

}  // namespace quorate::rpc
