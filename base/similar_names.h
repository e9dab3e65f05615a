// Suggestions for mistyped names: commands, configuration keys.
//
// Thread-safety: a pure function.
#pragma once

#include <string>
#include <vector>

namespace quorate {

// Returns those of `names` that `name` may be a mistyped form of, in the order of `names`: at most
// two letters differ, or only the case, or they begin with `name` (three letters or more).
std::vector<std::string> SimilarNames(const std::string& name,
                                      const std::vector<std::string>& names);

}  // namespace quorate
