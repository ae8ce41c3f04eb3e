#pragma once
#include <optional>
#include <string>

namespace trainyard {

/// What of a request says who sends it; "" where the header is absent. The token of a page is in its address, as nobody
/// else on this machine can know; that of a question in a header, as no other page can set.
struct RequestHead {
  std::string method, path, host, origin, fetch_site, content_type, token;
};

/// Why a request is not obeyed.
struct Refusal {
  int status = 403;
  std::string words;
};

/// Only the page itself asks: a name that resolves to the loopback (DNS rebinding) has another Host, another page's form or
/// script another Origin and no token. `token` is that of this start.
std::optional<Refusal> refusal_of(const RequestHead&, int port, const std::string& token);

/// 128 random bits, as hexadecimal digits. Throws InternalError.
std::string random_token();

/// The most bytes of a request's body.
constexpr std::size_t kMostOfRequest = 64 * 1024;

}  // namespace trainyard
