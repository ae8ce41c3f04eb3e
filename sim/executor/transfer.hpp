#pragma once
#include <cstdint>
#include <span>

#include "sim/executor/ids.hpp"
#include "sim/machine.hpp"
#include "sim/op.hpp"
#include "sim/program.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard::execution {

/// A message under way, or the flow of a join: latency first, then bytes, over its whole route or leg by leg.
struct alignas(64) Transfer {
  enum class State : std::uint8_t {
    free,
    latency,    ///< the timer of its latency runs
    parked,     ///< no path is left: it waits for a link to come back
    departing,  ///< its bytes depart at the end of this time step
    flowing,    ///< the transport moves it
    landed,     ///< all bytes arrived in this time step
    instant,    ///< it has no bytes to move and ends in this time step
    arrived,    ///< it is buffered at the receiver, which has not asked for it yet
    exposed,    ///< it lies at the sender until the receiver gets it
  };
  State state = State::free;
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
  bool timed = false;  // a timer for its latency is set
  bool by_legs = false;
  Actor from = 0, to = 0;
  StreamId send, recv;  // an eager sender may have continued
  ChannelId channel;
  MembersId members;                 // for a join
  const GroupFlow* group = nullptr;  // for a join
  OpId send_id = 0;
  OpId cause = 0;
  FlowId flow;  // set while it flows
  LinkId limiting = -1;
  TimerId timer;
  std::uint32_t steps = 1;
  Bytes bytes;  // size of the whole message
  Picoseconds extra_latency;
  BytesPerSecond rate_cap;
  double send_posted = 0;         // s
  double started = 0, ended = 0;  // s
  Bytes left;                     // still to be moved when it was (re)started
  Bytes seen;                     // left when the rates of links were last recorded
  const Route* route = nullptr;
  std::span<const LinkUse> links;  // links of the route, or of the present leg if buffers store the whole message
  std::span<const Leg> legs_left;  // after the present leg
  Bytes leg_bytes;                 // bytes that each leg moves
  double leg_started = 0;          // s, start of the present leg, or of the rest of it on another route
  Picoseconds latency;             // sum over all legs
  Picoseconds leg_latency;         // latency of the present leg

  /// Returns true if it is not moving: it has arrived, or waits to be fetched.
  bool rests() const { return state == State::arrived || state == State::exposed; }
  bool is_join() const { return group != nullptr; }
};

}  // namespace trainyard::execution
