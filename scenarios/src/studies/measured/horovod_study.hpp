#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// A measured study: a CNN trained by Horovod on two nodes of one GPU, and on one, at many batch sizes. Seconds of the
/// whole training, in scenarios/measured/tables/horovod_mnist.csv with its source; what is compared with them are the
/// families of scenarios/measured/horovod, one for each reading of how much is given and how much predicted.
///
/// Its text says 500 steps an epoch for both. Two nodes of one batch each could then never be faster than one, yet they
/// are: as in the example that it follows, workers share the steps (500 // 2, each with the table's batch). That is what
/// is simulated (H1).
struct HorovodStudy {
  struct Row {
    double batch = 0;                             ///< of a worker
    double single = 0, multi_0 = 0, multi_1 = 0;  ///< one node; two nodes as rank 0 and rank 1 print it
  };
  std::vector<Row> rows;

  static constexpr double epochs = 24, steps_per_epoch = 500, workers = 2;
  static constexpr double steps() { return epochs * steps_per_epoch; }
  std::vector<double> column(double Row::*) const;
};

HorovodStudy read_horovod_study();

/// Every batch as a reading ("documented", "fitted", …) has it. Throws UserError where a batch cannot be simulated.
std::vector<FamilyPrediction> predict_horovod(const std::vector<std::string>& readings = {});
/// Seconds of the whole training, as predicted.
std::vector<double> training_times(const FamilyPrediction&);

/// What a step of two nodes needs beyond what is documented, s, by row; their median is the fitted constant of the stack.
std::vector<double> missing_step_time(const HorovodStudy&, const std::vector<double>& documented);
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
