// Networks of layers/ that predict classes, or the next word.
// Functions of a few parameters, whose minima and gradient noise are known exactly.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "sim/error.hpp"
#include "sim/index.hpp"
#include "strategies/values/learning/draws.hpp"
#include "strategies/values/learning/tasks.hpp"
#include "strategies/values/learning/whole_network.hpp"

namespace trainyard {
namespace {

using Index = Eigen::Index;
constexpr Index kScoredTogether = 512;  // samples

/// Copies samples into the input format of the network.
std::shared_ptr<const SampleSet> columns(const LabelledSamples& from, std::span<const Index> which) {
  SampleSet set{Eigen::MatrixXd(from.inputs.rows(), std::ssize(which)),
                Eigen::MatrixXd::Zero(from.classes, std::ssize(which))};
  for (Index i = 0; i < std::ssize(which); ++i) {
    const Index sample = which[i];
    set.inputs.col(i) = from.inputs.col(sample);
    set.targets(from.labels[sample], i) = 1;
  }
  return std::make_shared<const SampleSet>(std::move(set));
}

/// Calls visit(indices) for groups of consecutive samples until all `count` samples are visited.
template <class Visit>
void visit_groups(Index count, Visit visit) {
  for (Index from = 0; from < count; from += kScoredTogether)
    visit(consecutive_numbers(from, std::min(kScoredTogether, count - from)));
}

Index largest(const Eigen::MatrixXd& values, Index column) {
  Index row = 0;
  values.col(column).maxCoeff(&row);
  return row;
}

/// A task whose parameters are those of a whole network.
class NetworkTask : public LearningTask {
 public:
  NetworkTask(std::variant<MlpShape, TransformerConfig> model, int seq_length, std::uint64_t seed)
      : network_(std::move(model), seq_length, seed) {}

  Index size() const override { return network_.size(); }
  std::vector<Tensor> tensors() const override { return network_.tensors(); }
  Vector initial() const override { return network_.initial(); }

 protected:
  const numeric::WholeNetwork network_;
};

class Classifier : public NetworkTask {
 public:
  Classifier(SplitSamples samples, const std::vector<int>& widths, std::uint64_t seed)
      : NetworkTask(MlpShape{widths, MlpLoss::softmax_cross_entropy}, 1, seed),
        samples_(std::move(samples)),
        widths_(widths) {}

  Index samples() const override { return samples_.training.count(); }
  double add_gradient(const Vector& parameters, std::span<const Index> which, double scale,
                      Vector& sum) const override {
    return network_.add_gradient(parameters, {columns(samples_.training, which), nullptr, std::ssize(which)}, scale,
                                 sum);
  }
  TaskScore score(const Vector& parameters) const override {
    const LabelledSamples& s = samples_.validation;
    double loss = 0, right = 0;
    visit_groups(s.count(), [&](const std::vector<Index>& which) {
      const auto out = network_.output(parameters, {columns(s, which), nullptr, std::ssize(which)});
      loss += out.loss;
      for (std::size_t i = 0; i < which.size(); ++i)
        right += largest(out.values, static_cast<Index>(i)) == s.labels[which[i]] ? 1 : 0;
    });
    return {loss / static_cast<double>(s.count()), right / static_cast<double>(s.count())};
  }
  std::string in_words() const override {
    return fmt::format("{} {} ({} parameters) on {} samples", widths_.size() == 2 ? "softmax regression" : "MLP",
                       fmt::join(widths_, "-"), with_commas(static_cast<double>(size())),
                       with_commas(static_cast<double>(samples())));
  }

 private:
  SplitSamples samples_;
  std::vector<int> widths_;
};

TransformerConfig config_of(const SmallTransformer& shape) {
  TransformerConfig c;
  c.name = "small transformer";
  c.model_type = "gpt2";
  c.num_hidden_layers = shape.layers;
  c.hidden_size = shape.hidden_size;
  c.num_attention_heads = c.num_key_value_heads = shape.heads;
  c.head_dim = shape.hidden_size / shape.heads;
  c.intermediate_size = 4 * c.hidden_size;
  c.vocab_size = shape.vocabulary;
  c.max_position_embeddings = shape.seq_length;
  c.activation = "gelu_new";
  c.fused_qkv = c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  return c;
}

class NextWord : public NetworkTask {
 public:
  NextWord(const SmallTransformer& shape, Sentences sentences, double validation, std::uint64_t seed)
      : NetworkTask(config_of(shape), shape.seq_length, seed),
        shape_(shape),
        all_(std::move(sentences)),
        validation_count_(std::max<Index>(1, static_cast<Index>(validation * static_cast<double>(all_.cols())))) {}

