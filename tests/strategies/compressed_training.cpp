#include "compressed_training.hpp"

#include <cmath>

#include "sim/hashing.hpp"
#include "sim/observers/traffic.hpp"
#include "strategies/plan/gradient_shape.hpp"
#include "strategies/step/training_programs.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/places.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard::test {
namespace {

double random_number(std::uint64_t seed, std::uint64_t number) {
  return static_cast<double>(hash_numbers({seed, number}) >> 11) * 0x1.0p-52 - 1;
}

Eigen::MatrixXd random_matrix(Eigen::Index rows, Eigen::Index columns, std::uint64_t seed) {
  return Eigen::MatrixXd::NullaryExpr(rows, columns, [=](Eigen::Index r, Eigen::Index c) {
    return random_number(seed, static_cast<std::uint64_t>(c * rows + r));
  });
}

struct PlannedTraining {
  TrainingTask task;
  TrainingPlan plan;
};

PlannedTraining plan_training(const CompressedTraining& t) {
  PlannedTraining setup{t.task(), {}};
  const Network network =
      mlp_network(std::get<MlpShape>(setup.task.model), setup.task.micro_batch_size, Precision::fp32);
  TrainingPlan& plan = setup.plan = replica_plan(std::make_shared<const Network>(network), t.ranks);
  plan.steps = t.steps;
  plan.values = true;
  StagePlan& stage = plan.stages.front();
  stage.buckets = gradient_buckets(network, plan.gradient_element, t.bucket, t.bucket, true);
  stage.optimizer.precision = static_cast<std::uint8_t>(Precision::fp32);
  LaneChoice gradients, others;
  for (const Operation o : {Operation::all_gather, Operation::all_to_all}) gradients[o] = &default_collective(o);
  gradients[Operation::all_reduce] = &collectives(Operation::all_reduce).find(t.all_reduce, nowhere());
  if (!t.compression.empty()) plan.compression = compressor_of(t.compression);
  make_lanes(plan, std::vector<int>(static_cast<std::size_t>(t.ranks), 0), gradients, others, nowhere());
  return setup;
}

std::vector<double> numbers_of(const Eigen::VectorXd& v) { return {v.data(), v.data() + v.size()}; }

/// Replays the exchange of one bucket with its codecs.
class Exchange {
 public:
  Exchange(const PlannedTraining& setup, std::size_t bucket, int ranks)
      : compressor_(setup.plan.compression.get()),
        shape_(gradient_shape(setup.plan, setup.plan.stages.front().buckets[bucket])) {
    for (int rank = 0; rank < ranks && compressor_; ++rank)
      codecs_.push_back(compressor_->codec(shape_, rank, hash_numbers({setup.task.seed, bucket})));
  }
  Eigen::VectorXd sum(const std::vector<Eigen::VectorXd>& rank_gradients) {
    if (!compressor_) {
      Eigen::VectorXd total = rank_gradients.front();
      for (std::size_t rank = 1; rank < rank_gradients.size(); ++rank) total += rank_gradients[rank];
      return total;
    }
    std::vector<std::vector<double>> gradients;
    for (const Eigen::VectorXd& gradient : rank_gradients) gradients.push_back(numbers_of(gradient));
    const std::vector<double> all = compressed_sum(*compressor_, shape_, codecs_, gradients);
    return Eigen::Map<const Eigen::VectorXd>(all.data(), static_cast<Eigen::Index>(all.size()));
  }

 private:
  const Compressor* compressor_;
  GradientShape shape_;
  std::vector<std::unique_ptr<GradientCodec>> codecs_;
};

}  // namespace

std::shared_ptr<const Compressor> compressor_of(const std::string& yaml) {
  return read_compressor(parse_document(yaml, "compression"));
}

std::vector<double> random_gradients(std::size_t count, std::uint64_t seed) {
  std::vector<double> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = std::pow(random_number(seed, i), 3);
  return all;
}

TrainingTask CompressedTraining::task() const {
  TrainingTask task;
  task.model = MlpShape{widths};
  task.seed = seed;
  task.micro_batch_size = samples / ranks;
  task.rule.learning_rate = learning_rate;
  task.rule.momentum = momentum;
  const Eigen::MatrixXd inputs = random_matrix(widths.front(), samples, seed + 100);
  const Eigen::MatrixXd teacher = random_matrix(widths.back(), widths.front(), seed + 200);
  const Eigen::MatrixXd targets = (teacher * inputs).array().tanh();
  task.samples = std::make_shared<const SampleSet>(SampleSet{inputs, targets});
  return task;
}

Replayed replay(const CompressedTraining& t) {
  const PlannedTraining setup = plan_training(t);
  PlainNetwork network(setup.task);
  const std::vector<GradientBucket>& buckets = setup.plan.stages.front().buckets;
  std::vector<Exchange> exchanges;
  for (std::size_t b = 0; b < buckets.size(); ++b) exchanges.emplace_back(setup, b, t.ranks);
  Replayed out;
  out.parameters = network.initial();
  Eigen::VectorXd velocity = Eigen::VectorXd::Zero(out.parameters.size());
  const auto measure = [&] {
    double loss = 0;
    for (int rank = 0; rank < t.ranks; ++rank)
      loss += network.loss(out.parameters, Eigen::Index{rank} * setup.task.micro_batch_size, t.samples);
    out.losses.push_back(loss);
  };
  for (int step = 0; step < t.steps; ++step) {
    if (step % 16 == 0) measure();
    std::vector<Eigen::VectorXd> gradients;
    for (int rank = 0; rank < t.ranks; ++rank)
      gradients.push_back(
          network.gradient(out.parameters, Eigen::Index{rank} * setup.task.micro_batch_size, t.samples));
    Eigen::VectorXd gradient_sum(out.parameters.size());
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::vector<Eigen::VectorXd> parts;
      for (const Eigen::VectorXd& gradient : gradients) parts.push_back(network.of_bucket(buckets[b], gradient));
      network.put(buckets[b], exchanges[b].sum(parts), gradient_sum);
    }
    velocity = setup.task.rule.momentum * velocity + gradient_sum;
    out.parameters -= setup.task.rule.learning_rate * velocity;
  }
  measure();
  return out;
}

Simulated simulated(const CompressedTraining& t) {
  const PlannedTraining setup = plan_training(t);
  ClusterMachine machine(star_cluster(t.ranks, BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
  Names names;
  const PassTables tables(setup.plan, names);
  const TrainingStreams streams(setup.plan);
  Values values;
  Traffic traffic(machine.links());
  TrainingValues training(setup.task, setup.plan, values);
  Simulation simulation(machine);
  for (int rank = 0; rank < t.ranks; ++rank) simulation.add(rank, training_program(rank, setup.plan, tables, streams));
  simulation.observe(values);
  simulation.observe(traffic);
  const double end = simulation.run().end.value;
  const Eigen::VectorXd expected = replay(t).parameters;
  double difference = 0;
  for (int rank = 0; rank < t.ranks; ++rank)
    difference = std::max(difference, largest_difference(training.parameters(rank).all_parameters(), expected));
  return {difference, static_cast<int>(values.hazards().size()), end, traffic.total().value};
}

}  // namespace trainyard::test
