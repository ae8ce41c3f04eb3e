#include "scenarios/src/traces/kineto.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "models/fitted/measured_table.hpp"
#include "models/reading/document.hpp"
#include "scenarios/src/traces/nsight_export.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

/// Reads the bytes of a file, and unpacks them if it is a gzip file.
class UnpackedFile : public std::streambuf {
 public:
  explicit UnpackedFile(const std::filesystem::path& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) throw UserError(unreadable(path));
  }
  bool is_broken() const {
    int error = Z_OK;
    gzerror(file_.get(), &error);
    return error != Z_OK;
  }

 protected:
  int_type underflow() override {
    const int count = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (count <= 0) return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_ = std::vector<char>(1 << 18);
};

/// Returns the shapes of an event's inputs. An input that is no tensor has an empty shape.
std::vector<std::vector<double>> input_shapes(const json& arguments) {
  std::vector<std::vector<double>> shapes;
  const auto inputs = arguments.find("Input Dims");
  if (inputs == arguments.end() || !inputs->is_array()) return shapes;
  for (const json& input : *inputs) {
    std::vector<double>& shape = shapes.emplace_back();
    if (!input.is_array()) continue;
    for (const json& extent : input)
      if (extent.is_number()) shape.push_back(extent.get<double>());
  }
  return shapes;
}

/// Returns the FLOPs of a PyTorch operator that is a matrix product. Other operators (linear, matmul, einsum) call one
/// of these. 0: it is another operator, or its shapes are not recorded.
double product_flops(const std::string& name, const json& arguments) {
  static const std::map<std::string, std::pair<std::size_t, std::size_t>> products{
      {"aten::mm", {0, 2}}, {"aten::addmm", {1, 2}}, {"aten::bmm", {0, 3}}, {"aten::baddbmm", {1, 3}}};
  const auto product = products.find(name);
  if (product == products.end()) return 0;
  const auto& [found, rank] = product->second;  // input number and number of dimensions of the first factor
  const auto shapes = input_shapes(arguments);
  if (shapes.size() < found + 2 || shapes[found].size() != rank || shapes[found + 1].size() != rank) return 0;
  double all = 2 * shapes[found + 1].back();
  for (const double extent : shapes[found]) all *= extent;
  return all;
}

/// Collects kernels and steps from the events.
class KinetoReader {
 public:
  explicit KinetoReader(std::string file) : file_(std::move(file)) {}

  void take(const std::string& list, const json& item) {
    if (list == "deviceProperties") properties_[number_in(item, "id")] = item;
    if ((list.empty() || list == "traceEvents") && text_in(item, "ph") == "X") take_event(item);
  }

  KinetoTrace trace() {
    if (devices_.empty()) throw no_kernel(file_);
    const auto most = std::ranges::max_element(
        devices_, [](const auto& a, const auto& b) { return a.second.kernels < b.second.kernels; });
    KinetoTrace trace;
    trace.families = std::move(most->second.families);
    trace.span = (most->second.end - most->second.begin) * 1e-6;
    trace.steps = static_cast<double>(steps_.size());
    for (const auto& [name, duration] : steps_) trace.step_time += duration * 1e-6 / trace.steps;
    trace.product_flops = product_flops_;
    if (const auto properties = properties_.find(most->first); properties != properties_.end()) {
      trace.gpu = text_in(properties->second, "name");
      trace.gpu_memory = number_in(properties->second, "totalGlobalMem");
    }
    return trace;
  }

 private:
  struct Device {
    std::map<std::string, std::map<std::string, KernelSum>> families;
    double kernels = 0, begin = 1e300, end = 0;  // us
  };
  std::string file_;
  std::map<double, json> properties_;  // properties by device number
  double product_flops_ = 0;
  std::map<double, Device> devices_;
  std::map<std::string, double> steps_;  // us, by name: a step is marked on the CPU and on the GPU

  void take_event(const json& event) {
    const std::string category = text_in(event, "cat"), name = text_in(event, "name");
    const double begin = time_in(event, "ts").value_or(0),
                 duration = std::max(0.0, duration_in(event, file_).value_or(0));
    const json& arguments = arguments_of(event);
    if (name.starts_with("ProfilerStep#") && category != "gpu_user_annotation") steps_[name] = duration;
    if (category == "cpu_op" || category == "Operator") product_flops_ += product_flops(name, arguments);
    const bool copies = is_gpu_copy(category);
    if (!copies && category != "kernel" && category != "Kernel") return;
    Device& device = devices_[number_in(arguments, "device")];
    ++device.kernels;
    device.begin = std::min(device.begin, begin);
    device.end = std::max(device.end, begin + duration);
    const std::string family = copies ? "copies" : family_of_kernel(name, text_in(arguments, "Collective name"));
    device.families[family][name] += {duration * 1e-6, 1};
  }
};

struct FamilyWords {
  std::string_view family;
  std::vector<std::string_view> parts;
};

