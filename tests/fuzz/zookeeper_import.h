// SPDX-License-Identifier: Apache-2.0

// Checks that must hold of every tree read from ZooKeeper's files.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "rpc/zookeeper_files/digest.h"
#include "tools/zookeeper/data_tree.h"
#include "tools/zookeeper/import.h"

namespace quorate::fuzz {

// The digest, computed from scratch.
inline uint64_t DigestOf(const tools::zookeeper::DataTree& data_tree) {
  uint64_t digest = 0;
  std::vector<const tree::Znode*> left;
  if (data_tree.root() != nullptr) left.push_back(data_tree.root());
  size_t nodes = 0;
  while (!left.empty()) {
    const tree::Znode& node = *left.back();
    left.pop_back();
    ++nodes;
    digest += zookeeper_files::NodeDigest(
        node.Path(), node.data.view(),
        {node.czxid, node.mzxid, node.pzxid(), node.ctime_ms, node.mtime_ms, node.version,
         node.created_children(), node.aversion(), node.owner()});
    node.children().ForEach([&left](const tree::Znode* child) { left.push_back(child); });
  }
  ASSERT(nodes == data_tree.node_count(), "each node is counted");
  return digest;
}

// Imports the tree if possible, and checks that a server can load the result.
inline void ImportTree(std::unique_ptr<tools::zookeeper::DataTree> data_tree) {
  ASSERT(DigestOf(*data_tree) == data_tree->digest(), "the digest follows each change");
  tools::zookeeper::LoadedDirectory loaded;
  loaded.last_zxid = std::max(data_tree->newest_change(), tree::Zxid(1));
  loaded.data_tree = std::move(data_tree);
  if (!loaded.data_tree->Finish(loaded.last_zxid).ok()) return;
  const auto importer = tools::zookeeper::Importer::Create(&loaded);
  if (!importer.ok()) return;
  const absl::Status status =
      importer->ForEachRecord([](std::string_view, std::string_view) { return absl::OkStatus(); },
                              [](const std::string&) {});
  ASSERT(status.ok(), "a checked tree can be loaded");
}

}  // namespace quorate::fuzz
