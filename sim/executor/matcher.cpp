#include "sim/executor/matcher.hpp"

#include <algorithm>

namespace trainyard::execution {

ChannelId Matcher::channel(Actor from, Actor to, Program::Endpoints endpoints) {
  const Actor first = endpoints.from >= 0 ? endpoints.from : from, second = endpoints.from >= 0 ? endpoints.to : to;
  const std::uint64_t key =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32 | static_cast<std::uint32_t>(second);
  const auto [entry, is_new] = ids_.try_emplace(key, channels_.end_id());
  if (is_new) {
    channels_.push_back({from, to, {}, {}});
    into_[to].push_back(entry->second);
  }
  return entry->second;
}

const Matcher::Half* Matcher::Halves::find_later(Tag tag) const {
  const auto found = std::find_if(later_.begin(), later_.end(), [tag](const Half& half) { return half.tag == tag; });
  return found == later_.end() ? nullptr : &*found;
}

void Matcher::Halves::erase(const Half* half) {
  if (half != &first_) {
    later_.erase(later_.begin() + (half - later_.data()));
  } else if (later_.empty()) {
    empty_ = true;
  } else {
    first_ = later_.front();
    later_.erase(later_.begin());
  }
}

std::size_t Matcher::Halves::erase(Poster poster) {
  std::size_t erased = std::erase_if(later_, [poster](const Half& half) { return half.poster == poster; });
  if (!empty_ && first_.poster == poster) {
    erase(&first_);
    ++erased;
  }
  return erased;
}

void Matcher::wait(Halves& halves, Tag tag, Poster poster) {
  halves.push({tag, poster, ++posted_});
  ++waiting_;
}

Matcher::Poster Matcher::take(Halves& halves, const Half* half) {
  const Poster poster = half->poster;
  halves.erase(half);
  --waiting_;
  return poster;
}

std::optional<Matcher::Poster> Matcher::send(ChannelId id, Tag tag, Poster poster) {
  Channel& channel = channels_[id];
  const Half* direct = channel.recvs.find(tag);
  if (!any_.empty()) {
    if (const auto waiting = any_.find(channel.to); waiting != any_.end()) {
      const Half* any = waiting->second.find(tag);
      if (any && (!direct || any->number < direct->number)) return take(waiting->second, any);
    }
  }
  if (direct) return take(channel.recvs, direct);
  wait(channel.sends, tag, poster);
  return std::nullopt;
}

std::optional<Matcher::Poster> Matcher::recv(ChannelId id, Tag tag, Poster poster) {
  Channel& channel = channels_[id];
  if (const Half* half = channel.sends.find(tag)) return take(channel.sends, half);
  wait(channel.recvs, tag, poster);
  return std::nullopt;
}

std::optional<Matcher::Poster> Matcher::recv_any(Actor to, Tag tag, Poster poster) {
  Halves* channel_sends = nullptr;
  const Half* oldest = nullptr;
  for (const ChannelId id : into_[to]) {
    Halves& sends = channels_[id].sends;
    const Half* half = sends.find(tag);
    if (!half || (oldest && half->number > oldest->number)) continue;
    channel_sends = &sends;
    oldest = half;
  }
  if (oldest) return take(*channel_sends, oldest);
  wait(any_[to], tag, poster);
  return std::nullopt;
}

void Matcher::withdraw_send(ChannelId id, Poster poster) { waiting_ -= channels_[id].sends.erase(poster); }
void Matcher::withdraw_recv(ChannelId id, Poster poster) { waiting_ -= channels_[id].recvs.erase(poster); }
void Matcher::withdraw_recv_any(Actor to, Poster poster) { waiting_ -= any_[to].erase(poster); }

}  // namespace trainyard::execution
