#include "strategies/step/compressed_exchange.hpp"

#include <algorithm>
#include <limits>

namespace trainyard {
namespace {

CallArguments about(std::size_t place, int round) { return {static_cast<int>(place), 0, round}; }

}  // namespace

Ops CompressedExchange::begin(const Exchanged& of) {
  co_yield run(compressed(of).rounds.front().kernels);
  co_yield exchange(of, 0);
}

Ops CompressedExchange::run(const std::vector<Op>& kernels) {
  for (const Op& kernel : kernels) {
    step_.waits.take_into(step_.out.begin(kernel));
    co_yield step_.out.emit();
  }
}

Ops CompressedExchange::exchange(const Exchanged& of, int round) {
  const CompressionRound& what = compressed(of).rounds[static_cast<std::size_t>(round)].exchange;
  while (step_.waits.any()) co_yield step_.take_waits();
  if (step_.plan.values) co_yield step_.call(TrainingCall::encode, about(of.place, round));
  LaneCollectives::Call call{of.lane,
                             what.operation,
                             what.bytes,
                             step_.words.buckets[of.bucket],
                             step_.buffer({TrainingBuffer::Kind::gradients, of.place}),
                             step_.out.after(TrainingStreams::compute)};
  if (what.operation == Operation::all_to_all) call.input = step_.buffer({TrainingBuffer::Kind::parameters, of.place});
  // Where values run message by message, they say how many bytes there are.
  const bool known = !what.counted && what.whole == 1;
  if (step_.plan.values_by_layer() && !known &&
      step_.plan.lane(of.lane).groups.front().settings.fidelity == Fidelity::messages)
    call.bytes = Bytes{std::numeric_limits<double>::quiet_NaN()};
  call.density = what.density;
  call.whole = what.whole;
  co_yield collectives_.run(call);
}

Ops CompressedExchange::finish(const std::vector<Exchanged>& exchanged) {
  std::vector<Exchanged> all = exchanged;
  std::size_t most = 0;
  for (const Exchanged& of : all) most = std::max(most, compressed(of).rounds.size());
  for (std::size_t round = 1; round <= most; ++round)
    for (Exchanged& of : all) {
      const CompressedBucket& bucket = compressed(of);
      if (round > bucket.rounds.size()) continue;
      step_.waits.add(of.end);
      if (round == bucket.rounds.size()) {
        co_yield decode(of, bucket.decode);
        continue;
      }
      co_yield run(bucket.rounds[round].kernels);
      co_yield exchange(of, static_cast<int>(round));
      of.end = collectives_.end_of(of.lane);
    }
}

Ops CompressedExchange::decode(const Exchanged& of, const std::vector<Op>& kernels) {
  co_yield run(kernels);
  while (step_.waits.any()) co_yield step_.take_waits();
  if (!step_.plan.values) co_return;
  co_yield step_.call(TrainingCall::decode, about(of.place, 0));
  co_yield step_.call(TrainingCall::keep_gradients, CallArguments::of_bucket(of.place));
}

}  // namespace trainyard