  Index samples() const override { return all_.cols() - validation_count_; }
  double add_gradient(const Vector& parameters, std::span<const Index> which, double scale,
                      Vector& sum) const override {
    return network_.add_gradient(parameters, select(which, 0), scale / shape_.seq_length, sum) / shape_.seq_length;
  }
  TaskScore score(const Vector& parameters) const override {
    double loss = 0, right = 0;
    visit_groups(validation_count_, [&](const std::vector<Index>& which) {
      const auto selected = select(which, samples());
      const auto out = network_.output(parameters, selected);
      loss += out.loss;
      for (Index i = 0; i < out.values.cols(); ++i) {
        const Index sample = i / shape_.seq_length, position = i % shape_.seq_length;
        right += largest(out.values, i) == (*selected.of_transformer)(position + 1, sample) ? 1 : 0;
      }
    });
    const auto tokens = static_cast<double>(validation_count_ * shape_.seq_length);
    return {loss / tokens, right / tokens};
  }
  std::string in_words() const override {
    return fmt::format("transformer of {} layers of {} ({} parameters) on {} sentences of {} words", shape_.layers,
                       shape_.hidden_size, with_commas(static_cast<double>(size())),
                       with_commas(static_cast<double>(samples())), shape_.seq_length);
  }

 private:
  SmallTransformer shape_;
  Sentences all_;
  Index validation_count_;

