// SPDX-License-Identifier: Apache-2.0

// Suggestions for mistyped names: commands, configuration keys.
//
// Thread-safety: a pure function.
#pragma once

#include <string>
#include <vector>

namespace quorate {

// Returns the elements of `names`, in their order, of which `name` may be a mistyped form: those
// that differ from it in at most two letters or only in case, and those that begin with it if it
// has at least three letters.
std::vector<std::string> SimilarNames(const std::string& name,
                                      const std::vector<std::string>& names);

}  // namespace quorate
