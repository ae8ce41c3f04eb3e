#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

/// The arguments of `trainyard validate`.
struct ValidationRequest {
  std::string set;                    ///< the set of measurements: a name, or a file of measured runs
  std::string json, html, csv, svg;   ///< files to write; empty: none
  std::string systems;                ///< systems of the picture, separated by commas; empty: all
  std::vector<std::string> families;  ///< families of runs to compare; empty: all
  bool points = false;                ///< write every point in the JSON; the page always has them
  bool fit = false, knobs = false, left_out = false;
  bool first = false;   ///< anchors families by their first steps instead of the cheapest ones
  bool prints() const;  ///< whether the text goes to stdout
};

/// Returns all families to which constants are fitted, those of the four sets that --left-out judges.
std::vector<MeasuredFamily> families_of_fit();

/// The sets as a table. Columns are these figures of their errors (see kErrorFigures), in per cent or percentage
/// points. `none`: the text for a set without a limit.
std::string error_table(const std::vector<JudgedSet>&, const std::vector<std::string>& figures, const char* none,
                        bool in_points = false);
/// Prints the text, writes the sets as JSON and draws them on a page, as requested. Returns kGood if all sets pass, and
/// kFailsLimit otherwise. `unfinished`: what was done before a signal ended the work; empty: all. `refused`: the runs
/// that are not predicted, each with the reason.
int report(const ValidationRequest&, const std::string& title, const std::string& text, const std::vector<JudgedSet>&,
           const std::string& unfinished = "", const std::vector<std::pair<std::string, std::string>>& refused = {});
/// Prints the text and writes the JSON, as requested.
void report(const ValidationRequest&, const std::string& text, const nlohmann::ordered_json&);

/// A step time by the default transport and by SimGrid's own communications, s.
struct EngineTimes {
  double flow = 0, native = 0;
  double difference() const;  ///< relative; NaN if a time is no number
};
/// The comparison of all these times. They agree if there is one, and if no difference is too large or no number.
struct EngineVerdict {
  double largest = 0;  ///< largest difference; NaN if one is no number
  bool agree = false;
};
EngineVerdict judge_engines(const std::vector<EngineTimes>&);

// Each function compares one set with the simulator, and returns an exit code.
int validate_runs(const ValidationRequest&);           ///< measured training runs, by family
int validate_memory(const ValidationRequest&);         ///< peak and reserved memory of measured runs
int validate_left_out(const ValidationRequest&);       ///< each family, with constants fitted to the other families
int validate_coverage(const ValidationRequest&);       ///< intervals against measured steps, collectives and memory
int validate_anchors(const ValidationRequest&);        ///< families anchored by their first steps
int validate_plans(const ValidationRequest&);          ///< the order of measured plans, and the plan that is chosen
int validate_published(const ValidationRequest&);      ///< the published rates of famous runs
int validate_data_parallel(const ValidationRequest&);  ///< the scaling of CNNs over the GPUs of a machine
int validate_horovod(const ValidationRequest&);        ///< a study on two T4; `fit`: fits the stack's constant
int validate_collectives(const ValidationRequest&);    ///< the NCCL model against nccl-tests
int validate_kernels(const ValidationRequest&);        ///< matrix products and attention
int validate_packets(const ValidationRequest&);        ///< the default transport against TCP packets; no measurements
int validate_engines(const ValidationRequest&);        ///< the default transport against SimGrid's own; no measurements
int validate_serving(const ValidationRequest&);        ///< times of tokens of inference engines
int validate_post_training(const ValidationRequest&);  ///< steps of post-training loops, and transfers of weights
int validate_answered(const ValidationRequest&);       ///< which of many published steps have a scenario
int show_knobs(const ValidationRequest&);              ///< shows the fitted constants, and the data of their fits

}  // namespace trainyard
