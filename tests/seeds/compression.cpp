// TOPK-01 to 03, LOWR-01, Q1-01, Q1-02, TERN-01, DGC-01, DGC-02: what replicas exchange in place of whole gradients.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <set>

#include "sim/executor/simulation.hpp"
#include "sim/observers/values.hpp"
#include "strategies/values/compressed_values.hpp"
#include "strategies/values/layers/training_task.hpp"
#include "tests/places.hpp"
#include "tests/seeds/simple_training.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

using Numbers = std::vector<double>;

/// An exchange of one bucket of all tensors in each step. `compression`: the compressor in YAML; empty: whole
/// gradients.
struct ExchangeCase {
  std::string compression;
  std::vector<ParameterTensor> tensors;
  int ranks = 2;
  int steps = 1;
  std::string all_reduce = "ring";
  BytesPerSecond link{1e9};
  Bytes element{4};
  std::function<Numbers(int rank, int step)> gradients = nullptr;  ///< empty: the exchange has times and bytes alone

  TrainingPlan plan() const {
    Network network;
    network.name = "layer";
    Layer& layer = network.layers.emplace_back();
    layer.parameters = tensors;
    BackwardKernel& kernel = layer.backward.emplace_back();
    kernel.work = milliseconds(1);
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) kernel.gradients_ready.push_back(i);
    TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), ranks);
    plan.gradient_element = element;
    plan.stages.front().buckets = gradient_buckets(network, element, Bytes{1e300}, Bytes{1e300}, true);
    plan.steps = steps;
    plan.values = static_cast<bool>(gradients);
    if (!compression.empty()) plan.compression = read_compressor(parse_document(compression, "compression"));
    LaneChoice lane, others;
    lane[Operation::all_reduce] = &collectives(Operation::all_reduce).find(all_reduce, {});
    for (const Operation o : {Operation::all_gather, Operation::all_to_all}) lane[o] = &default_collective(o);
    make_lanes(plan, std::vector<int>(static_cast<std::size_t>(ranks), 0), lane, others, test::nowhere());
    return plan;
  }
};

/// Records what rank 0 sends, and when its first message begins and its last one ends (s).
class Sends : public Observer {
 public:
  explicit Sends(const Names& names) : names_(names) {}
  Interest interest() const override { return {.transfers = false}; }
  void finished(const OpRun& run) override {
    if (run.op->actor != 0) return;
    if (names_[run.op->name] == "decode: scatter and add") scattered = run.op->work.bytes.value;
    if (run.op->kind != Kind::send) return;
    bytes_of_step.resize(std::max<std::size_t>(bytes_of_step.size(), run.op->work.sample + 1), 0.0);
    bytes_of_step[run.op->work.sample] += run.op->message.bytes.value;
    if (hops.empty()) began = run.posted.value;
    hops.push_back(run.op->message.bytes.value);
    ended = run.ended.value;
  }
  Numbers bytes_of_step, hops;
  double scattered = 0;  // bytes of the kernel that adds up sparse numbers
  double began = 0, ended = 0;

 private:
  const Names& names_;
};

struct SentAndSummed {
  Numbers bytes_of_step, hops;
  double scattered = 0, seconds = 0;
  std::vector<Numbers> sums;  ///< on rank 0, by step
};

