#pragma once
#include <array>
#include <cstdint>

namespace trainyard {

/// The implementation that shares links: our solver (fast), SimGrid's own communications (the reference), or TCP packet
/// by packet on the cables that carry it (SimGrid's model on ns-3; slow). SimGrid runs in a process of its own.
enum class TransportKind : std::uint8_t { flow, native, packets };
inline constexpr std::array kTransportNames{"flow", "native", "packets"};
constexpr TransportKind kDefaultTransport = TransportKind::flow;

}  // namespace trainyard
