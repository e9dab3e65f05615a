// The recent events that are beside a checkpoint.
#include <string>

#include "base/assert.h"
#include "rpc/grpc/native/event_history.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

using rpc::native::EventHistory;

constexpr size_t kBytesMax = 64 << 20;  // more than an input makes

std::string EncodeAll(const EventHistory& history) {
  return history.Encode(history.oldest(), kBytesMax);
}

}  // namespace

// The zxid of the checkpoint, and the events.
void Run(Input input) {
  const tree::Zxid zxid(input.Take<uint16_t>());
  EventHistory small(1000, zxid);
  small.Restore(input.rest(), zxid).IgnoreError();
  EventHistory history(kBytesMax, zxid);
  if (!history.Restore(input.rest(), zxid).ok()) {
    ASSERT(history.oldest() == zxid);
    return;
  }
  ASSERT(history.oldest() <= zxid);
  const std::string encoded = EncodeAll(history);
  EventHistory again(kBytesMax, zxid);
  const absl::Status restored = again.Restore(encoded, zxid);
  ASSERT(restored.ok());
  ASSERT(EncodeAll(again) == encoded);
}

}  // namespace quorate::fuzz
