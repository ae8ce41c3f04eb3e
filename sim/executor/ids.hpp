#pragma once
#include "sim/index.hpp"
#include "sim/timer_queue.hpp"

namespace trainyard::execution {

using StreamId = TypedIndex<struct StreamTag>;  ///< index among the streams of all actors
/// Index in the pool of transfers, and the transport's token of the flow.
using TransferId = TypedIndex<struct TransferTag>;
using ChannelId = TypedIndex<struct ChannelTag>;  ///< index of a (sender, receiver) pair
/// Index of a channel by a program's slot: one for each slot and direction.
using ChannelSlot = TypedIndex<struct SlotTag>;
using MembersId = TypedIndex<struct MembersTag>;  ///< index of the list of streams in a join under way

/// Purpose of a timer of the executor, and its owner.
struct TimerToken {
  enum class Kind : std::uint32_t { work, latency, link_change, actor_change };
  Kind kind = Kind::work;
  std::uint32_t number = 0;  // index of the stream, the transfer or the change
};
using Timers = TimerQueue<TimerToken>;

/// Prefetches the cache lines of an object that will be touched soon.
template <class T>
void prefetch(const T& thing) {
  const char* begin = reinterpret_cast<const char*>(&thing);
  for (std::size_t line = 0; line < sizeof(T); line += 64) __builtin_prefetch(begin + line);
}

}  // namespace trainyard::execution
