#include "strategies/collectives/local.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"

namespace trainyard {

Chunk Chunk::part(int i, int of) const { return parts(i, 1, of); }

Chunk Chunk::parts(int i, int count, int of) const {
  const int unit = ref.count;
  const std::int64_t all = std::int64_t{ref.chunks} * of;
  if (all > kMostParts) return {bytes * count / of, {kUncounted, 0, 1, 1}};
  // A range may wrap round the end of the buffer (see Local::blocks).
  const std::int64_t first = all > 0 ? (std::int64_t{ref.chunk} * of + std::int64_t{i} * unit) % all : 0;
  return {bytes * count / of,
          {ref.buffer, static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(all),
           static_cast<std::uint16_t>(unit * count)}};
}

Local Local::renumber(const Numbering& numbering) const {
  Local view = *this;
  view.numbering_ = numbering;
  view.number_ = numbering.number(rank_);
  return view;
}

Local Local::restrict_to(const Chunk& chunk) const {
  Local view = *this;
  view.data_ = chunk;
  return view;
}

Local Local::on_slice(int i, int of, int count) const {
  Local view = *this;
  view.slice_ = i;
  view.slice_count_ = count;
  view.slices_ = of;
  return view;
}

Local Local::on_channel(int channel) const {
  Local view = *this;
  if (channel > 0) {
    view.send_stream_ = static_cast<Stream>(call_->more_streams + 2 * (channel - 1));
    view.recv_stream_ = static_cast<Stream>(view.send_stream_ + 1);
    view.tag_ = call_->tag | static_cast<Tag>(channel) << 48;
  }
  return view;
}

Chunk Local::blocks(int number, int count) const {
  const int n = group_size();
  if (n != ranks_ || slices_ > 1) throw InternalError("several blocks of a part of a group, or of slices");
  return data_.parts(numbering_.member(((number % n) + n) % n), count, n);
}

int Local::pieces(const Chunk& chunk) const {
  const double most = std::max(1.0, std::floor(1.0 * kMostParts / chunk.ref.chunks));
  const double wanted = std::ceil(chunk.bytes / settings_->chunk * (1 - 1e-12));
  return static_cast<int>(std::clamp(wanted, 1.0, most));
}

namespace {

/// Returns one of the unequal parts of a buffer, in elements of 8 bytes. If there are too many elements, the part has
/// no reference and thus no values.
Chunk unequal_part(std::uint16_t buffer, const std::vector<double>& bytes, std::size_t which) {
  double before = 0, all = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i < which) before += bytes[i];
    all += bytes[i];
  }
  Chunk chunk{Bytes{bytes[which]}, {}};
  if (all <= 0 || all / 8 > kMostParts) return chunk;
  chunk.ref = {buffer, static_cast<std::uint16_t>(before / 8), static_cast<std::uint16_t>(all / 8),
               static_cast<std::uint16_t>(bytes[which] / 8)};
  return chunk;
}

}  // namespace

Chunk Local::outgoing(int peer) const {
  const int to = numbering_.member(peer);
  if (!settings_->amounts.empty())
    return unequal_part(call_->input, settings_->amounts[rank_], static_cast<std::size_t>(to));
  Chunk all = data_;
  all.ref.buffer = call_->input;
  Chunk rows = all.part(to, ranks_);
  if (!settings_->loads.empty()) rows.bytes = rows.bytes * settings_->load_between(rank_, to);
  return rows;
}

Chunk Local::incoming(int peer) const {
  const int from = numbering_.member(peer);
  if (settings_->amounts.empty()) {
    Chunk rows = data_.part(from, ranks_);
    if (!settings_->loads.empty()) rows.bytes = rows.bytes * settings_->load_between(from, rank_);
    return rows;
  }
  std::vector<double> column;
  for (const std::vector<double>& row : settings_->amounts) column.push_back(row[rank_]);
  return unequal_part(call_->buffer, column, static_cast<std::size_t>(from));
}

