#include "tools/serving/request_checks.hpp"

#include <fmt/format.h>

#include "sim/process/output.hpp"

namespace trainyard {
namespace {

/// Compares two secrets in a time that does not depend on how many characters are equal.
bool equal_secrets(const std::string& a, const std::string& b) {
  unsigned differing = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    differing |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differing == 0;
}

}  // namespace

std::optional<Refusal> refusal_of(const RequestHead& head, int port, const std::string& token) {
  const std::string numbered = fmt::format("127.0.0.1:{}", port), named = fmt::format("localhost:{}", port);
  if (head.host != numbered && head.host != named) return Refusal{403, "another host was meant"};
  if (!head.origin.empty() && head.origin != "http://" + head.host) return Refusal{403, "asked by another origin"};
  const bool typed = head.fetch_site == "none" && head.method == "GET";
  if (!head.fetch_site.empty() && head.fetch_site != "same-origin" && !typed)
    return Refusal{403, "asked by another site"};
  if (head.method == "GET" && head.path == "/") {
    if (equal_secrets(head.token, token)) return std::nullopt;
    return Refusal{403, "the address that `trainyard serve` has printed is expected, with its token"};
  }
  if (head.path != "/ask") return Refusal{404, "there are / and /ask"};
  if (head.method != "POST") return Refusal{405, "/ask takes POST"};
  if (head.content_type != "application/json") return Refusal{415, "application/json expected"};
  if (!equal_secrets(head.token, token)) return Refusal{403, "this page is of another start: load it again"};
  return std::nullopt;
}

std::string random_token() {
  constexpr std::size_t bytes = 16;
  return random_digits(bytes);
}

}  // namespace trainyard
