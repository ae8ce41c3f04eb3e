#pragma once
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"

namespace trainyard {

/// One function applied to one item on a thread. Times are in slots, the unit of the user's numbers.
struct ThreadTask {
  int item = 0, function = 0;
  double begin = 0, end = 0;
};

/// A simulated loop, or pipeline of functions, divided among threads.
struct ThreadLesson {
  bool loop = false;  ///< true: the threads share the items of a[i] += b[i]; false: the functions of c = g(f(a))
  std::vector<double> times;  ///< time of each function, slots
  double handover = 0;        ///< time to pass a result from thread to thread, slots
  std::vector<std::vector<ThreadTask>> threads;
  double end = 0, serial = 0;           ///< time of all threads together, and of one thread alone, slots
  std::vector<double> inputs, results;  ///< value of each item
  bool right = false;                   ///< the results equal those of one thread

  int items() const { return static_cast<int>(inputs.size()); }
  double busy(std::size_t thread) const;
  int idle_threads() const;  ///< number of threads that have no work at all
  double speed_up() const { return serial / end; }
  double working_share() const;  ///< share of the threads' time in which they work
};

/// Simulates a loop that adds one array to another, and computes it on numbers.
ThreadLesson teach_loop(int items, int threads);
/// Simulates a pipeline of functions, and computes it on numbers. Threads beyond the number of functions are idle; if
/// there are fewer threads than functions, neighbouring functions share a thread.
ThreadLesson teach_tasks(int items, const std::vector<double>& times, int threads, double handover);

LessonView lesson_view(const ThreadLesson&);

}  // namespace trainyard
