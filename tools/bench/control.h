// SPDX-License-Identifier: Apache-2.0

// Creates and removes the znodes of a workload, over a separate session.
//
// Thread-safety: that of the engine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/engine.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {

// Creates the znodes in order; a znode that exists already is not an error. Unavailable if the
// servers do not answer.
absl::Status MakeNodes(Engine* engine, const std::vector<Endpoint>& servers,
                       const std::vector<NodeToMake>& nodes);

// Removes the znode and all znodes below it. It is not an error if the znode does not exist.
absl::Status RemoveNodes(Engine* engine, const std::vector<Endpoint>& servers,
                         const std::string& path);

// Returns a server's answer to the four-letter word `word`; empty if there is none within a second.
std::string AskFourLetterWord(const Endpoint& server, const std::string& word);
// Returns the index of the leader among `servers`. NotFound if no server reports that it leads.
absl::StatusOr<size_t> FindLeader(const std::vector<Endpoint>& servers);
// Returns the version that the first answering server reports (for Quorate, the ZooKeeper version
// with which it is compatible); empty if no server does.
std::string VersionOf(const std::vector<Endpoint>& servers);

}  // namespace quorate::tools::bench
