#include "scenarios/src/traces/kineto.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

/// A file's bytes, unpacked where it is gzip's.
class UnpackedFile : public std::streambuf {
 public:
  explicit UnpackedFile(const std::filesystem::path& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) throw UserError(fmt::format("{}: cannot be read", path.string()));
  }
  bool broken() const {
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

struct KinetoEvent {
  std::string phase, category, name, collective;
  double begin = 0, duration = 0, device = 0;
  std::vector<std::vector<double>> shapes;  ///< of its inputs
};

/// FLOPs of an operator of PyTorch that is a product of matrices: what others (linear, matmul, einsum) end in. 0 of those
/// whose shapes are not recorded.
double product_flops(const KinetoEvent& event) {
  const auto& in = event.shapes;
  const auto flops = [&in](std::size_t at, std::size_t rank) {
    if (in.size() < at + 2 || in[at].size() != rank || in[at + 1].size() != rank) return 0.0;
    double all = 2 * in[at + 1].back();
    for (const double extent : in[at]) all *= extent;
    return all;
  };
  if (event.name == "aten::mm") return flops(0, 2);
  if (event.name == "aten::addmm") return flops(1, 2);
  if (event.name == "aten::bmm") return flops(0, 3);
  if (event.name == "aten::baddbmm") return flops(1, 3);
  return 0;
}

/// Takes kernels and steps out of the events, which are the objects of the list "traceEvents", or of the outermost list.
class KinetoReader : public JsonEvents {
 public:
  void begins(bool object) override {
    const bool of_file = open_.empty() || (open_.size() == 1 && open_.back());
    const bool of_events = open_.empty() || (of_file && key_ == "traceEvents");
    if (open_.size() == 2 && of_devices_ && object) device_ = {};
    if (open_.size() == 1 && open_.back()) of_devices_ = !object && key_ == "deviceProperties";
    open_.push_back(object);
    if (!object && of_events) events_ = open_.size();
    if (object && in_event()) event_ = {};
    if (object && of_event(1) && key_ == "args") args_ = open_.size();
    if (!object && args_ > 0 && open_.size() == args_ + 1) shapes_ = key_ == "Input Dims";
    if (!object && args_ > 0 && open_.size() == args_ + 2 && shapes_) event_.shapes.emplace_back();
  }
  void ends() override {
    if (in_event() && open_.back()) take();
    if (open_.size() == 3 && of_devices_ && open_.back()) properties_[device_.id] = device_;
    if (open_.size() == events_) events_ = 0;
    if (open_.size() == args_) args_ = 0;
    if (args_ > 0 && open_.size() == args_ + 1) shapes_ = false;
    open_.pop_back();
  }
  void key(const std::string& name) override { key_ = name; }
  void text(const std::string& value) override {
    if (in_args() && key_ == "Collective name") event_.collective = value;
    if (in_device() && key_ == "name") device_.name = value;
    if (args_ > 0 && shapes_ && open_.size() == args_ + 1) event_.shapes.emplace_back();  // of no tensor
    if (!in_event()) return;
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    if (key_ == "name") event_.name = value;
  }
  void number(double value) override {
    if (in_args() && key_ == "device") event_.device = value;
    if (in_device() && key_ == "id") device_.id = value;
    if (in_device() && key_ == "totalGlobalMem") device_.memory = value;
    if (args_ > 0 && shapes_ && open_.size() == args_ + 2) event_.shapes.back().push_back(value);
    if (!in_event()) return;
    if (key_ == "ts") event_.begin = value;
    if (key_ == "dur") event_.duration = value;
  }

  KinetoTrace trace(const std::string& file) {
    if (devices_.empty())
      throw UserError(
          fmt::format("{}: no kernel of a GPU is in it; a trace of torch.profiler with ProfilerActivity.CUDA "
                      "expected",
                      file));
    const auto most = std::max_element(devices_.begin(), devices_.end(), [](const auto& a, const auto& b) {
      return a.second.kernels < b.second.kernels;
    });
    KinetoTrace trace;
    trace.families = std::move(most->second.families);
    trace.span = (most->second.end - most->second.begin) * 1e-6;
    trace.steps = static_cast<double>(steps_.size());
    for (const auto& [name, duration] : steps_) trace.step_time += duration * 1e-6 / trace.steps;
    trace.product_flops = product_flops_;
    if (const auto of = properties_.find(most->first); of != properties_.end()) {
      trace.gpu = of->second.name;
      trace.gpu_memory = of->second.memory;
    }
    return trace;
  }

 private:
  struct Device {
    std::map<std::string, std::map<std::string, KernelSum>> families;
    double kernels = 0, begin = 1e300, end = 0;  // us
  };
  struct Properties {
    double id = 0, memory = 0;
    std::string name;
  };
  std::vector<bool> open_;                    // objects and lists
  std::size_t events_ = 0, args_ = 0;         // which of them is the list of events, and an event's arguments; 0: none
  bool of_devices_ = false, shapes_ = false;  // a list of theirs is open
  std::string key_;
  KinetoEvent event_;
  Properties device_;
  std::map<double, Properties> properties_;  // by number of the device
  double product_flops_ = 0;
  std::map<double, Device> devices_;
  std::map<std::string, double> steps_;  // us, by name: a step is marked on the CPU and on the GPU

  bool of_event(std::size_t depth) const { return events_ > 0 && open_.size() == events_ + 1 + depth; }
  bool in_event() const { return of_event(0); }
  bool in_args() const { return args_ > 0 && open_.size() == args_; }
  bool in_device() const { return of_devices_ && open_.size() == 3 && open_.back(); }

  void take() {
    if (event_.phase != "X") return;
    if (event_.name.starts_with("ProfilerStep#") && event_.category != "gpu_user_annotation")
      steps_[event_.name] = event_.duration;
    if (event_.category == "cpu_op" || event_.category == "Operator") product_flops_ += product_flops(event_);
    const bool copies = event_.category == "gpu_memcpy" || event_.category == "gpu_memset" ||
                        event_.category == "Memcpy" || event_.category == "Memset";
    if (!copies && event_.category != "kernel" && event_.category != "Kernel") return;
    Device& device = devices_[event_.device];
    ++device.kernels;
    device.begin = std::min(device.begin, event_.begin);
    device.end = std::max(device.end, event_.begin + event_.duration);
    const std::string family = copies ? "copies" : family_of_kernel(event_.name, event_.collective);
    device.families[family][event_.name] += {event_.duration * 1e-6, 1};
  }
};

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

struct FamilyWord {
  std::string_view part, family;
};

/// Parts of names, the telling ones first. Matrix products: cuBLAS (its architectures' prefixes, nvjet), CUTLASS, whose
/// templates carry attention too, rocBLAS and hipBLASLt (Tensile's Cijk_Ailk_Bljk_…), and Inductor's templates.
/// Convolutions: cuDNN (volta_scudnn_128x64_…, sm80_xmma_fprop_implicit_gemm_…), MIOpen (miopenSp3AsmConv…, igemm_fwd_…)
/// and composable kernels; cuDNN changes layouts on the way. multi_tensor_apply is what torch.optim's foreach and fused
/// optimizers run.
constexpr std::array<FamilyWord, 60> kFamilyWords{{{"flash", "attention"},
                                                   {"fmha", "attention"},
                                                   {"sdpa", "attention"},
                                                   {"attention", "attention"},
                                                   {"attn", "attention"},
                                                   {"multi_tensor_apply", "optimizer"},
                                                   {"adam", "optimizer"},
                                                   {"optimizer", "optimizer"},
                                                   {"sgd", "optimizer"},
                                                   {"batch_norm", "normalization"},
                                                   {"batchnorm", "normalization"},
                                                   {"layer_norm", "normalization"},
                                                   {"layernorm", "normalization"},
                                                   {"group_norm", "normalization"},
                                                   {"groupnorm", "normalization"},
                                                   {"rmsnorm", "normalization"},
                                                   {"rms_norm", "normalization"},
                                                   {"ln_fwd", "normalization"},
                                                   {"ln_bwd", "normalization"},
                                                   {"bn_fw", "normalization"},
                                                   {"bn_bw", "normalization"},
                                                   {"gammabeta", "normalization"},
                                                   {"rowwisemoments", "normalization"},
                                                   {"embedding", "embedding"},
                                                   {"indexselect", "embedding"},
                                                   {"nchwtonhwc", "copies"},
                                                   {"nhwctonchw", "copies"},
                                                   {"conv1d", "convolution"},
                                                   {"conv2d", "convolution"},
                                                   {"conv3d", "convolution"},
                                                   {"convolve", "convolution"},
                                                   {"convolution", "convolution"},
                                                   {"grouped_conv", "convolution"},
                                                   {"naive_conv", "convolution"},
                                                   {"conv_fwd", "convolution"},
                                                   {"conv_bwd", "convolution"},
                                                   {"conv_depthwise", "convolution"},
                                                   {"asmconv", "convolution"},
                                                   {"winograd", "convolution"},
                                                   {"fft2d", "convolution"},
                                                   {"implicit_gemm", "convolution"},
                                                   {"igemm_", "convolution"},
                                                   {"im2col", "convolution"},
                                                   {"col2im", "convolution"},
                                                   {"fprop", "convolution"},
                                                   {"dgrad", "convolution"},
                                                   {"wgrad", "convolution"},
                                                   {"cudnn_", "convolution"},
                                                   {"gemm", "matrix products"},
                                                   {"gemv", "matrix products"},
                                                   {"cijk_", "matrix products"},
                                                   {"cutlass", "matrix products"},
                                                   {"cublas", "matrix products"},
                                                   {"nvjet", "matrix products"},
                                                   {"splitk", "matrix products"},
                                                   {"matmul", "matrix products"},
                                                   {"triton_tem", "matrix products"},
                                                   {"memcpy", "copies"},
                                                   {"direct_copy", "copies"},
                                                   {"rocclr", "copies"}}};

/// As PyTorch and NCCL call collectives.
constexpr std::array<FamilyWord, 10> kCollectiveWords{{{"allreduce", "all-reduce"},
                                                       {"allgather", "all-gather"},
                                                       {"reducescatter", "reduce-scatter"},
                                                       {"alltoall", "all-to-all"},
                                                       {"sendrecv", "send-recv"},
                                                       {"broadcast", "broadcast"},
                                                       {"send", "send-recv"},
                                                       {"recv", "send-recv"},
                                                       {"barrier", "barrier"},
                                                       {"reduce", "reduce"}}};

}  // namespace

std::string family_of_kernel(const std::string& name, const std::string& collective) {
  const std::string small = in_small_letters(name);
  const auto find_in = [](const auto& words, const std::string& text) {
    for (const FamilyWord& word : words)
      if (text.find(word.part) != std::string::npos) return std::string(word.family);
    return std::string();
  };
  if (small.starts_with("nccl") || small.starts_with("rccl")) {
    std::string word = in_small_letters(collective.empty() ? name : collective);
    std::erase(word, '_');
    const std::string operation = find_in(kCollectiveWords, word);
    return operation.empty() ? "other exchanges" : operation;
  }
  const std::string family = find_in(kFamilyWords, small);
  return family.empty() ? "elementwise" : family;
}

KinetoTrace read_kineto(const std::filesystem::path& path) {
  check_input(path);
  UnpackedFile file(path);
  KinetoReader reader;
  const std::string fault = read_json(file, reader);
  if (file.broken()) throw UserError(fmt::format("{}: what gzip packed is damaged or cut short", path.string()));
  if (!fault.empty()) throw UserError(fmt::format("{}: {}", path.string(), fault));
  return reader.trace(path.string());
}

}  // namespace trainyard
