#include "strategies/values/rank_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.hpp"
#include "sim/observers/values.hpp"
#include "strategies/plan/update_policy.hpp"
#include "strategies/values/layers/layers.hpp"

namespace trainyard::numeric {
namespace {

constexpr const char* kTable = "token_embedding.weight";
constexpr const char* kOutput = "output.weight";

bool lists(const Layer& layer, const std::string& tensor) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [&tensor](const ParameterTensor& t) { return t.name == tensor; });
}

bool tied(const TrainingTask& task) {
  const TransformerConfig* config = std::get_if<TransformerConfig>(&task.model);
  return config && config->tie_word_embeddings;
}

std::vector<int> layers_of(const StagePlan& stage) {
  std::vector<int> all;
  for (const std::vector<int>& chunk : stage.chunks) all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}

}  // namespace

RankParameters::RankParameters(const RankPlace& place, const TrainingPlan& plan, int rank, int stage)
    : task_(place.task), plan_(plan), sets_(static_cast<std::size_t>(update_policy_of(plan).gradient_sets())) {
  const StagePlan& mine = plan.stages.at(static_cast<std::size_t>(stage));
  for (const int number : layers_of(mine)) add_layer(place, number);
  for (const GradientBucket& bucket : mine.buckets) add_bucket(bucket, rank);
  for (auto& [number, held] : layers_)
    for (const LayerShard::Tensor& tensor : held.shard.tensors) {
      const auto count = static_cast<Index>(tensor.shard.whole.size());
      const auto bucketed = held.bucket.begin() + tensor.first;
      const auto replicas = tensor.shard.expert ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
      if (replicas.size() > 1 && std::count(bucketed, bucketed + count, -1) > 0)
        throw InternalError(fmt::format("layer {}: {} is in no bucket, but has replicas", number, tensor.name));
      if (tensor.partial) partial_.push_back({number, tensor.first, count});
      const bool is_tied = tensor.name == (number == 0 ? kTable : kOutput);
      const bool at_an_end = number == 0 || number + 1 == static_cast<int>(plan.network->layers.size());
      if (tied(task_) && is_tied && at_an_end) tied_.push_back({number, tensor.first, count});
    }
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (plan.zero == ZeroStage::parameters) drop_parameters(b);
}

void RankParameters::add_layer(const RankPlace& place, int number) {
  const Network& network = *plan_.network;
  const Layer& layer = network.layers.at(static_cast<std::size_t>(number));
  const bool is_head = number + 1 == static_cast<int>(network.layers.size());
  const bool own_copy = tied(task_) && is_head && lists(layer, kOutput);  // on a stage that has no table
  Held& held = layers_[number];
  held.shard = LayerShard(layer, layer_tensors(place, number, network, own_copy), task_.seed);
  held.host_parameters = held.shard.parameters;
  const Index size = held.shard.parameters.size();
  for (Eigen::VectorXd* v : {&held.first_moment, &held.second_moment, &held.last_gradient}) v->setZero(size);
  held.kept.assign(sets_, Eigen::VectorXd::Zero(size));
  held.own.assign(static_cast<std::size_t>(size), 1);
  held.bucket.assign(static_cast<std::size_t>(size), -1);
}

void RankParameters::add_bucket(const GradientBucket& planned, int rank) {
  Bucket b;
  bool experts = false;
  const int number = static_cast<int>(buckets_.size());
  for (const GradientBucket::Part& part : planned.parts) {
    Held& held = layers_.at(part.layer);
    const LayerShard::Tensor& tensor = held.shard.tensors.at(static_cast<std::size_t>(part.tensor));
    const Bucket::Piece piece{part.layer, tensor.first + static_cast<Index>(part.first),
                              static_cast<Index>(part.elements)};
    for (Index i = piece.first; i < piece.first + piece.count; ++i) {
      int& owner = held.bucket.at(static_cast<std::size_t>(i));
      if (owner >= 0) throw InternalError(fmt::format("{} is in two buckets", tensor.name));
      owner = number;
    }
    experts = tensor.shard.expert;
    b.elements += piece.count;
    b.pieces.push_back(piece);
  }
  if (b.elements != static_cast<Index>(planned.elements)) throw InternalError("a bucket's parts are not all of it");
  const std::vector<int> group = zero_group(plan_, rank, experts);
  const auto replicas = experts ? plan_.mesh.expert_replicas(rank) : plan_.mesh.replicas(rank);
  const auto index = std::find(group.begin(), group.end(), rank) - group.begin();
  b.exchanged = replicas.size() > 1;
  b.filled.assign(sets_, 0);
  b.taken.assign(sets_, 0);
  b.state_shared = group.size() > 1 && plan_.zero >= ZeroStage::optimizer;
  b.gradients_shared = group.size() > 1 && plan_.zero >= ZeroStage::gradients;
  b.own_end = b.elements;
  if (b.state_shared)
    std::tie(b.own_begin, b.own_end) =
        Values::range(b.elements, {0, static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(group.size()), 1});
  Index at = 0;
  for (const Bucket::Piece& piece : b.pieces)
    for (Index i = piece.first; i < piece.first + piece.count; ++i, ++at)
      layers_.at(piece.layer).own[i] = at >= b.own_begin && at < b.own_end;
  buckets_.push_back(std::move(b));
}