  numeric::WholeNetwork::Samples select(std::span<const Index> which, Index first) const {
    Sentences some(all_.rows(), std::ssize(which));
    for (Index i = 0; i < some.cols(); ++i) some.col(i) = all_.col(first + which[i]);
    return {nullptr, std::make_shared<const Sentences>(std::move(some)), std::ssize(which)};
  }
};

/// Splits the samples. Features of CSV files are standardized, because they can have any size.
SplitSamples split_samples(const TaskChoice& choice) {
  SplitSamples all = split(choice.has_files() ? read_samples(choice) : clusters(choice.data), choice.validation);
  if (choice.csv.empty()) return all;
  const Eigen::MatrixXd& in = all.training.inputs;
  const Eigen::VectorXd mean = in.rowwise().mean();
  const Eigen::VectorXd deviation = (in.colwise() - mean).rowwise().norm() / std::sqrt(static_cast<double>(in.cols()));
  for (LabelledSamples* part : {&all.training, &all.validation}) standardize(*part, mean, deviation);
  return all;
}

std::shared_ptr<const LearningTask> make_classifier(const TaskChoice& choice) {
  return classifier(split_samples(choice), choice.layers, choice.seed);
}

void read_transformer_task(Fields& learn, TaskChoice& choice) {
  SmallTransformer& t = choice.transformer;
  learn.read("layers", t.layers, 1, 8);
  learn.read({"hidden_size", "Width of the layers of the transformer, for example 32."}, t.hidden_size, 4, 512);
  learn.read({"heads", "Number of attention heads of the transformer, a divisor of hidden_size, for example 2."},
             t.heads, 1, 16);
  if (t.hidden_size % t.heads != 0)
    learn.refuse("heads", fmt::format("{} do not divide hidden_size {}", t.heads, t.hidden_size));
  const Node nothing = Node::empty_map(learn.place());
  const Node* node = learn.child("data");
  Fields data(node ? *node : nothing, "learn.data");
  data.read({"vocabulary", "Number of different tokens in the generated sentences, for example 16."}, t.vocabulary, 2,
            1024);
  data.read({"seq_length", "Length of a generated sentence in tokens, for example 16."}, t.seq_length, 2, 256);
  choice.states =
      data.integer_within<int>({"states", "Number of states of the automaton that makes the sentences, for example 4."},
                               2, 1 << 12, choice.states);
  choice.data.samples = data.integer_within<std::int64_t>("samples", 2, 1 << 18, choice.data.samples);
  choice.data.seed = data.integer<std::uint64_t>("seed", 0, 1);
  data.read("validation", choice.validation, 1e-6, 0.9);
  data.finish();
}

std::shared_ptr<const LearningTask> make_transformer(const TaskChoice& choice) {
  const SmallTransformer& t = choice.transformer;
  return small_transformer(
      t, sentences(t.vocabulary, choice.states, t.seq_length + 1, choice.data.samples, choice.data.seed),
      choice.validation, choice.seed);
}

constexpr int kMostWidth = 1 << 14, kMostHidden = 16;

void read_mlp(Fields& learn, TaskChoice& choice) {
  choice.layers = read_widths(learn,
                              {"layers",
                               "Hidden layers: for mlp a list of their widths, for example [64, 64]; for transformer "
                               "their number, for example 2. Default: [64] and 2."},
                              kMostWidth, {64});
  if (choice.layers.size() > kMostHidden) learn.refuse("layers", fmt::format("at most {}", kMostHidden));
  read_class_data(learn, choice, false);
}

const Registration register_softmax{
    learning_tasks(), "softmax",
    TaskKind{"softmax regression on classes",
             [](Fields& learn, TaskChoice& choice) { read_class_data(learn, choice, false); }, make_classifier}};
const Registration register_mlp{
    learning_tasks(), "mlp",
    TaskKind{"a fully connected network with tanh that predicts classes", read_mlp, make_classifier}};
const Registration register_transformer{
    learning_tasks(), "transformer",
    TaskKind{"a small GPT-2 on sentences that an automaton makes", read_transformer_task, make_transformer}};

using Vector = Eigen::VectorXd;

Vector draw_vector(std::uint64_t seed, Index sample, Index size, double deviation) {
  Vector values = Vector::Zero(size);
  if (deviation == 0) return values;
  Draws draws(hash_numbers({seed, static_cast<std::uint64_t>(sample)}));
  for (double& value : values) value = deviation * draws.normal();
  return values;
}

class Quadratic : public LearningTask {
 public:
  Quadratic(const std::vector<double>& curvatures, double noise, std::uint64_t seed)
      : curvatures_(Eigen::Map<const Vector>(curvatures.data(), std::ssize(curvatures))), noise_(noise), seed_(seed) {}

  Index size() const override { return curvatures_.size(); }
  Vector initial() const override { return Vector::Ones(size()); }
  Index samples() const override { return 0; }
  double add_gradient(const Vector& w, std::span<const Index> which, double scale, Vector& sum) const override {
    double loss = 0;
    for (const Index sample : which) {
      const Vector off = w - draw_vector(seed_, sample, size(), noise_);
      const Vector gradient = curvatures_.cwiseProduct(off);
      loss += off.dot(gradient) / 2;
      sum += scale * gradient;
    }
    return loss;
  }
  TaskScore score(const Vector& w) const override { return {curvatures_.dot(w.cwiseAbs2()) / 2}; }
  bool shows_position() const override { return true; }
  std::string in_words() const override { return fmt::format("quadratic function of {} parameters", size()); }

 private:
  Vector curvatures_;
  double noise_;
  std::uint64_t seed_;
};

class DoubleWell : public LearningTask {
 public:
  DoubleWell(int dimensions, double noise, std::uint64_t seed) : size_(dimensions), noise_(noise), seed_(seed) {}

  Index size() const override { return size_; }
  Vector initial() const override { return Vector::Zero(size_); }
  Index samples() const override { return 0; }
  double add_gradient(const Vector& w, std::span<const Index> which, double scale, Vector& sum) const override {
    const Eigen::ArrayXd above = w.array().square() - 1;
    double loss = 0;
    for (const Index sample : which) {
      const Vector tilt = draw_vector(seed_, sample, size_, noise_);
      loss += above.square().sum() - tilt.dot(w);
      sum += scale * Vector(4 * w.array() * above - tilt.array());
    }
    return loss;
  }
  TaskScore score(const Vector& w) const override { return {(w.array().square() - 1).square().sum()}; }
  bool shows_position() const override { return true; }
  std::string in_words() const override { return fmt::format("double well of {} parameters", size_); }

