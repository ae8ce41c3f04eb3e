#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// A measured study: a CNN trained with Horovod on one node and on two nodes of one GPU each, at many batch sizes.
/// Values are seconds of the whole training, from scenarios/measured/tables/horovod_mnist.csv, which names the source.
/// The validation compares these values with the families of scenarios/measured/horovod. Each family is a reading of
/// the study: it states which values the scenario takes from the study, and which ones it predicts.
///
/// The study's text says that one node and two nodes both make 500 steps per epoch. Two nodes could then never be
/// faster than one, but the measured ones are. In the example that the study follows, the workers share the steps: each
/// makes 500 // 2 of them with the table's batch. The simulation does the same (H1).
struct HorovodStudy {
  struct Row {
    double batch = 0;                             ///< samples per worker
    double single = 0, multi_0 = 0, multi_1 = 0;  ///< time of one node; of two nodes, by ranks 0 and 1
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
/// Returns the predicted seconds of the whole training for each batch. `figure`: index of a figure of the family. In
/// the family "both ranks", figure 0 is the time of rank 0, and figure 1 that of rank 1.
std::vector<double> training_times(const FamilyPrediction&, std::size_t figure = 0);

/// Return the seconds by which rank 0 ends later than rank 1, for each batch.
std::vector<double> measured_gaps(const HorovodStudy&);
std::vector<double> predicted_gaps(const FamilyPrediction& both_ranks);

/// Returns for each row by how much the measured step of two nodes is longer than that of the reading "documented", s.
/// The median of these times is the fitted constant of the stack.
std::vector<double> missing_step_time(const HorovodStudy&, const std::vector<double>& documented);
/// Predicts each row with the constant that is fitted to the other rows.
std::vector<double> leave_one_out(const HorovodStudy&, const std::vector<double>& documented);

ErrorSet horovod_errors(const HorovodStudy&, std::string name, const std::vector<double>& predicted,
                        double HorovodStudy::Row::*);

/// The batch above which two nodes are faster than one.
struct Crossover {
  double lower_batch = 0;  ///< largest batch of the table below the crossover
  double batch = 0;        ///< the crossover, interpolated between that batch and the next
};
/// Finds the crossover. No value: one node or two nodes are always faster, or two nodes become slower at some batch.
std::optional<Crossover> crossover(const HorovodStudy&, const std::vector<double>& single,
                                   const std::vector<double>& multi);

}  // namespace trainyard
