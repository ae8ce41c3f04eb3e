// HVD-*, VOL-01: a measured study of Horovod on two T4. Facts come from the shipped table, predictions from a
// simulation of every batch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/measured/horovod_study.hpp"
#include "sim/executor/simulation.hpp"
#include "strategies/collectives/collective_program.hpp"
#include "tests/seeds/seed_case.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

using StudyRow = HorovodStudy::Row;

double largest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }
double smallest(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }
double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}
std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> q;
  for (std::size_t i = 0; i < a.size(); ++i) q.push_back(a[i] / b[i]);
  return q;
}

/// Returns the batches at which `faster` takes less time than `slower`, as a list in words.
std::string batches_where_faster(const HorovodStudy& study, const std::vector<double>& faster,
                                 const std::vector<double>& slower) {
  std::vector<std::string> batches;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (faster[i] < slower[i]) batches.push_back(fmt::format("{}", study.rows[i].batch));
  return fmt::format("{}", fmt::join(batches, " "));
}

struct Affine {
  double a = 0, b = 0;       ///< T = a + b · batch, least squares
  double max_rel_error = 0;  ///< share of the measured time
};

Affine affine_fit(const HorovodStudy& study, const std::vector<double>& times) {
  const std::vector<double> batches = study.column(&StudyRow::batch);
  const double mean_batch = mean_of(batches), mean_time = mean_of(times);
  double covariance = 0, variance = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    covariance += (batches[i] - mean_batch) * (times[i] - mean_time);
    variance += (batches[i] - mean_batch) * (batches[i] - mean_batch);
  }
  Affine fit;
  fit.b = covariance / variance;
  fit.a = mean_time - fit.b * mean_batch;
  for (std::size_t i = 0; i < times.size(); ++i)
    fit.max_rel_error = std::max(fit.max_rel_error, std::abs((fit.a + fit.b * batches[i]) / times[i] - 1));
  return fit;
}

/// Returns the time of the whole training in s at every batch.
std::vector<double> times_of(const std::string& reading) { return training_times(predict_horovod({reading}).front()); }

Scenario scenario_of(const std::string& reading, std::size_t row) {
  return read_scenario(measured_families({"horovod"}, {reading}).front().scenario(row), reading);
}

/// Returns the training times in s of one node with its measured step times, by batch.
std::vector<double> measured_single(const HorovodStudy& study) {
  std::vector<double> times;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    times.push_back(simulate_training(read_again(scenario_of("documented", i),
                                                 {{"cluster.nodes", "1"},
                                                  {"plan.global_batch_size", fmt::format("{}", study.rows[i].batch)},
                                                  {"plan.training.steps_per_epoch", "500"}}))
                        .training_time.value);
  return times;
}

/// Both ranks of two nodes take the same steps. Rank 0 takes a little longer for its own work.
SeedFigures hvd_data(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> single = measured_single(study);
  const FamilyPrediction predictions = predict_horovod({"both ranks"}).front();
  const std::vector<double> first = training_times(predictions, 0), second = training_times(predictions, 1);
  bool later = true;
  SeedFigures got;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const auto put = [&](const char* name, double v) { got[fmt::format("{} {}", name, study.rows[i].batch)] = v; };
    put("single_s", single[i]);
    put("multi0_s", first[i]);
    put("multi1_s", second[i]);
    put("speedup0", single[i] / first[i]);
    put("speedup1", single[i] / second[i]);
    later &= first[i] > second[i] && study.rows[i].multi_0 > study.rows[i].multi_1;
  }
  got["rank 0 ends later at every batch"] = later;
  got["rows"] = study.rows.size();
  return got;
}

SeedFigures hvd_cross(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> single = study.column(&StudyRow::single), multi = study.column(&StudyRow::multi_0);
  SeedFigures got{{"single_faster_at", batches_where_faster(study, single, multi)},
                  {"multi_faster_at", batches_where_faster(study, multi, single)}};
  std::vector<double> crossings;
  for (const auto column : {&StudyRow::multi_0, &StudyRow::multi_1})
    crossings.push_back(crossover(study, single, study.column(column)).value_or(Crossover{}).batch);
  got["interp_cross_multi0"] = crossings[0];
  got["interp_cross_multi1"] = crossings[1];
  got["mean_cross"] = mean_of(crossings);
  for (const char* name : {"documented", "fitted"}) {
    const std::vector<double> predicted = times_of(name);
    got[fmt::format("predicted {} single_faster_at", name)] = batches_where_faster(study, single, predicted);
    got[fmt::format("predicted {} multi_faster_at", name)] = batches_where_faster(study, predicted, single);
  }
  return got;
}

