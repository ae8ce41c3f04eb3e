#include "models/imports/topology_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/imports/imported_node.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostMatrixDevices = 1024;
constexpr int kMostBondedLinks = 64;

struct MatrixToken {
  std::string text;
  int column = 0;
};
struct MatrixLine {
  int number = 0;
  std::vector<MatrixToken> tokens;
  const std::string& first() const {
    static const std::string none;
    return tokens.empty() ? none : tokens.front().text;
  }
};

/// Removes colours and underlines: "ESC[4m", and the forms that it has in copied text ("^[[4m", "[4m").
std::string remove_escapes(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::size_t bracket = i;
    if (line[bracket] == '\x1b') ++bracket;
    if (bracket == i && line.substr(bracket).starts_with("^[")) bracket += 2;
    if (bracket < line.size() && line[bracket] == '[') {
      const std::size_t end = line.find_first_not_of("0123456789;", bracket + 1);
      if (end != std::string_view::npos && line[end] == 'm') {
        i = end;
        continue;
      }
    }
    out += line[i];
  }
  return out;
}

/// Replaces characters other than printable ASCII: names and affinities are written into the entry, which must be
/// UTF-8.
std::string ascii_word(std::string word) {
  for (char& c : word)
    if (c <= ' ' || c > '~') c = '?';
  return word;
}

std::vector<MatrixLine> matrix_lines(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF", blank = " \t\r\v\f";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::vector<MatrixLine> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = remove_escapes(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    MatrixLine read{static_cast<int>(lines.size()) + 1, {}};
    for (std::size_t start = line.find_first_not_of(blank); start != std::string::npos;) {
      const std::size_t stop = std::min(line.find_first_of(blank, start), line.size());
      read.tokens.push_back({ascii_word(line.substr(start, stop - start)), static_cast<int>(start) + 1});
      start = line.find_first_not_of(blank, stop);
    }
    lines.push_back(std::move(read));
  }
  return lines;
}

/// Quotes and shortens a word of the file for errors.
std::string quoted_word(const std::string& word) {
  constexpr std::size_t most = 40;
  return fmt::format("\"{}{}\"", word.substr(0, most), word.size() > most ? "…" : "");
}

/// Returns the number in a word such as "GPU3" with the prefix "GPU". No value: the word has another form.
std::optional<int> numbered_word(const std::string& word, std::string_view prefix) {
  if (!word.starts_with(prefix) || word.size() == prefix.size() || word.size() > prefix.size() + 4) return {};
  int number = 0;
  for (const char c : word.substr(prefix.size())) {
    if (c < '0' || c > '9') return {};
    number = 10 * number + (c - '0');
  }
  return number;
}

/// Old drivers print SOC for SYS. PSB is the switch on a board with two GPUs.
const std::vector<std::pair<std::string, MatrixHop>>& hop_words() {
  static const std::vector<std::pair<std::string, MatrixHop>> words{
      {"X", MatrixHop::self},    {"PIX", MatrixHop::pix}, {"PXB", MatrixHop::pxb}, {"PHB", MatrixHop::phb},
      {"NODE", MatrixHop::node}, {"SYS", MatrixHop::sys}, {"SOC", MatrixHop::sys}, {"PSB", MatrixHop::pix}};
  return words;
}

std::optional<MatrixCell> matrix_cell(const MatrixToken& token) {
  for (const auto& [word, hop] : hop_words())
    if (token.text == word) return MatrixCell{hop, 0, token.column};
  const std::optional<int> links = numbered_word(token.text, "NV");
  if (!links || *links < 1 || *links > kMostBondedLinks) return {};
  return MatrixCell{MatrixHop::nvlink, *links, token.column};
}

class MatrixReader {
 public:
  MatrixReader(std::string_view text, const std::string& file) : lines_(matrix_lines(text)) {
    matrix_.file = std::make_shared<const std::string>(file);
  }

  TopologyMatrix read() {
    read_header();
    for (std::size_t row = 0; row < matrix_.devices.size(); ++row) read_row(row);
    check_symmetry();
    read_nic_legend();
    return std::move(matrix_);
  }

 private:
  [[noreturn]] void refuse(const MatrixLine& line, int column, const std::string& what) const {
    fail({matrix_.file, line.number, column}, what);
  }

  void read_header() {
    while (next_ < lines_.size() && !numbered_word(lines_[next_].first(), "GPU")) ++next_;
    if (next_ == lines_.size())
      fail({matrix_.file, 0, 0}, "no GPU: expected what nvidia-smi topo -m prints, with a header GPU0 GPU1 …");
    const MatrixLine& line = lines_[next_++];
    if (line.tokens.size() > 1 && matrix_cell(line.tokens[1]))
      refuse(line, line.tokens[1].column,
             fmt::format("the row of {}, but there is no header GPU0 GPU1 … above it", line.first()));
    std::size_t token = 0;
    int gpus = 0, nics = 0;
    for (; token < line.tokens.size(); ++token) {
      const auto& [name, column] = line.tokens[token];
      if (name == "CPU" || name == "NUMA" || name == "GPU") break;
      const std::optional<int> gpu = numbered_word(name, "GPU");
      if (gpu && *gpu != gpus) refuse(line, column, fmt::format("{}: expected \"GPU{}\"", quoted_word(name), gpus));
      for (const MatrixDevice& other : matrix_.devices)
        if (other.name == name) refuse(line, column, fmt::format("{} a second time", quoted_word(name)));
      if (matrix_.devices.size() == kMostMatrixDevices)
        refuse(line, column, fmt::format("more than {} devices", kMostMatrixDevices));
      matrix_.devices.push_back({name, gpu.has_value(), gpu ? gpus++ : nics++, 0, "", {}});
    }
    read_affinity_header(line, token);
  }

