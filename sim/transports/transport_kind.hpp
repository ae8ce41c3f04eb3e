#pragma once
#include <array>
#include <cstdint>

namespace trainyard {

/// Who shares the links: our solver (fast), SimGrid's own communications (the reference), or TCP, packet by packet, where
/// it carries the messages (SimGrid's model on ns-3; slow). SimGrid runs in a process of its own.
enum class TransportKind : std::uint8_t { flow, native, packets };
inline constexpr std::array kTransportNames{"flow", "native", "packets"};
constexpr TransportKind kDefaultTransport = TransportKind::flow;

}  // namespace trainyard