SentAndSummed exchange(const ExchangeCase& e) {
  const TrainingPlan plan = e.plan();
  ClusterSpec star = star_cluster(e.ranks, e.link);
  star.node.gpu.memory_bandwidth = BytesPerSecond{1e30};  // kernels take no time
  ClusterMachine machine(star, SoftwareStack{});
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Sends sends(names);
  Values values;
  std::unique_ptr<numeric::CompressedValues> compressed;
  if (plan.compression && plan.values) compressed = std::make_unique<numeric::CompressedValues>(plan, 1, values);
  std::vector<Numbers> sums;
  std::vector<int> steps(static_cast<std::size_t>(e.ranks), 0);
  const std::uint16_t gradients = number_of({TrainingBuffer::Kind::gradients}),
                      input = number_of({TrainingBuffer::Kind::parameters});
  const auto set_call = [&values](TrainingCall call, std::function<void(Actor, const Op&)> function) {
    values.on_call(static_cast<std::uint16_t>(call), std::move(function));
  };
  for (const TrainingCall call : {TrainingCall::forward, TrainingCall::backward, TrainingCall::update})
    set_call(call, [](Actor, const Op&) {});
  set_call(TrainingCall::fill_bucket, [&](Actor rank, const Op&) {
    const Numbers rank_gradients = e.gradients(rank, steps[static_cast<std::size_t>(rank)]++);
    values.buffer(rank, gradients) =
        Eigen::Map<const Eigen::VectorXd>(rank_gradients.data(), static_cast<Eigen::Index>(rank_gradients.size()));
  });
  set_call(TrainingCall::encode, [&](Actor rank, const Op& op) {
    const int round = arguments_of(op.effect).exchange;
    compressed->encode(rank, 0, round, values.buffer(rank, gradients), values.buffer(rank, input));
  });
  set_call(TrainingCall::decode,
           [&](Actor rank, const Op&) { compressed->decode(rank, 0, values.buffer(rank, gradients)); });
  set_call(TrainingCall::keep_gradients, [&](Actor rank, const Op&) {
    const Eigen::VectorXd& sum = values.buffer(rank, gradients);
    if (rank == 0) sums.emplace_back(sum.data(), sum.data() + sum.size());
  });
  Simulation simulation(machine);
  for (int rank = 0; rank < e.ranks; ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  simulation.observe(sends);
  if (plan.values) simulation.observe(values);
  simulation.run();
  return {sends.bytes_of_step, sends.hops, sends.scattered, sends.ended - sends.began, std::move(sums)};
}

/// Returns the gradients of rank 0 by step. All other ranks have zeros.
std::function<Numbers(int, int)> gradients_of_rank_0(std::vector<Numbers> by_step) {
  return [by_step = std::move(by_step)](int rank, int step) {
    const Numbers& step_gradients = by_step[static_cast<std::size_t>(step) % by_step.size()];
    return rank == 0 ? step_gradients : Numbers(step_gradients.size(), 0.0);
  };
}

ParameterTensor vector_of(double elements) { return {"vector", elements}; }
ParameterTensor matrix_of(double rows, double columns) {
  ParameterTensor matrix{"matrix", rows * columns};
  matrix.in = columns;
  matrix.out = rows;
  return matrix;
}

std::vector<Numbers> rows_of(const Node& inputs, const char* key) {
  std::vector<Numbers> rows;
  for (const Node& row : inputs.find(key)->items) {
    Numbers& numbers = rows.emplace_back();
    for (const Node& item : row.items) numbers.push_back(parse_number(item.scalar));
  }
  return rows;
}

std::string numbers_in_words(const Numbers& numbers) { return fmt::format("{}", fmt::join(numbers, " ")); }

SeedFigures topk_01(const Node& inputs) {
  const std::vector<Numbers> gradients = rows_of(inputs, "gradients");
  const double n = static_cast<double>(gradients.front().size());
  ExchangeCase e{fmt::format("{{name: top-k, density: {}}}", number_of(inputs, "k") / n), {vector_of(n)}};
  e.steps = static_cast<int>(gradients.size());
  e.gradients = gradients_of_rank_0(gradients);
  const SentAndSummed got = exchange(e);
  SeedFigures figures;
  Numbers residual(gradients.front().size(), 0.0);
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    std::string sent;
    for (std::size_t i = 0; i < residual.size(); ++i) {
      residual[i] += gradients[step][i] - got.sums[step][i];
      if (got.sums[step][i] != 0) sent += fmt::format("{}{}: {}", sent.empty() ? "" : ", ", i, got.sums[step][i]);
    }
    figures[fmt::format("sent step {}", step + 1)] = sent;
    figures[fmt::format("residual_after step {}", step + 1)] = numbers_in_words(residual);
  }
  return figures;
}

SeedFigures topk_02(const Node& inputs) {
  const double density = number_of(inputs, "density"), elements = 1e6, value = 4, place = 4;
  SeedFigures figures;
  for (const double ranks : numbers_of(inputs, "workers")) {
    ExchangeCase e{fmt::format("{{name: top-k, density: {}, exchange: ring}}", density), {vector_of(elements)}};
    e.ranks = std::max(2, static_cast<int>(ranks));
    e.all_reduce = "sparse-ring";
    const SentAndSummed got = exchange(e);
    // The first message has the numbers of one rank, and the last kernel adds the numbers of all. The last message does
    // not show them: a sum that is too dense for places is sent whole.
    const double one = got.hops.front() * e.ranks / elements / (value + place);
    const double all = (got.scattered - elements * value) / elements / (value + place + 2 * value);
    const double last = got.hops.back() * e.ranks / elements / (value + place);
    if (ranks > 1 && std::abs(last - std::min(all, value / (value + place))) > 1e-9)
      throw InternalError("the last message is not as dense as the sum");
    figures[fmt::format("union_density {}", ranks)] = ranks > 1 ? all : one;
  }
  return figures;
}

