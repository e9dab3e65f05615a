// SPDX-License-Identifier: Apache-2.0

// A ZooKeeper snapshot, which is imported.
#include <string>

#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/zookeeper_files/checksum.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/zookeeper_import.h"
#include "tools/zookeeper/byte_source.h"
#include "tools/zookeeper/snapshot_file.h"

namespace quorate::fuzz {

using tools::zookeeper::DataTree;
using zookeeper_files::Adler32;

// Input: a byte that says whether the rest is a whole file, or a file without the checksum at its
// end.
void Run(Input input) {
  const bool is_sealed = input.Take<uint8_t>() == 0;
  std::string bytes(input.rest());
  if (!is_sealed) {
    const uint64_t checksum = Adler32(bytes);
    BigEndianWriter writer(&bytes);
    writer.Int(checksum);
    writer.String("/");
  }
  auto source = tools::zookeeper::Decompress(tools::zookeeper::OpenMemory(bytes));
  if (!source.ok()) return;
  auto data_tree = std::make_unique<DataTree>();
  const auto digest =
      tools::zookeeper::ReadSnapshot("snapshot", source->get(), data_tree.get(), [](size_t) {});
  if (!digest.ok()) return;
  ImportTree(std::move(data_tree));
}

}  // namespace quorate::fuzz
