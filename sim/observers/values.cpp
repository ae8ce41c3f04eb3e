#include "sim/observers/values.hpp"

#include <fmt/format.h>

#include <array>

#include "sim/error.hpp"

namespace trainyard {
namespace {

const char* word(Kind kind) {
  switch (kind) {
    case Kind::send:
      return "a send";
    case Kind::recv:
      return "a receive";
    default:
      return "work";
  }
}

/// The part of a reference up to the end of its buffer, and the part from the beginning on.
std::array<BufferRef, 2> unwrapped(const BufferRef& ref) {
  const int end = ref.chunk + ref.count;
  if (end <= ref.chunks) return {ref, BufferRef{}};
  return {BufferRef{ref.buffer, ref.chunk, ref.chunks, static_cast<std::uint16_t>(ref.chunks - ref.chunk)},
          BufferRef{ref.buffer, 0, ref.chunks, static_cast<std::uint16_t>(end - ref.chunks)}};
}

bool overlap_unwrapped(const BufferRef& a, const BufferRef& b) {
  if (!a || !b) return false;
  const auto before = [](std::int64_t chunk, std::int64_t chunks, std::int64_t other, std::int64_t other_chunks) {
    return chunk * other_chunks < other * chunks;
  };
  return a.buffer == b.buffer && before(a.chunk, a.chunks, b.chunk + b.count, b.chunks) &&
         before(b.chunk, b.chunks, a.chunk + a.count, a.chunks);
}

bool overlap(const BufferRef& a, const BufferRef& b) {
  for (const BufferRef& of_a : unwrapped(a))
    for (const BufferRef& of_b : unwrapped(b))
      if (overlap_unwrapped(of_a, of_b)) return true;
  return false;
}

void combine(const Effect& effect, Eigen::Ref<Eigen::VectorXd> part, const Eigen::Ref<const Eigen::VectorXd>& value) {
  switch (effect.action) {
    case Action::reduce:
      part += value;
      break;
    case Action::reduce_max:
      part = part.cwiseMax(value);
      break;
    case Action::reduce_product:
      part = part.cwiseProduct(value);
      break;
    case Action::divide:
      part = value / effect.call;
      break;
    default:
      part = value;
  }
}

}  // namespace

std::pair<Eigen::Index, Eigen::Index> Values::range(Eigen::Index length, const BufferRef& ref) {
  return {length * ref.chunk / ref.chunks, length * (ref.chunk + ref.count) / ref.chunks};
}

Eigen::VectorXd& Values::buffer(Actor actor, std::uint16_t id) {
  if (id == kUncounted)
    throw UserError(
        fmt::format("a collective would cut its data into more than {} parts: use fewer channels or larger chunks, or "
                    "move no values",
                    kMostParts));
  Eigen::VectorXd& wanted = buffers_[{actor, id}];
  if (id >= kScratch && wanted.size() == 0) wanted = Eigen::VectorXd::Zero(buffer(actor, owner_of_scratch(id)).size());
  return wanted;
}

Eigen::VectorXd Values::read(Actor actor, const BufferRef& ref) {
  const Eigen::VectorXd& all = buffer(actor, ref.buffer);
  const auto [first, rest] = unwrapped(ref);
  const auto [begin, end] = range(all.size(), first);
  if (!rest) return all.segment(begin, end - begin);
  const Eigen::Index more = range(all.size(), rest).second;
  Eigen::VectorXd value(end - begin + more);
  value.head(end - begin) = all.segment(begin, end - begin);
  value.tail(more) = all.head(more);
  return value;
}

void Values::write(Actor actor, const Op& op, const Eigen::VectorXd& value) {
  Eigen::VectorXd& all = buffer(actor, op.effect.write.buffer);
  // A buffer that does not exist yet, or that is overwritten completely, gets the size of the value.
  const BufferRef& ref = op.effect.write;
  if (op.effect.action == Action::copy && ref.count > 0 && (all.size() == 0 || ref.chunks == 1))
    all = Eigen::VectorXd::Zero(value.size() * ref.chunks / ref.count);
  const auto [first, rest] = unwrapped(op.effect.write);
  const auto [begin, end] = range(all.size(), first);
  const Eigen::Index size = end - begin, more = rest ? range(all.size(), rest).second : 0;
  if (size + more != value.size())
    throw InternalError(fmt::format("{} elements written where {} fit: buffer {} of {}", value.size(), size + more,
                                    first.buffer, actor));
  combine(op.effect, all.segment(begin, size), value.head(size));
  combine(op.effect, all.segment(0, more), value.tail(more));
}

void Values::use(const OpRun& run, const BufferRef& ref, bool writes) {
  if (!ref) return;
  std::vector<Use>& uses = uses_[run.op->actor];
  for (const Use& other : uses)
    if (other.id != run.id && (writes || other.writes) && overlap(other.ref, ref))
      hazards_.push_back(fmt::format("actor {}: {} {} chunk {} of buffer {} while {} still {} it", run.op->actor,
                                     word(run.op->kind), writes ? "overwrites" : "reads", ref.chunk, ref.buffer,
                                     word(other.kind), other.writes ? "writes" : "reads"));
  uses.push_back({run.id, ref, writes, run.op->kind});
}

void Values::posted(const OpRun& run) {
  const Effect& effect = run.op->effect;
  if (run.op->kind != Kind::send || !effect.read) return;
  captured_[run.id] = read(run.op->actor, effect.read);
  use(run, effect.read, false);
}

Bytes Values::size_of(const OpRun& run) {
  const auto sent = captured_.find(run.id);
  return size_ && sent != captured_.end() ? size_(run.op->actor, *run.op, sent->second) : Observer::size_of(run);
}

void Values::started(const OpRun& run) {
  const Effect& effect = run.op->effect;
  if (run.op->kind == Kind::send || effect.action == Action::none) return;
  use(run, effect.read, false);
  use(run, effect.write, true);
}

void Values::finished(const OpRun& run) {
  const Op& op = *run.op;
  now_ = run.ended;
  if (auto uses = uses_.find(op.actor); uses != uses_.end())
    std::erase_if(uses->second, [&run](const Use& use) { return use.id == run.id; });
  if (run.outcome == Outcome::cancelled) {
    captured_.erase(run.id);
    return;
  }
  if (op.kind == Kind::send || op.kind == Kind::recv || op.effect.action == Action::none) return;
  if (op.effect.action == Action::call) {
    const auto call = calls_.find(op.effect.call);
    if (call == calls_.end()) throw InternalError(fmt::format("no function for call {}", op.effect.call));
    call->second(op.actor, op);
  } else if (op.effect.read && op.effect.write) {
    write(op.actor, op, read(op.actor, op.effect.read));
  }
  if (changed_) changed_(op.actor, op);
}

void Values::delivered(const OpRun& send, const OpRun& recv) {
  const auto payload = captured_.find(send.id);
  if (payload == captured_.end()) return;
  if (recv.op->effect.write) {
    if (lost_ && lost_(*recv.op)) payload->second.setZero();
    write(recv.op->actor, *recv.op, payload->second);
    if (changed_) changed_(recv.op->actor, *recv.op);
  }
  captured_.erase(payload);
}

}  // namespace trainyard
