// The mistakes that can be planted into the servers (base/planted_fault.h), and how soon each has
// to be found.
#pragma once

#include <cstdint>

namespace quorate::simulation {

struct PlantedFaultCase {
  const char* name;
  uint64_t seeds_max;
};

inline constexpr PlantedFaultCase kPlantedFaults[] = {
    {"acknowledged before the sync", 50},
    {"vote not persisted", 200},
    {"the leader counts what is not durable", 500},
    {"votes for a shorter log", 200},
    {"membership stays after truncation", 2000},
    {"duplicates are applied", 200},
    {"data before its event", 200},
    {"an entry is not applied", 50},
    {"sessions age too fast", 100},
    {"the directory is not synced", 200},
    {"a snapshot has the wrong term", 200},
    {"the event of a deletion is lost", 200},
    {"a follower commits what it receives", 200},
};

// Those that were not found within the seeds given here, and are not asked for: they take a rare
// coincidence. Unit tests find them (consensus/core).
inline constexpr PlantedFaultCase kRarePlantedFaults[] = {
    {"commit of an old term by counting", 2000},
    {"read without a quorum", 1000},
    {"a lost disk counts at once", 1000},
    {"sessions age in a pause", 1000},
};

}  // namespace quorate::simulation
