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

  /// Creates the channels of the peers in the program's slots.
  void connect(ActorState&);
  void begin_send(StreamState&);
  void begin_recv(StreamState&);
  void end(TransferId, Outcome);

  /// Removes a half that has not met the other one.
  void withdraw(const StreamState&);
  /// Loses the message because its sender or receiver fails. Adds the half of the other actor to `orphans` if it still
  /// runs.
  void lose(TransferId, Actor failed, std::vector<StreamId>& orphans);
  /// Makes an orphan wait for another partner.
  void wait_again(StreamState&);

  /// Number of halves whose other half never came.
  std::size_t unmatched_messages() const { return matcher_.unmatched_messages(); }

 private:
  using Poster = Matcher::Poster;

  Context& context_;
  ActorTable& table_;
  Interference& interference_;
  Streams& streams_;
  Transfers& transfers_;
  Matcher matcher_;
  // By slot of all actors, for sending and receiving; set at first use.
  IndexedVector<ChannelId, ChannelSlot> channels_;

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