SeedFigures hvd_fit(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> predicted = times_of("fitted");
  SeedFigures got;
  const auto put = [&](const std::string& name, const std::vector<double>& times) {
    const Affine fit = affine_fit(study, times);
    got[name + " a_s"] = fit.a;
    got[name + " b_s_per_batch"] = fit.b;
    got[name + " max_rel_err"] = fit.max_rel_error;
    return fit;
  };
  const Affine single = put("single", study.column(&StudyRow::single)),
               multi_0 = put("multi0", study.column(&StudyRow::multi_0)),
               multi_1 = put("multi1", study.column(&StudyRow::multi_1));
  got["slope_ratio"] = single.b / multi_0.b;
  got["affine_cross_multi0"] = (multi_0.a - single.a) / (single.b - multi_0.b);
  got["affine_cross_multi1"] = (multi_1.a - single.a) / (single.b - multi_1.b);
  constexpr double point_tolerance = 0.2, slope_tolerance = 0.05;
  for (const auto& [name, column] :
       {std::pair{"multi0", &StudyRow::multi_0}, std::pair{"multi1", &StudyRow::multi_1}}) {
    got[fmt::format("predicted {} points within 20 %", name)] =
        horovod_errors(study, "", predicted, column).worst_abs <= point_tolerance;
    const double slope = affine_fit(study, study.column(column)).b;
    got[fmt::format("predicted {} slope within 5 %", name)] =
        std::abs(affine_fit(study, predicted).b / slope - 1) <= slope_tolerance;
  }
  return got;
}

/// Returns the time in s of a ring all-reduce of two ranks over full-duplex links of this rate.
double ring_of_two(Bytes size, BytesPerSecond rate) {
  ClusterMachine machine(star_cluster(2, rate), SoftwareStack{});
  const Collective& ring = collectives(Operation::all_reduce).find("ring", seed_place());
  Names names;
  CollectiveOptions options;
  options.size = size;
  Simulation simulation(machine);
  for (int rank = 0; rank < 2; ++rank)
    simulation.add(rank, collective_program(ring, {rank, 2}, options, names, {0, 1}));
  return simulation.run().end.value;
}

/// Returns the time in ms of an exchange by row, if two nodes take `steps` steps and compute as long as one node with
/// `batch_share` of the batch. Leaves out rows for which the table has no such batch.
std::vector<double> exchange_ms(const HorovodStudy& study, double steps, double batch_share) {
  std::vector<double> ms;
  for (const StudyRow& row : study.rows)
    for (const StudyRow& single_row : study.rows)
      if (single_row.batch == row.batch * batch_share)
        ms.push_back((row.multi_0 / steps - single_row.single / study.steps()) * 1e3);
  return ms;
}

SeedFigures hvd_comm(const Node& inputs) {
  const HorovodStudy study = read_horovod_study();
  const double wire = ring_of_two(Bytes{number_of(inputs, "grad_bytes")}, BytesPerSecond{5.22e9 / 8});
  SeedFigures got{{"syncs_literal", study.steps()},
                  {"wire_ms_per_sync_ring_n2", wire * 1e3},
                  {"wire_total_s_12000", wire * study.steps()}};
  const StudyRow& first = study.rows.front();
  got["measured_extra_ms_batch1 multi0"] = (first.multi_0 - first.single) / study.steps() * 1e3;
  got["measured_extra_ms_batch1 multi1"] = (first.multi_1 - first.single) / study.steps() * 1e3;
  const auto put = [&](const std::string& name, const std::vector<double>& ms) {
    got[name + " c_ms_mean"] = mean_of(ms);
    got[name + " c_ms_median"] = quantile(ms, 0.5);
    got[name + " c_ms_least"] = smallest(ms);
    got[name + " c_ms_most"] = largest(ms);
  };
  const std::vector<double> shared = exchange_ms(study, study.steps() / HorovodStudy::workers, 1);
  put("H1_6000_syncs", shared);
  put("H2_12000_syncs", exchange_ms(study, study.steps(), 1 / HorovodStudy::workers));
  // Two nodes take half of one node's time plus the exchanges. They equal one node if the exchanges take the other
  // half.
  const double c = quantile(shared, 0.5) * 1e-3;
  std::vector<double> multi = study.column(&StudyRow::single);
  for (double& t : multi) t = t / HorovodStudy::workers + c * study.steps() / HorovodStudy::workers;
  got["H1_6000_syncs predicted_crossover_single_s"] = c * study.steps();
  got["H1_6000_syncs predicted_crossover_batch"] =
      crossover(study, study.column(&StudyRow::single), multi).value_or(Crossover{}).batch;
  // The time beyond compute of the fitted reading, as simulated at every batch, is in the range of the measured ones.
  const std::vector<double> predicted = times_of("fitted");
  std::vector<double> extra_ms;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    extra_ms.push_back((predicted[i] * HorovodStudy::workers - study.rows[i].single) / study.steps() * 1e3);
  got["simulated c inside the measured range"] =
      smallest(extra_ms) >= smallest(shared) && largest(extra_ms) <= largest(shared);
  got["simulated c within 10 % of the mean"] = std::abs(mean_of(extra_ms) / mean_of(shared) - 1) <= 0.1;
  return got;
}

