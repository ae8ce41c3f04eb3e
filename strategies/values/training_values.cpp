#include "strategies/values/training_values.hpp"

#include <algorithm>
#include <limits>

#include "sim/error.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {

namespace {
using Buffer = TrainingBuffer::Kind;
}

TrainingValues::TrainingValues(const TrainingTask& task, const TrainingPlan& plan, Values& values)
    : task_(task), plan_(plan), values_(values), calls_(values) {
  if (plan.network->samples != task.micro_batch_size)
    throw InternalError("a micro-batch of the network is not one of the numbers");
  place_layers();
  for (int rank = 0; rank < plan.ranks(); ++rank)
    ranks_.push_back(std::make_unique<numeric::RankValues>(task, plan, positions_, rank, values));
  for (auto c = static_cast<std::uint16_t>(TrainingCall::forward);
       c <= static_cast<std::uint16_t>(TrainingCall::take_own); ++c)
    on(static_cast<TrainingCall>(c),
       [this, c](Actor rank, const CallArguments& about) { call(static_cast<TrainingCall>(c), rank, about); });
  if (plan.compression) compressed_ = std::make_unique<numeric::CompressedValues>(plan, task.seed, values);
  for (const TrainingCall c : {TrainingCall::encode, TrainingCall::decode})
    on(c, [this, c](Actor rank, const CallArguments& about) { call(c, rank, about); });
  update_policy_of(plan).add_values(*this);
}

void TrainingValues::place_layers() {
  positions_.resize(plan_.network->layers.size());
  std::vector<int> seen(positions_.size(), 0);
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage)
    for (std::size_t chunk = 0; chunk < plan_.stages[stage].chunks.size(); ++chunk) {
      const std::vector<int>& layers = plan_.stages[stage].chunks[chunk];
      const int place = plan_.schedule ? plan_.schedule->virtual_stage(static_cast<int>(stage), static_cast<int>(chunk),
                                                                       plan_.pipeline)
                                       : 0;
      for (const int layer : layers) {
        positions_.at(static_cast<std::size_t>(layer)) = {place, layer == layers.front(), layer == layers.back()};
        ++seen[layer];
      }
    }
  if (std::any_of(seen.begin(), seen.end(), [](int times) { return times != 1; }))
    throw InternalError("a layer is in no stage, or in two");
}

numeric::RankParameters& TrainingValues::parameters(Actor actor) const {
  if (const auto at = beside_.find(actor); at != beside_.end()) return *at->second;
  return ranks_.at(static_cast<std::size_t>(actor))->parameters();
}

numeric::RankParameters& TrainingValues::add_learner(Actor actor) {
  learner_ = actor;
  return *(beside_[actor] = std::make_unique<numeric::RankParameters>(rank(0).parameters()));
}

double TrainingValues::loss(int step, int tensor) const {
  constexpr double kMissing = std::numeric_limits<double>::infinity();
  const int last = static_cast<int>(positions_.size()) - 1;
  double sum = 0;
  bool any = false;
  for (const auto& rank : ranks_)
    if (rank->at().tensor == tensor && rank->parameters().has(last)) {
      if (static_cast<std::size_t>(step) >= rank->losses().size()) return kMissing;
      sum += rank->losses()[step].loss;
      any = true;
    }
  return any ? sum : kMissing;
}

void TrainingValues::call(TrainingCall what, Actor actor, const CallArguments& about) {
  numeric::RankParameters& held = parameters(actor);
  const std::size_t bucket = about.bucket();
  const auto in = [&](Buffer kind) -> Eigen::VectorXd& { return buffer(actor, kind, bucket); };
  switch (what) {
    case TrainingCall::forward:
    case TrainingCall::backward:
    case TrainingCall::backward_input:
    case TrainingCall::backward_weights:
      return rank(actor).pass(what, about);
    case TrainingCall::fill_bucket:
      return held.fill_bucket(bucket, in(Buffer::gradients));
    case TrainingCall::keep_gradients:
      return held.keep_gradients(bucket, in(Buffer::gradients));
    case TrainingCall::update:
      return held.update(bucket);
    case TrainingCall::give_replica:
    case TrainingCall::mix_replicas:
      throw InternalError("the plan's replicas mix their parameters, but its policy does not say how");
    case TrainingCall::fill_parameters:
      return held.fill_parameters(bucket, in(Buffer::parameters));
    case TrainingCall::take_parameters:
      return held.take_parameters(bucket, in(Buffer::parameters));
    case TrainingCall::drop_parameters:
      return held.drop_parameters(bucket);
    case TrainingCall::fill_tied:
      return held.fill_tied(in(Buffer::tied));
    case TrainingCall::take_tied:
      return held.take_tied(in(Buffer::tied));
    case TrainingCall::fill_partial:
      return held.fill_partial(in(Buffer::partial));
    case TrainingCall::take_partial:
      return held.take_partial(in(Buffer::partial));
    case TrainingCall::fill_share:
      return held.fill_share(bucket, in(Buffer::gradient_share));
    case TrainingCall::keep_on_host:
      return held.keep_on_host(bucket, in(Buffer::host_gradients));
    case TrainingCall::read_states:
      return held.read_states(bucket);
    case TrainingCall::update_on_host:
      return held.update_on_host(bucket, in(Buffer::host_parameters));
    case TrainingCall::write_states:
      return held.write_states(bucket, in(Buffer::host_parameters));
    case TrainingCall::fill_host_parameters:
      return held.fill_host_parameters(bucket, in(Buffer::host_parameters));
    case TrainingCall::take_own:
      return held.take_own(bucket, in(Buffer::own_parameters), in(Buffer::host_parameters));
    case TrainingCall::encode:
      return compressed_->encode(actor, bucket, about.exchange, in(Buffer::gradients), in(Buffer::parameters));
    case TrainingCall::decode:
      return compressed_->decode(actor, bucket, in(Buffer::gradients));
  }
}

}  // namespace trainyard
