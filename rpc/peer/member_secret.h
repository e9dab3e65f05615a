// SPDX-License-Identifier: Apache-2.0

// How two servers with a shared secret prove to each other that they know it, without sending it.
// The greeting of a connection (rpc/peer/frame.h) between A, which opened it, and B:
//
//   A -> B   Hello        with a fresh nonce of A
//   B -> A   Challenge    with a fresh nonce of B
//   A -> B   Proof        ConnectingProof
//   B -> A   HelloAnswer  with AcceptingProof
//
// B decodes nothing but the hello before it has checked A's proof, and A sends nothing but its hello
// and its proof before it has checked B's. Both proofs are HMAC-SHA256 with the secret as key, over
// everything that both have said so far. So a proof
//   - cannot be replayed: each connection has a fresh nonce of the server that checks the proof;
//   - cannot be sent back to its maker: it begins with the role of the maker, and both proofs have
//     the numbers of both servers, in order;
//   - cannot be used at another server: the number of the server that is meant is part of it;
//   - is good for one connection of TLS only: with TLS, it covers bytes that only the two ends of
//     that connection know.
// Without TLS, a machine between the two servers can pass the greeting on, and then change what
// follows: a secret alone keeps others from connecting, and does not protect the bytes.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "rpc/peer/frame.h"

namespace quorate::rpc {

// What a proof covers.
struct Greeting {
  Hello hello;          // with A's nonce
  std::string nonce;    // B's
  std::string binding;  // PeerStream::ChannelBinding
};

// Returns the proof of A, which knows `secret`.
std::string ConnectingProof(std::string_view secret, const Greeting& greeting);

// Returns the proof of B, which covers all of `answer` but its proof.
std::string AcceptingProof(std::string_view secret, const Greeting& greeting,
                           const HelloAnswer& answer);

}  // namespace quorate::rpc
