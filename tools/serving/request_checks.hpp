#pragma once
#include <optional>
#include <string>

namespace trainyard {

/// The parts of a request that show who sends it; "" if the header is absent. A request for the page has the token in
/// its address, which no other user of this machine knows. A question has it in a header, which no other page can set.
struct RequestHead {
  std::string method, path, host, origin, fetch_site, content_type, token;
};

/// The reason for refusing a request, with its HTTP status.
struct Refusal {
  int status = 403;
  std::string words;
};

/// Refuses requests that do not come from the page itself. No value: the request is accepted. A request through a name
/// that resolves to the loopback (DNS rebinding) has another Host; a form or script of another page has another Origin
/// and no token. `token`: the token of this start of the server.
std::optional<Refusal> refusal_of(const RequestHead&, int port, const std::string& token);

/// 128 random bits as hexadecimal digits. Throws InternalError.
std::string random_token();

/// The largest body of a request, bytes.
constexpr std::size_t kMostOfRequest = 64 * 1024;

}  // namespace trainyard
