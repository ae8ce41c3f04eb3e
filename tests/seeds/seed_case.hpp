#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {

/// The figures of an acceptance case: the simulator must give them for stated inputs. Inputs and expected figures are
/// in cases.yaml. The experiments are code, with one file for each family of cases.
using SeedFigures = std::map<std::string, nlohmann::json>;  ///< numbers, words or truths by name
using SeedExperiment = SeedFigures (*)(const Node& inputs);
Registry<SeedExperiment>& seed_experiments();

struct RegisterSeed {
  RegisterSeed(const char* id, SeedExperiment experiment) { seed_experiments().add(id, experiment); }
};

enum class SeedState { pass, fail, missing };  ///< missing: no experiment yet

struct SeedOutcome {
  std::string id, title, note;
  SeedFigures expected, got;
  double tolerance = 0;                      ///< relative; 0: exact
  std::map<std::string, double> tolerances;  ///< replace it for figures whose name begins with the key
  SeedState state = SeedState::missing;
};

/// Runs the cases of the file in parallel: all, or those with these ids. An experiment that throws fails, and its
/// figure "error" is the message. Throws UserError for an unknown id.
std::vector<SeedOutcome> run_seed_cases(const std::filesystem::path& cases, const std::vector<std::string>& ids = {});

// Helpers of experiments:

/// Returns the place of names that no document states.
Place seed_place();
/// Returns one GPU of the catalog that reaches its peaks: no launch time, every efficiency 1.
ClusterSpec ideal_gpu(const std::string& name);
/// Returns the simulated time in s of kernels that run one after another on the first device.
double work_seconds(const ClusterSpec&, const std::vector<Work>&);
/// Returns work that is arithmetic alone.
Work flops_work(Flops, Precision);
/// Returns the word of an input, or the words of a list.
std::vector<std::string> words_of(const Node& inputs, std::string_view key);
/// Returns a number of the inputs, in the unit of its key ("link_GBps", "S_bytes").
double number_of(const Node& inputs, std::string_view key);
/// Returns a list of such numbers.
std::vector<double> numbers_of(const Node& inputs, std::string_view key);
/// Returns values of ranks with one bit for each contribution: chunk k of rank i is 2^(k·ranks + i). `contributors`
/// names the bits of a sum: "a0+a2" for chunk a with contributions of ranks 0 and 2.
std::vector<std::vector<double>> contributor_values(int ranks);
std::string contributors(double value, int ranks);

}  // namespace trainyard
