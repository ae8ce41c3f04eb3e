#pragma once
#include <vector>

#include "sim/executor/matcher.hpp"
#include "sim/executor/streams.hpp"
#include "sim/executor/transfers.hpp"

namespace trainyard::execution {

/// Sends and receives: matches the two halves of a message, and begins and ends both with its transfer.
class Messages {
 public:
  Messages(Context& context, ActorTable& table, Interference& interference, Streams& streams, Transfers& transfers)
      : context_(context), table_(table), interference_(interference), streams_(streams), transfers_(transfers) {}

  /// The peers that the actor's program names by slot.
  void connect(ActorState&);
  void begin_send(StreamState&);
  void begin_recv(StreamState&);
  void end(TransferId, Outcome);

  /// A half that has not met the other one is taken back.
  void withdraw(const StreamState&);
  /// The message is lost with an actor that fails, its sender or its receiver. The half of the other actor, if it still
  /// runs, is added to `orphans`.
  void lose(TransferId, Actor failed, std::vector<StreamId>& orphans);
  /// An orphan waits for another partner.
  void wait_again(StreamState&);

  /// Halves whose other half never came.
  std::size_t unmatched() const { return matcher_.unmatched(); }

 private:
  using Poster = Matcher::Poster;

  Context& context_;
  ActorTable& table_;
  Interference& interference_;
  Streams& streams_;
  Transfers& transfers_;
  Matcher matcher_;
  IndexedVector<ChannelId, ChannelSlot> channels_;  // of all slots of all actors, sends and receives, as they are used

  ChannelId channel(const StreamState&, bool sending, std::uint16_t slot);
  void size(StreamState&);
  Poster poster(const StreamState& s) const { return Poster{table_.id_of(s)}; }
  void attach(TransferId, StreamState& receiver);
  void start(TransferId);
  void announce_half(StreamState&, TransferId);
  void receive_buffered(TransferId, StreamState& receiver);
  void announce_delivery(TransferId, const StreamState& receiver);
};

}  // namespace trainyard::execution
