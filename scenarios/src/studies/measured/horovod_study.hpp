#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// A measured study: a CNN trained with Horovod on one node and on two nodes of one GPU each, at many batch sizes.
/// Values are seconds of the whole training, from scenarios/measured/tables/horovod_mnist.csv, which names the source.
/// The validation compares these values with the families of scenarios/measured/horovod. Each family is a reading: it
/// states which values are given and which are predicted.
///
/// The study's text says 500 steps per epoch for one node and for two. Then two nodes could never be faster than one,
/// yet the measured ones are. As in the example that the study follows, workers share the steps (500 // 2, each with
/// the table's batch). The simulation does the same (H1).
struct HorovodStudy {
  struct Row {
    double batch = 0;                             ///< samples per worker
    double single = 0, multi_0 = 0, multi_1 = 0;  ///< one node; two nodes as rank 0 and rank 1 print it
  };
  std::vector<Row> rows;

  static constexpr double epochs = 24, steps_per_epoch = 500, workers = 2;
  static constexpr double steps() { return epochs * steps_per_epoch; }
  std::vector<double> column(double Row::*) const;
};

HorovodStudy read_horovod_study();

/// Predicts every batch by each of these readings ("documented", "fitted", …; empty: all). Throws UserError if a batch
/// cannot be simulated.
std::vector<FamilyPrediction> predict_horovod(const std::vector<std::string>& readings = {});
/// Returns the predicted seconds of the whole training for each batch. `figure`: number of a figure of the family; the
/// family "both ranks" has the time of rank 0 and that of rank 1.
std::vector<double> training_times(const FamilyPrediction&, std::size_t figure = 0);

/// The seconds that rank 0 ends later than rank 1, for each batch.
std::vector<double> measured_gaps(const HorovodStudy&);
std::vector<double> predicted_gaps(const FamilyPrediction& both_ranks);

/// Returns for each row the measured minus the documented step time of two nodes, s. The median is the fitted constant
/// of the stack.
std::vector<double> missing_step_time(const HorovodStudy&, const std::vector<double>& documented);
/// Predicts each row with the constant fitted to the other rows.
std::vector<double> leave_one_out(const HorovodStudy&, const std::vector<double>& documented);

ErrorSet horovod_errors(const HorovodStudy&, std::string name, const std::vector<double>& predicted,
                        double HorovodStudy::Row::*);

/// The batch from which on two nodes are faster than one.
struct Crossover {
  double lower_batch = 0;  ///< the largest batch of the table below it
  double batch = 0;        ///< interpolated linearly between that one and the next
};
/// No value: one of the two is always faster, or they cross more than once.
std::optional<Crossover> crossover(const HorovodStudy&, const std::vector<double>& single,
                                   const std::vector<double>& multi);

}  // namespace trainyard
