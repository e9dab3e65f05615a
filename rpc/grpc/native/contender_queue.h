// SPDX-License-Identifier: Apache-2.0

// The queue of a lock or an election, as the znodes of its contenders are called
// (quorate/v1/lock.proto), and how a part of the queue is found in the tree.
//
// Thread-safety: none; a QueueScan is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/proto/quorate/v1/lock.pb.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

// Returns what stands before the number in the names of a layout; nullopt if the layout is unknown.
std::optional<std::string_view> PrefixOf(v1::QueueLayout layout);

// Returns whether a client may choose this id for its contender.
bool IsContenderId(std::string_view id);

// Returns the name of a contender's znode without its number.
std::string ContenderPrefix(std::string_view id, std::string_view prefix);

// Returns the number at the end of `name`, if it is the name of a contender: right after the last
// occurrence of `prefix` or, with "lock-", of Kazoo's "__lock__". Returns nullopt for any other name.
std::optional<int32_t> ContenderNumber(std::string_view name, std::string_view prefix);

// Returns the id in the name of a contender; empty if it has none.
std::string_view ContenderId(std::string_view name, std::string_view prefix);

// A contender in a queue. Contenders stand in the order of their numbers, which are compared by their
// distance, because the counter of a parent wraps around; contenders with equal numbers in the order
// of their names.
struct QueuedContender {
  std::string name;
  int32_t number = 0;

  bool IsBefore(std::string_view other_name, int32_t other_number) const;
};

// Reads a queue in pieces, between which the tree may be unlocked and may change. Contenders that stand
// in the queue from the first piece to the last are all seen. If the queue was deleted and created again
// in the meantime, the scan begins again.
class QueueScan {
 public:
  // `path` is that of the queue. The scan finds the contenders of `session` whose names are `own_prefix`
  // and a number, and the contenders before the one called `own_name`. Both may be empty.
  QueueScan(std::string path, std::string_view prefix, std::string own_prefix,
            tree::SessionId session, std::string own_name = {});

  // Reads the next piece, and adds its cost in znodes to `*spent`. REQUIRES: the tree is locked for
  // reading; !done().
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           size_t* spent);
  bool done() const { return place_.at_end; }

  // The results, once done(). The contenders of the session, the first one first, at most
  // kOwnMax of them.
  const std::vector<QueuedContender>& own() const { return own_; }
  // The first contender of the queue; nullopt if the queue has none.
  const std::optional<QueuedContender>& first() const { return first_; }
  // The last contender before `own_name`; nullopt if there is none.
  const std::optional<QueuedContender>& before() const { return before_; }
  // The number of contenders before `own_name`.
  uint32_t ahead() const { return ahead_; }

  static constexpr size_t kOwnMax = 16;

 private:
  void Restart();
  void See(const tree::Tree& tree, std::string_view name, size_t* spent);
  bool IsOwn(const tree::Tree& tree, std::string_view name, size_t* spent) const;

  const std::string path_;
  const std::string prefix_;
  const std::string own_prefix_;
  const tree::SessionId session_;
  const std::string own_name_;
  const std::optional<int32_t> own_number_;
  std::optional<tree::Zxid> queue_zxid_;  // of the creation of the queue, from the first piece on
  tree::ChildrenPlace place_;
  std::vector<QueuedContender> own_;
  std::optional<QueuedContender> first_;
  std::optional<QueuedContender> before_;
  uint32_t ahead_ = 0;
};

}  // namespace quorate::rpc::native
