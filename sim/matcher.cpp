#include "sim/matcher.hpp"

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

std::vector<Matcher::Half>::iterator Matcher::find(std::vector<Half>& halves, Tag tag) {
  return std::find_if(halves.begin(), halves.end(), [tag](const Half& half) { return half.tag == tag; });
}

std::optional<Matcher::Ref> Matcher::send(ChannelId id, Tag tag, Ref ref) {
  Channel& channel = channels_[static_cast<std::size_t>(id)];
  const auto direct = find(channel.recvs, tag);
  if (!any_.empty()) {
    if (const auto waiting = any_.find(channel.to); waiting != any_.end()) {
      const auto any = find(waiting->second, tag);
      if (any != waiting->second.end() && (direct == channel.recvs.end() || any->number < direct->number)) {
        const Ref partner = any->ref;
        waiting->second.erase(any);
        --waiting_;
        return partner;
      }
    }
  }
  if (direct != channel.recvs.end()) {
    const Ref partner = direct->ref;
    channel.recvs.erase(direct);
    --waiting_;
    return partner;
  }
  channel.sends.push_back({tag, ref, ++posted_});
  ++waiting_;
  return std::nullopt;
}

std::optional<Matcher::Ref> Matcher::recv(ChannelId id, Tag tag, Ref ref) {
  Channel& channel = channels_[static_cast<std::size_t>(id)];
  if (const auto at = find(channel.sends, tag); at != channel.sends.end()) {
    const Ref partner = at->ref;
    channel.sends.erase(at);
    --waiting_;
    return partner;
  }
  channel.recvs.push_back({tag, ref, ++posted_});
  ++waiting_;
  return std::nullopt;
}

std::optional<Matcher::Ref> Matcher::recv_any(Actor to, Tag tag, Ref ref) {
  Channel* from = nullptr;
  std::vector<Half>::iterator oldest;
  for (const ChannelId id : into_[to]) {
    Channel& channel = channels_[static_cast<std::size_t>(id)];
    const auto at = find(channel.sends, tag);
    if (at == channel.sends.end() || (from && at->number > oldest->number)) continue;
    from = &channel;
    oldest = at;
  }
  if (from) {
    const Ref partner = oldest->ref;
    from->sends.erase(oldest);
    --waiting_;
    return partner;
  }
  any_[to].push_back({tag, ref, ++posted_});
  ++waiting_;
  return std::nullopt;
}

void Matcher::withdraw(std::vector<Half>& halves, Ref ref) {
  waiting_ -= std::erase_if(halves, [ref](const Half& half) { return half.ref == ref; });
}
void Matcher::withdraw_send(ChannelId id, Ref ref) { withdraw(channels_[static_cast<std::size_t>(id)].sends, ref); }
void Matcher::withdraw_recv(ChannelId id, Ref ref) { withdraw(channels_[static_cast<std::size_t>(id)].recvs, ref); }
void Matcher::withdraw_any(Actor to, Ref ref) { withdraw(any_[to], ref); }

}  // namespace trainyard
