// Tables and columns: docs.nvidia.com/nsight-systems, Analysis Guide, "SQLite Schema Reference". A table is there only if
// something of its kind was recorded, and old exports lack some columns.
#include "scenarios/src/traces/nsight_export.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

/// A database that is only read.
class Database {
 public:
  explicit Database(const std::filesystem::path& file) : file_(file.string()) {
    sqlite3* opened = nullptr;
    const int error = sqlite3_open_v2(file_.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    base_.reset(opened);
    if (error != SQLITE_OK) throw failure();
  }

  using Row = sqlite3_stmt*;
  /// Calls `take` with each row that a query returns.
  template <class Take>
  void query(const std::string& text, const Take& take) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(base_.get(), text.c_str(), -1, &prepared, nullptr) != SQLITE_OK) throw failure();
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
    int state = SQLITE_ROW;
    while ((state = sqlite3_step(prepared)) == SQLITE_ROW) take(prepared);
    if (state != SQLITE_DONE) throw failure();
  }
  bool has_column(const std::string& table, std::string_view column) {
    bool has = false;
    query(fmt::format("PRAGMA table_info({})", table), [&](Row row) { has |= text_at(row, 1) == column; });
    return has;
  }
  bool has_table(const std::string& table) { return has_column(table, "start") || has_column(table, "id"); }

  const std::string& file() const { return file_; }

  static std::string text_at(Row row, int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
    return text ? text : "";
  }

 private:
  std::string file_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> base_{nullptr, sqlite3_close};
  UserError failure() const { return UserError(fmt::format("{}: {}", file_, sqlite3_errmsg(base_.get()))); }
};

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// Returns the number of a range that marks a step. No value: its text says something else.
std::optional<int> step_number(const std::string& text) {
  const std::size_t digits = text.find_last_not_of("0123456789") + 1;
  if (digits == text.size() || text.size() - digits > 9) return std::nullopt;
  std::string word = lower_case(text.substr(0, digits));
  while (!word.empty() && !std::isalpha(static_cast<unsigned char>(word.back()))) word.pop_back();
  constexpr std::array<std::string_view, 7> kWords{"profilerstep", "step",          "iteration", "iter",
                                                   "train_step",   "training step", "train step"};
  if (std::ranges::find(kWords, word) == kWords.end()) return std::nullopt;
  return std::stoi(text.substr(digits));
}

/// Returns the name of a call without what CUPTI adds, its version and that of streams of a thread:
/// "cudaLaunchKernel_ptsz_v7000".
std::string plain_name(std::string name) {
  const std::size_t version = name.rfind("_v");
  const bool has_version = version != std::string::npos && version + 2 < name.size() &&
                           name.find_first_not_of("0123456789", version + 2) == std::string::npos;
  if (has_version) name.resize(version);
  for (const char* ending : {"_ptsz", "_ptds"})
    if (name.ends_with(ending)) name.resize(name.size() - std::string_view(ending).size());
  return name;
}

class ExportReader {
 public:
  ExportReader(const std::filesystem::path& file,
               const std::function<void(const std::string& list, const json& item)>& take)
      : base_(file), take_(take) {}

  void read() {
    require_kernels_of_graphs();
    select_process();
    take_gpus();
    if (!base_.has_table("StringIds")) return;  // nothing was recorded
    if (base_.has_table(kKernels)) take_works(kKernels, "kernel", "StringIds.value", "demangledName");
    take_works("CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy", "'Memcpy'", "");
    take_works("CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", "'Memset'", "");
    take_calls();
    take_steps();
  }

 private:
  Database base_;
  const std::function<void(const std::string& list, const json& item)>& take_;
  std::optional<std::int64_t> process_;  // the upper bits of its global ids

  static double microseconds_at(Database::Row row, int column) {
    return static_cast<double>(sqlite3_column_int64(row, column)) * 1e-3;
  }
  static json event(const char* category, const std::string& name, double begin, double end) {
    return {{"ph", "X"}, {"cat", category}, {"name", name}, {"ts", begin}, {"dur", end - begin}};
  }

