#pragma once
#include <string>

#include "sim/transports/transport_kind.hpp"
#include "sim/units.hpp"

namespace trainyard {

constexpr const char* kPortBufferHelp =
    "with --transport packets: size of the buffer of each port, one queue for all flows, for example 512 KiB; a "
    "full buffer drops packets (default: FqCoDel of 10,240 frames)";

/// Reads `--transport NAME`. Throws UserError that lists all names.
TransportKind parse_transport(const std::string&);
/// Reads `--port-buffer SIZE`; "" gives 0 bytes, which means ns-3's own queue. Throws UserError if the text is no size
/// or less than a frame, and if the transport is not packets.
Bytes read_port_buffer(const std::string& text, TransportKind);

}  // namespace trainyard
