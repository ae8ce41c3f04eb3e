#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// One measured time of one operation.
struct NcclRow {
  NcclOperation operation = NcclOperation::all_reduce;
  int gpus = 0, nodes = 1;
  Bytes size;  ///< as nccl-tests counts it
  Seconds time;
};

/// The rows of one kind of GPU in one file.
struct NcclLog {
  std::string file;        ///< its name without folders
  std::string gpu;         ///< as the file calls it: "a100_sxm", "NVIDIA H100 80GB HBM3"; may be empty
  std::string version;     ///< of NCCL; empty where the file does not say
  std::string provenance;  ///< what the file's first comment says of its source; may be empty
  std::vector<NcclRow> rows;
  NcclLaunch launch = NcclLaunch::by_process;  ///< by_thread: nGpus above 1; ahead: by a CUDA graph
};

/// What a log may leave out.
struct NcclLogHints {
  int gpus = 0;                ///< 0: by the log's rank lines, or nGpus of its header
  std::string operation;       ///< empty: by the program's name in the log, or by bus against algorithm bandwidth
  std::string otherwise = {};  ///< the operation, where neither says
};

/// Reads nccl.csv (columns gpu, nccl_version, op, num_gpus, message_bytes, latency_us; one log a GPU), or what a program
/// of nccl-tests printed: the out-of-place times, also under mpirun's or srun's prefixes, between other lines, several
/// tables one after another. Throws UserError with file:line and what was expected.
std::vector<NcclLog> read_nccl_logs(const std::filesystem::path&, const NcclLogHints&);

}  // namespace trainyard
