#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

/// Returns true if a file is a database of SQLite, as `nsys export --type sqlite` writes it.
bool is_nsight_export(const std::filesystem::path&);

/// Reads an export of Nsight Systems and calls `take` with its kernels, copies, fills, calls of the CUDA runtime, steps
/// and GPUs in the form of PyTorch's profiler (`read_kineto_items`). Of several processes it takes the one with most
/// kernels. A range of NVTX is a step if its text is a word for a step and a number: "ProfilerStep#3", "step 3",
/// "iteration 3". Throws UserError if the file cannot be read.
void read_nsight_items(const std::filesystem::path&,
                       const std::function<void(const std::string& list, const nlohmann::json& item)>& take);

}  // namespace trainyard
