// SPDX-License-Identifier: Apache-2.0

// Seeded bugs: plausible mistakes in the code, each switched on by its name, to show that the tests
// find them. They exist only in a build with QUORATE_SEEDED_BUGS (--config=seeded_bugs). In other
// builds SeededBug is the constant false.
//
// Thread-safety: SeedBug is called before any thread starts; SeededBug may be called from any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace quorate {

#ifdef QUORATE_SEEDED_BUGS

inline std::string seeded_bug;  // the bug that is switched on; empty: none

inline void SeedBug(std::string_view name) { seeded_bug = name; }
inline bool SeededBug(std::string_view name) { return seeded_bug == name; }
inline constexpr bool kBugsAreSeeded = true;

#else

inline void SeedBug(std::string_view) {}
constexpr bool SeededBug(std::string_view) { return false; }
inline constexpr bool kBugsAreSeeded = false;

#endif

}  // namespace quorate
