// SPDX-License-Identifier: Apache-2.0

// Any bytes sent to the client port: connect requests, four-letter words, nonsense.
#include <string>

#include "tests/fuzz/front.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

// Input: the pieces in which bytes arrive, each after two bytes with its length.
void Run(Input input) {
  Front front;
  const uint32_t tag = front.sockets().Connect().value();
  while (!input.empty() && front.sockets().open(tag)) {
    const auto size = input.Take<uint16_t>();
    front.sockets().Write(tag, input.TakeBytes(size));
    front.Settle();
    front.sockets().received(tag).clear();
  }
  if (front.sockets().open(tag)) front.sockets().HangUp(tag);
  front.Settle();
}

}  // namespace quorate::fuzz
