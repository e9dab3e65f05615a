// SPDX-License-Identifier: Apache-2.0

// What the parts of the web console share: who calls, and JSON responses.
//
// Thread-safety: values, and functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "rpc/admin/http.h"
#include "rpc/admin/json_text.h"
#include "rpc/frontend/authorization.h"
#include "rpc/frontend/client_identities.h"

namespace quorate::rpc::admin {

// Who sends a request of the console.
struct ConsoleCaller {
  Principal principal;
  ClientIdentities identities;
  std::string actor{};  // what gave it its rights, for the audit log, such as "token:ops"
};

inline HttpResponse JsonResponse(unsigned status, const Json& fields) {
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  response.body = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  response.headers = {{"Cross-Origin-Resource-Policy", "same-origin"}};
  return response;
}

// Returns the response to a request that is not carried out, in words for the user of the page.
inline HttpResponse Failure(unsigned status, std::string_view why) {
  return JsonResponse(status, {{"error", std::string(why)}});
}

// Returns an id of 64 bits as the page shows and sends it.
inline std::string HexText(int64_t number) {
  return absl::StrCat("0x", absl::Hex(static_cast<uint64_t>(number)));
}

}  // namespace quorate::rpc::admin
