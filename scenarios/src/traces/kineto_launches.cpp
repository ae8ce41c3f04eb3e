// Joins the works of a GPU with the calls of the host that launched them, and corrects the clock of the GPU.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "models/reading/document.hpp"
#include "scenarios/src/traces/kineto_events.hpp"

namespace trainyard {
namespace {

/// A difference of clocks (us; unverified) that is no skew: the profiler converts the times of the GPU to the host's
/// clock with about this error.
constexpr double kClockNoise = 1;

class LaunchJoiner {
 public:
  explicit LaunchJoiner(KinetoEvents& events) : events_(events) {}

  void join() {
    join_unique();
    join_repeated(true);
    correct_clock();
    join_repeated(false);
    join_unnamed();
    const std::vector<double> latest_ends = latest_ends_of_works();
    for (GpuWork& work : events_.works) {
      work.called = work.launched = work.begin;
      if (!work.call) continue;
      const HostCall& call = events_.calls[*work.call];
      work.called = std::min(call.begin, work.begin);
      work.launched = std::min(call.end, work.begin);
      const auto begun = std::ranges::lower_bound(events_.works, work.launched, {}, &GpuWork::begin);
      const double busy_until = latest_ends[static_cast<std::size_t>(begun - events_.works.begin())];
      // A long call that ends on an idle GPU is work of the host, such as loading a module.
      work.has_waited = call.end - call.begin > kLongestLaunch && busy_until > work.launched - kLongestLaunch;
      if (work.has_waited) work.launched = std::min(work.launched, call.begin + kLongestLaunch);
      work.launched = std::max(work.launched, work.called);
    }
    note_repairs();
  }

 private:
  using Numbers = std::vector<std::uint32_t>;
  KinetoEvents& events_;
  std::map<double, Numbers> repeated_;  // works, by a correlation that several calls have
  std::set<std::uint32_t> used_;        // calls that have launched works
  std::size_t by_unique_ = 0, repairs_of_repeated_ = 0, unnamed_ = 0;
  std::uint32_t first_repeated_ = 0, first_unnamed_ = 0;

  /// Returns for each number of works the latest end of so many first works, us.
  std::vector<double> latest_ends_of_works() const {
    std::vector<double> ends{-std::numeric_limits<double>::infinity()};
    for (const GpuWork& work : events_.works) ends.push_back(std::max(ends.back(), work.end));
    return ends;
  }

  GpuWork& work(std::uint32_t number) { return events_.works[number]; }
  void join_pair(std::uint32_t number, std::uint32_t call) {
    work(number).call = call;
    used_.insert(call);
  }
  /// Returns true if the work begins after its call. Clocks differ a little.
  bool is_causal(std::uint32_t number, std::uint32_t call) {
    return work(number).begin >= events_.calls[call].begin - kClockNoise;
  }
  static bool launches(const HostCall& call) {
    return call.kind == HostCall::Kind::launch || call.kind == HostCall::Kind::copy;
  }

  void join_unique() {
    for (std::uint32_t i = 0; i < events_.works.size(); ++i) {
      const auto found = events_.calls_of_correlations.find(work(i).correlation);
      if (work(i).correlation <= 0 || found == events_.calls_of_correlations.end()) continue;
      if (found->second.size() > 1) {
        repeated_[work(i).correlation].push_back(i);
        continue;
      }
      join_pair(i, found->second.front());
      ++by_unique_;
    }
  }

  /// Joins works whose correlation several calls have: in order if there are as many launches as works, otherwise each
  /// with the last call before it. `first`: the clock of the GPU is not corrected yet.
  void join_repeated(bool first) {
    if (first && by_unique_ > 0) return;  // unique correlations tell the clock
    repairs_of_repeated_ = 0;
    for (const auto& [correlation, works] : repeated_) {
      const Numbers& calls = events_.calls_of_correlations.at(correlation);
      Numbers launching;
      std::ranges::copy_if(calls, std::back_inserter(launching),
                           [this](std::uint32_t call) { return launches(events_.calls[call]); });
      if (launching.empty()) launching = calls;
      bool in_order = launching.size() == works.size();
      for (std::size_t k = 0; k < works.size() && in_order && !first; ++k) in_order = is_causal(works[k], launching[k]);
      if (first && !in_order) continue;
      for (std::size_t k = 0; k < works.size(); ++k) {
        std::uint32_t call = launching[in_order ? k : 0];
        if (!in_order)
          for (const std::uint32_t other : launching)
            if (is_causal(works[k], other)) call = other;
        join_pair(works[k], call);
      }
      if (works.size() < 2) continue;
      if (repairs_of_repeated_ == 0) first_repeated_ = works.front();
      repairs_of_repeated_ += works.size();
    }
  }

