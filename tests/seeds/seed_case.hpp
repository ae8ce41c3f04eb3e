#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"
#include "topologies/machines/star_cluster.hpp"

namespace trainyard {

/// An acceptance case: what the simulator must give for stated inputs. Inputs and expected figures are in cases.yaml,
/// the experiment is code, one file a family.
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
  std::map<std::string, double> tolerances;  ///< of figures whose name begins with that word, instead
  SeedState state = SeedState::missing;
};

/// Runs the cases of the file (all, or those with the ids given), each in a process of its own. An experiment that
/// throws fails, and its figure "error" says why.
std::vector<SeedOutcome> run_seed_cases(const std::filesystem::path& cases, const std::vector<std::string>& ids = {});

// What the experiments are made of:

/// Where names are looked up from that no document says.
Place seed_place();
/// One GPU of the catalog that reaches its peaks: no launch time, every efficiency 1.
ClusterSpec ideal_gpu(const std::string& name);
/// Simulated seconds of kernels that run one after another on the first device.
double work_seconds(const ClusterSpec&, const std::vector<Work>&);
/// Work of arithmetic alone.
Work flops_work(Flops, Precision);
/// The name of an input's word, or of each of a list.
std::vector<std::string> words_of(const Node& inputs, std::string_view key);
/// A quantity of the inputs, in the unit of its key ("link_GBps", "S_bytes"); or list of numbers.
double number_of(const Node& inputs, std::string_view key);
std::vector<double> numbers_of(const Node& inputs, std::string_view key);
/// "a0+a2" for chunk letter a with contributions of ranks 0 and 2: rank i's chunk k starts as 2^(k·ranks + i).
std::vector<std::vector<double>> contributor_values(int ranks);
std::string contributors(double value, int ranks);

}  // namespace trainyard
