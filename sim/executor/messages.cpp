#include "sim/executor/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/error.hpp"
#include "sim/same_moment.hpp"

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
  const auto found = std::ranges::find_if(later_, [tag](const Half& half) { return half.tag == tag; });
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

void Messages::connect(ActorState& a) {
  a.first_channel = channels_.end_id();
  a.slots = static_cast<std::uint32_t>(a.program->slots().size());
  channels_.resize(channels_.size() + 2 * a.slots);
}

ChannelId Messages::channel(const StreamState& s, bool sending, std::uint16_t slot) {
  const ActorState& a = table_.actors[s.actor];
  if (slot >= a.slots)
    throw InternalError(
        fmt::format("{} names peer slot {}, of {}", context_.machine.actor_name(s.actor), slot, a.slots));
  ChannelId& channel = channels_[ChannelSlot{a.first_channel.number() + 2U * slot + (sending ? 0 : 1)}];
  if (!channel) {
    const Actor peer = a.program->slots()[slot];
    const Program::Endpoints endpoints = a.program->endpoints(slot, sending);
    channel = sending ? matcher_.channel(s.actor, peer, endpoints) : matcher_.channel(peer, s.actor, endpoints);
    if (endpoints.from >= 0) transfers_.set_endpoints(channel, endpoints);
  }
  return channel;
}

/// Asks the observers for a size that was unknown when the message was created.
void Messages::size(StreamState& s) {
  Bytes& bytes = s.head.message.bytes;
  for (Observer* o : context_.observers.operation_observers())
    if (std::isnan(bytes.value)) bytes = o->size_of(streams_.run_of(s, context_.now));
  if (!(bytes.value >= 0)) throw InternalError(fmt::format("a message of {} bytes", bytes.value));
}

void Messages::begin_send(StreamState& s) {
  const Message& m = s.front().message;
  if (!(m.bytes.value >= 0)) size(s);
  s.channel = channel(s, true, m.slot);
  s.peer = matcher_.receiver(s.channel);
  if (m.mode == Mode::rendezvous) {
    const auto partner = matcher_.send(s.channel, m.tag, poster(s));
    if (!partner) return;
    const TransferId t = transfers_.create(s);
    s.transfer = t;
    attach(t, table_.streams[partner->stream()]);
    return start(t);
  }
  const TransferId t = transfers_.create(s);
  const bool goes_on = sender_goes_on(m.mode);
  if (!goes_on) s.transfer = t;
  const auto partner = matcher_.send(s.channel, m.tag, Poster{t});
  if (partner) attach(t, table_.streams[partner->stream()]);
  if (m.mode == Mode::get) announce_half(s, t);
  if (m.mode == Mode::get && !partner)
    transfers_[t].state = Transfer::State::exposed;
  else
    start(t);
  if (goes_on) streams_.finish(s, Outcome::done);
}

void Messages::begin_recv(StreamState& s) {
  const Message& m = s.front().message;
  const bool any = m.slot == kAnyPeer;
  if (!any) {
    s.channel = channel(s, false, m.slot);
    s.peer = matcher_.sender(s.channel);
  }
  const auto partner = any ? matcher_.recv_any(s.actor, m.tag, poster(s)) : matcher_.recv(s.channel, m.tag, poster(s));
  if (!partner) return;
  if (partner->is_transfer()) {
    const TransferId t = partner->transfer();
    attach(t, s);
    if (transfers_[t].state == Transfer::State::arrived) return receive_buffered(t, s);
    if (transfers_[t].state != Transfer::State::exposed) return;
    transfers_[t].cause = s.cause;
    return start(t);
  }
  StreamState& sender = table_.streams[partner->stream()];
  const TransferId t = transfers_.create(sender);
  sender.transfer = t;
  transfers_[t].cause = s.cause;  // this half was posted last
  attach(t, s);
  start(t);
}

void Messages::receive_buffered(TransferId id, StreamState& receiver) {
  receiver.started = context_.now;
  note_transfer(transfers_[id], receiver);
  streams_.announce_start(receiver);
  announce_delivery(id, receiver);
  transfers_.release(id);
  streams_.finish(receiver, Outcome::done);
}

void Messages::attach(TransferId id, StreamState& receiver) {
  Transfer& t = transfers_[id];
  t.recv = table_.id_of(receiver);
  receiver.transfer = id;
  receiver.peer = t.from;
  if (t.rests() || t.state == Transfer::State::free) return;
  if (!same_moment(t.started, receiver.posted)) receiver.cause = t.cause;
  receiver.started = t.started;  // it is in flight already
  if (t.counts) interference_.change_moving(receiver.actor, Kind::recv, t.slow, +1);
  streams_.announce_start(receiver);
}

