#include "models/fitted/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>

#include "models/fitted/measured_table.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

Words words_of(std::string_view line, std::vector<std::size_t>& starts) {
  Words words;
  starts.clear();
  for (std::size_t start = 0; start < line.size();) {
    start = line.find_first_not_of(" \t\r", start);
    if (start == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", start), line.size());
    words.emplace_back(line.substr(start, end - start));
    starts.push_back(start);
    start = end;
  }
  return words;
}

std::optional<std::int64_t> parse_whole(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// Reads a number of GPUs or threads, or a rank. Returns 0 for a number that is larger than any cluster has.
int parse_small(std::string_view word) {
  constexpr std::int64_t kMost = 20'000;  // so that the product of two fits an int
  const std::int64_t value = parse_whole(word).value_or(0);
  return value >= 0 && value <= kMost ? static_cast<int>(value) : 0;
}

/// Removes the prefixes that launchers put before a line: "[1,0]<stdout>:", "[0] ", "3: ".
std::string_view skip_prefixes(std::string_view line) {
  for (;;) {
    const std::size_t text = line.find_first_not_of(" \t");
    if (text == std::string_view::npos) return {};
    std::string_view rest = line.substr(text);
    if (rest.front() == '[') {
      const std::size_t end = rest.find(']');
      if (end == std::string_view::npos) return line;
      rest.remove_prefix(end + 1);
      for (const std::string_view mark : {"<stdout>", "<stderr>", ":"})
        if (rest.starts_with(mark)) rest.remove_prefix(mark.size());
    } else {
      const std::size_t end = rest.find_first_not_of("0123456789");
      if (end == 0 || end == std::string_view::npos || rest[end] != ':') return line;
      rest.remove_prefix(end + 1);
    }
    line = rest;
  }
}

/// Reads the lines of one file, one after another.
class LogReader {
 public:
  LogReader(const fs::path& file, const NcclLogHints& hints) : file_(file.string()), hints_(hints) {
    log_.file = file.filename().string();
    if (!hints.operation.empty()) hinted_ = parse_nccl_operation(hints.operation);
  }

  void read(std::string_view raw) {
    ++line_;
    const std::string_view line = skip_prefixes(raw);
    prefix_ = line.empty() ? 0 : static_cast<std::size_t>(line.data() - raw.data());
    const Words words = words_of(line, starts_);
    name_program(line);
    if (words.empty()) return;
    const bool comment = words.front().starts_with('#');
    if (line.find("nThread") != std::string_view::npos) start_run(words);
    if (line.find("NCCL version") != std::string_view::npos) read_version(words, "version");
    if (line.find("nccl-library=") != std::string_view::npos) read_library(line);
    if (is_rank(words)) return read_rank(words);
    if (is_header(words)) return read_header(words);
    if (!comment && !columns_.empty() && words.size() > 2 && parse_whole(words[0]) && parse_whole(words[1]))
      read_row(words);
  }

  NcclLog finish() {
    name_table();
    if (header_line_ == 0)
      throw UserError(
          fmt::format("{}:{}:1: no nccl-tests log: expected its table, headed \"size count type redop root time algbw "
                      "busbw\", or nccl.csv's columns (gpu, nccl_version, op, num_gpus, message_bytes, latency_us)",
                      file_, std::max(line_, 1)));
    if (log_.rows.empty())
      throw UserError(fmt::format("{}:{}:1: the table has no rows; expected size, count, …, time, algbw, busbw", file_,
                                  header_line_));
    return std::move(log_);
  }

 private:
  /// Throws UserError at a word of the line.
  [[noreturn]] void refuse(const std::string& what, std::size_t word = 0) const {
    const std::size_t start = word < starts_.size() ? prefix_ + starts_[word] : 0;
    throw UserError(fmt::format("{}:{}:{}: {}", file_, line_, start + 1, what));
  }

  /// "# nThread 1 nGpus 8 minBytes 8 …": the first line of a program.
  void start_run(const Words& words) {
    name_table();
    columns_.clear();
    ranks_.clear();
    hosts_.clear();
    threads_ = per_thread_ = 0;
    bool graph = false;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "nThread") threads_ = parse_small(words[i + 1]);
      if (words[i] == "nGpus") per_thread_ = parse_small(words[i + 1]);
      if (words[i] == "graph:") graph = parse_small(words[i + 1]) > 0;
    }
    log_.launch = graph ? NcclLaunch::ahead : per_thread_ > 1 ? NcclLaunch::by_thread : NcclLaunch::by_process;
  }

  void name_program(std::string_view line) {
    const std::size_t end = line.find("_perf");
    if (end == std::string_view::npos || hinted_) return;
    std::size_t begin = end;
    while (begin > 0 && (std::isalpha(static_cast<unsigned char>(line[begin - 1])) != 0 || line[begin - 1] == '_'))
      --begin;
    try {
      program_ = parse_nccl_operation(std::string(line.substr(begin, end - begin)));
    } catch (const UserError&) {
      // The name of some other program; the table may still identify the operation.
    }
  }

  /// "NCCL version 2.20.3+cuda12.3"
  void read_version(const Words& words, std::string_view keyword) {
    const auto word = std::ranges::find(words, keyword);
    if (word != words.end() && word + 1 != words.end()) log_.version = (word + 1)->substr(0, (word + 1)->find('+'));
  }
  /// "nccl-library=22703" is version 2.27.3.
  void read_library(std::string_view line) {
    std::string_view digits = line.substr(line.find("nccl-library=") + 13);
    digits = digits.substr(0, digits.find_first_not_of("0123456789"));
    if (const auto v = parse_whole(digits); v && *v >= 10000 && log_.version.empty())
      log_.version = fmt::format("{}.{}.{}", *v / 10000, *v / 100 % 100, *v % 100);
  }

  /// "#  Rank  0 Group  0 Pid  47450 on  gpu59 device  0 [0x16] NVIDIA GeForce RTX 4090"
  static bool is_rank(const Words& words) {
    const auto rank = std::ranges::find(words, "Rank");
    return rank != words.end() && words.end() - rank > 2 && parse_whole(*(rank + 1)) &&
           std::find(rank, words.end(), "device") != words.end();
  }
  void read_rank(const Words& words) {
    const auto rank = std::ranges::find(words, "Rank");
    ranks_.insert(parse_small(*(rank + 1)));
    const auto on_word = std::find(rank, words.end(), "on");
    if (on_word != words.end() && on_word + 1 != words.end()) hosts_.insert(*(on_word + 1));
    auto name = std::find(rank, words.end(), "device");
    while (name != words.end() && name->find(']') == std::string::npos) ++name;
    if (name == words.end() || ++name == words.end()) return;
    const std::string gpu = fmt::format("{}", fmt::join(name, words.end(), " "));
    if (!log_.gpu.empty() && log_.gpu != gpu)
      refuse(fmt::format("two kinds of GPU, {} and {}; expected one", log_.gpu, gpu));
    log_.gpu = gpu;
  }

  static bool is_header(const Words& words) {
    const auto has = [&](const char* w) { return std::ranges::find(words, w) != words.end(); };
    return has("size") && has("count") && has("time") && has("algbw") && has("busbw");
  }
  void read_header(const Words& words) {
    columns_.clear();
    for (const std::string& word : words)
      if (word != "#") columns_.push_back(word);
    header_line_ = line_;
  }
  std::size_t column(const char* name) const {
    return static_cast<std::size_t>(std::ranges::find(columns_, name) - columns_.begin());
  }

  void read_row(const Words& words) {
    const std::size_t time = column("time"), bus = column("busbw"), algorithm = column("algbw");
    if (words.size() != columns_.size())
      refuse(fmt::format("{} columns, but the table's header has {}: {}", words.size(), columns_.size(),
                         fmt::join(columns_, " ")));
    if (words[time] == "N/A") return;
    NcclRow row;
    row.size = Bytes{static_cast<double>(*parse_whole(words[0]))};
    row.time = Seconds{number(words, time, "time", false) * 1e-6};
    row.gpus = gpus();
    row.nodes = std::max<int>(1, static_cast<int>(hosts_.size()));
    if (row.gpus < 2) refuse("one GPU exchanges nothing; expected 2 or more");
    const double algbw = number(words, algorithm, "algbw", true), busbw = number(words, bus, "busbw", true);
    if (row.size.value <= 0) return;
    name_row(row, algbw > 1 ? busbw / algbw : 0, words);
    log_.rows.push_back(row);
  }

  double number(const Words& words, std::size_t index, const char* name, bool zero) const {
    try {
      const double v = parse_number(words[index]);
      if (v > 0 || (zero && v == 0)) return v;
    } catch (const UserError&) {
    }
    refuse(fmt::format("{}: \"{}\" is not a number {}", name, words[index], zero ? "of 0 or more" : "greater than 0"),
           index);
  }

  int gpus() const {
    if (hints_.gpus > 0) return hints_.gpus;
    if (!ranks_.empty()) return *ranks_.rbegin() + 1;
    if (threads_ > 0 && per_thread_ > 0 && threads_ * per_thread_ > 1) return threads_ * per_thread_;
    refuse("how many GPUs? The log has no \"# Rank\" lines; give --gpus N");
  }

  /// Sets a row's operation if its name is known. Otherwise the row waits for a row of the table whose ratio of bus to
  /// algorithm bandwidth identifies the operation; only reductions can be identified so.
  void name_row(NcclRow& row, double ratio, const Words& words) {
    const std::optional<NcclOperation> named = hinted_ ? hinted_ : program_;
    if (named) {
      row.operation = *named;
      return;
    }
    if (unnamed_ == 0) first_unnamed_ = line_;
    ++unnamed_;
    const std::size_t redop = column("redop");
    if (ratio == 0 || redop >= words.size() || words[redop] == "none" || row.gpus == 2) return;
    const double others = static_cast<double>(row.gpus - 1) / row.gpus;
    if (std::abs(ratio / (2 * others) - 1) < 0.02) guess_ = NcclOperation::all_reduce;
    if (std::abs(ratio / others - 1) < 0.02) guess_ = NcclOperation::reduce_scatter;
  }

  /// Sets the operation of the waiting rows at the end of their table.
  void name_table() {
    if (unnamed_ > 0 && !guess_ && !hints_.otherwise.empty()) guess_ = parse_nccl_operation(hints_.otherwise);
    if (unnamed_ > 0 && !guess_)
      throw UserError(
          fmt::format("{}:{}:1: which operation? The log names no program such as all_reduce_perf; give --operation "
                      "NAME (bench), or write its name into the log's first line",
                      file_, first_unnamed_));
    for (std::size_t i = log_.rows.size() - unnamed_; i < log_.rows.size(); ++i) log_.rows[i].operation = *guess_;
    unnamed_ = 0;
    guess_.reset();
  }

  std::string file_;
  NcclLogHints hints_;
  NcclLog log_;
  int line_ = 0, header_line_ = 0, threads_ = 0, per_thread_ = 0;
  std::size_t prefix_ = 0;           ///< length of the line's prefix
  std::vector<std::size_t> starts_;  ///< positions of the line's words
  std::set<int> ranks_;
  std::set<std::string> hosts_;
  Words columns_;
  std::optional<NcclOperation> hinted_, program_, guess_;
  std::size_t unnamed_ = 0;  ///< number of last rows that wait for a guess
  int first_unnamed_ = 0;
};