SeedFigures topk_03(const Node& inputs) {
  ExchangeCase e{"", {vector_of(number_of(inputs, "elements"))}};
  e.element = Bytes{number_of(inputs, "value_bytes")};
  const double dense = exchange(e).bytes_of_step.front();
  e.compression = fmt::format("{{name: top-k, density: {}}}", number_of(inputs, "density"));
  const double sparse = exchange(e).bytes_of_step.front();
  return {{"dense_MB", dense * 1e-6}, {"sparse_MB", sparse * 1e-6}, {"ratio", dense / sparse}};
}

SeedFigures lowr_01(const Node& inputs) {
  ExchangeCase e{"", {matrix_of(number_of(inputs, "m"), number_of(inputs, "n"))}};
  e.element = Bytes{number_of(inputs, "bytes")};
  const double dense = exchange(e).bytes_of_step.front();
  e.compression = fmt::format("{{name: powersgd, rank: {}}}", number_of(inputs, "rank"));
  const double low = exchange(e).bytes_of_step.front();
  return {{"dense_bytes", dense}, {"lowrank_bytes", low}, {"ratio", dense / low}};
}

SeedFigures q1_01(const Node& inputs) {
  // The bits of so many copies of the matrix fill whole words, without padding.
  constexpr std::size_t copies = 8;
  const std::vector<Numbers> matrix = rows_of(inputs, "matrix");
  const std::size_t rows = matrix.size(), columns = matrix.front().size();
  Numbers gradients;
  for (std::size_t copy = 0; copy < copies; ++copy)
    for (std::size_t c = 0; c < columns; ++c)
      for (std::size_t r = 0; r < rows; ++r) gradients.push_back(matrix[r][c]);
  ExchangeCase e{"1-bit", {}};
  e.tensors.assign(copies, matrix_of(static_cast<double>(rows), static_cast<double>(columns)));
  e.gradients = gradients_of_rank_0({gradients});
  const SentAndSummed got = exchange(e);
  const Numbers& sent = got.sums.front();
  Numbers scales;
  std::vector<std::string> sent_rows, error_rows;
  for (std::size_t c = 0; c < columns; ++c) scales.push_back(std::abs(sent[c * rows]));
  for (std::size_t r = 0; r < rows; ++r) {
    Numbers sent_row, error;
    for (std::size_t c = 0; c < columns; ++c) {
      sent_row.push_back(sent[c * rows + r]);
      error.push_back(matrix[r][c] - sent_row.back());
    }
    sent_rows.push_back(numbers_in_words(sent_row));
    error_rows.push_back(numbers_in_words(error));
  }
  return {{"u", numbers_in_words(scales)},
          {"sent", fmt::format("{}", fmt::join(sent_rows, " | "))},
          {"error", fmt::format("{}", fmt::join(error_rows, " | "))},
          {"bits", got.bytes_of_step.front() * 8 / copies}};
}

SeedFigures q1_02(const Node& inputs) {
  const double elements = number_of(inputs, "elements"), scale = 4;
  const auto bytes = [&](const std::string& compression) {
    return exchange({compression, {vector_of(elements)}}).bytes_of_step.front();
  };
  // These gradients of many sizes show all levels of the draws.
  ExchangeCase ternary{"terngrad", {vector_of(16)}};
  ternary.gradients =
      gradients_of_rank_0({{0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8, 0.9, -1, 0, 1, 0.5, -0.5, 0.25, -0.25}});
  const Numbers drawn = exchange(ternary).sums.front();
  const std::set<double> levels(drawn.begin(), drawn.end());
  const Node size = *inputs.find("size"), link = *inputs.find("link");
  ExchangeCase ring{"", {vector_of(parse_bytes(size.scalar).value / 4)}};
  ring.ranks = static_cast<int>(number_of(inputs, "gpus"));
  ring.link = parse_bandwidth(link.scalar);
  const double dense_seconds = exchange(ring).seconds;
  // Signs cannot be summed on the way. Ranks exchange stripes of signs, and quantize the sums again.
  ring.compression = "{name: 1-bit, exchange: stripes}";
  const double dense = bytes("");
  return {{"onebit_ratio", dense / bytes("sign")},
          {"ternary_2bit_ratio", dense / (bytes("terngrad") - scale)},
          {"ternary_entropy_ratio", 32 / std::log2(static_cast<double>(levels.size()))},
          {"ring_ms", dense_seconds * 1e3},
          {"onebit_ms", exchange(ring).seconds * 1e3}};
}

