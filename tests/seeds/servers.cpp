// PSM-01, PSM-02, KV-01, ASYNC-01/04, STALE-01, SSP-01, PSNAME-01, W8-01: parameter servers and their workers.
#include <fmt/format.h>

#include <algorithm>

#include "models/networks/mlp/mlp.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/learn_run.hpp"
#include "sim/observers/values.hpp"
#include "strategies/mechanisms/servers/server_values.hpp"
#include "tests/seeds/transfers.hpp"

namespace trainyard {
namespace {

SeedFigures psm_01(const Node& inputs) {
  ServerCell cell;
  cell.gradient = Bytes{number_of(inputs, "S_MB") * 1e6};
  cell.link = BytesPerSecond{number_of(inputs, "server_GBps") * 1e9};
  cell.pulls = false;
  SeedFigures got;
  for (const double workers : numbers_of(inputs, "workers")) {
    cell.workers = static_cast<int>(workers);
    got[fmt::format("push_ms {}", workers)] = server_cell_ms(cell);
  }
  return got;
}

SeedFigures psm_02(const Node& inputs) {
  SeedFigures got;
  bool even = true;
  for (const std::string& word : words_of(inputs, "mn")) {
    const ServerLabel label = parse_server_label(word, inputs.place);
    ServerCell cell;
    cell.workers = label.workers;
    cell.servers = cell.keys = label.servers;
    cell.gradient = Bytes{number_of(inputs, "S_MB") * 1e6};
    cell.link = BytesPerSecond{number_of(inputs, "server_GBps") * 1e9};
    cell.pulls = false;
    got["push_ms " + word] = server_cell_ms(cell);
    const ServerCellRun run(cell);
    std::vector<double> shares(static_cast<std::size_t>(cell.servers));
    for (std::size_t k = 0; k < run.plan().keys(); ++k)
      shares[static_cast<std::size_t>(run.plan().server_of[k])] += run.plan().share_of(k);
    even &= std::all_of(shares.begin(), shares.end(), [&](double h) { return std::abs(h * cell.servers - 1) < 1e-12; });
  }
  got["an_even_part_per_server"] = even;
  return got;
}

/// Checks that pulls return the sums of all pushes, in whatever order the pushes come.
SeedFigures kv_01(const Node& inputs) {
  const int machines = static_cast<int>(number_of(inputs, "workers")),
            gpus = static_cast<int>(number_of(inputs, "gpus"));
  SeedFigures got;
  bool same = true;
  for (const std::vector<double>& slower :
       {std::vector<double>{}, {6, 5, 4, 3, 2, 1}, {2, 6, 1, 5, 3, 4}, {1, 1, 9, 1, 1, 2}}) {
    ServerCell cell;
    cell.workers = machines * gpus;
    cell.keys = static_cast<int>(number_of(inputs, "keys"));
    cell.gradient = Bytes{4.0 * cell.keys};
    cell.compute = Seconds{1e-3};
    cell.slower = slower;
    cell.values = true;
    ServerCellRun run(cell);
    Values values;
    const auto set_call = [&values](auto call, auto function) {
      values.on_call(static_cast<std::uint16_t>(call), function);
    };
    const auto ignore = [](Actor, const Op&) {};
    set_call(TrainingCall::forward, ignore);
    set_call(TrainingCall::backward, ignore);
    set_call(TrainingCall::take_parameters, ignore);
    // Keys are numbered from the last layer on.
    const auto layer_of = [&](int key) { return cell.keys - 1 - key; };
    set_call(TrainingCall::fill_bucket, [&](Actor actor, const Op& op) {
      const int key = op.effect.read.buffer;
      values.buffer(actor, op.effect.read.buffer) =
          Eigen::VectorXd::Constant(1, 100 * layer_of(key) + 10 * (actor / gpus) + actor % gpus);
    });
    std::vector<double> sum(static_cast<std::size_t>(cell.keys));
    const auto add = [&](Actor actor, const Op& op) {
      sum[op.effect.write.buffer] += values.buffer(actor, op.effect.read.buffer)[0];
    };
    set_call(ServerCall::first, add);
    set_call(ServerCall::add, add);
    const auto weights = [](int key) {
      return number_of({TrainingBuffer::Kind::parameters, static_cast<std::size_t>(key)});
    };
    set_call(ServerCall::update, [&](Actor actor, const Op& op) {
      const int key = op.effect.write.buffer;
      values.buffer(actor, weights(key)) = Eigen::VectorXd::Constant(1, sum[static_cast<std::size_t>(key)]);
    });
    for (int key = 0; key < cell.keys; ++key) values.buffer(cell.workers, weights(key)) = Eigen::VectorXd::Zero(1);
    run.run({&values});
    std::vector<double> sums;
    for (int layer = 0; layer < cell.keys; ++layer) sums.push_back(values.buffer(0, weights(layer_of(layer)))[0]);
    for (std::size_t key = 0; key < sums.size(); ++key) {
      const std::string name = fmt::format("pull {}", key);
      same &= !got.contains(name) || got[name] == sums[key];
      got[name] = sums[key];
    }
  }
  got["any_order_gives_the_same"] = same;
  return got;
}

/// Counts the pushes of each worker that the servers have applied by the horizon.
class AppliedPushes : public Observer {
 public:
  explicit AppliedPushes(double horizon) : horizon_(horizon * (1 + 1e-12)) {}
  void finished(const OpRun& run) override {
    const Effect& effect = run.op->effect;
    if (effect.action != Action::call || run.ended.value > horizon_) return;
    if (effect.call == static_cast<std::uint16_t>(ServerCall::apply)) ++by_worker_[effect.read.chunk];
    if (effect.call == static_cast<std::uint16_t>(ServerCall::update)) ++updates_;
  }
  int pushes_of(int worker) { return by_worker_[worker]; }
  int updates() const { return updates_; }