std::vector<int> RankParameters::numbers() const {
  std::vector<int> all;
  for (const auto& [number, held] : layers_) all.push_back(number);
  return all;
}

const LayerShard* RankParameters::tied_weight() const {
  const int head = static_cast<int>(plan_.network->layers.size()) - 1;
  const bool own = has(head) && layer(head).has(kOutput);
  return tied(task_) && has(0) && !own ? &layer(0) : nullptr;
}

int RankParameters::micro_batches_in(const Bucket& b) const {
  int least = std::numeric_limits<int>::max();
  for (const Bucket::Piece& piece : b.pieces) least = std::min(least, layers_.at(piece.layer).micro_batches);
  return b.pieces.empty() ? 0 : least;
}

/// Updates that are late leave a layer's count to the next step.
void RankParameters::accumulated(int number) {
  int& count = layers_.at(number).micro_batches;
  if (late() && count == plan_.micro_batches) count = 0;
  ++count;
}

void RankParameters::fill_bucket(std::size_t place, Eigen::VectorXd& buffer) {
  const std::size_t set = place / buckets_.size();
  Bucket& b = buckets_[place % buckets_.size()];
  b.filled.at(set) = micro_batches_in(b);
  if (b.filled[set] == b.taken[set]) throw InternalError(fmt::format("bucket {} leaves without new gradients", place));
  buffer = gradients(place % buckets_.size());
  if (b.gradients_shared || late()) clear_gradients(place % buckets_.size());  // their sum is kept elsewhere
}

void RankParameters::keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) {
  const std::size_t set = place / buckets_.size();
  Bucket& b = buckets_[place % buckets_.size()];
  if (buffer.size() != b.elements) throw InternalError(fmt::format("bucket {} was never filled", place));
  b.taken.at(set) = b.filled[set];
  if (!b.gradients_shared && !late()) return set_gradients(place, buffer);
  of_share(b, [&](Held& held, Index i, Index at) { held.kept[set][i] += buffer[b.own_begin + at]; });
}

Eigen::VectorXd RankParameters::gradients(std::size_t bucket) const {
  const Bucket& b = buckets_.at(bucket);
  Eigen::VectorXd all(b.elements);
  of_bucket(*this, b, [&all](const Held& held, Index i, Index at) { all[at] = held.shard.gradient[i]; });
  return all;
}

void RankParameters::set_gradients(std::size_t bucket, const Eigen::VectorXd& all) {
  of_bucket(*this, buckets_.at(bucket), [&all](Held& held, Index i, Index at) { held.shard.gradient[i] = all[at]; });
}

void RankParameters::clear_gradients(std::size_t bucket) {
  of_bucket(*this, buckets_.at(bucket), [](Held& held, Index i, Index) { held.shard.gradient[i] = 0; });
}

bool RankParameters::in_blocks(const Held& held, Index element) const {
  const int number = held.bucket[element];
  if (number < 0) return false;
  const Bucket& b = buckets_[number];
  return b.gradients_shared && b.taken[0] > 0 && b.taken[0] == held.micro_batches;
}

double RankParameters::gradient(const Held& held, Index element) const {
  if (!in_blocks(held, element)) return held.shard.gradient[element];
  return held.own[element] ? held.kept[0][element] : 0;
}

void RankParameters::set_gradient(Held& held, Index element, double value) {
  if (!in_blocks(held, element))
    held.shard.gradient[element] = value;
  else if (held.own[element])
    held.kept[0][element] = value;
}

void RankParameters::step(Held& held, Index i, double& parameter) const {
  apply_update(task_.rule, parameter, held.last_gradient[i], held.first_moment[i], held.second_moment[i], updates_ + 1);
}

