#include "strategies/values/learning/whole_network.hpp"

#include <deque>
#include <utility>

#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {

Network network_of(const TrainingTask& task) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&task.model))
    return mlp_network(*shape, task.micro_batch_size, Precision::fp64);
  return transformer_network(std::get<TransformerConfig>(task.model), task.micro_batch_size, task.seq_length,
                             Precision::fp64);
}

/// The forward and the backward pass of some samples through all layers.
class WholeNetwork::Pass {
 public:
  Pass(const WholeNetwork& network, const Samples& samples)
      : network_(network), task_(network.task_), place_{task_, sharding_, 0, 0, 0, network.vocabulary_} {
    task_.micro_batch_size = static_cast<int>(samples.count);
    task_.samples = samples.of_mlp;
    task_.sentences = samples.of_transformer;
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  /// Returns the sum of the losses.
  double forward() {
    const int layers = static_cast<int>(network_.shards_.size());
    for (int number = 0; number < layers; ++number) {
      const bool last = number + 1 == layers;
      Graph& g = graphs_.emplace_back();
      if (number > 0) g.node("x", [this, number] { return std::move(outputs_[static_cast<std::size_t>(number) - 1]); });
      if (!last) g.node("dout", [this] { return std::move(gradient_); });
      define_layer(g, place_, {number, last, &network_.shards_[number], nullptr}, {0, 1});
      if (!last) outputs_.push_back(g["out"]);
    }
    return graphs_.back()["loss"](0, 0);
  }
  const Matrix& output() { return graphs_.back()["output"]; }

  void backward(double scale, Eigen::VectorXd& sum) {
    Index end = network_.size_;
    for (std::size_t number = graphs_.size(); number-- > 0;) {
      Graph& g = graphs_[number];
      const LayerShard& shard = network_.shards_[number];
      end -= shard.parameters.size();
      for (const LayerShard::Tensor& tensor : shard.tensors) add(g, tensor, end, scale, sum);
      if (number > 0) gradient_ = g["dx"];
    }
  }

 private:
  const WholeNetwork& network_;
  TrainingTask task_;
  const Sharding sharding_;
  RankPlace place_;
  std::deque<Graph> graphs_;
  std::deque<Matrix> outputs_;  // indexed by layer, until the next layer takes it
  Matrix gradient_;             // gradient by the output of the present layer

  static void add(Graph& g, const LayerShard::Tensor& tensor, Index layer, double scale, Eigen::VectorXd& sum) {
    const Matrix& gradient = g[gradient_of(tensor.name)];
    sum.segment(layer + tensor.first, gradient.size()) +=
        scale * Eigen::Map<const Eigen::VectorXd>(gradient.data(), gradient.size());
  }
};

WholeNetwork::WholeNetwork(std::variant<MlpShape, TransformerConfig> model, int seq_length, std::uint64_t seed) {
  task_.model = std::move(model);
  task_.seq_length = seq_length;
  task_.seed = seed;
  network_ = network_of(task_);
  if (const TransformerConfig* config = std::get_if<TransformerConfig>(&task_.model))
    vocabulary_ = static_cast<Index>(network_.layers.front().parameters.front().elements) / config->hidden_size;
  const Sharding whole;
  const RankPlace place{task_, whole, 0, 0, 0, vocabulary_};
  for (std::size_t number = 0; number < network_.layers.size(); ++number) {
    shards_.emplace_back(network_.layers[number], layer_tensors(place, static_cast<int>(number), network_, false),
                         task_.seed);
    size_ += shards_.back().parameters.size();
  }
}

std::vector<LearningTask::Tensor> WholeNetwork::tensors() const {
  std::vector<LearningTask::Tensor> all;
  Index first = 0;
  for (std::size_t number = 0; number < shards_.size(); ++number) {
    const std::string& layer = network_.layers[number].name;
    for (const LayerShard::Tensor& tensor : shards_[number].tensors)
      all.push_back({first + tensor.first, static_cast<Index>(tensor.shard.numbers.size()), tensor.shard.rows,
                     layer != "head" && layer != "embedding"});
    first += shards_[number].parameters.size();
  }
  return all;
}

Eigen::VectorXd WholeNetwork::initial() const {
  const WholeNetwork fresh(task_.model, task_.seq_length, task_.seed);
  Eigen::VectorXd all(size_);
  Index position = 0;
  for (const LayerShard& shard : fresh.shards_) {
    all.segment(position, shard.parameters.size()) = shard.parameters;
    position += shard.parameters.size();
  }
  return all;
}

void WholeNetwork::set(const Eigen::VectorXd& parameters) const {
  Index position = 0;
  for (LayerShard& shard : shards_) {
    shard.parameters = parameters.segment(position, shard.parameters.size());
    position += shard.parameters.size();
  }
}

double WholeNetwork::add_gradient(const Eigen::VectorXd& parameters, const Samples& samples, double scale,
                                  Eigen::VectorXd& sum) const {
  set(parameters);
  Pass pass(*this, samples);
  const double loss = pass.forward();
  pass.backward(scale, sum);
  return loss;
}

WholeNetwork::Output WholeNetwork::output(const Eigen::VectorXd& parameters, const Samples& samples) const {
  set(parameters);
  Pass pass(*this, samples);
  const double loss = pass.forward();
  return {loss, pass.output()};
}

}  // namespace trainyard::numeric
