#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/fitted/fitting.hpp"
#include "models/hardware/gpu.hpp"
#include "scenarios/src/studies/measured/measured_collectives.hpp"

namespace trainyard {

struct FieldRow;

/// The arguments of `trainyard fit`. Each fit uses some of them.
struct FitRequest {
  std::vector<std::string> files;
  std::string data;              ///< folder of tables; empty: TRAINYARD_DATA
  std::string gpu;               ///< the catalog's name of the GPU; empty: the log's GPU, or all GPUs in the tables
  std::string operation;         ///< the collective; empty: the log's
  int gpus = 0;                  ///< number of GPUs; 0: the log's
  std::string out;               ///< file of the catalog entry, or a folder for several; empty or "-": stdout
  std::string svg, json;         ///< files to write; empty: none
  std::string system;            ///< a system in a table of sweeps; empty: the files are logs
  bool skip_impossible = false;  ///< leave out rows faster than the chip's peak; false: such a row is an error
};

// Each returns an exit code, and throws UserError.

/// `fit nccl`: the constants of NCCL's protocols, from nccl.csv or logs of nccl-tests.
int fit_nccl_logs(const FitRequest&);
/// `fit nccl --networks`: the share of each network's rate that NCCL reaches, from tables of systems and sweeps.
int fit_nccl_networks(const FitRequest&);
/// `fit nccl --launch`: the time that a host thread takes to launch a call, from the same tables.
int fit_nccl_launch(const FitRequest&);
/// `fit roofline`: efficiencies and the shortest launch time, from the tables in the folder `data`.
int fit_rooflines(const FitRequest&);
/// `fit kernels`: the constants of matrix products by shape, and of attention, in the form of a GPU's entry.
int fit_kernels(const FitRequest&);
/// `fit training`: fits the constants that depend on measured runs to all these runs again, and shows the errors of the
/// families before and after.
int fit_training(const std::string& json);

/// The tables of systems and sweeps that the request names; if it names none, the shipped ones. Throws UserError.
MeasuredSystems measured_tables(const FitRequest&);
/// The catalog's GPU with the name that --gpu gives. Throws UserError.
Gpu fit_gpu(const Catalog&, const std::string& name);
/// Median, mean and 90th percentile of the errors, as JSON.
nlohmann::ordered_json errors_json(const FitErrors&);
/// Adds the explanations of `held_out_error` and `in_sample_error`, each of which `errors_json` writes, below `prefix`.
void add_error_rows(std::vector<FieldRow>&, const std::string& prefix);
/// Writes JSON `{key: fits}` to the request's file, and the text to `out` unless that JSON goes to stdout.
int give_fits(const FitRequest&, const char* key, const nlohmann::ordered_json& fits, const std::string& text,
              const std::string& out = "-");

}  // namespace trainyard