std::vector<NcclLog> read_table(const fs::path& path) {
  MeasuredTable table(path, {"gpu", "nccl_version", "op", "num_gpus", "message_bytes", "latency_us"});
  std::vector<NcclLog> logs;
  while (table.next()) {
    const std::string& gpu = table.text("gpu");
    auto log = std::ranges::find_if(logs, [&](const NcclLog& l) { return l.gpu == gpu; });
    if (log == logs.end())
      log = logs.insert(log, {path.filename().string(), gpu, table.text("nccl_version"), table.comment(), {}});
    NcclRow row;
    try {
      row.operation = parse_nccl_operation(table.text("op"));
    } catch (const UserError& e) {
      table.refuse(e.what(), "op");
    }
    const std::string& gpus = table.text("num_gpus");
    row.gpus = parse_small(gpus);
    if (row.gpus < 2)
      table.refuse(fmt::format("num_gpus: \"{}\" is not a whole number from 2 to 20000", gpus), "num_gpus");
    row.size = Bytes{table.positive("message_bytes")};
    row.time = Seconds{table.positive("latency_us") * 1e-6};
    log->rows.push_back(row);
  }
  if (logs.empty()) throw UserError(fmt::format("{}: no rows", table.name()));
  return logs;
}

/// Is the file a table: is its extension csv, or its first line (without comments) the header of nccl.csv?
bool is_table(const fs::path& path, std::ifstream& in) {
  std::string line;
  while (std::getline(in, line) && (line.empty() || line.front() == '#')) {
  }
  in.clear();
  in.seekg(0);
  return path.extension() == ".csv" || line.find("message_bytes") != std::string::npos;
}

}  // namespace

std::vector<NcclLog> read_nccl_logs(const fs::path& path, const NcclLogHints& hints) {
  std::ifstream in(path);
  std::error_code ignored;
  if (!in || fs::is_directory(path, ignored)) throw UserError(unreadable(path));
  check_input(path);
  if (is_table(path, in)) return read_table(path);
  LogReader reader(path, hints);
  std::string line;
  while (std::getline(in, line)) reader.read(line);
  return {reader.finish()};
}

}  // namespace trainyard