void RankParameters::update(std::size_t set) {
  const bool summed = update_policy_of(plan_).sums_gradients(updates_);
  for (const Bucket& b : buckets_)
    if (summed && b.exchanged && b.taken.at(set) != plan_.micro_batches)
      throw InternalError(
          fmt::format("a bucket has the gradients of {} micro-batches of {}", b.taken[set], plan_.micro_batches));
  for (const auto& [number, held] : layers_)
    if (!late() && held.micro_batches != plan_.micro_batches)
      throw InternalError(fmt::format("layer {} has the gradients of {} micro-batches of {}", number,
                                      held.micro_batches, plan_.micro_batches));
  apply_gradients(set);
}

void RankParameters::apply_gradients(std::size_t set) {
  for (auto& [number, held] : layers_) {
    for (Index i = 0; i < held.shard.gradient.size(); ++i) {
      const bool own = held.own[i];
      if (own && plan_.offload.used() && held.bucket[i] >= 0) continue;  // by the host
      held.last_gradient[i] = !own ? kGone : late() ? held.kept[set][i] : gradient(held, i);
      if (own)
        step(held, i, held.shard.parameters[i]);
      else
        held.shard.parameters[i] = kGone;  // until its owner tells
    }
    held.kept[set].setZero();
    if (late()) continue;  // what else is there is the next step's
    held.shard.gradient.setZero();
    held.micro_batches = 0;
  }
  if (plan_.offload.used()) finish_on_host();
  for (Bucket& b : buckets_) b.filled[set] = b.taken[set] = 0;
  ++updates_;
}

void RankParameters::fill_parameters(std::size_t number, Eigen::VectorXd& buffer) const {
  const Bucket& b = buckets_.at(number);
  buffer.setConstant(b.elements, kGone);
  of_bucket(*this, b, [&](const Held& held, Index i, Index at) {
    if (at >= b.own_begin && at < b.own_end) buffer[at] = held.shard.parameters[i];
  });
}

void RankParameters::take_parameters(std::size_t number, const Eigen::VectorXd& buffer) {
  const Bucket& b = buckets_.at(number);
  if (buffer.size() != b.elements) throw InternalError(fmt::format("parameters {} were never filled in", number));
  of_bucket(*this, b, [&buffer](Held& held, Index i, Index at) { held.shard.parameters[i] = buffer[at]; });
}

void RankParameters::drop_parameters(std::size_t number) {
  of_bucket(*this, buckets_.at(number), [this](Held& held, Index i, Index) {
    if (!held.own[i] || plan_.offload.parameters != OffloadDevice::none) held.shard.parameters[i] = kGone;
  });
}

/// Where element i of the tied weight's part goes in a buffer that has it row by row, as stages of unequal width cut it.
Index RankParameters::by_rows(Index i, Index count) const {
  const Index columns = std::get<TransformerConfig>(task_.model).hidden_size, rows = count / columns;
  return i % rows * columns + i / rows;
}

void RankParameters::fill_tied(Eigen::VectorXd& buffer) const {
  if (tied_.empty()) throw InternalError("a rank without the tied weight exchanges its gradient");
  buffer.setZero(tied_.front().count);
  for (const Bucket::Piece& piece : tied_)
    for (Index i = 0; i < piece.count; ++i)
      buffer[by_rows(i, piece.count)] += gradient(layers_.at(piece.layer), piece.first + i);
}

void RankParameters::take_tied(const Eigen::VectorXd& buffer) {
  for (const Bucket::Piece& piece : tied_) {
    if (buffer.size() != piece.count) throw InternalError("gradients of a tied weight were never filled in");
    for (Index i = 0; i < piece.count; ++i)
      set_gradient(layers_.at(piece.layer), piece.first + i, buffer[by_rows(i, piece.count)]);
  }
}

void RankParameters::fill_partial(Eigen::VectorXd& buffer) const {
  Index size = 0, at = 0;
  for (const Bucket::Piece& piece : partial_) size += piece.count;
  buffer.resize(size);
  for (const Bucket::Piece& piece : partial_)
    for (Index i = 0; i < piece.count; ++i) buffer[at++] = gradient(layers_.at(piece.layer), piece.first + i);
}

void RankParameters::take_partial(const Eigen::VectorXd& buffer) {
  Index size = 0, at = 0;
  for (const Bucket::Piece& piece : partial_) size += piece.count;
  if (buffer.size() != size) throw InternalError("partial gradients were never filled in");
  for (const Bucket::Piece& piece : partial_)
    for (Index i = 0; i < piece.count; ++i) set_gradient(layers_.at(piece.layer), piece.first + i, buffer[at++]);
}

}  // namespace trainyard::numeric
