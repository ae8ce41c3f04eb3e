#include "strategies/collectives/ring_step.hpp"

#include <array>

namespace trainyard {
namespace {

// Fewest steps of a ring that is yielded as a Repeat, and number of steps that precede the Repeat. The first step of a
// collective differs from the others.
constexpr int kFewest = 12, kOneByOne = 3;

std::uint16_t distance(const Chunk& from, const Chunk& to) {
  return static_cast<std::uint16_t>(to.ref.chunk - from.ref.chunk);
}

/// The numbers of the chunks that consecutive steps send, or receive.
class ChunkNumbers {
 public:
  ChunkNumbers() = default;
  explicit ChunkNumbers(const std::array<Chunk, 4>& first) : last_(first[0]) {
    const bool same = distance(first[0], first[1]) == distance(first[1], first[2]);  // else one of the two is the jump
    stride_ = same ? distance(first[0], first[1]) : distance(first[2], first[3]);
  }
  /// Adds the chunk of the next step. Returns true if the numbers have grown by one stride so far, with at most one
  /// jump (at the step after the last chunk, the numbers begin again).
  bool add(int step, const Chunk& chunk) {
    const std::uint16_t growth = distance(last_, chunk);
    last_.ref.chunk = chunk.ref.chunk;
    if (!(last_.ref == chunk.ref) || last_.bytes != chunk.bytes) return false;
    if (growth == stride_) return true;
    jump_ = static_cast<std::uint16_t>(growth - stride_);
    jump_at_ = step;
    return ++jumps_ == 1;
  }
  /// Writes stride and jump into an operation that repeats from step kOneByOne on; `number` selects the chunk's
  /// number.
  void describe(Repeat::RoundOp& each, std::uint16_t Stride::*number) const {
    each.stride.*number = stride_;
    if (jump_at_ <= kOneByOne) return;
    each.jump.*number = jump_;
    each.until_jump = static_cast<std::uint32_t>(jump_at_ - kOneByOne);
  }

 private:
  Chunk last_;
  std::uint16_t stride_ = 0, jump_ = 0;
  int jumps_ = 0, jump_at_ = 0;  // step
};

/// Adds the operation of the next step.
void add(Repeat::RoundOp& each, const Op& op) {
  each.stride = stride_between(each.first, op);
  each.first = op;
}

}  // namespace

Ops ring_steps(Local me, int steps, RingStepOf step_of) {
  bool repeats = steps >= kFewest && me.two_streams();
  ChunkNumbers sent, received;
  if (repeats) {
    const std::array<RingStep, 4> first{step_of(me, 0), step_of(me, 1), step_of(me, 2), step_of(me, 3)};
    sent = ChunkNumbers({first[0].send, first[1].send, first[2].send, first[3].send});
    received = ChunkNumbers({first[0].receive, first[1].receive, first[2].receive, first[3].receive});
    // Checks all steps, so that all members come to the same result.
    for (int step = 1; repeats && step <= steps; ++step) {
      const RingStep now = step_of(me, step);
      repeats = sent.add(step, now.send) && received.add(step, now.receive) && now.adds == first[0].adds;
    }
  }
  Repeat::RoundOp out, in;
  for (int step = 0; step < (repeats ? kOneByOne : steps); ++step) {
    const RingStep now = step_of(me, step);
    const Op& send = me.send(me.next(), now.send);
    if (repeats) add(out, send);
    co_yield send;
    const Op& receive =
        now.adds ? me.recv_reduce(me.previous(), now.receive) : me.recv_copy(me.previous(), now.receive);
    if (repeats) add(in, receive);
    co_yield receive;
  }
  if (!repeats) co_return;
  const RingStep next = step_of(me, kOneByOne);
  advance(out.first, out.stride);
  out.first.effect.read = next.send.ref;
  sent.describe(out, &Stride::read);
  advance(in.first, in.stride);
  in.first.effect.write = next.receive.ref;
  received.describe(in, &Stride::write);
  Repeat rest(static_cast<std::uint32_t>(steps - kOneByOne));
  rest.add(out);
  rest.add(in);
  me.skip_rounds(rest.rounds());
  co_yield rest;
}

}  // namespace trainyard
