#pragma once
#include <string>

#include "sim/transports/transport_kind.hpp"
#include "sim/units.hpp"

namespace trainyard {

constexpr const char* kPortBufferHelp =
    "with --transport packets: what waits at a port before it drops what comes, such as 512 KiB; then one queue for "
    "all "
    "(default: FqCoDel of 10,240 frames)";

/// `--transport NAME`. Throws UserError naming all.
TransportKind parse_transport(const std::string&);
/// `--port-buffer SIZE`; "" is 0, ns-3's own queue. Throws UserError for no size, less than a frame, or another transport.
Bytes port_buffer_of(const std::string& text, TransportKind);

}  // namespace trainyard
