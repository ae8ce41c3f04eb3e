#include "strategies/local.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"

namespace trainyard {

std::uint16_t Local::slot(int peer) const {
  const auto at = std::find(peers_->begin(), peers_->end(), peer);
  if (at == peers_->end())
    throw InternalError(fmt::format("rank {} of a collective has no peer {}", place_.index, peer));
  return static_cast<std::uint16_t>(call_.first_slot + (at - peers_->begin()));
}

Op Local::message(Kind kind, int peer, const Chunk& chunk) const {
  Op op;
  op.kind = kind;
  op.stream = kind == Kind::send ? call_.send_stream : call_.recv_stream;
  op.group = call_.group;
  op.name = call_.name;
  op.message.bytes = chunk.bytes;
  op.message.slot = slot(peer);
  op.message.tag = call_.tag;
  op.message.mode = call_.mode;
  op.message.path = call_.path;
  return op;
}

const Op& Local::send(int peer, const Chunk& chunk) {
  Op op = message(Kind::send, peer, chunk);
  op.effect.read = chunk.ref;
  op.deps[0] = out_->after(call_.recv_stream);
  if (!sent_) {
    op.deps[1] = call_.start;
    op.message.extra_latency = call_.launch;
  }
  sent_ = true;
  return out_->give(op);
}

const Op& Local::receive(int peer, const Chunk& chunk, Action action) {
  Op op = message(Kind::recv, peer, chunk);
  op.effect.action = action;
  op.effect.write = chunk.ref;
  if (!received_) {
    // With one stream for both, stream order says the same.
    if (call_.send_stream != call_.recv_stream && !sent_) op.deps[0] = out_->after(call_.send_stream);
    op.deps[1] = call_.start;
  }
  received_ = true;
  return out_->give(op);
}
const Op& Local::reduce(const Chunk& from, const Chunk& into) {
  Op op;
  op.kind = Kind::mark;
  op.stream = call_.recv_stream;
  op.group = call_.group;
  op.name = call_.name;
  op.effect = {Action::reduce, 0, from.ref, into.ref};
  return out_->give(op);
}
const Op& Local::recv_copy(int peer, const Chunk& chunk) { return receive(peer, chunk, Action::copy); }
const Op& Local::recv_reduce(int peer, const Chunk& chunk) { return receive(peer, chunk, Action::reduce); }

}  // namespace trainyard
