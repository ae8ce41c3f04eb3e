#pragma once
#include <string>

#include "sim/transports/transport.hpp"
#include "sim/units.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// Reads a number above 0 such as "15T", "300B" or "1e12". An empty text gives the fallback. Throws UserError that
/// names the flag.
double parse_amount(const std::string& flag, const std::string& text, double fallback = 0);

/// Reads a share less than 1: "10%" or "0.1". An empty text gives 0. Throws UserError that names the flag.
double parse_share(const std::string& flag, const std::string& text);

/// The flags that end a search for plans before its best plan is proved.
struct SearchLimits {
  std::string work, seconds;
  std::string seconds_flag;  ///< "--budget"

  /// `search`: words for what ends ("the search"). `fallback`: words for the work without these flags.
  void declare(Arguments&, const std::string& seconds_flag, const std::string& search, const std::string& fallback);
  double operations() const { return parse_amount("--work", work); }  ///< simulated operations; 0: no limit given
  double wall_seconds() const;                                        ///< wall time, s; 0: no limit given
};

constexpr const char* kPortBufferHelp =
    "with --transport packets: size of the buffer of each port, one queue for all flows, for example 512 KiB; a full "
    "buffer drops packets (default: FqCoDel of 10,240 frames)";

/// Reads `--transport NAME`. Throws UserError that lists all names.
TransportKind parse_transport(const std::string&);
/// Reads `--port-buffer SIZE`; "" gives 0 bytes, which means ns-3's own queue. Throws UserError if the text is no size
/// or less than a frame, and if the transport is not packets.
Bytes read_port_buffer(const std::string& text, TransportKind);

}  // namespace trainyard
