#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

using ChannelId = std::int32_t;

/// Pairs sends with receives: first in, first out per (sender, receiver, tag). A receive from any peer takes the oldest
/// send of its tag.
class Matcher {
 public:
  using Ref = std::uint32_t;
  struct Half {
    Tag tag = 0;
    Ref ref = 0;
    std::uint64_t number = 0;  // order of posting
  };

  ChannelId channel(Actor from, Actor to);
  /// The half that `ref` pairs with; if there is none yet, `ref` waits.
  std::optional<Ref> send(ChannelId, Tag, Ref);
  std::optional<Ref> recv(ChannelId, Tag, Ref);
  std::optional<Ref> recv_any(Actor to, Tag, Ref);
  /// A waiting half is taken back (cancelled).
  void withdraw_send(ChannelId, Ref);
  void withdraw_recv(ChannelId, Ref);
  void withdraw_any(Actor to, Ref);
  Actor receiver(ChannelId id) const { return channels_[static_cast<std::size_t>(id)].to; }
  Actor sender(ChannelId id) const { return channels_[static_cast<std::size_t>(id)].from; }
  std::size_t unmatched() const { return waiting_; }

 private:
  struct Channel {
    Actor from, to;
    std::vector<Half> sends, recvs;
  };
  std::vector<Channel> channels_;
  std::unordered_map<std::uint64_t, ChannelId> ids_;
  std::unordered_map<Actor, std::vector<Half>> any_;  // receives from any peer
  std::unordered_map<Actor, std::vector<ChannelId>> into_;
  std::uint64_t posted_ = 0;
  std::size_t waiting_ = 0;

  static std::vector<Half>::iterator find(std::vector<Half>&, Tag);
  void withdraw(std::vector<Half>&, Ref);
};

}  // namespace trainyard
