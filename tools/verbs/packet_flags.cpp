#include "tools/verbs/packet_flags.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

TransportKind parse_transport(const std::string& name) {
  const auto* const found = std::ranges::find(kTransportNames, name);
  if (found == kTransportNames.end())
    throw UserError(
        fmt::format("--transport: unknown transport \"{}\"; known: {}", name, fmt::join(kTransportNames, ", ")));
  return static_cast<TransportKind>(found - kTransportNames.begin());
}

Bytes read_port_buffer(const std::string& text, TransportKind transport) {
  if (text.empty()) return {};
  if (transport != TransportKind::packets)
    throw UserError("--port-buffer: only with --transport packets; other transports have no queues");
  constexpr Bytes kFrame{1500}, kMost{1e9};
  const Bytes size = read_flag("--port-buffer", text, parse_bytes);
  if (size < kFrame || size > kMost)
    throw UserError(
        fmt::format("--port-buffer {}: {} to {} expected: a frame at least", text, show(kFrame), show(kMost)));
  return size;
}

}  // namespace trainyard
