// SPDX-License-Identifier: Apache-2.0

// A shared value of any bytes that many clients change atomically.
//
//   quorate::AtomicValue config(client.get(), "/config");
//   absl::StatusOr<quorate::VersionedValue> made = config.Update(
//       [](std::string_view before) -> absl::StatusOr<std::string> { return WithFlag(before); });
//
// Layout: the data of the znode at `path` is the value, as in Curator's DistributedAtomicValue and
// SharedValue. A znode that does not exist has the value "". The first change creates it, with
// missing ancestors.
//
// A change reads the value and sets it on condition that the znode has the same version. Of
// concurrent changes one always succeeds; CompareAndSet and Update repeat the others after a pause
// of random length, longer after each attempt. As the client makes each write exactly once, each
// acknowledged change was made once, even if servers fail. No user of a path may delete its znode: one
// that is created again can have the version of the one before.
//
// A value is in no session. If the session is lost, a call in flight returns UNAUTHENTICATED
// (kSessionExpired), and the message says whether the change may have been made; it is not repeated
// in the next session. Later calls work.
//
// Errors: those of Client. The message of DEADLINE_EXCEEDED (after
// ClientOptions::default_deadline_ms) says whether the change may have been made.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// A value, and the state of the znode that has it.
struct VersionedValue {
  std::string data{};
  // nullopt: the znode does not exist.
  std::optional<Stat> stat{};

  bool operator==(const VersionedValue&) const = default;
};

// A value in a znode.
class AtomicValue {
 public:
  // REQUIRES: `client` outlives this object.
  AtomicValue(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Returns the value. If `options.linearizable`, it has all changes that were acknowledged to any
  // client before the call.
  absl::StatusOr<VersionedValue> Get(ReadOptions options = {.linearizable = true});

  // Sets the value if the znode still has the version of `previous`, or still does not exist. Returns
  // the value that was set; nothing if the znode has another version.
  absl::StatusOr<std::optional<VersionedValue>> TrySet(const VersionedValue& previous,
                                                       std::string data);

  // Sets the value to `desired` if it is `expected`. Returns whether it was.
  absl::StatusOr<bool> CompareAndSet(std::string_view expected, std::string_view desired);

  // Sets the value to what `change` returns for it, and returns that value. `change` is called again
  // if another client was first or the value was not the newest, so it should have no other effect. An
  // error that it returns for the newest value is returned, and nothing is changed.
  absl::StatusOr<VersionedValue> Update(
      const std::function<absl::StatusOr<std::string>(std::string_view before)>& change);

  // Sets the value unconditionally, and returns it.
  absl::StatusOr<VersionedValue> Set(std::string data);

 private:
  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
