// Makes the nodes that a workload needs and removes them, over a session of its own.
//
// Thread-safety: that of the engine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/engine.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {

// In their order; it is no error if one is there already. Unavailable if the servers do not answer.
absl::Status MakeNodes(Engine* engine, const std::vector<Endpoint>& servers,
                       const std::vector<NodeToMake>& nodes);

// The node and all below it; it is no error if it is not there.
absl::Status RemoveNodes(Engine* engine, const std::vector<Endpoint>& servers,
                         const std::string& path);

// What a server says to the word "srvr"; empty if it says nothing within a second.
std::string AskFourLetterWord(const Endpoint& server, const std::string& word);
// The place of the leader among `servers`, from 0. NotFound if none says that it leads.
absl::StatusOr<size_t> FindLeader(const std::vector<Endpoint>& servers);
// What the first of them that answers says of the version of ZooKeeper that it is, or is like;
// empty if none does.
std::string VersionOf(const std::vector<Endpoint>& servers);

}  // namespace quorate::tools::bench
