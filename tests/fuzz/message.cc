// SPDX-License-Identifier: Apache-2.0

// Messages between servers: a decoded message stays the same when it is encoded again.
#include "consensus/core/message.h"

#include <memory>
#include <string>

#include "base/assert.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  const auto buffer = std::make_shared<const std::string>(input.rest());
  const auto message = consensus::DecodeMessage(buffer, *buffer);
  if (!message.ok()) return;
  consensus::ToString(*message);
  std::string bytes;
  consensus::EncodeMessage(*message, &bytes);
  const auto copy = std::make_shared<const std::string>(std::move(bytes));
  const auto again = consensus::DecodeMessage(copy, *copy);
  ASSERT(again.ok());
  ASSERT(*again == *message);
}

}  // namespace quorate::fuzz
