// SPDX-License-Identifier: Apache-2.0

// Calls of recipes that do not wait for the space of a client with WhenFull::kBlock.
//
// Thread-safety: an object is used by the thread that made it.
#pragma once

namespace quorate::internal {

// While an object exists, a call that its thread makes and that exceeds the limits of its client
// fails with RESOURCE_EXHAUSTED, whatever ClientOptions::when_full is: for calls that are made under
// a lock that callbacks take, or on behalf of a function with a deadline of its own.
class NoWaiting {
 public:
  NoWaiting();
  ~NoWaiting();
  NoWaiting(const NoWaiting&) = delete;
  NoWaiting& operator=(const NoWaiting&) = delete;
};

}  // namespace quorate::internal