/// Parts of kernel names and their families, the most specific first. Matrix products: cuBLAS (its architectures'
/// prefixes, nvjet), CUTLASS, whose templates are used for attention too, rocBLAS and hipBLASLt (Tensile's
/// Cijk_Ailk_Bljk_…), and Inductor's templates. Convolutions: cuDNN (volta_scudnn_128x64_…,
/// sm80_xmma_fprop_implicit_gemm_…), MIOpen (miopenSp3AsmConv…, igemm_fwd_…) and composable kernels; cuDNN also changes
/// layouts. multi_tensor_apply belongs to torch.optim's foreach and fused optimizers.
const std::vector<FamilyWords> kFamilyWords{
    {"attention", {"flash", "fmha", "sdpa", "attention", "attn"}},
    {"optimizer", {"multi_tensor_apply", "adam", "optimizer", "sgd"}},
    {"normalization",
     {"batch_norm", "batchnorm", "layer_norm", "layernorm", "group_norm", "groupnorm", "rmsnorm", "rms_norm", "ln_fwd",
      "ln_bwd", "bn_fw", "bn_bw", "gammabeta", "rowwisemoments"}},
    {"embedding", {"embedding", "indexselect"}},
    {"copies", {"nchwtonhwc", "nhwctonchw"}},
    {"convolution",
     {"conv1d",   "conv2d",   "conv3d",         "convolve", "convolution", "grouped_conv", "naive_conv",
      "conv_fwd", "conv_bwd", "conv_depthwise", "asmconv",  "winograd",    "fft2d",        "implicit_gemm",
      "igemm_",   "im2col",   "col2im",         "fprop",    "dgrad",       "wgrad",        "cudnn_"}},
    {"matrix products", {"gemm", "gemv", "cijk_", "cutlass", "cublas", "nvjet", "splitk", "matmul", "triton_tem"}},
    {"copies", {"memcpy", "direct_copy", "rocclr"}}};

/// Names of collectives in PyTorch and NCCL.
const std::vector<FamilyWords> kCollectiveWords{
    {"all-reduce", {"allreduce"}},   {"all-gather", {"allgather"}}, {"reduce-scatter", {"reducescatter"}},
    {"all-to-all", {"alltoall"}},    {"send-recv", {"sendrecv"}},   {"broadcast", {"broadcast"}},
    {"send-recv", {"send", "recv"}}, {"barrier", {"barrier"}},      {"reduce", {"reduce"}}};

// Columns of nsys stats (Nsight Systems' user guide, "Post-Collection Analysis", cuda_gpu_kern_sum). Lines of nsys's own
// progress may precede them.
constexpr const char* kNsightTime = "Total Time (ns)";
constexpr const char* kNsightCount = "Instances";

KinetoTrace read_nsight(const std::filesystem::path& path) {
  MeasuredTable table(path, {kNsightTime, kNsightCount, "Name"}, kNsightTime);
  KinetoTrace trace;
  while (table.next())
    trace.families[family_of_kernel(table.text("Name"), "")][table.text("Name")] +=
        {table.positive(kNsightTime) * 1e-9, table.positive(kNsightCount)};
  if (trace.families.empty()) throw UserError(fmt::format("{}: no kernel is in it", path.string()));
  return trace;
}

}  // namespace

std::string family_of_kernel(const std::string& name, const std::string& collective) {
  const std::string small = lower_case(name);
  const auto find_in = [](const auto& words, const std::string& text, const char* otherwise) {
    for (const FamilyWords& family : words)
      for (const std::string_view part : family.parts)
        if (text.find(part) != std::string::npos) return std::string(family.family);
    return std::string(otherwise);
  };
  if (small.starts_with("nccl") || small.starts_with("rccl")) {
    std::string word = lower_case(collective.empty() ? name : collective);
    std::erase(word, '_');
    return find_in(kCollectiveWords, word, "other exchanges");
  }
  return find_in(kFamilyWords, small, "elementwise");
}

UserError no_kernel(const std::string& file) {
  return UserError(
      fmt::format("{}: no kernel of a GPU is in it; a trace of torch.profiler with ProfilerActivity.CUDA, or of nsys "
                  "with --trace=cuda, expected",
                  file));
}

double number_in(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::optional<double> time_in(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (!found->is_string()) return std::nullopt;
  const std::string& text = found->get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<double> duration_in(const json& event, const std::string& file) {
  const std::optional<double> duration = time_in(event, "dur");
  if (duration && *duration > kLongestEvent)
    throw UserError(fmt::format("{}: event \"{}\" at ts {}: dur is {:g} us; at most {:g} us (12 days) expected", file,
                                text_in(event, "name"), time_in(event, "ts").value_or(0), *duration, kLongestEvent));
  return duration;
}

std::string text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const json& arguments_of(const json& event) {
  static const json none = json::object();
  const auto found = event.find("args");
  return found != event.end() && found->is_object() ? *found : none;
}

bool is_gpu_copy(const std::string& category) {
  return category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" || category == "Memset";
}

void read_kineto_items(const std::filesystem::path& path,
                       const std::function<void(const std::string& list, const json& item)>& take) {
  check_input(path);
  if (is_nsight_export(path)) return read_nsight_items(path, take);
  UnpackedFile file(path);
  const std::string fault = read_json_items(file, take);
  if (file.is_broken()) throw UserError(fmt::format("{}: its gzip data are damaged or cut short", path.string()));
  if (!fault.empty()) throw UserError(fmt::format("{}: {}", path.string(), fault));
}

bool is_nsight_summary(const std::filesystem::path& path) {
  constexpr int most_lines = 50;
  if (path.extension() != ".csv") return false;
  std::ifstream in(path);
  std::string line;
  for (int i = 0; i < most_lines && std::getline(in, line); ++i)
    if (line.find(kNsightTime) != std::string::npos && line.find(kNsightCount) != std::string::npos) return true;
  return false;
}

KinetoTrace read_kineto(const std::filesystem::path& path) {
  if (is_nsight_summary(path)) return read_nsight(path);
  KinetoReader reader(path.string());
  read_kineto_items(path, [&reader](const std::string& list, const json& item) { reader.take(list, item); });
  return reader.trace();
}

}  // namespace trainyard
