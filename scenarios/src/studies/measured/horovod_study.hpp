#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// A measured study: a CNN trained by Horovod on two nodes of one GPU, and on one, at many batch sizes. Seconds of the
/// whole training, in scenarios/measured/tables/horovod_mnist.yaml with its source.
///
/// Its text says 500 steps an epoch for both. Two nodes of one batch each could then never be faster than one, yet they
/// are: as in the example that it follows, workers share the steps (500 // 2, each with the table's batch). That is what
/// is simulated (H1).
struct HorovodStudy {
  struct Row {
    double batch = 0;                             ///< of a worker
    double single = 0, multi_0 = 0, multi_1 = 0;  ///< one node; two nodes as rank 0 and rank 1 print it
  };
  std::string source;
  double epochs = 0, steps_per_epoch = 0;
  double parameters_stated = 0;
  BytesPerSecond rate;
  std::vector<Row> rows;

  double steps() const { return epochs * steps_per_epoch; }
  std::vector<double> column(double Row::*) const;
  /// What rank 0 alone does at the end, fitted: the median of what it takes longer than rank 1. It prints the final figures
  /// and has written checkpoints; how long that takes the study does not say.
  Seconds alone() const;
};

constexpr double kHorovodWorkers = 2;

/// Throws UserError with the place.
HorovodStudy read_horovod_study(const std::filesystem::path&);
HorovodStudy read_horovod_study();  ///< the one of the source tree

/// How much of the study is given, and how much is predicted.
enum class HorovodReading : std::uint8_t {
  documented,         ///< compute: the single-node column; software without its fitted constant
  fitted,             ///< the same with the stack's fitted constant
  predicted_compute,  ///< compute predicted too
  measured_single,    ///< one node, its steps given
  predicted_single,   ///< one node, predicted
};
/// Seconds of the whole training at every batch, each point simulated by scenarios/horovod-mnist-2xt4.yaml.
std::vector<double> predict(const HorovodStudy&, HorovodReading);
/// The same of two nodes (`fitted`) as rank 0 and rank 1 see it: rank 0 works alone at the end.
std::vector<std::pair<double, double>> predict_ranks(const HorovodStudy&);
/// The scenario of one point.
Scenario horovod_scenario(const HorovodStudy&, HorovodReading, const HorovodStudy::Row&);

/// What a step of two nodes needs beyond `documented`, by row; their median is the fitted constant of the stack.
std::vector<Seconds> missing_step_time(const HorovodStudy&, const std::vector<double>& documented);
/// Every row predicted with the constant fitted to the others.
std::vector<double> leave_one_out(const HorovodStudy&, const std::vector<double>& documented);

ErrorSet against(const HorovodStudy&, std::string name, const std::vector<double>& predicted,
                 double HorovodStudy::Row::*);

/// From where on two nodes are faster than one, and never slower again.
struct Crossover {
  double below = 0, above = 0;  ///< neighbouring batches of the table
  double batch = 0;             ///< linear between them
};
/// None where one of the two is always faster, or they cross more than once.
std::optional<Crossover> crossover(const HorovodStudy&, const std::vector<double>& single,
                                   const std::vector<double>& multi);

}  // namespace trainyard
