// SPDX-License-Identifier: Apache-2.0

// Where an HTTP request comes from, as far as its headers tell: from a page of this server, from a
// page of another site in a browser, or through a proxy.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "rpc/admin/http.h"
#include "rpc/frontend/authorization.h"

namespace quorate::rpc::admin {

// Returns the name or address in the value of the header Host, without the port and without the
// brackets of an IPv6 address.
std::string_view HostName(std::string_view host);

// Returns whether the host of a request is this machine for itself: localhost or an address of the
// loopback. A browser that was led to this machine by the name of another site sends that name, and a
// proxy of this machine may send the name or the address by which others know it.
bool IsOwnHost(std::string_view host);

// Returns whether the host of a request is an IP address. The name of another site, by which a browser
// was led to this server, is none.
bool IsAddress(std::string_view host);

// Returns whether nobody on the network can read the request and its response. A proxy of this machine
// may have got the request over a network without TLS.
bool IsPrivate(const HttpRequest& request);

// Returns why a page of another site in a browser sends the request; empty if none does.
std::string CrossSiteReason(const HttpRequest& request);

// Returns why a request is not known to be sent by a page of this server in a browser; empty if it is. In
// contrast to CrossSiteReason, a header has to say so.
std::string ForeignPageReason(const HttpRequest& request);

// Returns why a request may come from a page of another site in a browser, or from another machine
// through a proxy; empty if it cannot.
std::string ForeignReason(const HttpRequest& request, const Principal& caller);

}  // namespace quorate::rpc::admin
