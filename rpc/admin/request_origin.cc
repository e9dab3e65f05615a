// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/request_origin.h"

#include <arpa/inet.h>

#include "absl/strings/ascii.h"
#include "base/strings.h"

namespace quorate::rpc::admin {

std::string_view HostName(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

bool IsOwnHost(std::string_view host) {
  const std::string_view name = HostName(host);
  if (name.empty() || absl::AsciiStrToLower(ToAbsl(name)) == "localhost") return true;
  return OriginOfAddress(name) == Principal::Origin::kLoopback;
}

bool IsAddress(std::string_view host) {
  const std::string name(HostName(host));
  in6_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool IsPrivate(const HttpRequest& request) {
  return request.is_encrypted ||
         (request.caller.origin == Principal::Origin::kLoopback && !request.is_passed_on);
}

std::string CrossSiteReason(const HttpRequest& request) {
  const std::string& site = request.fetch_site;
  if (!site.empty() && site != "none" && site != "same-origin") {
    return "a page of another site sends this request";
  }
  // Older browsers send no Sec-Fetch-Site. Of the origin, scheme://host:port, the scheme may be
  // another one than here behind a proxy.
  const std::string& origin = request.origin;
  const size_t scheme_end = origin.find("://");
  if (!origin.empty() &&
      (scheme_end == std::string::npos || origin.substr(scheme_end + 3) != request.host)) {
    return "the header Origin names another site than the header Host";
  }
  return "";
}

std::string ForeignPageReason(const HttpRequest& request) {
  if (std::string reason = CrossSiteReason(request); !reason.empty()) return reason;
  const bool is_said =
      request.fetch_site.empty() ? !request.origin.empty() : request.fetch_site == "same-origin";
  return is_said ? ""
                 : "neither the header Sec-Fetch-Site nor Origin says that a page of this server "
                   "sends this request";
}

std::string ForeignReason(const HttpRequest& request, const Principal& caller) {
  if (std::string reason = CrossSiteReason(request); !reason.empty()) return reason;
  if (caller.has_proof()) return "";
  if (request.is_passed_on) {
    return "a proxy has passed this request on; without an administrator's credentials it has to "
           "come from this machine";
  }
  if (!IsOwnHost(request.host)) {
    return "the request names this machine neither as localhost nor by an address of the loopback; "
           "without an administrator's credentials it has to";
  }
  return "";
}

}  // namespace quorate::rpc::admin
