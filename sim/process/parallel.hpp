#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/process/job.hpp"

namespace trainyard {

/// Runs `work` for the numbers below `count` on at most `jobs` threads; `done` is called here as each ends. The first failure
/// in order of number is thrown, after all have ended. Once `interrupted()`, nothing else begins, and what throws Interrupted
/// is not done. One number alone runs on this thread.
void run_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& done = {});

/// The same for work that returns something: results in order of number; nothing of what is not done.
template <class Work, class Done>
auto in_parallel(std::size_t count, int jobs, const Work& work, const Done& done) {
  std::vector<std::optional<std::invoke_result_t<const Work&, std::size_t>>> results(count);
  run_parallel(
      count, jobs, [&](std::size_t i) { results[i] = work(i); }, [&](std::size_t i) { done(i, *results[i]); });
  return results;
}
template <class Work>
auto in_parallel(std::size_t count, int jobs, const Work& work) {
  return in_parallel(count, jobs, work, [](std::size_t, const auto&) {});
}
/// The same, of all or of none: throws Interrupted.
template <class Work, class Done>
auto all_in_parallel(std::size_t count, int jobs, const Work& work, const Done& done) {
  std::vector<std::invoke_result_t<const Work&, std::size_t>> results;
  for (auto& result : in_parallel(count, jobs, work, done)) {
    if (!result) throw Interrupted();
    results.push_back(std::move(*result));
  }
  return results;
}
template <class Work>
auto all_in_parallel(std::size_t count, int jobs, const Work& work) {
  return all_in_parallel(count, jobs, work, [](std::size_t, const auto&) {});
}

/// What this thread does every half second while it waits for others, such as telling how far it is; empty: nothing.
void do_while_waiting(std::function<void()>);

}  // namespace trainyard
