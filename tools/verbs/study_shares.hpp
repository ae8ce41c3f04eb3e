#pragma once
#include <string>

#include "scenarios/src/studies/sweeps/study_shard.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// The flags of verbs with long jobs: they keep finished points in a file, and divide the job over machines.
struct StudyShares {
  std::string points, shard, slurm;
  int tasks = 0;  ///< 0: not stated
  bool submit = false;

  /// `part`: the word for a unit of the job ("point"); a share takes every N-th of them.
  void declare(Arguments&, const std::string& part);
  /// Returns the requested share, or the whole job. `outputs`: the command has an output for the answer. Throws
  /// UserError for flags that contradict each other.
  StudyShard requested_shard(bool outputs) const;
  /// Writes the script of a Slurm job array for the parsed command, and submits it with --submit. `most`: the largest
  /// useful number of tasks. Returns the exit code. Throws UserError.
  int write_slurm_job(const Arguments&, std::size_t most) const;
  /// Tells the user how to resume the interrupted search; returns the exit code.
  int interrupted_search() const;
  /// Adds to the file of points what `merge` needs, after the share is done. Throws UserError.
  void finish(const Arguments&) const;
};

}  // namespace trainyard
