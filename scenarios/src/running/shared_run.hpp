#pragma once
#include <string>
#include <vector>

#include "scenarios/src/planning/plan.hpp"
#include "sim/folding/fold.hpp"

namespace trainyard {

/// A job with its plan and its nodes of a shared cluster.
struct PlacedJob {
  const Scenario* scenario = nullptr;  ///< its nodes as a cluster of their own
  const Plan* plan = nullptr;
  std::vector<int> nodes;  ///< numbers of its nodes in the shared cluster
  Seconds start;           ///< time at which it begins
  double steps = 0;        ///< estimated steps until the run is over, for the estimate of its work
  int period = 1;          ///< period of its steps, in steps
};

/// Steps of one job, from the moment at which all jobs have done their warm-up steps.
struct JobSteps {
  int steps = 0;                               ///< number of measured steps
  double mean = 0, shortest = 0, longest = 0;  ///< s
  std::vector<double> ends = {};               ///< end of each step of the run, s
};

/// A link, or several that are alike, with the jobs that use it.
struct JobLink {
  std::string name, kind;
  double links = 1;                ///< number of links that it stands for
  double use = 0;                  ///< share of its rate that all jobs use, over the measured time
  std::vector<double> use_by_job;  ///< share of its rate that each job uses
  /// Share of the measured time in which it sets the rate of a message of the job, by job.
  std::vector<double> limits_job;
};

/// Times of jobs that run at the same time.
struct SharedTimes {
  std::vector<JobSteps> jobs;
  std::vector<JobLink> links;  ///< links that messages cross
  int ranks = 0, simulated_ranks = 0;
  std::string unfolded_reason;  ///< why every rank was simulated; "": ranks were folded
};

struct SharedRunOptions {
  int steps = 8;  ///< least number of measured steps of each job, which measures whole periods of its steps
  Folding folding = Folding::automatic;
  TransportKind transport = kDefaultTransport;
  bool progress = false;
};

/// Simulates jobs side by side on one cluster until each has done its steps; those that have done them go on. Throws
/// UserError for more operations than are simulated, and for messages that a job cannot send on the cluster.
SharedTimes run_jobs(const ClusterSpec&, const std::vector<PlacedJob>&, const SharedRunOptions&);

}  // namespace trainyard
