#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/fitted/fitting.hpp"
#include "models/hardware/gpu.hpp"
#include "scenarios/src/studies/measured/measured_collectives.hpp"

namespace trainyard {

/// What `trainyard fit` was asked for; each of its fits takes a part of that.
struct FitRequest {
  std::vector<std::string> files;
  std::string data;              ///< folder of tables; empty: TRAINYARD_DATA
  std::string gpu;               ///< the catalog's name of the GPU; empty: by the log, or all that the tables know
  std::string operation;         ///< empty: by the log
  int gpus = 0;                  ///< 0: by the log
  std::string out;               ///< file of the catalog entry; a folder for several; empty or "-": stdout
  std::string svg, json;         ///< files; empty: none
  std::string system;            ///< one of a table of sweeps; empty: the files are logs
  bool skip_impossible = false;  ///< rows that no chip could have are left out, else they are an error
};

// Each returns an exit code, and throws UserError.

/// `fit nccl`: protocols of NCCL from nccl.csv or logs of nccl-tests.
int fit_nccl_logs(const FitRequest&);
/// `fit nccl --networks`: what NCCL gets of each kind of network, from tables of systems and sweeps.
int fit_nccl_networks(const FitRequest&);
/// `fit nccl --launch`: what a thread of the host takes to launch a call, from the same tables.
int fit_nccl_launch(const FitRequest&);
/// `fit roofline`: efficiencies and launch floor from the tables in the folder `data`.
int fit_rooflines(const FitRequest&);
/// `fit kernels`: the constants of matrix products by their shape, and of attention, as a GPU's entry has them.
int fit_kernels(const FitRequest&);
/// `fit training`: the constants that are fitted to measured runs, fitted to all of them again, and the families' errors
/// before and after.
int fit_training(const std::string& json);

/// The tables of systems and sweeps that were asked for; none: those that come along. Throws UserError.
MeasuredSystems measured_tables(const FitRequest&);
/// The catalog's GPU that the user names by --gpu.
Gpu fit_gpu(const Catalog&, const std::string& name);
/// JSON of median, mean and 90th percentile.
nlohmann::ordered_json errors_json(const FitErrors&);
/// Gives JSON `{key: fits}` to the file that was asked for, and the text to `out` unless that JSON is on stdout.
int give_fits(const FitRequest&, const char* key, const nlohmann::ordered_json& fits, const std::string& text,
              const std::string& out = "-");

}  // namespace trainyard