SeedFigures tern_01(const Node& inputs) {
  const Numbers g = numbers_of(inputs, "g");
  const int samples = static_cast<int>(number_of(inputs, "samples")), copies = 1000;
  ExchangeCase e{"terngrad", {}};
  e.tensors.assign(copies, vector_of(static_cast<double>(g.size())));
  e.steps = samples / copies;
  Numbers all;
  for (int copy = 0; copy < copies; ++copy) all.insert(all.end(), g.begin(), g.end());
  e.gradients = gradients_of_rank_0({all});
  Numbers sum(g.size(), 0.0), nonzero = sum;
  double largest = 0;
  for (const Numbers& drawn : exchange(e).sums)
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      sum[i % g.size()] += drawn[i] / samples;
      nonzero[i % g.size()] += (drawn[i] != 0 ? 1.0 : 0.0) / samples;
      largest = std::max(largest, std::abs(drawn[i]));
    }
  SeedFigures figures{{"s", largest}};
  for (std::size_t i = 0; i < g.size(); ++i) {
    figures[fmt::format("P_nonzero {}", i)] = nonzero[i];
    figures[fmt::format("E {}", i)] = sum[i];
  }
  return figures;
}

SeedFigures dgc_01(const Node& inputs) {
  // One gradient is sent per step. The first one waits until the last step, because another one is larger before it.
  const Numbers g = numbers_of(inputs, "g");
  const std::size_t period = static_cast<std::size_t>(number_of(inputs, "send_every"));
  constexpr double large = 100;
  std::vector<Numbers> gradients;
  for (std::size_t step = 0; step < g.size(); ++step) {
    Numbers& step_gradients = gradients.emplace_back(period, 0.0);
    step_gradients[0] = g[step];
    if (step + 1 < period) step_gradients[step + 1] = large;
  }
  const double momentum = number_of(inputs, "momentum");
  const auto sums = [&](const std::string& compression) {
    ExchangeCase e{compression, {vector_of(static_cast<double>(period))}};
    e.steps = static_cast<int>(gradients.size());
    e.element = Bytes{8};
    e.gradients = gradients_of_rank_0(gradients);
    return exchange(e).sums;
  };
  const auto change = [&](const std::vector<Numbers>& all, double own_momentum) {
    UpdateRule rule;
    rule.learning_rate = number_of(inputs, "lr");
    rule.momentum = own_momentum;
    OptimizerState state;
    Eigen::VectorXd weight = Eigen::VectorXd::Zero(1);
    for (const Numbers& sum : all) state.update(rule, weight, Eigen::VectorXd::Constant(1, sum[0]));
    return -weight(0);
  };
  const std::string density = fmt::format("density: {}", 1.0 / static_cast<double>(period));
  const std::vector<Numbers> velocity =
      sums(fmt::format("{{name: dgc, {}, sample: 0, momentum: {}}}", density, momentum));
  if (change({velocity.begin(), velocity.end() - 1}, 0) != 0)
    throw InternalError("the first gradient was sent too early");
  return {{"dense_momentum_weight_change", change(sums(""), momentum)},
          {"velocity_accumulation_sent", change(velocity, 0)},
          {"gradient_accumulation_then_momentum", change(sums(fmt::format("{{name: top-k, {}}}", density)), momentum)}};
}

SeedFigures dgc_02(const Node& inputs) {
  constexpr double elements = 1e6, value_and_place = 8;
  const Numbers sparsities = numbers_of(inputs, "sparsity_epochs");
  ExchangeCase e{fmt::format("{{name: dgc, density: {}, warmup_steps: 1}}", 1 - sparsities.back()),
                 {vector_of(elements)}};
  e.steps = static_cast<int>(sparsities.size());
  const Numbers bytes = exchange(e).bytes_of_step;
  SeedFigures figures;
  for (std::size_t epoch = 0; epoch < bytes.size(); ++epoch)
    figures[fmt::format("density {}", epoch + 1)] = bytes[epoch] / elements / value_and_place;
  figures["first_over_last_bytes"] = bytes.front() / bytes.back();
  figures["monotone"] = std::is_sorted(bytes.rbegin(), bytes.rend());
  return figures;
}

const RegisterSeed compression_seeds[] = {{"TOPK-01", topk_01}, {"TOPK-02", topk_02}, {"TOPK-03", topk_03},
                                          {"LOWR-01", lowr_01}, {"Q1-01", q1_01},     {"Q1-02", q1_02},
                                          {"TERN-01", tern_01}, {"DGC-01", dgc_01},   {"DGC-02", dgc_02}};

}  // namespace
}  // namespace trainyard
