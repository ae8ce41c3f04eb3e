#pragma once
#include <cstdint>
#include <span>

#include "sim/executor/ids.hpp"
#include "sim/machine.hpp"
#include "sim/op.hpp"
#include "sim/program.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard::execution {

/// A message that moves, or the flow of a join: latency first, then bytes, over its whole route or leg by leg.
struct alignas(64) Transfer {
  enum class State : std::uint8_t {
    free,
    latency,    ///< its timer runs
    parked,     ///< no path is left: waits for a link to come back
    departing,  ///< its bytes leave at the end of this time step
    flowing,    ///< the transport has it
    landed,     ///< all bytes arrived in this time step
    instant,    ///< has no bytes to move: ends in this time step
    arrived,    ///< buffered at the receiver, which has not asked for it yet
    exposed,    ///< lies at the sender until the receiver gets it
  };
  State state = State::free;
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
  bool timed = false;  // a timer of its latency is set
  bool by_legs = false;
  Actor from = 0, to = 0;
  StreamId send, recv;  // an eager sender may have gone on
  ChannelId channel;
  MembersId members;                 // of a join
  const GroupFlow* group = nullptr;  // of a join
  OpId send_id = 0;
  OpId cause = 0;
  FlowId flow;  // while it flows
  LinkId limiting = -1;
  TimerId timer;
  std::uint32_t steps = 1;
  Bytes bytes;  // of the message
  Picoseconds extra_latency;
  BytesPerSecond rate_cap;
  double send_posted = 0;
  double started = 0, ended = 0;
  Bytes left;  // to be moved still, when (re)started
  Bytes seen;  // remaining when the rates of links were last recorded
  const Route* route = nullptr;
  std::span<const LinkUse> links;  // of the route, or of the present leg where buffers store the whole message
  std::span<const Leg> legs_left;  // after it
  Bytes leg_bytes;                 // of each of them
  double leg_started = 0;          // or when what is left of it took another route
  Picoseconds latency;             // of all legs
  Picoseconds leg_latency;         // of the present one

  /// Not on its way: it has arrived, or is to be fetched still.
  bool rests() const { return state == State::arrived || state == State::exposed; }
  bool is_join() const { return group != nullptr; }
};

}  // namespace trainyard::execution
