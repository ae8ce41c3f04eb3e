// Times of flash attention by shape: tiles over the SMs, and the fit of their constants.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "models/fitted/kernel_fit.hpp"
#include "models/hardware/attention_kernel.hpp"
#include "models/networks/layers/network.hpp"
#include "models/software/stack.hpp"
#include "tests/temporary_folder.hpp"

namespace models_test_attention_time {

using namespace trainyard;

namespace {

Gpu attentive_gpu() {
  Gpu gpu;
  gpu.name = "test";
  gpu.architecture = "tested";
  gpu.peak[static_cast<std::size_t>(Precision::bf16)] = FlopsPerSecond{300e12};
  gpu.peak[static_cast<std::size_t>(Precision::fp32)] = FlopsPerSecond{20e12};
  gpu.memory_bandwidth = BytesPerSecond{2e12};
  gpu.kernel_launch = Seconds{2e-6};
  gpu.sms = 100;
  gpu.attention.is_given = true;
  gpu.attention.forward = 0.65;
  gpu.attention.backward = 0.5;
  gpu.attention.memory = 0.6;
  gpu.attention.tail = 0.7;
  return gpu;
}

Work attention_work(const AttentionWork& shape, double width, double bytes, Precision precision = Precision::bf16) {
  Work work =
      kernel_call("attention", Kernel::attention, Flops{4 * shape.heads * shape.pairs * width}, Bytes{bytes}, precision)
          .work;
  work.kernel = kernel_of(shape);
  return work;
}

/// Causal attention, as in a row of the measured tables.
Work causal_attention(double batch, double heads, double seq) {
  return attention_work({batch * heads, seq, seq * seq / 2, seq, 1}, 128, 8 * batch * heads * seq * 128);
}

/// Seconds of tiles of 128 queries that see `keys` keys each, on all SMs, and of a tail of `longest` keys on one SM.
double by_hand(const Gpu& gpu, double tiles, double keys, double longest, double bytes) {
  const double rate = 300e12 * 0.65;
  const double arithmetic = 4 * 128.0 * 128 * (tiles * keys + 0.7 * 100 * longest) / rate;
  return gpu.kernel_launch.value + arithmetic + bytes / (2e12 * 0.6);
}

}  // namespace

TEST_CASE("attention takes the time of its tiles, of the wait for the last one and of its memory traffic",
          "[attention]") {
  const Gpu gpu = attentive_gpu();
  // 2048 queries are 16 tiles a head; their diagonals are computed in full.
  const double bytes = 8.0 * 64 * 2048 * 128;
  CHECK(kernel_time(gpu, causal_attention(4, 16, 2048)).value ==
        Approx(by_hand(gpu, 64 * 16, 1024 + 64, 2048, bytes)).epsilon(1e-12));
  // Without a mask there is no edge. 100 queries take a tile of 128.
  const Work full = attention_work({32, 100, 100 * 700.0, 700}, 128, 1e6);
  CHECK(kernel_time(gpu, full).value == Approx(by_hand(gpu, 32, 700, 700, 1e6)).epsilon(1e-12));
}

TEST_CASE(
    "a slow-down of attention by 2 doubles each time by shape, whatever bounds it, and without shapes the arithmetic",
    "[attention]") {
  Gpu shaped = attentive_gpu();
  shaped.attention.softmax = 1e12;
  shaped.attention.fp8 = {1e12, 4e11};
  Gpu plain = attentive_gpu();
  plain.attention.is_given = false;
  AttentionWork narrow{64, 2048, 2048.0 * 1024, 2048, 1};
  narrow.format = AttentionFormat::fp8;
  const Work by_flops =
      kernel_call("attention", Kernel::attention_backward, Flops{1e13}, Bytes{1}, Precision::bf16).work;
  const std::vector<Work> works{causal_attention(4, 16, 2048),  // bounded by the softmax
                                attention_work(narrow, 64, 1e8, Precision::bf16),
                                attention_work({1, 100, 1e4, 100}, 128, 1e9), by_flops};
  for (const Gpu& gpu : {shaped, plain}) {
    Gpu slow = gpu;
    SoftwareStack::Slowdowns{.attention = 2}.slow_down(slow);
    for (const Work& work : works) {
      const double launch = gpu.kernel_launch.value;
      if (!gpu.attention.is_given && memory_time(gpu, work) > Seconds{}) continue;
      CHECK(kernel_time(slow, work).value - launch ==
            Approx(2 * (kernel_time(gpu, work).value - launch)).epsilon(1e-12));
    }
  }
}

TEST_CASE("attention is nearer to its peak with long sequences and full chips", "[attention]") {
  const Gpu gpu = attentive_gpu();
  const auto rate = [&](const Work& work) { return work.flops.value / kernel_time(gpu, work).value; };
  CHECK(rate(causal_attention(16, 16, 1024)) < rate(causal_attention(8, 16, 2048)));
  CHECK(rate(causal_attention(1, 16, 16384)) > 1.2 * rate(causal_attention(16, 16, 512)));
  CHECK(rate(causal_attention(1, 1, 4096)) < 0.5 * rate(causal_attention(4, 16, 4096)));
  CHECK(rate(causal_attention(64, 64, 16384)) < 300e12 * 0.65);
}

TEST_CASE("the number of an attention shape gives its kind, and a chip without a model of tiles uses the roofline",
          "[attention]") {
  const AttentionWork forward{8, 256, 256 * 128, 256, 1}, backward{8, 256, 256 * 128, 256, 1, true};
  CHECK(kernel_of(forward) == kernel_of(forward));
  CHECK(kernel_of(forward) != kernel_of(backward));
  CHECK(attention_of(kernel_of(backward)) == backward);
  CHECK(kind_of(kernel_of(forward)) == Kernel::attention);
  CHECK(kind_of(kernel_of(backward)) == Kernel::attention_backward);
  CHECK(is_kernel(kernel_of(forward)));
  CHECK_THROWS_AS(attention_of(3), InternalError);

  Gpu gpu = attentive_gpu();
  gpu.efficiency[static_cast<std::size_t>(Kernel::attention)] = {0.4, 1};
  const Work narrow = causal_attention(4, 16, 2048);
  Work wide = narrow;
  wide.precision = static_cast<std::uint8_t>(Precision::fp32);  // not for tensor cores
  CHECK(kernel_time(gpu, wide).value == Approx(2e-6 + narrow.flops.value / (20e12 * 0.4)).epsilon(1e-12));
  gpu.attention = {};
  CHECK(kernel_time(gpu, narrow).value == Approx(2e-6 + narrow.flops.value / (300e12 * 0.4)).epsilon(1e-12));
}

TEST_CASE("attention in fp8 takes the time of its pairs, and narrow heads that of their softmax", "[attention]") {
  Gpu gpu = attentive_gpu();
  gpu.attention.tail = 0;
  const AttentionWork shape{64, 2048, 2048 * 1024, 2048};
  const auto seconds = [&](const AttentionWork& work, double width) {
    return (kernel_time(gpu, attention_work(work, width, 0)) - gpu.kernel_launch).value;
  };
  const double pairs = 64 * 2048 * 1024.0, wide = seconds(shape, 128), narrow = seconds(shape, 32);
  CHECK(narrow == Approx(wide / 4).epsilon(1e-12));
  gpu.attention.softmax = 2 * pairs / wide;
  CHECK(seconds(shape, 128) == Approx(wide).epsilon(1e-12));     // its products take longer
  CHECK(seconds(shape, 32) == Approx(wide / 2).epsilon(1e-12));  // its softmax takes longer
  gpu.attention.fp8 = {pairs / 1e-3, pairs / 3e-3};
  AttentionWork fp8 = shape;
  fp8.format = AttentionFormat::fp8;
  for (const double width : {64, 128}) CHECK(seconds(fp8, width) == Approx(1e-3).epsilon(1e-12));
  fp8.backward = true;
  CHECK(seconds(fp8, 128) == Approx(3e-3).epsilon(1e-12));
  // A format that was not measured takes as long as 16 bits.
  AttentionWork block = shape;
  block.format = AttentionFormat::fp8_block;
  CHECK(seconds(block, 128) == Approx(wide).epsilon(1e-12));
  // A window has two edges of half a tile each; the backward kernels in fp8 compute what it leaves out.
  AttentionWork window{64, 2048, 2048 * 256.0 - 256 * 128, 256, 2};
  const double keys = window.pairs / window.queries;
  CHECK(seconds(window, 128) == Approx(wide * (keys + 128) / 1024).epsilon(1e-12));
  window.format = AttentionFormat::fp8;
  window.backward = true;
  CHECK(seconds(window, 128) == Approx(3e-3 * (1024 + 64) / 1024).epsilon(1e-12));
}

TEST_CASE("a fit of attention in training recovers the rates of all formats and passes", "[attention][fit]") {
  Gpu truth = attentive_gpu();
  truth.attention.tail = 0;
  truth.attention.softmax = 0;
  truth.attention.fp8 = {2e12, 5e11};
  truth.attention.fp8_block = {1.5e12, 4e11};
  std::string text = "gpu,dtype,pass,batch,heads,kv_heads,head_dim,value_dim,seq,causal,window,latency_us\n";
  const std::pair<const char*, AttentionFormat> formats[] = {
      {"bfloat16", AttentionFormat::wide}, {"fp8", AttentionFormat::fp8}, {"mxfp8", AttentionFormat::fp8_block}};
  for (const auto& [dtype, format] : formats)
    for (const bool backward : {false, true})
      for (const double heads : {16, 64})
        for (const double seq : {1024, 2048, 4096, 8192, 16384}) {
          const AttentionWork shape{heads, seq, seq * seq / 2, seq, 1, backward, format};
          const double tensor = (format == AttentionFormat::wide ? 2 : 1) * heads * seq * 128;
          Work work = kernel_call("", Kernel::attention, Flops{shape.pairs * heads * 128 * 2 * (backward ? 5 : 2)},
                                  Bytes{4 * tensor * (backward ? 2 : 1) + 4 * heads * seq}, Precision::bf16)
                          .work;
          work.kernel = kernel_of(shape);
          text += fmt::format("test,{},{},1,{},{},128,128,{},1,,{}\n", dtype, backward ? "backward" : "forward",
                              exact(heads), exact(heads), exact(seq), exact(kernel_time(truth, work).value * 1e6));
        }
  const test::TemporaryFolder folder;
  const std::string file = folder.write("attention_training.csv", text);
  CHECK(KernelTable(file).gpus == std::set<std::string>{"test"});
  Gpu blank = truth;
  blank.attention = {};
  const KernelFit fit = fit_kernel(Kernel::attention, read_kernels(file, Kernel::attention, blank, "test"), blank);
  CHECK(fit.held_out.median < 0.02);
  const AttentionModel& a = fit.gpu.attention;
  CHECK(a.forward == Approx(truth.attention.forward).epsilon(0.05));
  CHECK(a.backward == Approx(truth.attention.backward).epsilon(0.05));
  CHECK(a.fp8.forward == Approx(2e12).epsilon(0.05));
  CHECK(a.fp8.backward == Approx(5e11).epsilon(0.05));
  CHECK(a.fp8_block.backward == Approx(4e11).epsilon(0.05));
}

TEST_CASE("a library's attention has its own tiles, or shares of the peak for all shapes", "[attention]") {
  const auto kernel = [](const std::string& more) {
    return read_attention_kernel(
        parse_document("name: other\narchitectures: {tested: {forward: 0.3, backward: 0.2" + more + "}}\n", "t"));
  };
  Sources sources;
  Gpu flat = attentive_gpu(), tiled = attentive_gpu();
  kernel("").drive(flat, sources);
  CHECK_FALSE(flat.attention.is_given);
  kernel(", memory: 0.5, tail: 0.1").drive(tiled, sources);
  CHECK(tiled.attention.is_given);
  CHECK(tiled.attention.forward == 0.3);
  CHECK(tiled.attention.tail == 0.1);
  CHECK(tiled.sustained_attention == 0);  // the clock of the chip in long runs holds
  kernel(", sustained: 0.9").drive(flat, sources);
  CHECK(flat.sustained_attention == 0.9);
  CHECK_THROWS_AS(kernel(", memory: 0.5, tail: -1"), UserError);
  CHECK_THROWS_AS(kernel(", sustained: 1.1"), UserError);
}

TEST_CASE("a fit of attention recovers the constants that made the table", "[attention][fit]") {
  const Gpu truth = attentive_gpu();
  std::string text = "gpu,dtype,batch,heads,kv_heads,head_dim,seq,causal,latency_us\n";
  for (const double batch : {1, 2, 4, 16, 64})
    for (const double heads : {1, 8, 16, 64})
      for (const double seq : {256, 512, 1024, 2048, 4096, 8192, 16384})
        text += "test,bfloat16," + exact(batch) + "," + exact(heads) + "," + exact(heads) + ",128," + exact(seq) +
                ",1," + exact(kernel_time(truth, causal_attention(batch, heads, seq)).value * 1e6) + "\n";
  const test::TemporaryFolder folder;
  const std::string file = folder.write("attention.csv", text);
  Gpu blank = truth;
  blank.attention = {};
  const auto fitted = [&] {
    return fit_kernel(Kernel::attention, read_kernels(file, Kernel::attention, blank, "test"), blank);
  };
  const KernelFit fit = fitted();
  CHECK(fit.held_out.median < 1e-3);
  CHECK(fit.gpu.attention.forward == Approx(0.65).epsilon(0.01));
  CHECK(fit.gpu.attention.tail == Approx(0.7).epsilon(0.03));
  CHECK(fitted().gpu.attention.forward == fit.gpu.attention.forward);
  blank.sms = 0;
  CHECK_THROWS_WITH(fitted(), Catch::Contains("without a peak in bf16 or sms"));
}

}  // namespace models_test_attention_time
