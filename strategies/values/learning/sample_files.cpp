// Readers of samples from the user's files.
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/error.hpp"
#include "sim/hashing.hpp"
#include "sim/process/output.hpp"
#include "strategies/values/learning/draws.hpp"
#include "strategies/values/learning/samples.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
constexpr int kMostLabels = 1 << 16;

/// An IDX file of unsigned bytes: its sizes, and the position at which the data begin.
struct Idx {
  std::string bytes;
  std::vector<std::size_t> sizes;
  std::size_t begin = 0;
  unsigned char at(std::size_t i) const { return static_cast<unsigned char>(bytes[begin + i]); }
};

Idx read_bytes(const fs::path& file, std::size_t dimensions) {
  Idx idx{read_file(file), {}, 4 + 4 * dimensions};
  const auto byte = [&idx](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(idx.bytes[i]));
  };
  const bool right = idx.bytes.size() >= 4 && byte(0) == 0 && byte(1) == 0 && byte(2) == 8;
  if (!right || byte(3) != dimensions || idx.bytes.size() < idx.begin)
    throw UserError(
        fmt::format("{}: no IDX file of unsigned bytes in {}", file.string(), counted_noun(dimensions, "dimension")));
  std::size_t all = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::size_t begin = 4 + 4 * d;
    idx.sizes.push_back(byte(begin) << 24 | byte(begin + 1) << 16 | byte(begin + 2) << 8 | byte(begin + 3));
    all *= idx.sizes.back();
  }
  if (idx.bytes.size() != idx.begin + all)
    throw UserError(
        fmt::format("{}: {} bytes of data, but its header says {}", file.string(), idx.bytes.size() - idx.begin, all));
  return idx;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) {
    const auto first = cell.find_first_not_of(" \t\r"), last = cell.find_last_not_of(" \t\r");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

bool number(const std::string& text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

[[noreturn]] void refuse_line(const fs::path& file, std::size_t line, const std::string& what) {
  throw UserError(fmt::format("{}:{}: {}", file.string(), line, what));
}

/// Number of the column of labels. `label`: a name of the header, or a number; "": the last column.
std::size_t label_column(const fs::path& file, const std::string& label, const std::vector<std::string>& first,
                         bool header) {
  if (label.empty()) return first.size() - 1;
  if (const auto found = std::ranges::find(first, label); header && found != first.end())
    return static_cast<std::size_t>(found - first.begin());
  double value = -1;
  if (!number(label, value) || value < 0 || value != std::floor(value) || value >= static_cast<double>(first.size()))
    refuse_line(file, 1,
                header ? fmt::format("no column \"{}\"; there are {}", label, fmt::join(first, ", "))
                       : fmt::format("no column {}; there are {}", label, first.size()));
  return static_cast<std::size_t>(value);
}

int label_of(const fs::path& file, std::size_t line, double value, int classes) {
  const int end = classes > 0 ? classes : kMostLabels;
  if (value < 0 || value != std::floor(value) || value >= end)
    refuse_line(file, line, fmt::format("label {}: a whole number from 0 to {} expected", value, end - 1));
  return static_cast<int>(value);
}

void make_labels_noisy(LabelledSamples& s, const GeneratedData& data, Draws& draws) {
  for (Eigen::Index i = 0; i < s.count(); ++i)
    if (draws.uniform() < data.label_noise) s.labels[i] = draws.integer_below(s.classes);
}

}  // namespace

LabelledSamples read_idx(const fs::path& images, const fs::path& labels) {
  const Idx pixels = read_bytes(images, 3), classes = read_bytes(labels, 1);
  if (pixels.sizes[0] != classes.sizes[0] || classes.sizes[0] == 0)
    throw UserError(fmt::format("{}: {} labels for {} images of {}", labels.string(), classes.sizes[0], pixels.sizes[0],
                                images.string()));
  const std::size_t size = pixels.sizes[1] * pixels.sizes[2];
  LabelledSamples s{Eigen::MatrixXd(size, classes.sizes[0]), Eigen::VectorXi(classes.sizes[0]), 0};
  for (std::size_t i = 0; i < classes.sizes[0]; ++i) {
    for (std::size_t p = 0; p < size; ++p)
      s.inputs(static_cast<Eigen::Index>(p), static_cast<Eigen::Index>(i)) = pixels.at(i * size + p) / 255.0;
    s.labels[static_cast<Eigen::Index>(i)] = classes.at(i);
  }
  s.classes = s.labels.maxCoeff() + 1;
  return s;
}

LabelledSamples read_csv(const fs::path& file, const std::string& label, int classes) {
  std::istringstream in(read_file(file));
  std::vector<std::vector<double>> rows;
  std::vector<int> labels;
  std::size_t columns = 0, label_at = 0, number_of_line = 0;
  for (std::string line; std::getline(in, line);) {
    ++number_of_line;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.empty()) continue;
    double value = 0;
    if (columns == 0) {
      columns = cells.size();
      const bool header = !std::ranges::all_of(cells, [&](const auto& c) { return number(c, value); });
      label_at = label_column(file, label, cells, header);
      if (columns < 2) refuse_line(file, number_of_line, "a label and one feature at least expected");
      if (header) continue;
    }
    if (cells.size() != columns)
      refuse_line(file, number_of_line,
                  fmt::format("{} columns, but there are {} in the first line", cells.size(), columns));
    std::vector<double>& row = rows.emplace_back();
    for (std::size_t i = 0; i < columns; ++i) {
      if (!number(cells[i], value))
        refuse_line(file, number_of_line, fmt::format("\"{}\": a number expected", cells[i]));
      if (i == label_at)
        labels.push_back(label_of(file, number_of_line, value, classes));
      else
        row.push_back(value);
    }
  }
  if (rows.empty()) throw UserError(fmt::format("{}: no samples", file.string()));
  const Eigen::Index count = std::ssize(rows);
  LabelledSamples s{Eigen::MatrixXd(static_cast<Eigen::Index>(columns) - 1, count), Eigen::VectorXi(count), classes};
  for (Eigen::Index i = 0; i < count; ++i) {
    s.inputs.col(i) = Eigen::Map<const Eigen::VectorXd>(rows[i].data(), s.inputs.rows());
    s.labels[i] = labels[i];
  }
  if (classes == 0) s.classes = s.labels.maxCoeff() + 1;
  return s;
}

