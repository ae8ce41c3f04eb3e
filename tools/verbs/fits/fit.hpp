#pragma once
#include <string>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "scenarios/src/studies/measured/measured_collectives.hpp"

namespace trainyard {

/// What `trainyard fit nccl` was asked for.
struct NcclFitRequest {
  std::vector<std::string> files;
  std::string gpu;        ///< the catalog's name of the GPU; empty: by the log
  std::string operation;  ///< empty: by the log
  int gpus = 0;           ///< 0: by the log
  std::string out;        ///< file of the catalog entry; a folder for several GPUs; empty or "-": stdout
  std::string svg, json;  ///< files; empty: none
  std::string system;     ///< one of a table of sweeps; empty: the files are logs
};

/// `fit nccl`: protocols of NCCL from nccl.csv or logs of nccl-tests. Returns an exit code.
int fit_nccl_logs(const NcclFitRequest&);
/// `fit nccl --networks`: what NCCL gets of each kind of network, from tables of systems and sweeps. Returns an exit code.
int fit_nccl_networks(const NcclFitRequest&);
/// `fit nccl --launch`: what a thread of the host takes to launch a call, from the same tables. Returns an exit code.
int fit_nccl_launch(const NcclFitRequest&);
/// The tables of systems and sweeps that were asked for; none: those that come along. Throws UserError.
MeasuredSystems measured_tables(const NcclFitRequest&);
/// `fit roofline`: efficiencies and launch floor from the tables in the folder `data`. Returns an exit code.
int fit_rooflines(const std::string& data, const std::string& gpu, const std::string& json);

/// What `trainyard fit kernels` was asked for.
struct KernelFitRequest {
  std::vector<std::string> files;  ///< gemm.csv, attention.csv
  std::string gpu;                 ///< empty: all that the tables know
  std::string out, json;           ///< files; empty: stdout, none
  bool skip_impossible = false;    ///< rows that no chip could have are left out, else they are an error
};
/// `fit kernels`: the constants of matrix products by their shape, and of attention, as a GPU's entry has them. Returns
/// an exit code.
int fit_kernels(const KernelFitRequest&);

/// `fit training`: the constants that are fitted to measured runs, fitted to all of them again, and the families' errors
/// before and after. Returns an exit code.
int fit_training(const std::string& json);

/// The catalog's GPU that the user names by --gpu.
Gpu fit_gpu(const Catalog&, const std::string& name);

}  // namespace trainyard