 private:
  double horizon_;
  std::map<int, int> by_worker_;
  int updates_ = 0;
};

ServerCell unequal_workers(const Node& inputs, double horizon_ms) {
  ServerCell cell;
  const std::vector<double> times = numbers_of(inputs, "workers_ms");
  const double fastest = *std::min_element(times.begin(), times.end());
  cell.compute = Seconds{fastest * 1e-3};
  for (const double t : times) cell.slower.push_back(t / fastest);
  cell.workers = static_cast<int>(times.size());
  cell.steps = static_cast<int>(horizon_ms / fastest) + 1;  // more steps than the horizon has room for
  return cell;
}

SeedFigures async_01(const Node& inputs) {
  const double horizon = number_of(inputs, "horizon_s");
  const ServerCell cell = unequal_workers(inputs, horizon * 1e3);
  const auto count = [&](Consistency consistency) {
    ServerCell changed = cell;
    changed.change = [&](ServerPlan& plan) { plan.consistency = consistency; };
    ServerCellRun run(changed);
    AppliedPushes applied(horizon);
    run.run({&applied});
    int batches = 0;
    for (int worker = 0; worker < cell.workers; ++worker) batches += applied.pushes_of(worker);
    return consistency == Consistency::synchronous ? applied.updates() : batches;
  };
  const int sync_steps = count(Consistency::synchronous), async_batches = count(Consistency::asynchronous);
  return {{"sync_steps", sync_steps},
          {"sync_minibatches", sync_steps * cell.workers},
          {"async_minibatches", async_batches},
          {"ratio", static_cast<double>(async_batches) / (sync_steps * cell.workers)}};
}

SeedFigures ssp_01(const Node& inputs) {
  const double horizon_ms = number_of(inputs, "horizon_ms");
  const ServerCell cell = unequal_workers(inputs, horizon_ms);
  SeedFigures got;
  bool slow_alike = true;
  for (const std::string& bound : words_of(inputs, "bound")) {
    ServerCell changed = cell;
    changed.change = [&](ServerPlan& plan) {
      plan.consistency = bound == "inf" ? Consistency::asynchronous : Consistency::stale;
      if (bound != "inf") plan.staleness = static_cast<int>(parse_integer(bound));
    };
    ServerCellRun run(changed);
    AppliedPushes applied(horizon_ms * 1e-3);
    run.run({&applied});
    got["fast_worker_iterations " + bound] = applied.pushes_of(0);
    slow_alike &= !got.contains("slow_worker_iterations") || got["slow_worker_iterations"] == applied.pushes_of(1);
    got["slow_worker_iterations"] = applied.pushes_of(1);
  }
  got["slow_worker_goes_its_own_pace"] = slow_alike;
  return got;
}

SeedFigures stale_01(const Node& inputs) {
  SeedFigures got;
  for (const double n : numbers_of(inputs, "n")) {
    ServerCell cell;
    cell.workers = static_cast<int>(n);
    cell.compute = Seconds{1e-3};
    cell.steps = 20;
    cell.change = [](ServerPlan& plan) { plan.consistency = Consistency::asynchronous; };
    ServerCellRun run(cell);
    run.run();
    const std::map<std::uint32_t, std::uint64_t>& histogram = run.board().staleness();
    if (histogram.size() == 1) got[fmt::format("staleness {}", n)] = histogram.begin()->first;
  }
  return got;
}

/// Returns the server's weight after workers have brought theirs one after another. Each worker has its own mixing
/// share λ. The network is one neuron with input 0: only its bias learns, and one step takes it from 0 to the worker's
/// target.
double mixed_weight(const std::vector<double>& lambdas, const std::vector<double>& targets) {
  const auto workers = static_cast<int>(targets.size());
  const MlpShape shape{{1, 1}};
  TrainingTask task;
  task.model = shape;
  task.rule.learning_rate = workers;  // gradients are averages over the batch
  task.rule.momentum = 0;
  task.samples = std::make_shared<const SampleSet>(
      SampleSet{Eigen::MatrixXd::Zero(1, workers), Eigen::Map<const Eigen::RowVectorXd>(targets.data(), workers)});
  ServerCell cell;
  cell.workers = workers;
  cell.network = mlp_network(shape, 1 << 20, Precision::fp32);  // long passes
  cell.network->samples = task.micro_batch_size;
  cell.values = true;
  for (int worker = 0; worker < workers; ++worker) cell.slower.push_back(worker + 1);
  cell.change = [&](ServerPlan& plan) {
    plan.consistency = Consistency::asynchronous;
    plan.mixing_shares = lambdas;
  };
  ServerCellRun run(cell);
  Values values;
  TrainingValues training(task, run.plan().base.step, values);
  // The bias begins with 0.
  for (Actor worker = 0; worker < workers; ++worker)
    training.parameters(worker).set_all_parameters(Eigen::Vector2d::Zero());
  ServerValues servers(training, run.plan());
  run.run({&values});
  return training.parameters(training.learner()).all_parameters()[1];
}

SeedFigures async_04(const Node& inputs) {
  const std::vector<double> worker_weights = numbers_of(inputs, "weights"), lambdas = numbers_of(inputs, "lambdas");
  SeedFigures got;
  for (std::size_t updates = 1; updates <= worker_weights.size(); ++updates) {
    const auto first = [updates](const std::vector<double>& all) {
      return std::vector<double>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(updates));
    };
    got[fmt::format("w_after {}", updates)] = mixed_weight(first(lambdas), first(worker_weights));
  }
  return got;
}

/// Returns the samples per second, relative to those of one worker that waits for nothing.
double throughput(int workers, int servers, double push_share) {
  ServerCell cell;
  cell.workers = workers;
  cell.servers = cell.keys = servers;
  cell.compute = Seconds{0.1};
  cell.gradient = cell.link * cell.compute * push_share;
  cell.pulls = false;
  return workers * cell.compute.value * 1e3 / server_cell_ms(cell);
}

SeedFigures psname_01(const Node& inputs) {
  const ServerLabel label = parse_server_label(words_of(inputs, "label").at(0), inputs.place);
  const double share = number_of(inputs, "push_share");
  std::map<int, std::vector<double>> curves;
  for (const double servers : numbers_of(inputs, "servers"))
    for (const double workers : numbers_of(inputs, "workers"))
      curves[static_cast<int>(servers)].push_back(
          throughput(static_cast<int>(workers), static_cast<int>(servers), share));
  bool rises = true, flattens = true, lifts = true;
  double plateau = 0;
  for (const auto& [servers, curve] : curves) {
    for (std::size_t i = 1; i < curve.size(); ++i) {
      rises &= curve[i] > curve[i - 1];
      if (i > 1) flattens &= curve[i] / curve[i - 1] < curve[i - 1] / curve[i - 2];
    }
    lifts &= curve.back() > plateau;
    plateau = curve.back();
  }
  return {{"workers", label.workers},
          {"servers", label.servers},
          {"throughput_rises_with_workers", rises},
          {"and_flattens", flattens},
          {"more_servers_lift_the_plateau", lifts}};
}

/// Returns the mean time over seeds, in s, until `workers` workers reach the target of the shipped study.
double seconds_to_target(int workers, int seeds) {
  double sum = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Scenario s = read_scenario(
        shipped_file("scenarios/learn-workers.yaml"),
        {{"plan.data_parallel.servers.label", fmt::format("{}W4PS", workers)}, {"learn.seed", std::to_string(seed)}});
    LearnOptions options;
    options.noise = false;
    const LearnResult r = learn(s, options);
    if (!r.reached) throw UserError(fmt::format("{} workers do not reach the target", workers));
    sum += r.last().time / seeds;
  }
  return sum;
}

SeedFigures w8_01(const Node& inputs) {
  const std::vector<double> workers = numbers_of(inputs, "workers");
  const double share = number_of(inputs, "push_share");
  const double n = workers.at(1), speedup = throughput(static_cast<int>(n), 1, share) /
                                            throughput(static_cast<int>(workers.at(0)), 1, share);
  const int seeds = static_cast<int>(number_of(inputs, "seeds"));
  const double learned =
      seconds_to_target(static_cast<int>(workers.at(0)), seeds) / seconds_to_target(static_cast<int>(n), seeds);
  return {{"speedup", speedup},
          {"efficiency", speedup / n},
          {"learned_speedup", learned},
          {"implied_serial_fraction_amdahl", (n / speedup - 1) / (n - 1)}};
}

const RegisterSeed server_seeds[] = {{"PSM-01", psm_01},     {"PSM-02", psm_02},       {"KV-01", kv_01},
                                     {"ASYNC-01", async_01}, {"ASYNC-04", async_04},   {"STALE-01", stale_01},
                                     {"SSP-01", ssp_01},     {"PSNAME-01", psname_01}, {"W8-01", w8_01}};

}  // namespace
}  // namespace trainyard