  /// Throws UserError if the export has CUDA graphs as a whole, without their kernels.
  void require_kernels_of_graphs() {
    const std::string table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    std::int64_t graphs = 0;
    if (base_.has_table(table))
      base_.query("SELECT COUNT(*) FROM " + table, [&](Database::Row row) { graphs = sqlite3_column_int64(row, 0); });
    if (graphs > 0)
      throw UserError(
          fmt::format("{}: {} CUDA graphs in it have no kernels; nsys profile --cuda-graph-trace=node expected",
                      base_.file(), graphs));
  }

  /// Correlations are unique only in a process.
  void select_process() {
    if (!base_.has_column(kKernels, "globalPid")) return;
    base_.query(fmt::format("SELECT globalPid >> 24 FROM {} GROUP BY 1 ORDER BY COUNT(*) DESC, 1 LIMIT 1", kKernels),
                [this](Database::Row row) { process_ = sqlite3_column_int64(row, 0); });
  }
  std::string of_process(const std::string& table, const char* column) {
    return process_ && base_.has_column(table, column)
               ? fmt::format(" WHERE {}.{} >> 24 = {}", table, column, *process_)
               : "";
  }

  void take_gpus() {
    if (!base_.has_column("TARGET_INFO_GPU", "totalMemory")) return;
    base_.query("SELECT id, name, totalMemory FROM TARGET_INFO_GPU", [this](Database::Row row) {
      take_("deviceProperties", {{"id", sqlite3_column_int64(row, 0)},
                                 {"name", Database::text_at(row, 1)},
                                 {"totalGlobalMem", sqlite3_column_double(row, 2)}});
    });
  }

  /// `name_id`: column with the name's number in StringIds; "": `name` needs none.
  void take_works(const std::string& table, const char* category, const char* name, const std::string& name_id) {
    if (!base_.has_table(table)) return;
    base_.query(
        fmt::format("SELECT {0}.start, {0}.end, {0}.deviceId, {0}.streamId, {0}.correlationId, {1} FROM {0}{2}{3}",
                    table, name,
                    name_id.empty() ? "" : fmt::format(" LEFT JOIN StringIds ON StringIds.id = {}", name_id),
                    of_process(table, "globalPid")),
        [&](Database::Row row) {
          json item = event(category, Database::text_at(row, 5), microseconds_at(row, 0), microseconds_at(row, 1));
          item["args"] = {{"device", sqlite3_column_int64(row, 2)},
                          {"stream", sqlite3_column_int64(row, 3)},
                          {"correlation", sqlite3_column_int64(row, 4)}};
          take_("traceEvents", item);
        });
  }

  void take_calls() {
    if (!base_.has_table(kCalls)) return;
    base_.query(fmt::format("SELECT {0}.start, {0}.end, {0}.globalTid, {0}.correlationId, StringIds.value FROM {0} "
                            "LEFT JOIN StringIds ON StringIds.id = nameId{1}",
                            kCalls, of_process(kCalls, "globalTid")),
                [this](Database::Row row) {
                  json item = event("cuda_runtime", plain_name(Database::text_at(row, 4)), microseconds_at(row, 0),
                                    microseconds_at(row, 1));
                  item["tid"] = sqlite3_column_int64(row, 2);
                  item["args"] = {{"correlation", sqlite3_column_int64(row, 3)}};
                  take_("traceEvents", item);
                });
  }

  void take_steps() {
    const std::string table = "NVTX_EVENTS";
    if (!base_.has_table(table)) return;
    const bool has_ids = base_.has_column(table, "textId");
    base_.query(
        fmt::format("SELECT {0}.start, {0}.end, {1} FROM {0}{2}{3}", table,
                    has_ids ? "COALESCE(text, StringIds.value)" : "text",
                    has_ids ? " LEFT JOIN StringIds ON StringIds.id = textId" : "", of_process(table, "globalTid")),
        [this](Database::Row row) {
          const std::optional<int> number = step_number(Database::text_at(row, 2));
          if (!number || sqlite3_column_type(row, 1) == SQLITE_NULL) return;
          take_("traceEvents", event("user_annotation", fmt::format("ProfilerStep#{}", *number),
                                     microseconds_at(row, 0), microseconds_at(row, 1)));
        });
  }
};

}  // namespace

bool is_nsight_export(const std::filesystem::path& path) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::array<char, kMagic.size()> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kMagic;
}

void read_nsight_items(const std::filesystem::path& path,
                       const std::function<void(const std::string& list, const json& item)>& take) {
  ExportReader(path, take).read();
}

}  // namespace trainyard
