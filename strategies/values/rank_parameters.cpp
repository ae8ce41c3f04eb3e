#include "strategies/values/rank_parameters.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "sim/error.hpp"
#include "sim/observers/values.hpp"
#include "strategies/plan/update_policy.hpp"
#include "strategies/values/layers/layers.hpp"

namespace trainyard::numeric {
namespace {

constexpr const char* kTable = "token_embedding.weight";
constexpr const char* kOutput = "output.weight";

bool has_tensor(const Layer& layer, const std::string& tensor) {
  return std::ranges::find(layer.parameters, tensor, &ParameterTensor::name) != layer.parameters.end();
}

bool has_tied_weight(const TrainingTask& task) {
  const TransformerConfig* config = std::get_if<TransformerConfig>(&task.model);
  return config && config->tie_word_embeddings;
}

std::vector<int> layers_of(const StagePlan& stage) {
  std::vector<int> all;
  for (const std::vector<int>& chunk : stage.chunks) all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}

// The parts of a layer that `gather` and `scatter` copy.
constexpr auto parameters_part = [](auto& layer) -> auto& { return layer.shard.parameters; };
constexpr auto gradient_part = [](auto& layer) -> auto& { return layer.shard.gradient; };
constexpr auto first_part = [](auto& layer) -> auto& { return layer.first_moment; };
constexpr auto second_part = [](auto& layer) -> auto& { return layer.second_moment; };

}  // namespace

RankParameters::RankParameters(const RankPlace& place, const TrainingPlan& plan, int rank, int stage)
    : task_(place.task), plan_(plan), sets_(static_cast<std::size_t>(update_policy_of(plan).gradient_sets())) {
  const StagePlan& own_stage = plan.stages.at(stage);
  for (const int number : layers_of(own_stage)) add_layer(place, number);
  for (const GradientBucket& bucket : own_stage.buckets) add_bucket(bucket, rank);
  for (auto& [number, state] : layers_)
    for (const LayerShard::Tensor& tensor : state.shard.tensors) {
      const auto count = static_cast<Index>(tensor.shard.numbers.size());
      const auto bucketed = state.bucket.begin() + tensor.first;
      const auto replicas = tensor.shard.expert ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
      if (replicas.size() > 1 && std::count(bucketed, bucketed + count, -1) > 0)
        throw InternalError(fmt::format("layer {}: {} is in no bucket, but has replicas", number, tensor.name));
      if (tensor.partial) partial_.push_back({number, tensor.first, count});
      const bool is_tied = tensor.name == (number == 0 ? kTable : kOutput);
      const bool is_end_layer = number == 0 || number + 1 == static_cast<int>(plan.network->layers.size());
      if (has_tied_weight(task_) && is_tied && is_end_layer) tied_.push_back({number, tensor.first, count});
    }
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (plan.zero == ZeroStage::parameters) drop_parameters(b);
}

void RankParameters::add_layer(const RankPlace& place, int number) {
  const Network& network = *plan_.network;
  const Layer& layer = network.layers.at(number);
  const bool is_head = number + 1 == static_cast<int>(network.layers.size());
  // A stage without the embedding table has its own copy of a tied weight.
  const bool own_copy = has_tied_weight(task_) && is_head && has_tensor(layer, kOutput);
  LayerState& state = layers_[number];
  state.shard = LayerShard(layer, layer_tensors(place, number, network, own_copy), task_.seed);
  state.host_parameters = state.shard.parameters;
  const Index size = state.shard.parameters.size();
  for (Eigen::VectorXd* v : {&state.first_moment, &state.second_moment, &state.last_gradient}) v->setZero(size);
  state.kept.assign(sets_, Eigen::VectorXd::Zero(size));
  state.own.assign(static_cast<std::size_t>(size), 1);
  state.bucket.assign(static_cast<std::size_t>(size), -1);
}

void RankParameters::add_bucket(const GradientBucket& planned, int rank) {
  Bucket b;
  bool experts = false;
  const int number = static_cast<int>(buckets_.size());
  for (const GradientBucket::Part& part : planned.parts) {
    LayerState& state = layers_.at(part.layer);
    const LayerShard::Tensor& tensor = state.shard.tensors.at(part.tensor);
    const Bucket::Piece piece{part.layer, tensor.first + static_cast<Index>(part.first),
                              static_cast<Index>(part.elements)};
    for (Index i = piece.first; i < piece.first + piece.count; ++i) {
      int& owner = state.bucket.at(i);
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
  const auto index = std::ranges::find(group, rank) - group.begin();
  b.exchanged = replicas.size() > 1;
  b.filled.assign(sets_, 0);
  b.taken.assign(sets_, 0);
  b.state_shared = group.size() > 1 && plan_.zero >= ZeroStage::optimizer;
  b.gradients_shared = group.size() > 1 && plan_.zero >= ZeroStage::gradients;
  b.own_end = b.elements;
  if (b.state_shared)
    std::tie(b.own_begin, b.own_end) =
        Values::range(b.elements, {0, static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(group.size()), 1});
  Index position = 0;
  for (const Bucket::Piece& piece : b.pieces)
    for (Index i = piece.first; i < piece.first + piece.count; ++i, ++position)
      layers_.at(piece.layer).own[i] = position >= b.own_begin && position < b.own_end;
  buckets_.push_back(std::move(b));
}

std::vector<int> RankParameters::numbers() const {
  std::vector<int> all;
  for (const auto& [number, state] : layers_) all.push_back(number);
  return all;
}

const LayerShard* RankParameters::tied_weight() const {
  const int head = static_cast<int>(plan_.network->layers.size()) - 1;
  const bool has_own_copy = has(head) && layer(head).has(kOutput);
  return has_tied_weight(task_) && has(0) && !has_own_copy ? &layer(0) : nullptr;
}

int RankParameters::micro_batches_in(const Bucket& b) const {
  int least = std::numeric_limits<int>::max();
  for (const Bucket::Piece& piece : b.pieces) least = std::min(least, layers_.at(piece.layer).micro_batches);
  return b.pieces.empty() ? 0 : least;
}

/// Counts a micro-batch of a layer. With delayed updates the next step resets the count, not the update.
void RankParameters::count_micro_batch(int number) {
  int& count = layers_.at(number).micro_batches;
  if (is_delayed() && count == plan_.micro_batches_of_layer()) count = 0;
  ++count;
}

void RankParameters::fill_bucket(std::size_t place, Eigen::VectorXd& buffer) {
  const std::size_t set = place / buckets_.size();
  Bucket& b = buckets_[place % buckets_.size()];
  b.filled.at(set) = micro_batches_in(b);
  if (b.filled[set] == b.taken[set]) throw InternalError(fmt::format("bucket {} leaves without new gradients", place));
  buffer = gradients(place % buckets_.size());
  if (b.gradients_shared || is_delayed()) clear_gradients(place % buckets_.size());  // their sum is in `kept`
}

void RankParameters::keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) {
  const std::size_t set = place / buckets_.size();
  Bucket& b = buckets_[place % buckets_.size()];
  if (buffer.size() != b.elements) throw InternalError(fmt::format("bucket {} was never filled", place));
  b.taken.at(set) = b.filled[set];
  if (!b.gradients_shared && !is_delayed()) return set_gradients(place, buffer);
  visit_own_block(
      b, [&](LayerState& state, Index i, Index position) { state.kept[set][i] += buffer[b.own_begin + position]; });
}

Eigen::VectorXd RankParameters::gradients(std::size_t bucket) const {
  const Bucket& b = buckets_.at(bucket);
  Eigen::VectorXd all(b.elements);
  visit_bucket(*this, b,
               [&all](const LayerState& state, Index i, Index position) { all[position] = state.shard.gradient[i]; });
  return all;
}

void RankParameters::set_gradients(std::size_t bucket, const Eigen::VectorXd& all) {
  visit_bucket(*this, buckets_.at(bucket),
               [&all](LayerState& state, Index i, Index position) { state.shard.gradient[i] = all[position]; });
}

void RankParameters::clear_gradients(std::size_t bucket) {
  visit_bucket(*this, buckets_.at(bucket), [](LayerState& state, Index i, Index) { state.shard.gradient[i] = 0; });
}

bool RankParameters::has_block_sum(const LayerState& state, Index element) const {
  const int number = state.bucket[element];
  if (number < 0) return false;
  const Bucket& b = buckets_[number];
  return b.gradients_shared && b.taken[0] > 0 && b.taken[0] == state.micro_batches;
}

double RankParameters::gradient(const LayerState& state, Index element) const {
  if (!has_block_sum(state, element)) return state.shard.gradient[element];
  return state.own[element] ? state.kept[0][element] : 0;
}

void RankParameters::set_gradient(LayerState& state, Index element, double value) {
  if (!has_block_sum(state, element))
    state.shard.gradient[element] = value;
  else if (state.own[element])
    state.kept[0][element] = value;
}

void RankParameters::step(LayerState& state, Index i, double& parameter) const {
  apply_update(task_.rule, parameter, state.last_gradient[i], state.first_moment[i], state.second_moment[i],
               updates_ + 1);
}

void RankParameters::update(std::size_t set) {
  const bool summed = update_policy_of(plan_).sums_gradients(updates_);
  const int all = plan_.micro_batches_of_layer();
  for (const Bucket& b : buckets_)
    if (summed && b.exchanged && b.taken.at(set) != all)
      throw InternalError(fmt::format("a bucket has the gradients of {} micro-batches of {}", b.taken[set], all));
  for (const auto& [number, state] : layers_)
    if (!is_delayed() && state.micro_batches != all)
      throw InternalError(
          fmt::format("layer {} has the gradients of {} micro-batches of {}", number, state.micro_batches, all));
  apply_gradients(set);
}

void RankParameters::apply_gradients(std::size_t set) {
  for (auto& [number, state] : layers_) {
    for (Index i = 0; i < state.shard.gradient.size(); ++i) {
      const bool own = state.own[i];
      if (own && plan_.offload.is_used() && state.bucket[i] >= 0) continue;  // the host updates it
      state.last_gradient[i] = !own ? kGone : is_delayed() ? state.kept[set][i] : gradient(state, i);
      if (own)
        step(state, i, state.shard.parameters[i]);
      else
        state.shard.parameters[i] = kGone;  // until its owner sends it
    }
    state.kept[set].setZero();
    if (is_delayed()) continue;  // the other gradients belong to the next step
    state.shard.gradient.setZero();
    state.micro_batches = 0;
  }
  if (plan_.offload.is_used()) finish_on_host();
  for (Bucket& b : buckets_) b.filled[set] = b.taken[set] = 0;
  ++updates_;
}

void RankParameters::fill_parameters(std::size_t number, Eigen::VectorXd& buffer) const {
  const Bucket& b = buckets_.at(number);
  buffer.setConstant(b.elements, kGone);
  visit_bucket(*this, b, [&](const LayerState& state, Index i, Index position) {
    if (position >= b.own_begin && position < b.own_end) buffer[position] = state.shard.parameters[i];
  });
}

void RankParameters::take_parameters(std::size_t number, const Eigen::VectorXd& buffer) {
  const Bucket& b = buckets_.at(number);
  if (buffer.size() != b.elements) throw InternalError(fmt::format("parameters {} were never filled in", number));
  visit_bucket(*this, b,
               [&buffer](LayerState& state, Index i, Index position) { state.shard.parameters[i] = buffer[position]; });
}

void RankParameters::drop_parameters(std::size_t number) {
  visit_bucket(*this, buckets_.at(number), [this](LayerState& state, Index i, Index) {
    if (!state.own[i] || plan_.offload.parameters != OffloadDevice::none) state.shard.parameters[i] = kGone;
  });
}

/// Returns the position of element i of the tied weight's part in a buffer that stores the part row by row: stages of
/// unequal width cut the weight by rows.
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

Index RankParameters::partial_elements() const {
  Index elements = 0;
  for (const Bucket::Piece& piece : partial_) elements += piece.count;
  return elements;
}

void RankParameters::fill_partial(Eigen::VectorXd& buffer) const {
  Index position = 0;
  buffer.resize(partial_elements());
  for (const Bucket::Piece& piece : partial_)
    for (Index i = 0; i < piece.count; ++i) buffer[position++] = gradient(layers_.at(piece.layer), piece.first + i);
}

void RankParameters::take_partial(const Eigen::VectorXd& buffer) {
  Index position = 0;
  if (buffer.size() != partial_elements()) throw InternalError("partial gradients were never filled in");
  for (const Bucket::Piece& piece : partial_)
    for (Index i = 0; i < piece.count; ++i) set_gradient(layers_.at(piece.layer), piece.first + i, buffer[position++]);
}

// Values of parameters, gradients and states outside the GPU: in host memory, on drives, and as vectors for checkpoints.

void RankParameters::fill_share(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  const int micro_batches = b.exchanged ? b.taken[0] : micro_batches_in(b);
  if (micro_batches == b.left)
    throw InternalError(fmt::format("bucket {} goes to the host without new gradients", number));
  b.left = micro_batches;
  buffer.resize(b.own_size());
  visit_own_block(b, [&](LayerState& state, Index i, Index position) {
    double& gradient = b.gradients_shared ? state.kept[0][i] : state.shard.gradient[i];
    buffer[position] = gradient;
    if (b.gradients_shared) gradient = 0;
  });
  if (!b.gradients_shared) clear_gradients(number);
}

void RankParameters::keep_on_host(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  if (buffer.size() != b.own_size())
    throw InternalError(fmt::format("gradients of bucket {} have not come to the host", number));
  if (b.on_host.size() == 0) b.on_host.setZero(buffer.size());
  b.on_host += buffer;
  b.kept_on_host = b.left;
  buffer.resize(0);  // used up
}

void RankParameters::read_states(std::size_t number) {
  Bucket& b = buckets_.at(number);
  if (b.states_read) throw InternalError(fmt::format("states of bucket {} are read twice", number));
  b.states_read = true;
}

void RankParameters::update_on_host(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  if (const int all = plan_.micro_batches_of_layer(); b.kept_on_host != all)
    throw InternalError(
        fmt::format("the host has the gradients of {} micro-batches of {} of bucket {}", b.kept_on_host, all, number));
  if (plan_.offload.optimizer == OffloadDevice::nvme && !b.states_read)
    throw InternalError(fmt::format("states of bucket {} are on the drives", number));
  buffer.resize(b.own_size());
  visit_own_block(b, [&](LayerState& state, Index i, Index position) {
    state.last_gradient[i] = b.on_host[position];
    step(state, i, state.host_parameters[i]);
    buffer[position] = state.host_parameters[i];
  });
  b.updated_on_host = true;
  b.unwritten = plan_.offload.drives();
}

void RankParameters::write_states(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  b.states_read = b.unwritten = false;
  if (plan_.offload.parameters == OffloadDevice::nvme) buffer.resize(0);
}

void RankParameters::fill_host_parameters(std::size_t number, Eigen::VectorXd& buffer) {
  const Bucket& b = buckets_.at(number);
  buffer.resize(b.own_size());
  visit_own_block(b, [&](LayerState& state, Index i, Index position) { buffer[position] = state.host_parameters[i]; });
}

void RankParameters::take_own(std::size_t number, Eigen::VectorXd& buffer, Eigen::VectorXd& on_host) {
  const Bucket& b = buckets_.at(number);
  if (buffer.size() != b.own_size())
    throw InternalError(fmt::format("parameters of bucket {} have not come from the host", number));
  visit_own_block(b, [&](LayerState& state, Index i, Index position) { state.shard.parameters[i] = buffer[position]; });
  buffer.resize(0);  // used up
  if (plan_.offload.parameters != OffloadDevice::cpu) on_host.resize(0);
}

/// Checks at the end of a step that every bucket has been updated and is back in its place.
void RankParameters::finish_on_host() {
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    Bucket& b = buckets_[number];
    if (!b.updated_on_host) throw InternalError(fmt::format("the host has not updated bucket {}", number));
    if (b.unwritten) throw InternalError(fmt::format("states of bucket {} are not back on the drives", number));
    b.on_host.resize(0);
    b.left = b.kept_on_host = 0;
    b.updated_on_host = false;
  }
}

/// Concatenates part(layer) of all layers.
template <class Part>
Eigen::VectorXd RankParameters::gather(Part part) const {
  Index size = 0, position = 0;
  for (const auto& [number, layer] : layers_) size += part(layer).size();
  Eigen::VectorXd values(size);
  for (const auto& [number, layer] : layers_) {
    values.segment(position, part(layer).size()) = part(layer);
    position += part(layer).size();
  }
  return values;
}

template <class Part>
void RankParameters::scatter(const Eigen::VectorXd& values, Part part) {
  Index position = 0;
  for (auto& [number, layer] : layers_) {
    part(layer) = values.segment(position, part(layer).size()).eval();
    position += part(layer).size();
  }
}

Eigen::VectorXd RankParameters::all_parameters() const { return gather(parameters_part); }
void RankParameters::set_all_parameters(const Eigen::VectorXd& values) { scatter(values, parameters_part); }
Eigen::VectorXd RankParameters::all_gradients() const { return gather(gradient_part); }
void RankParameters::set_all_gradients(const Eigen::VectorXd& values) { scatter(values, gradient_part); }

Eigen::VectorXd RankParameters::state() const {
  const Eigen::VectorXd parameters = all_parameters();
  Eigen::VectorXd values(3 * parameters.size() + 1);
  values << parameters, gather(first_part), gather(second_part), updates_;
  return values;
}

void RankParameters::set_state(const Eigen::VectorXd& values) {
  const Index size = values.size() / 3;
  scatter(values.head(size), parameters_part);
  scatter(values.segment(size, size), first_part);
  scatter(values.segment(2 * size, size), second_part);
  updates_ = static_cast<int>(values[3 * size]);
}

void RankParameters::forget_parameters() {
  for (auto& [number, layer] : layers_) layer.shard.parameters.setConstant(kGone);
}

}  // namespace trainyard::numeric
