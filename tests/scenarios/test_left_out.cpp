// The catalog's constants are fitted again without one family of measured runs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/hardware/attention_kernel.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "models/software/stack.hpp"
#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "scenarios/src/studies/measured/left_out.hpp"
#include "scenarios/src/studies/measured/scale_fit.hpp"

namespace scenarios_test_left_out {

using namespace trainyard;

namespace {

SoftwareStack stack_of(const char* name) { return read_stack(Catalog().resolve("stack", Node::scalar_node(name))); }
std::string figure(const char* gpu, const char* map, const char* key) {
  return Catalog().resolve("gpu", Node::scalar_node(gpu)).find(map)->find(key)->find("value")->scalar;
}

}  // namespace

TEST_CASE("FigureTrials change or leave out a figure of the catalog while they live", "[left-out]") {
  const double elementwise = stack_of("megatron-core").slowdowns.elementwise;
  REQUIRE(elementwise > 1);
  {
    const FigureTrials now({{"stack", "megatron-core", "slowdowns.elementwise", "1.5"},
                            {"gpu", "gb200", "peak.bf16", ""},
                            {"stack", "nemo", "parallel.user_buffers.overlapped", ""},
                            {"attention", "flash-attention-2", "architectures.hopper", ""}});
    CHECK(stack_of("megatron-core").slowdowns.elementwise == 1.5);
    CHECK(figure("gb200", "peak", "bf16") == figure("b200-sxm-180gb", "peak", "bf16"));  // the figure of its base
    CHECK(stack_of("nemo").parallel.user_buffers == 0);                                  // its map is left out too
    CHECK(stack_of("torchtitan").slowdowns.elementwise > 1.5);
    const AttentionKernel none =
        read_attention_kernel(Catalog().resolve("attention", Node::scalar_node("flash-attention-2")));
    CHECK(none.by_architecture.empty());  // the map of all architectures is left out too
  }
  CHECK(stack_of("megatron-core").slowdowns.elementwise == elementwise);
  CHECK(stack_of("nemo").parallel.user_buffers > 0);
}

TEST_CASE("fitted constants belong to the entries whose files state them", "[left-out]") {
  const std::vector<FittedConstant> all = fitted_constants();
  const auto find = [&all](const std::string& key, const std::string& entry) {
    return std::ranges::find_if(all, [&](const FittedConstant& c) {
      return c.key == key && std::ranges::find(c.entries, entry) != c.entries.end();
    });
  };
  REQUIRE(find("slowdowns.elementwise", "pytorch-fsdp") != all.end());
  CHECK(!find("slowdowns.elementwise", "pytorch-fsdp")->by_command);
  CHECK(find("slowdowns.elementwise", "torchtitan-async-tp") == all.end());  // a base states the constant
  REQUIRE(find("gemm.peak", "h100-sxm5-80gb") != all.end());
  CHECK(find("gemm.peak", "h100-sxm5-80gb")->by_command);
  CHECK(entry_with_bases("gpu", "h100-96gb-500w") == std::vector<std::string>{"h100-96gb-500w", "h100-sxm5-80gb"});
  CHECK(entry_with_bases("gpu", "a chip of my own").empty());
}

TEST_CASE("a fitted constant lies between its prior and the value that the rows ask for", "[left-out]") {
  // One row of slope 1, off by 0.04: its variance and its family's are 0.03 squared each; the prior's 0.3 squared.
  const double rows = 1 / (2 * 0.03 * 0.03), prior = 1 / (0.3 * 0.3);
  const auto one_row = refit_constants({0.1}, {{0, 0.04, {1}}});
  REQUIRE(one_row.front().is_determined);
  CHECK(one_row.front().log == Approx((prior * 0.1 - rows * 0.04) / (prior + rows)).epsilon(1e-9));
  // Rows of one family share half of their variance: n of them count as 2 n / (n + 1) rows.
  const auto two_rows = refit_constants({0.1}, {{0, 0.04, {1}}, {0, 0.04, {1}}});
  CHECK(two_rows.front().log == Approx((prior * 0.1 - rows * 4 / 3 * 0.04) / (prior + rows * 4 / 3)).epsilon(1e-9));
  const auto two_families = refit_constants({0.1}, {{0, 0.04, {1}}, {1, 0.04, {1}}});
  CHECK(two_families.front().log == Approx((prior * 0.1 - rows * 2 * 0.04) / (prior + rows * 2)).epsilon(1e-9));
  // No row depends on the second constant.
  const auto undetermined = refit_constants({0, -0.4}, {{0, -0.02, {0.5, 0}}, {1, -0.02, {0.5, 0}}});
  CHECK(undetermined[0].is_determined);
  CHECK(undetermined[0].log > 0);
  CHECK(!undetermined[1].is_determined);
  CHECK(undetermined[1].log == -0.4);
  // Two constants that the rows cannot tell apart share the change.
  const auto inseparable = refit_constants({0, 0}, {{0, 0.05, {1, 1}}, {1, 0.05, {1, 1}}, {2, 0.05, {1, 1}}});
  CHECK(inseparable[0].log == Approx(inseparable[1].log));
  CHECK(inseparable[0].log == Approx(-0.025).epsilon(0.02));
  // A row far from the others moves the constant little.
  const auto with_outlier = refit_constants({0}, {{0, 0.01, {1}}, {1, 0.01, {1}}, {2, 0.01, {1}}, {3, 0.6, {1}}});
  CHECK(with_outlier.front().log < -0.01);
  CHECK(with_outlier.front().log > -0.06);  // their mean is off by 0.16
  CHECK(refit_constants({}, {}).empty());
  CHECK(!refit_constants({0.2}, {}).front().is_determined);
}

TEST_CASE("a family is predicted by constants that were not fitted to it", "[left-out]") {
  const std::vector<MeasuredFamily> families = measured_families({"training"}, {"fms-fsdp", "mpt-h100_80gb"});
  LeftOutOptions options;
  options.families = {"fms-fsdp"};
  options.rows_of_family = 3;
  const std::vector<RefittedFamily> all = leave_out_each(families, options);
  REQUIRE(all.size() == 1);
  const RefittedFamily& family = all.front();
  CHECK(family.now.runs.size() == 2);
  CHECK(family.now.step_times()->mean_abs ==
        Approx(predict_families(families).front().step_times()->mean_abs).epsilon(1e-12));
  CHECK(family.refitted.step_times()->mean_abs != family.now.step_times()->mean_abs);
  const auto find_constant = [&family](const std::string& name) {
    return std::ranges::find_if(family.constants,
                                [&name](const RefittedConstant& c) { return c.name.ends_with(name); });
  };
  REQUIRE(find_constant("gemm.sustained") != family.constants.end());
  CHECK(find_constant("gemm.sustained")->refitted != "");  // the other family ran on H100 too
  CHECK(find_constant("gemm.sustained")->refitted != find_constant("gemm.sustained")->value);
  CHECK(find_constant("gemm.peak") == family.constants.end());  // a constant of the kernels' table
  CHECK(find_constant("architectures.hopper") == family.constants.end());
}

TEST_CASE("constants that are fitted again to all families lower their errors, and are near the catalog's",
          "[left-out]") {
  const std::vector<MeasuredFamily> families = measured_families({"training"}, {"dgxc-h100-gpt3-175b", "fms-fsdp"});
  const std::vector<RefittedFamily> all = refit_to_all(families);
  REQUIRE(all.size() == 2);
  double catalog_error = 0, refitted_error = 0;
  for (std::size_t f = 0; f < 2; ++f) {
    CHECK(all[f].now.runs.size() == families[f].ids.size());
    catalog_error += all[f].now.step_times()->mean_abs;
    refitted_error += all[f].refitted.step_times()->mean_abs;
  }
  CHECK(refitted_error < catalog_error);
  const auto clock =
      std::find_if(all.front().constants.begin(), all.front().constants.end(),
                   [](const RefittedConstant& c) { return c.name == "gpu h100-sxm5-80gb: gemm.sustained"; });
  REQUIRE(clock != all.front().constants.end());
  CHECK(clock->refitted != clock->value);
  CHECK(std::stod(clock->refitted) == Approx(std::stod(clock->value)).epsilon(0.09));
}

TEST_CASE("constants that are the only ones of their map can be left out", "[left-out]") {
  const std::vector<MeasuredFamily> families = measured_families({"training"}, {"titan-8B", "dgxc-h100-gpt3-175b"});
  LeftOutOptions options;
  options.rows_of_family = 1;
  const std::vector<RefittedFamily> all = leave_out_each(families, options);
  REQUIRE(all.size() == 2);
  for (const RefittedFamily& family : all) CHECK(family.refitted.step_times()->n == family.now.runs.size());
  const auto has_constant = [&](std::size_t family, const std::string& name) {
    const std::vector<RefittedConstant>& constants = all[family].constants;
    return std::ranges::any_of(constants, [&](const RefittedConstant& c) { return c.name.ends_with(name); });
  };
  CHECK((has_constant(0, "user_buffers.overlapped_fp8") || has_constant(1, "user_buffers.overlapped_fp8")));
}

}  // namespace scenarios_test_left_out