  void read_affinity_header(const MatrixLine& line, std::size_t token) {
    const std::vector<std::string> names{"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"};
    while (token < line.tokens.size()) {
      const int column = line.tokens[token].column;
      std::string words = line.tokens[token++].text;
      while (token < line.tokens.size() && std::ranges::find(names, words) == names.end() &&
             words.size() < names.back().size())
        words += " " + line.tokens[token++].text;
      if (std::ranges::find(names, words) == names.end())
        refuse(line, column, fmt::format("{}: unknown column{}", quoted_word(words), hint(words, names)));
      affinities_.push_back(words);
    }
  }

  void read_row(std::size_t row) {
    MatrixDevice& device = matrix_.devices[row];
    while (next_ < lines_.size() && lines_[next_].tokens.empty()) ++next_;
    if (next_ == lines_.size())
      refuse(lines_.back(), 1, fmt::format("the text ends, but the row of {} is missing", device.name));
    const MatrixLine& line = lines_[next_++];
    if (line.first() != device.name)
      refuse(line, line.tokens.front().column,
             fmt::format("{}: expected the row of {}", quoted_word(line.first()), device.name));
    device.line = line.number;
    const std::size_t count = matrix_.devices.size();
    if (line.tokens.size() < count + 1)
      refuse(
          line, 1,
          fmt::format("{}: {} entries, but the header names {} devices", device.name, line.tokens.size() - 1, count));
    for (std::size_t other = 0; other < count; ++other) {
      const MatrixToken& token = line.tokens[other + 1];
      const std::optional<MatrixCell> cell = matrix_cell(token);
      if (!cell) refuse_word(line, token);
      device.cells.push_back(*cell);
      if ((cell->hop == MatrixHop::self) != (other == row))
        refuse(line, token.column,
               other == row ? fmt::format("{} to itself: {}, expected \"X\"", device.name, quoted_word(token.text))
                            : fmt::format("{} to {}: \"X\", expected how they are joined", device.name,
                                          matrix_.devices[other].name));
      if (cell->hop == MatrixHop::nvlink && !(device.gpu && matrix_.devices[other].gpu))
        refuse(line, token.column,
               fmt::format("{} to {}: {}, but NVLinks join GPUs only", device.name, matrix_.devices[other].name,
                           quoted_word(token.text)));
    }
    read_affinity(line, device);
  }

  [[noreturn]] void refuse_word(const MatrixLine& line, const MatrixToken& token) const {
    std::vector<std::string> words{"NV1"};
    for (const auto& [word, hop] : hop_words()) words.push_back(word);
    const auto near = nearest(token.text, words);
    refuse(line, token.column,
           fmt::format("{}: expected X, NV#, PIX, PXB, PHB, NODE or SYS{}", quoted_word(token.text),
                       near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
  }

  /// Reads the columns after the matrix. They are empty in rows of NICs.
  void read_affinity(const MatrixLine& line, MatrixDevice& device) const {
    const std::size_t first = matrix_.devices.size() + 1;
    if (line.tokens.size() > first + affinities_.size())
      refuse(line, line.tokens[first + affinities_.size()].column,
             fmt::format("{}: one entry more than the header names columns",
                         quoted_word(line.tokens[first + affinities_.size()].text)));
    for (std::size_t i = 0; first + i < line.tokens.size(); ++i) {
      const std::string& value = line.tokens[first + i].text;
      if (value == "N/A" || affinities_[i] == "GPU NUMA ID") continue;  // GPU NUMA ID is the GPU's own memory
      device.affinity = (affinities_[i] == "NUMA Affinity" ? "NUMA node " : "CPUs ") + value;
    }
  }

  void check_symmetry() const {
    for (std::size_t a = 0; a < matrix_.devices.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const MatrixDevice &row = matrix_.devices[a], &other = matrix_.devices[b];
        if (row.cells[b] == other.cells[a]) continue;
        matrix_.refuse(a, b,
                       fmt::format("{}, but line {} says {} from {} to {}", show(row.cells[b]), other.line,
                                   show(other.cells[a]), other.name, row.name));
      }
  }

  /// Replaces names of NICs by those of the legend: "NIC0: mlx5_0".
  void read_nic_legend() {
    for (; next_ < lines_.size(); ++next_) {
      const std::vector<MatrixToken>& tokens = lines_[next_].tokens;
      if (tokens.size() != 2) continue;
      for (MatrixDevice& device : matrix_.devices)
        if (!device.gpu && tokens[0].text == device.name + ":") {
          device.name = tokens[1].text;
          break;
        }
    }
  }

  std::vector<MatrixLine> lines_;
  std::size_t next_ = 0;
  std::vector<std::string> affinities_;
  TopologyMatrix matrix_;
};

}  // namespace

std::string show(const MatrixCell& cell) {
  if (cell.hop == MatrixHop::nvlink) return fmt::format("NV{}", cell.links);
  for (const auto& [word, hop] : hop_words())
    if (hop == cell.hop) return word;
  return "?";
}

void TopologyMatrix::refuse(std::size_t a, std::size_t b, const std::string& what) const {
  const MatrixDevice& row = devices.at(a);
  fail({file, row.line, row.cells.at(b).column}, fmt::format("{} to {}: {}", row.name, devices.at(b).name, what));
}

bool looks_like_topology_matrix(std::string_view text) {
  const std::vector<MatrixLine> lines = matrix_lines(text);
  return std::ranges::any_of(lines,
                             [](const MatrixLine& line) { return numbered_word(line.first(), "GPU").has_value(); });
}

TopologyMatrix read_topology_matrix(std::string_view text, const std::string& file) {
  return MatrixReader(text, file).read();
}

}  // namespace trainyard
