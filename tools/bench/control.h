// Creates and removes the nodes of a workload, over a session of its own.
//
// Thread-safety: that of the engine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/engine.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {

// Creates the nodes in order; existing ones are no error. Unavailable if the servers do not answer.
absl::Status MakeNodes(Engine* engine, const std::vector<Endpoint>& servers,
                       const std::vector<NodeToMake>& nodes);

// Removes the node and all nodes below it; it is no error if it does not exist.
absl::Status RemoveNodes(Engine* engine, const std::vector<Endpoint>& servers,
                         const std::string& path);

// A server's answer to the four-letter word `word`; empty if there is none within a second.
std::string AskFourLetterWord(const Endpoint& server, const std::string& word);
// The index of the leader among `servers`. NotFound if none reports that it leads.
absl::StatusOr<size_t> FindLeader(const std::vector<Endpoint>& servers);
// The version of ZooKeeper, or of compatibility with it, that the first answering server reports;
// empty if none does.
std::string VersionOf(const std::vector<Endpoint>& servers);

}  // namespace quorate::tools::bench
