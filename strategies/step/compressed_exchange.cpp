#include "strategies/step/compressed_exchange.hpp"

#include <algorithm>
#include <limits>

namespace trainyard {

Ops CompressedExchange::begin(const ExchangedBucket& bucket) {
  co_yield run(compressed(bucket).rounds.front().kernels);
  co_yield exchange(bucket, 0);
}

Ops CompressedExchange::run(const std::vector<Op>& kernels) {
  for (const Op& kernel : kernels) {
    step_.waits.take_into(step_.out.begin(kernel));
    co_yield step_.out.emit();
  }
}

Ops CompressedExchange::exchange(const ExchangedBucket& bucket, int round) {
  const CompressionRound& compression = compressed(bucket).rounds[round].exchange;
  while (step_.waits.has_any()) co_yield step_.take_waits();
  if (step_.plan.values) co_yield step_.call(TrainingCall::encode, {static_cast<int>(bucket.place), 0, round});
  LaneCollectives::Call call{bucket.lane,
                             compression.operation,
                             compression.bytes,
                             step_.words.buckets[bucket.bucket],
                             step_.buffer({TrainingBuffer::Kind::gradients, bucket.place}),
                             step_.out.last_operation(TrainingStreams::compute)};
  if (compression.operation == Operation::all_to_all)
    call.input = step_.buffer({TrainingBuffer::Kind::parameters, bucket.place});
  // If values are exchanged message by message, they determine the number of bytes.
  const bool knows_bytes = !compression.counted && compression.whole == 1;
  if (step_.plan.values_by_layer() && !knows_bytes &&
      step_.plan.lane(bucket.lane).groups.front().settings.fidelity == Fidelity::messages)
    call.bytes = Bytes{std::numeric_limits<double>::quiet_NaN()};
  call.density = compression.density;
  call.whole = compression.whole;
  co_yield collectives_.run(call);
}

Ops CompressedExchange::finish(const std::vector<ExchangedBucket>& exchanged) {
  std::vector<ExchangedBucket> all = exchanged;
  std::size_t most = 0;
  for (const ExchangedBucket& bucket : all) most = std::max(most, compressed(bucket).rounds.size());
  for (std::size_t round = 1; round <= most; ++round)
    for (ExchangedBucket& bucket : all) {
      const CompressedBucket& operations = compressed(bucket);
      if (round > operations.rounds.size()) continue;
      step_.waits.add(bucket.end);
      if (round == operations.rounds.size()) {
        co_yield decode(bucket, operations.decode);
        continue;
      }
      co_yield run(operations.rounds[round].kernels);
      co_yield exchange(bucket, static_cast<int>(round));
      bucket.end = collectives_.end_of(bucket.lane);
    }
}

Ops CompressedExchange::decode(const ExchangedBucket& bucket, const std::vector<Op>& kernels) {
  co_yield run(kernels);
  while (step_.waits.has_any()) co_yield step_.take_waits();
  if (!step_.plan.values) co_return;
  co_yield step_.call(TrainingCall::decode, CallArguments::of_bucket(bucket.place));
  co_yield step_.call(TrainingCall::keep_gradients, CallArguments::of_bucket(bucket.place));
}

}  // namespace trainyard
