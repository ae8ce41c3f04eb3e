#include "sim/executor/matcher.hpp"

#include <algorithm>

namespace trainyard {

ChannelId Matcher::channel(Actor from, Actor to) {
  const std::uint64_t key =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32 | static_cast<std::uint32_t>(to);
  const auto [at, fresh] = ids_.try_emplace(key, static_cast<ChannelId>(channels_.size()));
  if (fresh) {
    channels_.push_back({from, to, {}, {}});
    into_[to].push_back(at->second);
  }
  return at->second;
}

const Matcher::Half* Matcher::Halves::find_later(Tag tag) const {
  const auto at = std::find_if(later_.begin(), later_.end(), [tag](const Half& half) { return half.tag == tag; });
  return at == later_.end() ? nullptr : &*at;
}

void Matcher::Halves::erase(const Half* half) {
  if (half != &first_) {
    later_.erase(later_.begin() + (half - later_.data()));
  } else if (later_.empty()) {
    some_ = false;
  } else {
    first_ = later_.front();
    later_.erase(later_.begin());
  }
}

std::size_t Matcher::Halves::erase(Ref ref) {
  std::size_t erased = std::erase_if(later_, [ref](const Half& half) { return half.ref == ref; });
  if (some_ && first_.ref == ref) {
    erase(&first_);
    ++erased;
  }
  return erased;
}

void Matcher::wait(Halves& halves, Tag tag, Ref ref) {
  halves.push({tag, ref, ++posted_});
  ++waiting_;
}

Matcher::Ref Matcher::take(Halves& halves, const Half* half) {
  const Ref ref = half->ref;
  halves.erase(half);
  --waiting_;
  return ref;
}

std::optional<Matcher::Ref> Matcher::send(ChannelId id, Tag tag, Ref ref) {
  Channel& channel = channels_[static_cast<std::size_t>(id)];
  const Half* direct = channel.recvs.find(tag);
  if (!any_.empty()) {
    if (const auto waiting = any_.find(channel.to); waiting != any_.end()) {
      const Half* any = waiting->second.find(tag);
      if (any && (!direct || any->number < direct->number)) return take(waiting->second, any);
    }
  }
  if (direct) return take(channel.recvs, direct);
  wait(channel.sends, tag, ref);
  return std::nullopt;
}

std::optional<Matcher::Ref> Matcher::recv(ChannelId id, Tag tag, Ref ref) {
  Channel& channel = channels_[static_cast<std::size_t>(id)];
  if (const Half* half = channel.sends.find(tag)) return take(channel.sends, half);
  wait(channel.recvs, tag, ref);
  return std::nullopt;
}

std::optional<Matcher::Ref> Matcher::recv_any(Actor to, Tag tag, Ref ref) {
  Halves* of = nullptr;
  const Half* oldest = nullptr;
  for (const ChannelId id : into_[to]) {
    Halves& sends = channels_[static_cast<std::size_t>(id)].sends;
    const Half* half = sends.find(tag);
    if (!half || (oldest && half->number > oldest->number)) continue;
    of = &sends;
    oldest = half;
  }
  if (oldest) return take(*of, oldest);
  wait(any_[to], tag, ref);
  return std::nullopt;
}

void Matcher::withdraw_send(ChannelId id, Ref ref) {
  waiting_ -= channels_[static_cast<std::size_t>(id)].sends.erase(ref);
}
void Matcher::withdraw_recv(ChannelId id, Ref ref) {
  waiting_ -= channels_[static_cast<std::size_t>(id)].recvs.erase(ref);
}
void Matcher::withdraw_any(Actor to, Ref ref) { waiting_ -= any_[to].erase(ref); }

}  // namespace trainyard