std::uint16_t Local::slot(int peer) const {
  const int wanted = numbering_.member(peer);
  const std::size_t count = peers_->size();
  // Peers are mostly looked up in the order of the list.
  for (std::size_t tried = 0; tried < count; ++tried) {
    if ((*peers_)[last_slot_] == wanted) return static_cast<std::uint16_t>(call_->first_slot + last_slot_);
    if (++last_slot_ >= count) last_slot_ = 0;
  }
  throw InternalError(fmt::format("rank {} of a collective has no peer {}", rank_, wanted));
}

Op& Local::begin(Kind kind, Stream stream) {
  Op& op = out_->begin(kind, stream);
  op.group = call_->group;
  op.name = call_->name;
  return op;
}

Op& Local::message(Kind kind, int peer, const Chunk& chunk) {
  Op& op = begin(kind, kind == Kind::send ? send_stream_ : recv_stream_);
  op.message.bytes = chunk.bytes;
  op.address(slot(peer), tag_, call_->mode);
  op.message.path = call_->path;
  return op;
}

const Op& Local::send(int peer, const Chunk& chunk, Dep also) {
  Op& op = message(Kind::send, peer, chunk);
  op.effect.read = chunk.ref;
  op.deps[0] = out_->last_operation(recv_stream_);
  op.deps[1] = also;
  if (out_->first_of(number_of_call_, send_stream_)) {
    op.message.extra_latency = call_->launch;
    if (also.count == 0) op.deps[1] = call_->start;
  }
  return out_->emit();
}

const Op& Local::send_at_once(int peer, const Chunk& chunk, Dep also) {
  send(peer, chunk, also);
  // The sends of a wave do not wait for each other, so each pays the launch that precedes the first message.
  const bool first_wave = !out_->used_by(number_of_call_, recv_stream_);
  return out_->amend([&](Op& op) {
    op.message.mode = Mode::eager;
    if (first_wave) op.message.extra_latency = call_->launch;
  });
}

const Op& Local::send_piece(int piece, int peer, const Chunk& chunk) {
  send(peer, chunk);
  return out_->amend([piece](Op& op) {
    op.message.mode = Mode::put;
    op.message.steps = piece == 0 ? 1 : 0;
  });
}

const Op& Local::pass_on(int peer, const Chunk& chunk, Dep received) {
  Op& op = message(Kind::send, peer, chunk);
  op.effect.read = chunk.ref;
  op.deps[0] = received;
  op.message.mode = Mode::eager;
  return out_->emit();
}

Local Local::emitting_to(Emitter& out) const {
  Local view = *this;
  view.out_ = &out;
  view.number_of_call_ = out.new_call();
  return view;
}

const Op& Local::send_flow(std::uint16_t slot, Bytes bytes, std::uint32_t steps) {
  Op& op = begin(Kind::send, send_stream_);
  op.message.bytes = bytes;
  op.address(slot, tag_, Mode::eager);
  op.message.path = call_->path;
  op.message.steps = steps;
  op.deps[0] = out_->last_operation(recv_stream_);
  if (!out_->used_by(number_of_call_, recv_stream_)) op.message.extra_latency = call_->launch;
  return out_->emit();
}
const Op& Local::recv_flow(std::uint16_t slot) {
  Op& op = begin(Kind::recv, recv_stream_);
  op.address(slot, tag_);
  op.message.path = call_->path;
  out_->first_of(number_of_call_, recv_stream_);
  return out_->emit();
}

const Op& Local::receive(int peer, const Chunk& chunk, Action action) {
  Op& op = message(Kind::recv, peer, chunk);
  op.effect.action = action;
  op.effect.write = chunk.ref;
  if (out_->first_of(number_of_call_, recv_stream_)) {
    // If both share one stream, the order of the stream implies this.
    if (send_stream_ != recv_stream_ && !out_->used_by(number_of_call_, send_stream_))
      op.deps[0] = out_->last_operation(send_stream_);
    op.deps[1] = call_->start;
  }
  return out_->emit();
}
const Op& Local::recv_copy(int peer, const Chunk& chunk) { return receive(peer, chunk, Action::copy); }
const Op& Local::recv_reduce(int peer, const Chunk& chunk) { return receive(peer, chunk, combine()); }