LabelledSamples read_samples(const TaskChoice& choice) {
  return choice.csv.empty() ? read_idx(choice.images, choice.labels)
                            : read_csv(choice.csv, choice.label, choice.data.classes);
}

void standardize(LabelledSamples& s, const Eigen::VectorXd& mean, const Eigen::VectorXd& deviation) {
  s.inputs.colwise() -= mean;
  for (Eigen::Index f = 0; f < s.inputs.rows(); ++f)
    if (deviation[f] > 0) s.inputs.row(f) /= deviation[f];
}

LabelledSamples clusters(const GeneratedData& data) {
  Draws draws(hash_numbers({data.seed, 1}));
  LabelledSamples s{Eigen::MatrixXd(data.features, data.samples), Eigen::VectorXi(data.samples), data.classes};
  const Eigen::MatrixXd centers =
      Eigen::MatrixXd::NullaryExpr(data.features, data.classes * data.clusters, [&] { return draws.normal(); });
  for (Eigen::Index i = 0; i < data.samples; ++i) {
    s.labels[i] = draws.integer_below(data.classes);
    const Eigen::Index center = s.labels[i] * data.clusters + draws.integer_below(data.clusters);
    for (Eigen::Index f = 0; f < data.features; ++f) s.inputs(f, i) = centers(f, center) + data.noise * draws.normal();
  }
  make_labels_noisy(s, data, draws);
  return s;
}

LabelledSamples patterns(const GeneratedData& data, int side) {
  Draws draws(hash_numbers({data.seed, 2}));
  LabelledSamples s{Eigen::MatrixXd(side * side, data.samples), Eigen::VectorXi(data.samples), data.classes};
  // The pattern of a class is the sum of a few waves, which is smooth.
  constexpr int kWaves = 4;
  Eigen::MatrixXd shapes = Eigen::MatrixXd::Zero(side * side, data.classes);
  for (Eigen::Index c = 0; c < data.classes; ++c)
    for (int wave = 0; wave < kWaves; ++wave) {
      const int down = draws.integer_below(4), along = draws.integer_below(4);
      const double phase = 2 * std::numbers::pi * draws.uniform(), size = draws.normal();
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x)
          shapes(y * side + x, c) += size * std::cos(2 * std::numbers::pi * (down * y + along * x) / side + phase);
    }
  const int most = std::max(1, side / 4);
  for (Eigen::Index i = 0; i < data.samples; ++i) {
    s.labels[i] = draws.integer_below(data.classes);
    const int down = draws.integer_below(most), along = draws.integer_below(most);
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x)
        s.inputs(y * side + x, i) =
            shapes((y + down) % side * side + (x + along) % side, s.labels[i]) + data.noise * draws.normal();
  }
  make_labels_noisy(s, data, draws);
  return s;
}

Sentences sentences(int vocabulary, int states, int length, Eigen::Index count, std::uint64_t seed) {
  Draws draws(hash_numbers({seed, 3}));
  struct Transition {
    int word, to;
  };
  std::vector<std::pair<Transition, Transition>> transitions;
  for (int state = 0; state < states; ++state) {
    const auto draw = [&] { return Transition{draws.integer_below(vocabulary), draws.integer_below(states)}; };
    const Transition first = draw();
    transitions.emplace_back(first, draw());
  }
  constexpr double kFirst = 0.7;  // probability of the first transition
  Sentences all(length, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    int state = draws.integer_below(states);
    for (int position = 0; position < length; ++position) {
      const auto& [first, second] = transitions[state];
      const Transition transition = draws.uniform() < kFirst ? first : second;
      all(position, i) = transition.word;
      state = transition.to;
    }
  }
  return all;
}

}  // namespace trainyard
