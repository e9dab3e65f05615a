// SPDX-License-Identifier: Apache-2.0

// The targets of HTTP requests.
#include <string>

#include "base/assert.h"
#include "base/escape.h"
#include "base/strings.h"
#include "rpc/admin/request_target.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  const auto target = rpc::admin::ParseRequestTarget(input.rest());
  if (!target.ok()) {
    ASSERT(IsText(ToStd(target.status().message())));
    return;
  }
  const std::string& path = target->path;
  ASSERT(path.front() == '/' && path.size() <= rpc::admin::kTargetBytesMax);
  // No segment leads upwards, whatever follows the path.
  ASSERT((path + "/").find("/../") == std::string::npos);
  ASSERT((path + "/").find("/./") == std::string::npos);
  ASSERT(!NeedsEscapeLine(path));
  ASSERT(target->parameters.size() <= rpc::admin::kParametersMax);
  for (const auto& [key, value] : target->parameters) {
    ASSERT(!NeedsEscapeLine(key) && !NeedsEscapeLine(value));
    ASSERT(target->Find(key).has_value());
  }
}

}  // namespace quorate::fuzz
