// SPDX-License-Identifier: Apache-2.0

// The records of a checkpoint or of a snapshot from another server.
#include <string>

#include "base/assert.h"
#include "tests/fuzz/fuzz.h"
#include "tree/record.h"
#include "tree/snapshot.h"

namespace quorate::fuzz {

// Input: a zxid and a digest, then the records: keys after a byte, values after two bytes with
// their length.
void Run(Input input) {
  const tree::Zxid zxid(input.Take<uint16_t>());
  const auto digest = input.Take<uint64_t>();
  tree::TreeLoader loader;
  while (!input.empty()) {
    const std::string_view key = input.TakePiece();
    const auto size = input.Take<uint16_t>();
    const std::string_view value = input.TakeBytes(size);
    if (tree::DecodeKind(key).ok()) {
      tree::DecodeHead(key, value).status().IgnoreError();
      tree::DecodeSession(key, value).status().IgnoreError();
      tree::NodeRecord record;
      tree::DecodeNode(key, value, &record).IgnoreError();
    }
    if (!loader.Add(key, value).ok()) return;
  }
  const auto loaded = loader.Finish(zxid, digest);
  if (!loaded.ok()) return;
  ASSERT((*loaded)->last_zxid() == zxid);
  ASSERT((*loaded)->digest() == (*loaded)->ComputeDigest());
}

}  // namespace quorate::fuzz
