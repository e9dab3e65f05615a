// SPDX-License-Identifier: Apache-2.0

// The chroot "/@linearizable", by which a client asks for linearizable reads without a new library:
// with the connect string "host:2181/@linearizable/app", its paths begin with "/@linearizable/app".
// The server serves them as "/app", makes the reads linearizable, and sends paths back with the
// prefix, which the client's library removes.
//
// A connection uses the chroot if the first path that it sends begins with it. From then on, all
// its paths have to, except those in /zookeeper and /keeper, which libraries send without a chroot.
// On other connections, "/@linearizable" is a name like any other.
//
// Thread-safety: none; used on the thread of the connection's loop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rpc/zookeeper/opcodes.h"

namespace quorate::rpc::zk {

inline constexpr std::string_view kLinearizableChroot = "/@linearizable";

class ClientPaths {
 public:
  // `may_use_chroot` is false if the configuration does not allow the chroot.
  explicit ClientPaths(bool may_use_chroot)
      : state_(may_use_chroot ? State::kUndecided : State::kPlain) {}

  // Takes note of a request, before it is decoded: the first request with a path decides whether
  // the connection uses the chroot. A `body` that is malformed decides nothing.
  void Observe(OpCode op, std::string_view body) {
    if (state_ == State::kUndecided) Decide(op, body);
  }
  bool uses_chroot() const { return state_ == State::kChroot; }

  // Replaces a path of the client by the path in the tree, without copying. Returns false if the
  // connection uses the chroot and the path does not begin with it; the caller then refuses the
  // request with BadArguments.
  bool ToTree(std::string_view* path) const {
    return state_ != State::kChroot || RemovePrefix(path);
  }
  // Does the same for several paths, up to the first one for which it returns false.
  bool ToTree(std::vector<std::string_view>* paths) const;
  // Returns the path in the tree as the client knows it. The result is `path`, or is in `*storage`.
  std::string_view ToClient(std::string_view path, std::string* storage) const;

 private:
  enum class State { kUndecided, kPlain, kChroot };

  void Decide(OpCode op, std::string_view body);
  static bool RemovePrefix(std::string_view* path);

  State state_;
};

}  // namespace quorate::rpc::zk