Action Local::combine() const {
  switch (settings_->reduction) {
    case Reduction::maximum:
      return Action::reduce_max;
    case Reduction::product:
      return Action::reduce_product;
    default:
      return Action::reduce;
  }
}

const Op& Local::local_op(Action action, const Chunk& from, const Chunk& into) {
  Op& op = begin(Kind::mark, recv_stream_);
  op.effect = {action, 0, from.ref, into.ref};
  if (send_stream_ != recv_stream_) op.deps[0] = out_->last_operation(send_stream_);
  if (out_->first_of(number_of_call_, recv_stream_)) op.deps[1] = call_->start;
  return out_->emit();
}
const Op& Local::reduce_at_once(const Chunk& from, const Chunk& into) {
  Op& op = begin(Kind::mark, recv_stream_);
  op.effect = {combine(), 0, from.ref, into.ref};
  return out_->emit();
}
const Op& Local::divide(const Chunk& chunk, int by) {
  local_op(Action::divide, chunk, chunk);
  return out_->amend([by](Op& op) { op.effect.call = static_cast<std::uint16_t>(by); });
}

const Op& Local::phase() {
  Op& op = begin(Kind::mark, recv_stream_);
  op.message.steps = 0;
  return out_->emit();
}

const Op& Local::join(int members) {
  Op& op = begin(Kind::join, recv_stream_);
  op.deps[0] = out_->last_operation(send_stream_);
  op.deps[1] = call_->start;
  op.message.tag = call_->tag | static_cast<Tag>(call_->group_of) << 32;
  op.message.steps = static_cast<std::uint32_t>(members);
  return out_->emit();
}

const Op& Local::join_modelled(const ModelledJoin& flow) {
  join(group_size());
  return out_->amend([&](Op& op) {
    op.message.slot = call_->group_flow;
    op.message.bytes = flow.bytes;
    op.message.extra_latency = call_->launch + flow.latency;
    op.message.rate_cap = flow.rate;
    op.message.path = flow.path;
    op.work = flow.what;
  });
}

const Op& Local::wait_on(Stream waiting, Stream first, Stream second) {
  Op& op = begin(Kind::mark, waiting);
  op.deps[0] = out_->last_operation(first);
  op.deps[1] = out_->last_operation(second);
  return out_->emit();
}
const Op& Local::open_send() { return wait_on(send_stream_, call_->send_stream, call_->recv_stream); }
const Op& Local::open_recv() { return wait_on(recv_stream_, call_->send_stream, call_->recv_stream); }
const Op& Local::close() { return wait_on(call_->recv_stream, send_stream_, recv_stream_); }

Ops open_channels(Local me, int channels) {
  for (int k = 1; k < channels; ++k) {
    Local channel = me.on_channel(k);
    co_yield channel.open_send();
    co_yield channel.open_recv();
  }
}
Ops close_channels(Local me, int channels) {
  for (int k = 1; k < channels; ++k) {
    Local channel = me.on_channel(k);
    co_yield channel.close();
  }
}

Ops nothing() { co_return; }

Ops side_by_side(Local me, std::vector<Ops> parts) {
  const int channels = static_cast<int>(parts.size());
  co_yield open_channels(me, channels);
  for (bool more = true; more;) {
    more = false;
    for (Ops& part : parts) {
      const Op* op = nullptr;
      Repeat* rounds = nullptr;
      const Pull pull = part.next(op, rounds);
      if (pull == Pull::done) continue;
      more = true;
      if (pull == Pull::repeat)
        co_yield *rounds;
      else
        co_yield *op;
    }
  }
  co_yield close_channels(me, channels);
}

}  // namespace trainyard
