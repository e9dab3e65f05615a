// A gate: as long as it is closed, those who come to it wait.
//
// Layout: the gate is closed while there is a znode at `path`. Interoperates with Curator's
// DistributedBarrier.
//
// All that wait are told by one event each, when the znode is deleted. A gate outlives the client
// that closed it.
//
// Thread-safety: all functions from any thread but that of callbacks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

class Barrier {
 public:
  // REQUIRES: `client` lives longer.
  Barrier(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Closes it. Nothing happens if it is closed already.
  absl::Status Close();

  // Opens it. Nothing happens if it is open already.
  absl::Status Open();

  // Waits until it is open. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a
  // deadline. That it was open once is enough, also if it was closed again since. When
  // it returns without waiting, the gate was open at some time during the call.
  absl::Status Wait(int deadline_ms = 0);

 private:
  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
