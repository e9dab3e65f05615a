// SPDX-License-Identifier: Apache-2.0

// The four-letter words: a client that sends one of them instead of a connect request gets a text
// for people and for monitoring, in ZooKeeper's format, and is disconnected.
//
// An answer may be long (a line for each connection, or for each ephemeral node). It is made in
// pieces, each after the one before it was sent, so that neither the memory nor the time for which
// the tree is locked grows with its length.
//
// Thread-safety: an object may be used from any thread, a function returned by Answer from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "rpc/frontend/service.h"

namespace quorate::rpc::zk {

class ZkFrontend;

class FourLetterWords {
 public:
  static constexpr size_t kWordBytes = 4;

  // `frontend` must outlive the object.
  explicit FourLetterWords(ZkFrontend* frontend);

  // Returns all words.
  static std::span<const std::string_view> All();

  // Returns the length of `word` with its argument; 0 if it is none of the words. REQUIRES:
  // word.size() == kWordBytes.
  size_t BytesOf(std::string_view word) const;

  // Appends the next piece to `*to`, and returns whether there are more. `tree` is locked for this
  // call only: the tree may have changed when the next piece is made.
  using Pieces = std::function<bool(const tree::Tree& tree, std::string* to)>;
  // Begins to answer `word`, which has the length that BytesOf returns: appends to `*to` the part
  // that is ready at once. Returns the function that makes the rest, or null if there is none.
  // Reads files; REQUIRES: the calling thread has not locked the tree.
  Pieces Answer(std::string_view word, std::string* to);

 private:
  Pieces AnswerServing(std::string_view word, const ServerStatus& status, std::string* to);
  std::string Configuration(const tree::Tree& tree);
  std::string Environment() const;
  std::string Directories() const;
  std::string ServerLines(const ServerStatus& status, const tree::Tree& tree);
  std::string VersionLines(const ServerStatus& status) const;
  Pieces Monitor(const ServerStatus& status);
  Pieces Connections();
  Pieces Status(const ServerStatus& status);
  Pieces Dump();
  Pieces WatchesByPath();
  Pieces WatchesByConnection();

  ZkFrontend& frontend_;
};

}  // namespace quorate::rpc::zk
