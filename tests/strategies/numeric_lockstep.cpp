#include "numeric_lockstep.hpp"

#include <algorithm>

namespace trainyard {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
using Buffer = TrainingBuffer::Kind;

std::pair<Eigen::Index, Eigen::Index> block(const Eigen::VectorXd& v, std::size_t index, std::size_t of) {
  return Values::range(v.size(), {0, static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(of), 1});
}

void keep_block(Eigen::VectorXd& v, std::size_t index, std::size_t of) {
  const auto [begin, end] = block(v, index, of);
  v.head(begin).setConstant(kNothing);
  v.tail(v.size() - end).setConstant(kNothing);
}

void gather(const std::vector<Eigen::VectorXd*>& group) {
  for (std::size_t to = 0; to < group.size(); ++to)
    for (std::size_t from = 0; from < group.size(); ++from) {
      const auto [begin, end] = block(*group[from], from, group.size());
      if (from != to) group[to]->segment(begin, end - begin) = group[from]->segment(begin, end - begin);
    }
}

void reduce(const std::vector<Eigen::VectorXd*>& group, bool maximum) {
  Eigen::VectorXd sum = *group.front();
  for (std::size_t i = 1; i < group.size(); ++i)
    sum = maximum ? Eigen::VectorXd(sum.cwiseMax(*group[i])) : Eigen::VectorXd(sum + *group[i]);
  for (Eigen::VectorXd* v : group) *v = sum;
}

std::vector<ParameterTensor>& parameters_of(Network& network, int layer) {
  return network.layers[static_cast<std::size_t>(layer)].parameters;
}

}  // namespace

Lockstep::Lockstep(const NumericStepTask& task, const Split& split) : task_(task), split_(split) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&task.model)) {
    network_ = mlp_network(*shape, task.micro_batch_size, Precision::fp64, split.sharding);
  } else {
    const TransformerConfig& config = std::get<TransformerConfig>(task.model);
    TransformerOptions options;
    options.sharding = split.sharding;
    network_ = transformer_network(config, task.micro_batch_size, task.seq_length, Precision::fp64, options);
    if (config.tie_word_embeddings && split.mesh.pipeline > 1) {  // the last stage has a copy
      ParameterTensor copy = parameters_of(network_, 0).front();
      copy.name = "output.weight";
      if (split.copy_listed) network_.layers.back().parameters.push_back(copy);
      plan_.tied = true;
    }
  }
  plan_.mesh = split.mesh;
  plan_.sharding = split.sharding;
  plan_.network = &network_;
  plan_.steps = split.steps;
  plan_.micro_batches = split.micro_batches;
  plan_.pipeline = {split.mesh.pipeline, split.micro_batches, split.chunks};
  schedule_.name = "in turn";
  plan_.schedule = split.mesh.pipeline * split.chunks > 1 ? &schedule_ : nullptr;
  plan_.zero = split.zero;
  plan_.zero_group = split.zero_group;
  lay_out_stages();
  numbers_ = std::make_unique<NumericStep>(task_, plan_);
  numbers_->attach(values_);
}

void Lockstep::lay_out_stages() {
  const int virtual_stages = split_.mesh.pipeline * split_.chunks, layers = static_cast<int>(network_.layers.size());
  plan_.stages.resize(static_cast<std::size_t>(split_.mesh.pipeline));
  for (StagePlan& stage : plan_.stages) stage.chunks.resize(static_cast<std::size_t>(split_.chunks));
  for (int layer = layers - 1; layer >= 0; --layer) {
    const int v = layer * virtual_stages / layers, stage = v % split_.mesh.pipeline;
    StagePlan& mine = plan_.stages[static_cast<std::size_t>(stage)];
    std::vector<int>& chunk = mine.chunks[static_cast<std::size_t>(v / split_.mesh.pipeline)];
    chunk.insert(chunk.begin(), layer);
    for (const bool experts : {false, true}) {
      GradientBucket bucket;
      for (std::size_t t = 0; t < parameters_of(network_, layer).size(); ++t) {
        const ParameterTensor& tensor = parameters_of(network_, layer)[t];
        if (tensor.expert != experts) continue;
        bucket.parts.push_back({layer, static_cast<int>(t), tensor.elements, 0});
        bucket.elements += tensor.elements;
      }
      if (bucket.parts.empty()) continue;
      if (bucket.parts.size() > 1 && bucket.parts[0].elements > 2) {  // two buckets that cut a tensor
        const double cut = 1 + static_cast<double>(static_cast<int>(bucket.parts[0].elements) / 3);
        GradientBucket first;
        first.parts = {bucket.parts[0]};
        first.elements = first.parts[0].elements = cut;
        bucket.parts[0].elements -= cut;
        bucket.parts[0].first = cut;
        bucket.elements -= cut;
        mine.buckets.push_back(first);
      }
      mine.buckets.push_back(bucket);
    }
  }
}

