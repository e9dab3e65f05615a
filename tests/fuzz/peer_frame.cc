// SPDX-License-Identifier: Apache-2.0

// Frames between servers, with and without the right checksum.
#include <memory>
#include <string>

#include "base/assert.h"
#include "rpc/peer/frame.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  const bool sealed = input.Take<uint8_t>() % 4 != 0;
  auto bytes = std::make_shared<std::string>(input.rest());
  if (sealed && bytes->size() > sizeof(uint32_t)) {
    bytes->erase(0, sizeof(uint32_t));  // space for the checksum
    rpc::SealFrames(bytes.get());
  }
  const auto greeting = rpc::FrameDecoder::DecodeGreeting(bytes);
  if (greeting.ok()) {
    // What anybody can make a server decode before it knows who it is.
    ASSERT(greeting->messages.empty() && greeting->forwards.empty());
    ASSERT(greeting->touched_sessions.empty() && greeting->digests.empty());
    ASSERT(!greeting->disk_report.has_value());
  }
  const auto batch = rpc::FrameDecoder().Decode(bytes);
  if (!batch.ok()) return;
  for (const rpc::CommandBatch& forward : batch->forwards) {
    for (const rpc::CommandBatch::Range& range : forward.commands) {
      ASSERT(range.offset <= forward.bytes->size());
      ASSERT(range.size <= forward.bytes->size() - range.offset);
    }
  }
  for (const consensus::Message& message : batch->messages) consensus::ToString(message);
}

}  // namespace quorate::fuzz
