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
  /// Halves that wait, in the order of posting. Nearly always one at most waits, which lies in the channel itself.
  class Halves {
   public:
    bool empty() const { return !some_; }
    /// The oldest of that tag, or null.
    const Half* find(Tag tag) const {
      if (!some_) return nullptr;
      return first_.tag == tag ? &first_ : find_later(tag);
    }
    void push(const Half& half) {
      if (some_) return later_.push_back(half);
      first_ = half;
      some_ = true;
    }
    void erase(const Half*);
    std::size_t erase(Ref);

   private:
    Half first_;
    std::vector<Half> later_;
    bool some_ = false;
    const Half* find_later(Tag) const;
  };
  struct alignas(64) Channel {
    Actor from, to;
    Halves sends, recvs;
  };
  std::vector<Channel> channels_;
  std::unordered_map<std::uint64_t, ChannelId> ids_;
  std::unordered_map<Actor, Halves> any_;  // receives from any peer
  std::unordered_map<Actor, std::vector<ChannelId>> into_;
  std::uint64_t posted_ = 0;
  std::size_t waiting_ = 0;

  void wait(Halves&, Tag, Ref);
  Ref take(Halves&, const Half*);
};

}  // namespace trainyard
