// SPDX-License-Identifier: Apache-2.0

// Reads lists in pieces, between which the tree is unlocked.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/counted_bytes.h"
#include "rpc/frontend/event.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

// Reads the list of one request.
class ListReader {
 public:
  // Returns a reader for a List or ListRecursive. `frontend` must outlive it. REQUIRES: the request
  // is one of these.
  static std::unique_ptr<ListReader> New(const v1::Request& request, NativeFrontend* frontend);

  virtual ~ListReader() = default;
  ListReader(const ListReader&) = delete;
  ListReader& operator=(const ListReader&) = delete;

  // Reads the next piece. Returns OK, or the error of the read: TOO_LARGE if the list takes more
  // than maxReplyBytes; UNAVAILABLE, for a long list, while replies take more memory than they
  // may. `zxid` is that of the tree. REQUIRES: the tree is locked for reading; !done().
  v1::ErrorCode Read(const tree::Tree& tree, tree::Zxid zxid, const ClientIdentities& identities);
  // Called when the client is sent an event between two pieces.
  virtual void OnEvent(const Event& /*event*/) {}
  virtual bool done() const = 0;
  // Returns whether the list took more than one piece. Then Finish may take long, and the tree
  // should be unlocked first.
  bool is_long() const { return pieces_ > 1; }
  // Returns the bytes that the reader keeps.
  size_t bytes() const { return counted_.bytes(); }
  // Returns the cost of the last piece, in znodes.
  size_t spent() const { return spent_; }
  // Sets the result. Call it once; the tree need not be locked. REQUIRES: done().
  virtual void Finish(v1::Response* to) = 0;

 protected:
  ListReader(NativeFrontend* frontend, std::string path);

  // Reads the next piece, and adds its cost in znodes to `*spent`.
  virtual tree::ErrorCode ReadNext(const tree::Tree& tree,
                                   std::span<const tree::Identity> identities, size_t* spent) = 0;
  virtual size_t KeptBytes() const = 0;

  NativeFrontend& frontend() const { return *frontend_; }
  const std::string& path() const { return path_; }
  // Return the zxids of the tree at the first and at the last piece.
  int64_t first_zxid() const { return first_zxid_.value(); }
  int64_t last_zxid() const { return last_zxid_.value(); }

 private:
  NativeFrontend* const frontend_;
  const std::string path_;
  CountedBytes counted_;
  size_t spent_ = 0;
  size_t pieces_ = 0;
  tree::Zxid first_zxid_;
  tree::Zxid last_zxid_;
};

}  // namespace quorate::rpc::native
