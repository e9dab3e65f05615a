// SPDX-License-Identifier: Apache-2.0

// The mistakes that can be seeded into the servers (base/seeded_bug.h), and within how many seeds
// each has to be found.
#pragma once

#include <cstdint>

namespace quorate::simulation {

struct SeededBugCase {
  const char* name;
  uint64_t seeds_max;
  // The invariant that has to fail; nullptr if any may.
  const char* invariant = nullptr;
  // The first seed to run. Earlier seeds find nothing, and are left out to save time.
  uint64_t first_seed = 1;
  // Whether it is a bug in the operations of ClickHouse Keeper. The seeds of the other bugs are run
  // without them.
  bool needs_keeper = false;
};

// With a margin: most bugs are found within a tenth of these seeds.
inline constexpr SeededBugCase kSeededBugs[] = {
    {"acknowledged before the sync", 50},
    {"vote not persisted", 50},
    {"the directory is not synced", 50},
    {"the leader counts what is not durable", 200},
    {"votes for a shorter log", 200},
    {"a lost disk counts at once", 2000},
    {"membership stays after truncation", 3000},
    {"a voter counts before it has caught up", 200, "a voter has caught up when it is added"},
    {"a removed member disturbs", 200, "a removed member does not campaign"},
    {"read without a quorum", 300},
    {"a snapshot has the wrong term", 100},
    {"an entry is not applied", 50},
    {"duplicates are applied", 500},
    {"data before its event", 500},
    {"sessions age too fast", 50},
    {"the event of a deletion is lost", 100},
    {"a follower commits what it receives", 50},
    {"an earlier term is committed by counting", 1000},
    {"a follower feeds what is not committed", 1000},
    {"no pre-vote", 500},
    {"entries are applied in the wrong order", 50},
    {"sessions age in a pause", 2000},
    {"nothing leaves memory", 2000},
    {"writes are refused for no reason", 50},
    {"reports about disks are not forgotten", 1000},
    {"one full disk counts as a majority", 500},
    {"heartbeats wait behind data", 1000, "load deposes no leader"},
    {"a tree differs unseen", 50, "no server finds that its tree differs"},
    {"one majority of a joint membership", 1000, nullptr, 1601},
    {"no check-quorum", 500},
    {"a snapshot lacks the last commands of servers", 50},
    {"a heartbeat commits what was not matched", 2000, "equal logs", 6901},
    {"compaction past the checkpoint", 200},
    {"voters are taken from the file", 300,
     "editing the configuration does not change the membership"},
    {"a stray message displaces a member", 500},
    {"one answer ends a member", 500, "no message displaces a member"},
    {"a staging is never given back", 1000, nullptr, 801},
    {"a start forgets the vote", 500, "one vote a term"},
    {"a repeated write is made again", 50, "every answer to a write has its first result"},
    {"a stream lacks the events before it", 50, "no event of a watch is lost"},
    {"a read before the no-op", 1000, "a sync shows everything that was seen before it began"},
    {"tryRemove ignores the version", 150, nullptr, 1, true},
    {"removeRecursive leaves a node", 50, nullptr, 1, true},
    {"filters are ignored", 50, "a read shows the tree of its zxid", 1, true},
    {"commands of Keeper before their version", 200,
     "no command enters the log before every member knows it", 1, true},
};

}  // namespace quorate::simulation