 private:
  Index size_;
  double noise_;
  std::uint64_t seed_;
};

constexpr int kMostDimensions = 1 << 20;
constexpr double kWellNoise = 1;  // a sample then tilts the hill enough to push a worker off its top

std::vector<double> read_numbers(Fields& learn, const Key& key, std::vector<double> fallback) {
  const std::vector<Node>* list = learn.list(key);
  if (!list) return fallback;
  std::vector<double> numbers;
  for (const Node& item : *list) {
    try {
      numbers.push_back(parse_number(item.scalar));
    } catch (const UserError&) {
      fail(item.place, fmt::format("learn.{}: \"{}\"; expected a number", key.name, item.scalar));
    }
  }
  return numbers;
}

void read_start(Fields& learn, TaskChoice& choice, double noise) {
  choice.noise = learn.number(
      {"noise",
       "Standard deviation of the samples around their mean, for example 0.5. Default: 0, and 1 for the double well."},
      0, 1e9, noise);
  choice.start = read_numbers(
      learn,
      {"start",
       "Initial value of every parameter, one for each worker, for example [1, -1]. Default: that of the task."},
      {});
}

void read_quadratic(Fields& learn, TaskChoice& choice) {
  read_start(learn, choice, 0);
  choice.curvatures = read_numbers(
      learn,
      {"curvatures",
       "Second derivative in each dimension of the quadratic function, for example [1, 10]. Default: [1]."},
      {1});
}

void read_double_well(Fields& learn, TaskChoice& choice) {
  read_start(learn, choice, kWellNoise);
  if (choice.noise == 0 && std::ranges::count(choice.start, 0) == std::ssize(choice.start))
    learn.refuse("noise", "0 leaves every worker on top of the hill, where the gradient is 0; give noise or a start");
  choice.dimensions = learn.integer_within<int>(
      {"dimensions", "Number of dimensions of the double well, for example 10."}, 1, kMostDimensions, 1);
}

const Registration register_quadratic{
    learning_tasks(), "quadratic",
    TaskKind{"a quadratic function with noisy samples", read_quadratic,
             [](const TaskChoice& c) { return quadratic(c.curvatures, c.noise, c.seed); }}};
const Registration register_double_well{
    learning_tasks(), "double-well",
    TaskKind{"(w^2 - 1)^2: two minima at -1 and 1 with a hill between them", read_double_well,
             [](const TaskChoice& c) { return double_well(c.dimensions, c.noise, c.seed); }}};

}  // namespace

SplitSamples split(LabelledSamples all, double part) {
  const Index validation = std::clamp<Index>(static_cast<Index>(part * static_cast<double>(all.count())), 1,
                                             std::max<Index>(1, all.count() - 1));
  const Index training = all.count() - validation;
  if (training < 1) throw UserError("one sample is too few: training and validation need one each");
  return {{all.inputs.leftCols(training), all.labels.head(training), all.classes},
          {all.inputs.rightCols(validation), all.labels.tail(validation), all.classes}};
}

std::shared_ptr<const LearningTask> classifier(SplitSamples samples, const std::vector<int>& hidden,
                                               std::uint64_t seed) {
  std::vector<int> widths{static_cast<int>(samples.training.inputs.rows())};
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  widths.push_back(samples.training.classes);
  return std::make_shared<Classifier>(std::move(samples), widths, seed);
}

std::shared_ptr<const LearningTask> small_transformer(const SmallTransformer& shape, Sentences sentences,
                                                      double validation, std::uint64_t seed) {
  return std::make_shared<NextWord>(shape, std::move(sentences), validation, seed);
}

std::shared_ptr<const LearningTask> quadratic(std::vector<double> curvatures, double noise, std::uint64_t seed) {
  return std::make_shared<Quadratic>(curvatures, noise, seed);
}

std::shared_ptr<const LearningTask> double_well(int dimensions, double noise, std::uint64_t seed) {
  return std::make_shared<DoubleWell>(dimensions, noise, seed);
}

}  // namespace trainyard
