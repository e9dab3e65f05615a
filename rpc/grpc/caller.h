// SPDX-License-Identifier: Apache-2.0

// Who makes a call of gRPC: the address, certificate and credentials of the caller, and whether it
// may make the call.
//
// Thread-safety: functions without state, except for a cache of each thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/authorization.h"
#include "rpc/grpc/caller_proof.h"
#include "rpc/grpc/peer_address.h"

namespace quorate::rpc {

// Returns the subject of the caller's valid certificate (rpc/tls/subject.h); empty if it has shown
// none, or is not connected with TLS. `pem` is the certificate as gRPC has it.
std::string SubjectOfPem(std::string_view pem);
std::string SubjectOf(const grpc::ServerContextBase& context);

// Returns who makes the call. Looks at the certificate only if `has_certificates`. Takes the
// credentials of the metadata `quorate-credential` as they are, without checking what they prove.
CallerProof ProofOf(const grpc::ServerContextBase& context, bool has_certificates,
                    Administrators* administrators);

// Returns who makes the call, with everything that it has proved, if it may begin `operation`.
// Otherwise the status for the caller: the error NO_AUTH or AUTH_FAILED of quorate.v1, UNAVAILABLE
// for credentials that were not looked at, because many wrong ones have come from the address, or
// BAD_ARGUMENTS for credentials of another form.
absl::StatusOr<Principal> AdmitCall(Operation operation, const grpc::ServerContextBase& context,
                                    Administrators* administrators);

}  // namespace quorate::rpc