std::vector<int> Lockstep::ranks_of(int stage) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < plan_.mesh.ranks(); ++rank)
    if (plan_.mesh.of(rank).pipeline == stage) ranks.push_back(rank);
  return ranks;
}

void Lockstep::call(int rank, TrainingCall what, int index, int micro_batch, int exchange) {
  numbers_->call(what, rank, {index, micro_batch, exchange, number_of({Buffer::exchange})});
}

void Lockstep::exchange(const Exchange& e, int stage, int number) {
  if (e.name == split_.without) return;
  const auto result = 2 * static_cast<std::size_t>(number);
  std::set<std::vector<int>> groups;
  for (const int rank : ranks_of(stage)) groups.insert(plan_.mesh.group(rank, e.axis));
  for (const std::vector<int>& ranks : groups) {
    Buffers to, from;
    for (const int rank : ranks) {
      to.push_back(&buffer(rank, {Buffer::exchange, result}));
      from.push_back(&buffer(rank, {Buffer::exchange, result + 1}));
    }
    const std::size_t n = ranks.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (e.what == Exchanged::ring_shift) *to[(i + 1) % n] = *from[i];
      for (std::size_t j = 0; j < n && e.what == Exchanged::all_to_all; ++j) {
        const auto [begin, end] = block(*from[i], j, n);
        const auto [at, at_end] = block(*to[j], i, n);
        to[j]->segment(at, at_end - at) = from[i]->segment(begin, end - begin);
      }
    }
    if (e.what == Exchanged::all_gather) gather(to);
    if (e.what == Exchanged::all_reduce || e.what == Exchanged::reduce_scatter) reduce(to, e.name == "head.maximum");
    for (std::size_t i = 0; i < n && e.what == Exchanged::reduce_scatter; ++i) keep_block(*to[i], i, n);
  }
}

void Lockstep::pass(TrainingCall what, int layer, int micro_batch, int stage) {
  const Layer& l = network_.layers[static_cast<std::size_t>(layer)];
  const std::vector<Exchange>& list = what == TrainingCall::forward ? l.forward_exchanges : l.backward_exchanges;
  std::vector<int> running;
  const auto end = [&](int kernel) {
    std::erase_if(running, [&](int number) {
      const Exchange& e = list[static_cast<std::size_t>(number)];
      if (e.needed_by > kernel) return false;
      exchange(e, stage, number);
      return true;
    });
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (what == TrainingCall::backward_input && list[i].for_weights) continue;
    if (what == TrainingCall::backward_weights && !list[i].for_weights) continue;
    end(list[i].after);
    for (const int rank : ranks_of(stage)) call(rank, what, layer, micro_batch, static_cast<int>(i));
    running.push_back(static_cast<int>(i));
  }
  end(std::numeric_limits<int>::max());
  for (const int rank : ranks_of(stage)) call(rank, what, layer, micro_batch, kEndOfPass);
}

void Lockstep::messages(int virtual_stage, int micro_batch, bool back) {
  const int stages = split_.mesh.pipeline, from = (virtual_stage + (back ? 1 : 0)) % stages;
  const TrainingBuffer message = activation_message(virtual_stage, micro_batch, back, stages * split_.chunks);
  for (const int rank : ranks_of(from)) {
    Coordinates to = plan_.mesh.of(rank);
    to.pipeline = (virtual_stage + (back ? 0 : 1)) % stages;
    buffer(plan_.mesh.rank(to), message) = Eigen::VectorXd(buffer(rank, message));
  }
}

void Lockstep::forward(int micro_batch) {
  const int stages = split_.mesh.pipeline, all = stages * split_.chunks;
  for (int v = 0; v < all; ++v) {
    for (const int layer :
         plan_.stages[static_cast<std::size_t>(v % stages)].chunks[static_cast<std::size_t>(v / stages)])
      pass(TrainingCall::forward, layer, micro_batch, v % stages);
    if (v + 1 < all) messages(v, micro_batch, false);
  }
}

void Lockstep::backward(int micro_batch, TrainingCall what) {
  const int stages = split_.mesh.pipeline, all = stages * split_.chunks;
  for (int v = all - 1; v >= 0; --v) {
    const std::vector<int>& chunk =
        plan_.stages[static_cast<std::size_t>(v % stages)].chunks[static_cast<std::size_t>(v / stages)];
    for (auto layer = chunk.rbegin(); layer != chunk.rend(); ++layer) pass(what, *layer, micro_batch, v % stages);
    if (v > 0 && what != TrainingCall::backward_weights) messages(v - 1, micro_batch, true);
  }
}

