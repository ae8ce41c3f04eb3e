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
  Bytes size;  ///< counted as nccl-tests does
  Seconds time;
};

/// The rows of one kind of GPU in one file.
struct NcclLog {
  std::string file;        ///< file name without folders
  std::string gpu;         ///< name in the file: "a100_sxm", "NVIDIA H100 80GB HBM3"; may be empty
  std::string version;     ///< version of NCCL; empty: not stated in the file
  std::string provenance;  ///< source named in the file's first comment; may be empty
  std::vector<NcclRow> rows;
  NcclLaunch launch = NcclLaunch::by_process;  ///< by_thread if nGpus is above 1; ahead if a CUDA graph is used
};

/// Facts that a log may leave out.
struct NcclLogHints {
  int gpus = 0;           ///< 0: taken from the log's rank lines or from nGpus in its header
  std::string operation;  ///< empty: taken from the program's name, or from the ratio of bus to algorithm bandwidth
  std::string otherwise = {};  ///< the operation if neither states it
};

/// Reads nccl.csv (columns gpu, nccl_version, op, num_gpus, message_bytes, latency_us; one log for each GPU), or the
/// output of a program of nccl-tests. Of the latter it takes the out-of-place times. Prefixes of mpirun or srun, other
/// lines, and several tables in one file are allowed. Throws UserError with file:line and what was expected.
std::vector<NcclLog> read_nccl_logs(const std::filesystem::path&, const NcclLogHints&);

}  // namespace trainyard
