#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/executor/parts.hpp"

namespace trainyard::execution {

/// Pairs sends with receives: first in, first out for each (sender, receiver, tag). A receive from any peer takes the
/// oldest send with its tag.
class Matcher {
 public:
  /// The side that posted one half of a message: a stream whose operation waits, or the transfer of a sender that does
  /// not wait.
  class Poster {
   public:
    Poster() = default;
    explicit Poster(StreamId id) : packed_(id.number()) {}
    explicit Poster(TransferId id) : packed_(id.number() | kTransfer) {}
    bool is_transfer() const { return (packed_ & kTransfer) != 0; }
    StreamId stream() const { return StreamId{packed_}; }
    TransferId transfer() const { return TransferId{packed_ & ~kTransfer}; }
    bool operator==(const Poster&) const = default;

   private:
    static constexpr std::uint32_t kTransfer = 0x80000000U;
    std::uint32_t packed_ = 0;
  };

  /// Returns the channel between two actors. Channels between the same actors differ if programs give them different
  /// endpoints.
  ChannelId channel(Actor from, Actor to, Program::Endpoints = {});
  /// Returns the other half and removes it. No value: there is none yet, and this half waits.
  std::optional<Poster> send(ChannelId, Tag, Poster);
  std::optional<Poster> recv(ChannelId, Tag, Poster);
  std::optional<Poster> recv_any(Actor to, Tag, Poster);
  /// Removes a waiting half. Does nothing if it does not wait.
  void withdraw_send(ChannelId, Poster);
  void withdraw_recv(ChannelId, Poster);
  void withdraw_recv_any(Actor to, Poster);
  Actor receiver(ChannelId id) const { return channels_[id].to; }
  Actor sender(ChannelId id) const { return channels_[id].from; }
  std::size_t unmatched_messages() const { return waiting_; }

 private:
  struct Half {
    Tag tag = 0;
    Poster poster;
    std::uint64_t number = 0;  // order of posting
  };
  /// Waiting halves in the order of posting. Nearly always at most one waits; therefore the first is stored in the
  /// channel itself.
  class Halves {
   public:
    /// Returns the oldest half with that tag, or null.
    const Half* find(Tag tag) const {
      if (empty_) return nullptr;
      return first_.tag == tag ? &first_ : find_later(tag);
    }
    void push(const Half& half) {
      if (!empty_) return later_.push_back(half);
      first_ = half;
      empty_ = false;
    }
    void erase(const Half*);
    std::size_t erase(Poster);

   private:
    Half first_;
    std::vector<Half> later_;
    bool empty_ = true;
    const Half* find_later(Tag) const;
  };
  struct alignas(64) Channel {
    Actor from, to;
    Halves sends, recvs;
  };
  IndexedVector<Channel, ChannelId> channels_;
  std::unordered_map<std::uint64_t, ChannelId> ids_;  // indexed by (sender, receiver), or by endpoints
  std::unordered_map<Actor, Halves> any_;             // receives from any peer, by receiver
  std::unordered_map<Actor, std::vector<ChannelId>> into_;
  std::uint64_t posted_ = 0;
  std::size_t waiting_ = 0;

  void wait(Halves&, Tag, Poster);
  Poster take(Halves&, const Half*);
};

/// Sends and receives: matches the two halves of a message, and begins and ends both with its transfer.
class Messages : private Parts {
 public:
  explicit Messages(const Parts& parts) : Parts(parts) {}

  /// Creates the channels of the peers in the program's slots.
  void connect(ActorState&);
  void begin_send(StreamState&);
  void begin_recv(StreamState&);
  /// Counts a message as active at both actors.
  void begin_counting(TransferId id) { count(id, +1); }
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

  Matcher matcher_;
  // By slot of all actors, for sending and receiving; set at first use.
  IndexedVector<ChannelId, ChannelSlot> channels_;

  ChannelId channel(const StreamState&, bool sending, std::uint16_t slot);
  void size(StreamState&);
  Poster poster(const StreamState& s) const { return Poster{table_.id_of(s)}; }
  void attach(TransferId, StreamState& receiver);
  void start(TransferId);
  void count(TransferId, int change);
  void announce_half(StreamState&, TransferId);
  void receive_buffered(TransferId, StreamState& receiver);
  void announce_delivery(TransferId, const StreamState& receiver);
};

}  // namespace trainyard::execution
