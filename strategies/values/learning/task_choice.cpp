#include "strategies/values/learning/task_choice.hpp"

#include <filesystem>

namespace trainyard {
namespace {

constexpr int kMostClasses = 1000, kMostFeatures = 1 << 14, kMostSide = 64;
constexpr std::int64_t kMostSamples = 1 << 20;

/// Path of a file. A relative path is relative to the folder of the scenario.
std::string path_of(const Fields& fields, const std::string& key, const std::string& file) {
  const Place& place = fields.place_of(key);
  const std::filesystem::path path(file);
  if (path.is_absolute() || !place.file || place.line == 0) return file;
  return (std::filesystem::path(*place.file).parent_path() / path).string();
}

void read_files(Fields& data, TaskChoice& choice) {
  if (data.has("csv")) {
    choice.csv = path_of(data, "csv", data.text("csv"));
    choice.label = data.text({"label",
                              "Column of the labels in the CSV file: a name or a number from 0, for example class. "
                              "Default: the last column."},
                             "");
    choice.data.classes = data.has("classes") ? data.integer_within<int>("classes", 2, kMostClasses) : 0;
    return;
  }
  choice.images = path_of(data, "images", data.text("images"));
  choice.labels = path_of(
      data, "labels",
      data.text(
          {"labels",
           "File of the labels of the images (IDX), for example train-labels-idx1-ubyte. Required with images."}));
}

void read_made(Fields& data, TaskChoice& choice, bool images) {
  GeneratedData& made = choice.data;
  data.read({"classes", "Number of classes of generated data, for example 10."}, made.classes, 2, kMostClasses);
  data.read({"samples", "Number of generated samples, for example 2000. Default: 4096, and 1024 with task cnn."},
            made.samples, 2, kMostSamples);
  data.read(
      {"noise", "Standard deviation of generated samples around the point or pattern of their class, for example 0.5."},
      made.noise, 0, 1e6);
  data.read({"label_noise", "Share of the labels that are drawn at random, for example 0.1."}, made.label_noise, 0, 1);
  made.seed = data.integer<std::uint64_t>({"seed", "Seed of the generated data, for example 2."}, 0, 1);
  if (images) {
    data.read({"side", "Width and height of a generated image in pixels, for example 8."}, choice.side, 4, kMostSide);
  } else {
    data.read({"features", "Number of features of a generated sample, for example 20."}, made.features, 1,
              kMostFeatures);
    data.read({"clusters", "Number of clusters of each class of generated data, for example 4."}, made.clusters, 1, 64);
  }
}

/// Number of steps to a target by a formula, without values: McCandlish et al. 2018, equation 2.11.
const Registration register_noise_scale{
    learning_tasks(), "noise-scale",
    TaskKind{"steps to the target by a formula, S_min (1 + B_noise / B), without a training",
             [](Fields& learn, TaskChoice& choice) {
               choice.formula.least = learn.number(
                   {"least_steps",
                    "Steps to the target with an infinitely large batch, S_min of the formula, for example 1000."},
                   1, 1e12);
               choice.formula.noise = learn.number(
                   {"noise_scale",
                    "Batch at which the steps to the target are twice least_steps, in samples, for example 512."},
                   0, 1e12);
             },
             nullptr}};

}  // namespace

Registry<TaskKind>& learning_tasks() {
  static Registry<TaskKind> all("task");
  return all;
}

std::vector<int> read_widths(Fields& learn, const Key& key, int most, std::vector<int> fallback) {
  const std::vector<Node>* list = learn.list(key);
  if (!list) return fallback;
  std::vector<int> widths;
  for (const Node& width : *list)
    widths.push_back(static_cast<int>(whole_number(width, fmt::format("learn.{}", key.name), 1, most)));
  return widths;
}

void read_class_data(Fields& learn, TaskChoice& choice, bool images) {
  const Node nothing = Node::empty_map(learn.place());
  const Node* node = learn.child("data");
  Fields data(node ? *node : nothing, "learn.data");
  data.read({"validation", "Share of the samples that are used for validation only, for example 0.1."},
            choice.validation, 1e-6, 0.9);
  if (data.has({"csv",
                "File of samples with their labels (CSV), for example samples.csv. Default: samples are generated."}) ||
      data.has({"images",
                "File of images (IDX, the format of MNIST), for example train-images-idx3-ubyte. Default: samples are "
                "generated."}))
    read_files(data, choice);
  else
    read_made(data, choice, images);
  data.finish();
}

}  // namespace trainyard
