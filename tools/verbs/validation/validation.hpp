#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// What `trainyard validate` was asked for.
struct ValidationRequest {
  std::string set;                    ///< what is compared: a name, or a file of measured runs
  std::string json, html, csv, svg;   ///< files to write; empty: none
  std::string systems;                ///< of the picture, by commas; empty: all
  std::vector<std::string> families;  ///< these alone; empty: all
  bool points = false;                ///< every point in the JSON; the page has them anyway
  bool fit = false, knobs = false, left_out = false;
  bool prints() const;  ///< does stdout take the text?
};

/// The sets as a table, with these figures of their errors (see kErrorFigures) as columns, in per cent or points; `none` stands
/// where a set has no limit.
std::string error_table(const std::vector<JudgedSet>&, const std::vector<std::string>& figures, const char* none,
                        bool in_points = false);
/// Prints the text, writes the sets as JSON and draws them on a page, as asked. Returns the exit code: do all sets pass?
int report(const ValidationRequest&, const std::string& title, const std::string& text, const std::vector<JudgedSet>&);
/// Prints the text, and writes the JSON, as asked.
void report(const ValidationRequest&, const std::string& text, const nlohmann::ordered_json&);

// Each compares what it is called after, and returns an exit code.
int validate_runs(const ValidationRequest&);           ///< measured training runs, by family
int validate_memory(const ValidationRequest&);         ///< peak and reserved memory alone of such runs
int validate_left_out(const ValidationRequest&);       ///< families by constants that were fitted to the others
int validate_plans(const ValidationRequest&);          ///< the order of measured plans, and which of them is taken
int validate_published(const ValidationRequest&);      ///< the rates of famous runs
int validate_data_parallel(const ValidationRequest&);  ///< how well CNNs scale over the GPUs of a machine
int validate_horovod(const ValidationRequest&);        ///< a study on two T4; `fit`: the constant of the stack instead
int validate_collectives(const ValidationRequest&);    ///< the NCCL model against nccl-tests
int validate_kernels(const ValidationRequest&);        ///< matrix products and attention
int validate_packets(const ValidationRequest&);        ///< TCP packet by packet, which nothing measured stands behind
int validate_engines(const ValidationRequest&);        ///< SimGrid's own communications on shipped scenarios
int show_knobs(const ValidationRequest&);              ///< the constants that are fitted, and to what

}  // namespace trainyard
