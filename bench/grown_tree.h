// SPDX-License-Identifier: Apache-2.0

// A tree of a given shape and size, built with the same commands as on a server: with 24-byte names
// and 100-byte data.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tree/command.h"
#include "tree/tree.h"

namespace quorate::bench {

enum class Shape : uint8_t {
  kFlat,         // all znodes are children of one znode
  kChains,       // chains of 20 znodes, each the only child of its parent
  kDirectories,  // directories of 20 znodes
};

// Parses "flat", "chains" or "directories".
std::optional<Shape> ShapeOf(std::string_view name);

class GrownTree {
 public:
  explicit GrownTree(Shape shape) : shape_(shape) { OpenSession(); }

  // Adds znodes until the tree has `nodes` of them.
  void GrowTo(uint64_t nodes);
  // Returns the path of the added znode number `i`, from 0.
  std::string PathOf(uint64_t i) const;

  // These functions return a command for a path, without applying it.
  std::string CreateCommand(std::string_view path, std::string_view data);
  std::string SetDataCommand(std::string_view path, std::string_view data);
  std::string DeleteCommand(std::string_view path);
  // Applies a command with the next zxid.
  void Apply(std::string_view command);

  uint64_t size() const { return size_; }
  tree::Tree& tree() { return *tree_; }
  // Replaces the tree by one that was loaded from the records of the current tree.
  void Replace(std::unique_ptr<tree::Tree> tree) { tree_ = std::move(tree); }
  std::unique_ptr<tree::Tree> Release() { return std::move(tree_); }

 private:
  void OpenSession();
  tree::CommandHeader NextHeader(tree::CommandKind kind);
  std::string Command(tree::Op op);

  const Shape shape_;
  std::unique_ptr<tree::Tree> tree_ = std::make_unique<tree::Tree>();
  uint64_t size_ = 0;
  uint64_t sequence_ = 0;
  tree::Zxid attach_zxid_;
};

}  // namespace quorate::bench