void Lockstep::gather_parameters() {
  for (int rank = 0; rank < plan_.mesh.ranks(); ++rank) {
    const std::vector<GradientBucket>& buckets =
        plan_.stages[static_cast<std::size_t>(plan_.mesh.of(rank).pipeline)].buckets;
    for (std::size_t b = 0; b < buckets.size(); ++b) call(rank, TrainingCall::fill_parameters, static_cast<int>(b));
  }
  for (int rank = 0; rank < plan_.mesh.ranks(); ++rank) {
    const std::vector<GradientBucket>& buckets =
        plan_.stages[static_cast<std::size_t>(plan_.mesh.of(rank).pipeline)].buckets;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const GradientBucket::Part& part = buckets[b].parts.front();
      const bool experts = parameters_of(network_, part.layer)[static_cast<std::size_t>(part.tensor)].expert;
      const std::vector<int> group = zero_group(plan_, rank, experts);
      if (group.front() != rank) continue;
      Buffers buffers;
      for (const int member : group) buffers.push_back(&buffer(member, {Buffer::parameters, b}));
      gather(buffers);
      for (const int member : group) call(member, TrainingCall::take_parameters, static_cast<int>(b));
    }
  }
}

void Lockstep::drop_parameters() {
  for (int rank = 0; rank < plan_.mesh.ranks(); ++rank) {
    const auto& buckets = plan_.stages[static_cast<std::size_t>(plan_.mesh.of(rank).pipeline)].buckets;
    for (std::size_t b = 0; b < buckets.size(); ++b) call(rank, TrainingCall::drop_parameters, static_cast<int>(b));
  }
}

void Lockstep::sum_partial_and_tied() {
  std::set<std::vector<int>> partial, tied;
  for (int rank = 0; rank < plan_.mesh.ranks(); ++rank) {
    if (plan_.mesh.tensor > 1) partial.insert(plan_.mesh.group(rank, Axis::tensor));
    const std::vector<int> pipe = plan_.mesh.group(rank, Axis::pipeline);
    if (plan_.tied) tied.insert({pipe.front(), pipe.back()});
  }
  const auto sum = [this](const std::set<std::vector<int>>& groups, TrainingCall fill, TrainingCall take,
                          TrainingBuffer summed) {
    for (const std::vector<int>& group : groups) {
      Buffers buffers;
      for (const int rank : group) {
        call(rank, fill, 0);
        buffers.push_back(&buffer(rank, summed));
      }
      reduce(buffers, false);
      for (const int rank : group) call(rank, take, 0);
    }
  };
  if (split_.without != "partial")
    sum(partial, TrainingCall::fill_partial, TrainingCall::take_partial, {Buffer::partial});
  if (split_.without != "tied") sum(tied, TrainingCall::fill_tied, TrainingCall::take_tied, {Buffer::tied});
}

void Lockstep::reduce_gradients() {
  for (int stage = 0; stage < plan_.mesh.pipeline; ++stage) {
    const std::vector<GradientBucket>& buckets = plan_.stages[static_cast<std::size_t>(stage)].buckets;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const int number = static_cast<int>(b);
      const GradientBucket::Part& part = buckets[b].parts.front();
      const bool experts = parameters_of(network_, part.layer)[static_cast<std::size_t>(part.tensor)].expert;
      std::set<std::vector<int>> groups;
      for (const int rank : ranks_of(stage)) {
        call(rank, TrainingCall::fill_bucket, number);
        groups.insert(experts ? plan_.mesh.expert_replicas(rank) : plan_.mesh.replicas(rank));
      }
      for (const std::vector<int>& group : groups) {
        Buffers buffers;
        for (const int rank : group) buffers.push_back(&buffer(rank, {Buffer::gradients, b}));
        if (split_.without != "gradients") reduce(buffers, false);
        for (const int rank : group) {
          const std::vector<int> sharing = zero_group(plan_, rank, experts);
          const auto index = std::find(sharing.begin(), sharing.end(), rank) - sharing.begin();
          if (split_.zero >= ZeroStage::gradients)
            keep_block(buffer(rank, {Buffer::gradients, b}), static_cast<std::size_t>(index), sharing.size());
          call(rank, TrainingCall::keep_gradients, number);
        }
      }
    }
  }
}

NumericStep& Lockstep::run() {
  const bool everywhere = split_.zero != ZeroStage::parameters || plan_.mesh.replicas(0).size() == 1;
  for (int step = 0; step < split_.steps; ++step) {
    for (int m = 0; m < split_.micro_batches; ++m) {
      if (!everywhere) gather_parameters();
      forward(m);
      if (!everywhere) drop_parameters();
    }
    for (int m = 0; m < split_.micro_batches; ++m) {
      if (!everywhere) gather_parameters();
      backward(m, split_.split_backward ? TrainingCall::backward_input : TrainingCall::backward);
      if (split_.split_backward) backward(m, TrainingCall::backward_weights);
      if (everywhere && m + 1 < split_.micro_batches) continue;
      sum_partial_and_tied();
      reduce_gradients();
      if (!everywhere) drop_parameters();
    }
    for (int rank = 0; rank < plan_.mesh.ranks(); ++rank) call(rank, TrainingCall::update, 0);
    if (split_.zero != ZeroStage::none && everywhere) gather_parameters();
  }
  return *numbers_;
}

}  // namespace trainyard
