#pragma once
#include <string>
#include <vector>

#include "scenarios/studies/sweep.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// Where the table of a sweep goes, and which rows of it: the flags that `sweep` and `merge` share.
struct SweepOutputs {
  std::string csv, json, html, svg, sort;
  int top = 0, baseline = 0;

  void declare(Arguments&, const std::string& csv_words);
  bool any() const { return !(csv + json + html + svg).empty(); }
  SweepOrder order() const { return parse_sweep_order(sort, top); }
  void write(const Sweep&, std::vector<SweepPoint>) const;

 private:
  void add_scaling_to(const Sweep&, std::vector<SweepPoint>&) const;
};

/// Counts them on stderr, with the first error.
void report_impossible_points(const std::vector<SweepPoint>&);

/// A job array of Slurm: its tasks are the shards of a sweep.
struct SlurmSweep {
  std::string folder;  ///< of the script, and of what the tasks write
  int tasks = 1;
  std::vector<std::string> words;  ///< of the sweep, without shard and points
};
/// The batch script, as `sbatch` takes it. It runs this very program.
std::string slurm_script(const SlurmSweep&);
/// What puts the shards together: a command line.
std::string slurm_merge_command(const SlurmSweep&);

}  // namespace trainyard