SeedFigures hvd_maxspd(const Node&) {
  const HorovodStudy study = read_horovod_study();
  SeedFigures got;
  bool below = true;
  for (const auto& [name, column] :
       {std::pair{"rank 0", &StudyRow::multi_0}, std::pair{"rank 1", &StudyRow::multi_1}}) {
    const std::vector<double> speedup = quotients(study.column(&StudyRow::single), study.column(column));
    got[fmt::format("speedup_at_6144 {}", name)] = speedup.back();
    got[fmt::format("speedup_at_1 {}", name)] = speedup.front();
    got[fmt::format("max_speedup {}", name)] = largest(speedup);
    const auto best = std::max_element(speedup.begin(), speedup.end()) - speedup.begin();
    got[fmt::format("max_at_batch {}", name)] = study.rows[static_cast<std::size_t>(best)].batch;
    below &= largest(speedup) < HorovodStudy::workers;
  }
  got["always_below_2"] = below;
  return got;
}

SeedFigures hvd_param(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const Network network = scenario_of("documented", 0).network;
  std::vector<double> tensors;  // elements of each layer with parameters: weight and bias together
  for (const Layer& layer : network.layers)
    for (std::size_t i = 0; i + 1 < layer.parameters.size(); i += 2)
      tensors.push_back(layer.parameters[i].elements + layer.parameters[i + 1].elements);
  SeedFigures got{{"total", network.parameters()},
                  {"within 0.03 % of the study's", std::abs(network.parameters() / 1200200 - 1) <= 0.0003}};
  const char* names[] = {"conv1", "conv2", "dense1", "dense2"};
  for (std::size_t i = 0; i < std::size(names) && i < tensors.size(); ++i) got[names[i]] = tensors[i];
  return got;
}

SeedFigures hvd_eff(const Node& inputs) {
  const HorovodStudy study = read_horovod_study();
  SeedFigures got;
  std::vector<double> us_per_sample;
  for (const double batch : numbers_of(inputs, "batches"))
    for (const StudyRow& row : study.rows)
      if (row.batch == batch) {
        us_per_sample.push_back(row.single / (study.steps() * batch) * 1e6);
        got[fmt::format("us_per_sample {}", batch)] = us_per_sample.back();
      }
  got["ratio_1_to_6144"] = us_per_sample.front() / us_per_sample.back();
  return got;
}

SeedFigures hvd_bound(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> single = study.column(&StudyRow::single);
  const double most = largest(quotients(single, study.column(&StudyRow::multi_1)));
  const double predicted = largest(quotients(single, times_of("documented")));
  return {{"max_speedup", HorovodStudy::workers},
          {"measured_max", most},
          {"efficiency", most / HorovodStudy::workers},
          {"predicted below max_speedup", predicted < HorovodStudy::workers}};
}

SeedFigures hvd_trend(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> ratio = quotients(times_of("fitted"), study.column(&StudyRow::single));
  SeedFigures got;
  for (std::size_t i = 0; i < ratio.size(); ++i)
    got[fmt::format("ratio_multi0_over_single {}", study.rows[i].batch)] = ratio[i];
  return got;
}

/// Computes the share of two nodes' time that exceeds half of one node's time. This excess is constant, so that its
/// share falls with the batch.
SeedFigures vol_01(const Node&) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> single = study.column(&StudyRow::single), both = times_of("fitted");
  SeedFigures got;
  for (std::size_t row = 0; row < study.rows.size(); ++row)
    got[fmt::format("comm_share {}", study.rows[row].batch)] = 1 - single[row] / 2 / both[row];
  return got;
}

const RegisterSeed horovod_seeds[] = {{"HVD-DATA", hvd_data}, {"HVD-CROSS", hvd_cross},   {"HVD-FIT", hvd_fit},
                                      {"HVD-COMM", hvd_comm}, {"HVD-MAXSPD", hvd_maxspd}, {"HVD-PARAM", hvd_param},
                                      {"HVD-EFF", hvd_eff},   {"HVD-BOUND", hvd_bound},   {"HVD-TREND", hvd_trend},
                                      {"VOL-01", vol_01}};

}  // namespace
}  // namespace trainyard
