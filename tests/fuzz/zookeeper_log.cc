// SPDX-License-Identifier: Apache-2.0

// A ZooKeeper log, which is applied to a tree that is then imported.
#include <memory>
#include <string>
#include <utility>

#include "base/assert.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/zookeeper_import.h"
#include "tools/zookeeper/transaction_log.h"

namespace quorate::fuzz {

using tools::zookeeper::DataTree;

// Input: a byte that says whether the rest is a file, or transactions, each after two bytes with
// its length.
void Run(Input input) {
  std::string bytes;
  if (input.Take<uint8_t>() == 0) {
    bytes = input.rest();
  } else {
    tools::zookeeper::AppendLogHeader(&bytes);
    while (!input.empty()) {
      const auto size = input.Take<uint16_t>();
      tools::zookeeper::AppendLogRecord(input.TakeBytes(size), &bytes);
    }
  }
  auto data_tree = std::make_unique<DataTree>();
  const std::vector<tree::Acl> open = tree::OpenAcl();
  for (std::string_view path : {"/", "/zookeeper", "/zookeeper/quota", "/a"}) {
    DataTree::SnapshotNode node;
    node.path = path;
    node.acl = &open;
    ASSERT(data_tree->AddNode(node).ok());
  }
  tools::zookeeper::TransactionLog log("log", bytes);
  tools::zookeeper::Transaction transaction;
  absl::StatusOr<bool> more = log.Open();
  while (more.ok() && *more) {
    more = log.Next(&transaction);
    if (more.ok() && *more) data_tree->Apply(transaction);
  }
  if (!more.ok()) return;
  ImportTree(std::move(data_tree));
}

}  // namespace quorate::fuzz
