#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scenarios/src/sizing/size_plans.hpp"

namespace trainyard {

struct PlanAnswer;
struct PlanAnswerOptions;

/// Searches the best plan on one size after the other, and computes the whole training with it.
class RowSearch {
 public:
  /// The question must outlive the search.
  explicit RowSearch(const SizeQuestion& question) : question_(question), options_(question.options()) {}

  /// Returns the row of a size: from the journal, or by a search. If the search proves nothing, a plain plan
  /// and those of other sizes are tried, too. Throws Interruption.
  SizeRow row(const SizeCase&, const RowRequest&);
  /// Tries plans of other sizes on a row, since a better one may have been found later. Returns true if the row has another
  /// plan now. Throws Interruption.
  bool improve(const SizeCase&, SizeRow&);
  /// Returns true if some allowed batch divides among the replicas of some split. Throws Interruption.
  bool has_plan(const SizeCase&, int nodes) const;

  /// Returns the limit of work of a search, operations. 0: there is no limit.
  double work() const;
  /// Describes when the search of a cluster ends: "after 50 M operations: --work"; "" with a limit of wall time.
  std::string bound_words(const char* before, const char* behind = "") const;
  /// Names the place where a signal ended a search, and the best plan of that search. Empty: no signal has.
  const std::string& interrupted() const { return interrupted_; }

  std::string place;       ///< begin of progress lines: which search of the question it is
  std::string best_words;  ///< text of progress lines: the best cluster so far

 private:
  const SizeQuestion& question_;
  const SizeOptions& options_;
  PlansOfSizes plans_;
  std::string interrupted_;
  std::map<std::string, std::string> tried_;  // plans of other sizes that were tried, by the size
  std::int64_t own_batch_ = 0;                // the scenario's batch
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::vector<std::int64_t> batches_on(const PlanQuestion&) const;
  std::string plans_words(const SizeRow&) const;
  bool tries_new_plans(const SizeRow&);
  PlanQuestion plans_of(const SizeCase&, const RowRequest&, Overrides = {}) const;
  void take_batch(const SizeCase&, const RowRequest&, std::int64_t batch, PlanQuestion&, SizeRow&) const;
  double choose_batch(const SizeCase&, const RowRequest&, PlanQuestion&, SizeRow&);
  PlanAnswerOptions plan_options(const PlanQuestion&, const SizeRow&, double time_share, double work_share) const;
  [[noreturn]] void stop(const SizeRow&, const PlanAnswer&);
  void search(const PlanQuestion&, SizeRow&, const RowRequest&, double share);
  void take_best(const PlanAnswer&, SizeRow&) const;
};

}  // namespace trainyard
