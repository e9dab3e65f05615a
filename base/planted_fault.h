// Faults on purpose: mistakes that somebody could make, planted where they would be made, to show
// that the simulator finds them. They exist only in a build with QUORATE_PLANTED_FAULTS
// (--config=planted); elsewhere PlantedFault is a constant.
//
// Thread-safety: PlantFault before any thread starts.
#pragma once

#include <string>
#include <string_view>

namespace quorate {

#ifdef QUORATE_PLANTED_FAULTS

inline std::string planted_fault;  // the one in force; empty: none

inline void PlantFault(std::string_view name) { planted_fault = name; }
inline bool PlantedFault(std::string_view name) { return planted_fault == name; }
inline constexpr bool kFaultsArePlanted = true;

#else

inline void PlantFault(std::string_view) {}
constexpr bool PlantedFault(std::string_view) { return false; }
inline constexpr bool kFaultsArePlanted = false;

#endif

}  // namespace quorate
