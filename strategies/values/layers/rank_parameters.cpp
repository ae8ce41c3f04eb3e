#include "strategies/values/layers/rank_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.hpp"
#include "sim/observers/values.hpp"
#include "strategies/values/layers/layers.hpp"

namespace trainyard::numeric {
namespace {

constexpr double kGone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kTable = "token_embedding.weight";
constexpr const char* kOutput = "output.weight";

bool lists(const Layer& layer, const std::string& tensor) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [&tensor](const ParameterTensor& t) { return t.name == tensor; });
}

bool tied(const NumericStepTask& task) {
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
    : task_(place.task), plan_(plan) {
  const StagePlan& mine = plan.stages.at(static_cast<std::size_t>(stage));
  for (const int number : layers_of(mine)) add_layer(place, number, stage);
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
    if (plan.zero == ZeroStage::parameters) drop_parameters(static_cast<int>(b));
}

void RankParameters::add_layer(const RankPlace& place, int number, int stage) {
  const Network& network = *plan_.network;
  Layer layer = network.layers.at(static_cast<std::size_t>(number));
  const bool is_head = number + 1 == static_cast<int>(network.layers.size());
  const std::vector<int> here = layers_of(plan_.stages[static_cast<std::size_t>(stage)]);
  const bool with_table = std::count(here.begin(), here.end(), 0) > 0;
  const bool listed = lists(layer, kOutput), own = tied(task_) && is_head && (listed || !with_table);
  const TensorShards shards = layer_tensors(place, number, network, own);
  if (own && !listed) {  // no bucket has it, so that nobody would add up the gradients of its replicas
    if (plan_.mesh.data * plan_.mesh.context > 1)
      throw InternalError("the head's own copy of a tied weight is no parameter of its layer, but has replicas");
    ParameterTensor copy;
    copy.name = kOutput;
    copy.elements = static_cast<double>(shards.at(kOutput).whole.size());
    layer.parameters.push_back(copy);
  }
  Held& held = layers_[number];
  held.shard = LayerShard(layer, shards, task_.seed);
  held.host_parameters = held.shard.parameters;
  const Index size = held.shard.parameters.size();
  for (Eigen::VectorXd* v : {&held.kept, &held.first_moment, &held.second_moment, &held.last_gradient})
    v->setZero(size);
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
  b.state_shared = group.size() > 1 && plan_.zero >= ZeroStage::optimizer;
  b.gradients_shared = group.size() > 1 && plan_.zero >= ZeroStage::gradients;
  b.own_end = b.elements;
  if (b.state_shared)
    std::tie(b.own_begin, b.own_end) =
        Values::range(b.elements, {0, static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(group.size()), 1});
  Index at = 0;
  for (const Bucket::Piece& piece : b.pieces)
    for (Index i = piece.first; i < piece.first + piece.count; ++i, ++at)
      layers_.at(piece.layer).own[static_cast<std::size_t>(i)] = at >= b.own_begin && at < b.own_end;
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

void RankParameters::fill_bucket(int number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(static_cast<std::size_t>(number));
  b.filled = micro_batches_in(b);
  if (b.filled == b.taken) throw InternalError(fmt::format("bucket {} leaves without new gradients", number));
  buffer.resize(b.elements);
  Index at = 0;
  for (const Bucket::Piece& piece : b.pieces) {
    auto part = layers_.at(piece.layer).shard.gradient.segment(piece.first, piece.count);
    buffer.segment(at, piece.count) = part;
    if (b.gradients_shared) part.setZero();  // their sum is kept elsewhere
    at += piece.count;
  }
}

void RankParameters::keep_gradients(int number, const Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(static_cast<std::size_t>(number));
  if (buffer.size() != b.elements) throw InternalError(fmt::format("bucket {} was never filled", number));
  b.taken = b.filled;
  Index at = 0;
  for (const Bucket::Piece& piece : b.pieces) {
    Held& held = layers_.at(piece.layer);
    for (Index i = piece.first; i < piece.first + piece.count; ++i, ++at) {
      if (!b.gradients_shared)
        held.shard.gradient[i] = buffer[at];
      else if (at >= b.own_begin && at < b.own_end)
        held.kept[i] += buffer[at];
    }
  }
}

bool RankParameters::in_blocks(const Held& held, Index element) const {
  const int number = held.bucket[static_cast<std::size_t>(element)];
  if (number < 0) return false;
  const Bucket& b = buckets_[static_cast<std::size_t>(number)];
  return b.gradients_shared && b.taken > 0 && b.taken == held.micro_batches;
}

double RankParameters::gradient(const Held& held, Index element) const {
  if (!in_blocks(held, element)) return held.shard.gradient[element];
  return held.own[static_cast<std::size_t>(element)] ? held.kept[element] : 0;
}

void RankParameters::set_gradient(Held& held, Index element, double value) {
  if (!in_blocks(held, element))
    held.shard.gradient[element] = value;
  else if (held.own[static_cast<std::size_t>(element)])
    held.kept[element] = value;
}

void RankParameters::step(Held& held, Index i, double& w) const {
  const double g = held.last_gradient[i];
  double &m = held.first_moment[i], &v = held.second_moment[i];
  if (task_.update == NumericStepTask::Update::momentum) {
    m = task_.momentum * m + g;
    w -= task_.learning_rate * m;
    return;
  }
  const double steps = updates_ + 1;
  m = task_.beta1 * m + (1 - task_.beta1) * g;
  v = task_.beta2 * v + (1 - task_.beta2) * g * g;
  const double mean = m / (1 - std::pow(task_.beta1, steps)), square = v / (1 - std::pow(task_.beta2, steps));
  w -= task_.learning_rate * mean / (std::sqrt(square) + task_.epsilon);
}

void RankParameters::update() {
  for (const Bucket& b : buckets_)
    if (b.exchanged && b.taken != plan_.micro_batches)
      throw InternalError(
          fmt::format("a bucket has the gradients of {} micro-batches of {}", b.taken, plan_.micro_batches));
  for (auto& [number, held] : layers_) {
    if (held.micro_batches != plan_.micro_batches)
      throw InternalError(fmt::format("layer {} has the gradients of {} micro-batches of {}", number,
                                      held.micro_batches, plan_.micro_batches));
    for (Index i = 0; i < held.kept.size(); ++i) {
      const bool own = held.own[static_cast<std::size_t>(i)];
      if (own && plan_.offload.used() && held.bucket[static_cast<std::size_t>(i)] >= 0) continue;  // by the host
      held.last_gradient[i] = own ? gradient(held, i) : kGone;
      if (own)
        step(held, i, held.shard.parameters[i]);
      else
        held.shard.parameters[i] = kGone;  // until its owner tells
    }
    held.shard.gradient.setZero();
    held.kept.setZero();
    held.micro_batches = 0;
  }
  if (plan_.offload.used()) finish_on_host();
  for (Bucket& b : buckets_) b.filled = b.taken = 0;
  ++updates_;
}

void RankParameters::fill_parameters(int number, Eigen::VectorXd& buffer) const {
  const Bucket& b = buckets_.at(static_cast<std::size_t>(number));
  buffer.setConstant(b.elements, kGone);
  Index at = 0;
  for (const Bucket::Piece& piece : b.pieces) {
    const Held& held = layers_.at(piece.layer);
    for (Index i = piece.first; i < piece.first + piece.count; ++i, ++at)
      if (at >= b.own_begin && at < b.own_end) buffer[at] = held.shard.parameters[i];
  }
}

void RankParameters::take_parameters(int number, const Eigen::VectorXd& buffer) {
  const Bucket& b = buckets_.at(static_cast<std::size_t>(number));
  if (buffer.size() != b.elements) throw InternalError(fmt::format("parameters {} were never filled in", number));
  Index at = 0;
  for (const Bucket::Piece& piece : b.pieces) {
    layers_.at(piece.layer).shard.parameters.segment(piece.first, piece.count) = buffer.segment(at, piece.count);
    at += piece.count;
  }
}

void RankParameters::drop_parameters(int number) {
  const Bucket& b = buckets_.at(static_cast<std::size_t>(number));
  for (const Bucket::Piece& piece : b.pieces) {
    Held& held = layers_.at(piece.layer);
    for (Index i = piece.first; i < piece.first + piece.count; ++i)
      if (!held.own[static_cast<std::size_t>(i)] || plan_.offload.parameters != OffloadDevice::none)
        held.shard.parameters[i] = kGone;
  }
}

void RankParameters::fill_tied(Eigen::VectorXd& buffer) const {
  if (tied_.empty()) throw InternalError("a rank without the tied weight exchanges its gradient");
  buffer.setZero(tied_.front().count);
  for (const Bucket::Piece& piece : tied_)
    for (Index i = 0; i < piece.count; ++i) buffer[i] += gradient(layers_.at(piece.layer), piece.first + i);
}

void RankParameters::take_tied(const Eigen::VectorXd& buffer) {
  for (const Bucket::Piece& piece : tied_) {
    if (buffer.size() != piece.count) throw InternalError("gradients of a tied weight were never filled in");
    for (Index i = 0; i < piece.count; ++i) set_gradient(layers_.at(piece.layer), piece.first + i, buffer[i]);
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
