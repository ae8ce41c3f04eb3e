#pragma once
#include "sim/index.hpp"
#include "sim/timer_queue.hpp"

namespace trainyard::execution {

using StreamId = TypedIndex<struct StreamTag>;      ///< among the streams of all actors
using TransferId = TypedIndex<struct TransferTag>;  ///< in the pool of transfers; the transport's token of its flow
using ChannelId = TypedIndex<struct ChannelTag>;    ///< a (sender, receiver) pair
using ChannelSlot = TypedIndex<struct SlotTag>;   ///< a channel as a program names it: one for each slot and direction
using MembersId = TypedIndex<struct MembersTag>;  ///< of a join under way: the streams that take part

/// What a timer of the executor is for, and whose it is.
struct TimerToken {
  enum class Kind : std::uint32_t { work, latency, link_change, actor_change };
  Kind kind = Kind::work;
  std::uint32_t number = 0;  // of the stream, the transfer or the change
};
using Timers = TimerQueue<TimerToken>;

/// Asks for the cache lines of what will be touched soon.
template <class T>
void prefetch(const T& thing) {
  const char* begin = reinterpret_cast<const char*>(&thing);
  for (std::size_t line = 0; line < sizeof(T); line += 64) __builtin_prefetch(begin + line);
}

}  // namespace trainyard::execution