  /// No work begins before its launch. If works do, the clock of the GPU is early: all its times are shifted.
  void correct_clock() {
    double shift = 0;
    std::size_t early = 0;
    std::uint32_t worst = 0;
    for (std::uint32_t i = 0; i < events_.works.size(); ++i) {
      if (!work(i).call || is_causal(i, *work(i).call)) continue;
      ++early;
      const double needed = events_.calls[*work(i).call].begin - work(i).begin;
      if (needed > shift) worst = i;
      shift = std::max(shift, needed);
    }
    if (early == 0) return;
    events_.repairs.push_back(
        fmt::format("the clock of the GPU is early: {} begin{} before the launch, \"{}\" by {:.1f} us; all times of "
                    "the GPU are shifted by as much",
                    counted_noun(early, "work"), early == 1 ? "s" : "", work(worst).name, shift));
    for (GpuWork& moved : events_.works) {
      moved.begin += shift;
      moved.end += shift;
    }
  }

  /// Joins works without a correlation with launches that nothing else uses: those of the same operator (external id)
  /// if both have as many, then all others, in the order of their times.
  void join_unnamed() {
    for (const bool is_copy : {false, true}) {
      std::map<double, Numbers> works, calls;  // indexed by external id
      for (std::uint32_t i = 0; i < events_.works.size(); ++i)
        if (!work(i).call && work(i).correlation <= 0 && work(i).is_copy == is_copy)
          works[work(i).external].push_back(i);
      const auto kind = is_copy ? HostCall::Kind::copy : HostCall::Kind::launch;
      for (std::uint32_t c = 0; c < events_.calls.size(); ++c)
        if (events_.calls[c].kind == kind && !used_.contains(c)) calls[events_.calls[c].external].push_back(c);
      Numbers other_works, other_calls;
      for (const auto& [external, numbers] : works) {
        const auto found = calls.find(external);
        if (external > 0 && found != calls.end() && found->second.size() == numbers.size() &&
            are_causal(numbers, found->second)) {
          join_in_order(numbers, found->second);
          calls.erase(found);
        } else {
          other_works.insert(other_works.end(), numbers.begin(), numbers.end());
        }
      }
      for (const auto& [external, numbers] : calls)
        other_calls.insert(other_calls.end(), numbers.begin(), numbers.end());
      std::ranges::sort(other_works);
      std::ranges::sort(other_calls);
      if (other_works.size() == other_calls.size() && are_causal(other_works, other_calls))
        join_in_order(other_works, other_calls);
      else
        join_backwards(other_works, other_calls);
    }
  }
  bool are_causal(const Numbers& works, const Numbers& calls) {
    for (std::size_t k = 0; k < works.size(); ++k)
      if (!is_causal(works[k], calls[k])) return false;
    return true;
  }
  void join_in_order(const Numbers& works, const Numbers& calls) {
    for (std::size_t k = 0; k < works.size(); ++k) join_unnamed(works[k], calls[k]);
  }
  /// From the last work on, each takes the last call before it that is left.
  void join_backwards(const Numbers& works, Numbers calls) {
    for (auto number = works.rbegin(); number != works.rend() && !calls.empty(); ++number) {
      while (!calls.empty() && !is_causal(*number, calls.back())) calls.pop_back();
      if (calls.empty()) return;
      join_unnamed(*number, calls.back());
      calls.pop_back();
    }
  }
  void join_unnamed(std::uint32_t number, std::uint32_t call) {
    first_unnamed_ = unnamed_++ == 0 ? number : std::min(first_unnamed_, number);
    join_pair(number, call);
  }

  void note_repairs() {
    const auto note = [this](std::size_t count, const char* fault, const char* repair, std::uint32_t first) {
      if (count > 0)
        events_.repairs.push_back(fmt::format("{} {}: {} (the first: \"{}\" at {:.3f} us)", counted_noun(count, "work"),
                                              fault, repair, work(first).name, work(first).begin));
    };
    note(repairs_of_repeated_, "with a correlation that is used again", "the order of launches joins them with calls",
         first_repeated_);
    note(unnamed_, "without a correlation", "external ids and the order of launches join them with calls",
         first_unnamed_);
  }
};

}  // namespace

void join_launches(KinetoEvents& events) { LaunchJoiner(events).join(); }

}  // namespace trainyard
