#pragma once
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"

namespace trainyard {

/// One function of one item, on a thread. Times in slots: whatever the user counts in.
struct ThreadTask {
  int item = 0, function = 0;
  double begin = 0, end = 0;
};

/// A loop or a pipeline of functions, shared out to threads, as it ran.
struct ThreadLesson {
  bool loop = false;          ///< a[i] += b[i], items in turn; else c = g(f(a)) item by item, functions shared out
  std::vector<double> times;  ///< slots of each function
  double handover = 0;        ///< slots, of a result from thread to thread
  std::vector<std::vector<ThreadTask>> threads;
  double end = 0, serial = 0;           ///< slots, of all threads and of one
  std::vector<double> inputs, results;  ///< by item
  bool right = false;                   ///< the results are those of one thread

  int items() const { return static_cast<int>(inputs.size()); }
  double busy(std::size_t thread) const;
  int idle_threads() const;  ///< that have no work at all
  double speed_up() const { return serial / end; }
  double working_share() const;  ///< of the threads' time
};

/// Both simulate, on arrays too. The loop adds one array to another.
ThreadLesson teach_loop(int items, int threads);
/// Threads beyond the functions have nothing to do; with fewer threads, neighbouring functions share one.
ThreadLesson teach_tasks(int items, const std::vector<double>& times, int threads, double handover);

LessonView lesson_view(const ThreadLesson&);

}  // namespace trainyard
