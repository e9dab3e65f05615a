// SPDX-License-Identifier: Apache-2.0

// The recent events that are stored with a checkpoint.
#include <string>
#include <vector>

#include "base/assert.h"
#include "rpc/frontend/event_history.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

using rpc::EventHistory;

constexpr size_t kBytesMax = 64 << 20;  // more than any input has

std::vector<std::string> EncodeAll(const EventHistory& history) {
  const auto events = history.Take();
  std::vector<std::string> parts;
  for (size_t i = 0; i < events->parts().size(); ++i) parts.push_back(events->Encode(i));
  return parts;
}

}  // namespace

// Input: the zxid of the checkpoint, then the parts, each after its size.
void Run(Input input) {
  const tree::Zxid zxid(input.Take<uint16_t>());
  std::vector<std::string> parts;
  while (!input.empty()) parts.emplace_back(input.TakeBytes(input.Take<uint16_t>()));
  EventHistory small(1000, zxid);
  small.Restore(parts, zxid).IgnoreError();
  EventHistory history(kBytesMax, zxid);
  if (!history.Restore(parts, zxid).ok()) {
    ASSERT(history.oldest() == zxid);
    return;
  }
  ASSERT(history.oldest() <= zxid);
  const std::vector<std::string> encoded = EncodeAll(history);
  EventHistory again(kBytesMax, zxid);
  const absl::Status restored = again.Restore(encoded, zxid);
  ASSERT(restored.ok());
  ASSERT(again.oldest() == history.oldest());
  ASSERT(EncodeAll(again) == encoded);
}

}  // namespace quorate::fuzz