void Messages::start(TransferId id) {
  const Transfer& t = transfers_[id];
  if (t.mode != Mode::get) announce_half(table_.streams[t.send], id);  // a get was announced when it exposed its data
  if (t.recv) announce_half(table_.streams[t.recv], id);
  transfers_.start(id);
  if (!t.slow) begin_counting(id);
}

void Messages::count(TransferId id, int change) {
  Transfer& t = transfers_[id];
  t.counts = change > 0;
  interference_.change_moving(t.from, Kind::send, t.slow, change);
  if (t.recv) interference_.change_moving(t.to, Kind::recv, t.slow, change);
}

/// A half that was posted at the same moment as the other one keeps the cause of its own actor.
void Messages::announce_half(StreamState& s, TransferId id) {
  s.started = context_.now;
  if (!same_moment(s.posted, context_.now)) s.cause = transfers_[id].cause;
  streams_.announce_start(s);
}

void Messages::announce_delivery(TransferId id, const StreamState& receiver) {
  const std::vector<Observer*>& observers = context_.observers.operation_observers();
  if (observers.empty()) return;
  const Transfer& t = transfers_[id];
  OpRun send;
  send.op = &transfers_.sent(id);
  send.id = t.send_id;
  send.cause = t.cause;
  send.posted = Seconds{t.send_posted};
  send.started = Seconds{t.started};
  send.ended = Seconds{t.ended};
  send.peer = t.to;
  const OpRun recv = streams_.run_of(receiver, context_.now);
  for (Observer* o : observers) o->delivered(send, recv);
}

void Messages::end(TransferId id, Outcome outcome) {
  Transfer& t = transfers_[id];
  const bool sender_waits = !sender_goes_on(t.mode);
  StreamState& sender = table_.streams[t.send];
  StreamState* receiver = t.recv ? &table_.streams[t.recv] : nullptr;
  if (t.counts) count(id, -1);
  if (receiver) {
    note_transfer(t, *receiver);
    if (outcome == Outcome::done) announce_delivery(id, *receiver);
  }
  if (sender_waits) note_transfer(t, sender);
  if (!receiver && outcome == Outcome::done) {
    t.state = Transfer::State::arrived;
  } else {
    if (!receiver) matcher_.withdraw_send(t.channel, Poster{id});
    transfers_.release(id);
  }
  if (sender_waits) streams_.finish(sender, outcome);
  if (receiver) streams_.finish(*receiver, outcome);
}

void Messages::withdraw(const StreamState& s) {
  const Op& op = s.front();
  if (op.kind == Kind::recv && op.message.slot == kAnyPeer)
    matcher_.withdraw_recv_any(s.actor, poster(s));
  else if (op.kind == Kind::send)
    matcher_.withdraw_send(s.channel, poster(s));
  else
    matcher_.withdraw_recv(s.channel, poster(s));
}

void Messages::lose(TransferId id, Actor failed, std::vector<StreamId>& orphans) {
  Transfer& t = transfers_[id];
  const bool arrived = t.state == Transfer::State::arrived;
  // A message that arrived completely before its sender failed stays.
  if (t.to != failed && (t.from != failed || arrived)) return;
  const bool rests = t.rests();
  const Bytes moved = transfers_.withdraw(id);
  t.ended = context_.now;
  if (!rests) {
    transfers_.report(id, moved, Outcome::cancelled, true, t.legs_left.empty());
    if (t.counts) count(id, -1);
  }
  if (!t.recv) matcher_.withdraw_send(t.channel, Poster{id});
  const auto orphan = [&](StreamId half, Actor actor) {
    table_.streams[half].transfer = {};
    if (actor != failed) orphans.push_back(half);
  };
  if (!sender_goes_on(t.mode) && !arrived) orphan(t.send, t.from);
  if (t.recv) orphan(t.recv, t.to);
  transfers_.release(id);
}

void Messages::wait_again(StreamState& s) {
  if (s.front().kind == Kind::recv) return begin_recv(s);
  // Whatever its mode, it waits until the other half is posted: there is no receiver to put it to.
  matcher_.send(s.channel, s.front().message.tag, poster(s));
}

}  // namespace trainyard::execution
