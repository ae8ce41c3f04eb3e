#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/sweeps/study_shard.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// The flags by which a long job keeps what is done, and is shared out past one machine: those of every verb that can.
struct StudyShares {
  std::string points, shard, slurm;
  int tasks = 8;
  bool submit = false;

  /// `part`: what a share takes every N-th of.
  void declare(Arguments&, const std::string& part);
  /// The share that is asked for, or the whole. Throws UserError for flags that contradict each other; `outputs`: the answer
  /// is to go somewhere.
  StudyShard wanted(bool outputs) const;
  /// Writes the script of a job array for the command that was parsed, and submits it where that is asked for. `most` tasks
  /// have something to do. Throws UserError.
  int write_slurm_job(const Arguments&, std::size_t most) const;
  /// Says how a search goes on that was interrupted; returns the exit code.
  int interrupted_search() const;
  /// After its share is done: what `merge` needs to know, into the points' file. Throws UserError.
  void finish(const Arguments&) const;
};

}  // namespace trainyard
