// Whatever somebody sends to the client port: connect requests, four-letter words, nonsense.
#include <string>

#include "tests/fuzz/front.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

// Pieces as they come in, each after two bytes that say how long it is.
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
