#include <catch2/catch.hpp>
#include <tuple>

#include "models/software/training_memory.hpp"
#include "sim/error.hpp"

namespace models_test_training_memory {

using namespace trainyard;

namespace {
const Optimizer& optimizer(const char* name) { return find_optimizer(name, Place{}); }

SoftwareStack plain_stack() {
  SoftwareStack stack;
  stack.gradient_bucket_copy = false;
  return stack;
}
}  // namespace

TEST_CASE("mixed precision with Adam holds 16 bytes a parameter") {
  const StaticMemory memory = static_memory(1000, Precision::bf16, optimizer("adamw"), plain_stack());
  CHECK(memory.parameters.value == 2000);
  CHECK(memory.gradients.value == 2000);
  CHECK(memory.optimizer.value == 12000);
  CHECK(memory.buffers.value == 0);
  CHECK(memory.total().value == 16000);
}

TEST_CASE("fp32 and fp64 training have no master weights") {
  const StaticMemory single = static_memory(1000, Precision::fp32, optimizer("adam"), plain_stack());
  CHECK(single.parameters.value == 4000);
  CHECK(single.gradients.value == 4000);
  CHECK(single.optimizer.value == 8000);
  CHECK(static_memory(1000, Precision::tf32, optimizer("adam"), plain_stack()).total().value == 16000);
  CHECK(static_memory(1000, Precision::fp64, optimizer("adam"), plain_stack()).total().value == 32000);
}

TEST_CASE("optimizers differ by their states") {
  CHECK(optimizer_state_size(optimizer("sgd"), Precision::fp32).value == 0);
  CHECK(optimizer_state_size(optimizer("sgd"), Precision::fp16).value == 4);
  CHECK(optimizer_state_size(optimizer("momentum"), Precision::fp32).value == 4);
  CHECK(optimizer_state_size(optimizer("momentum"), Precision::bf16).value == 8);
  // Adam in mixed precision: 2 bytes of gradient read; 24 bytes of master, m, v read and written; 2 of parameter
  // written.
  CHECK(optimizer_traffic(optimizer("adam"), Precision::bf16).value == 28);
  CHECK(optimizer_traffic(optimizer("adam"), Precision::fp32).value == 28);
  CHECK(optimizer_traffic(optimizer("sgd"), Precision::fp32).value == 12);
  const Work work = optimizer_work(10, Precision::bf16, optimizer("adam"));
  CHECK(work.bytes.value == 280);
  CHECK(work.flops.value == 0);
  CHECK(work.kernel == static_cast<std::uint16_t>(Kernel::optimizer));
  CHECK(gradient_accumulation_work(10, Precision::bf16).bytes.value == 60);
}

TEST_CASE("the stack's buffers count, and the parts sum to the total") {
  SoftwareStack stack;
  stack.gradient_bucket_copy = true;
  stack.workspace = Bytes{77};
  const StaticMemory memory = static_memory({1000, 500, 250}, Precision::bf16, optimizer("adam"), stack);
  CHECK(memory.buffers.value == 1000 + 77);
  CHECK(memory.optimizer.value == 12 * 250);
  Bytes sum;
  for (const MemoryPart& part : memory.parts) {
    sum += part.bytes;
    CHECK_FALSE(part.name.empty());
  }
  CHECK(sum == memory.total());
}

TEST_CASE("8-bit and factored states take less memory, and orthogonal updates of matrices take matrix products") {
  CHECK(optimizer_state_size(optimizer("adamw8bit"), Precision::bf16).value == 4 + 2 * (1 + 4.0 / 256));
  CHECK(optimizer_state_size(optimizer("adafactor"), Precision::bf16).value == 4);
  CHECK(optimizer_traffic(optimizer("adafactor"), Precision::fp32).value == 3 * 4 + 2 * 4);
  SoftwareStack stack = plain_stack();
  stack.optimizer_traffic = Bytes{34};
  CHECK(optimizer_traffic(optimizer("lamb"), Precision::bf16, stack).value == 34);
  CHECK(optimizer_traffic(optimizer("muon"), Precision::bf16, stack).value == 34 - 2 * 4);
  CHECK(optimizer_traffic(optimizer("sgd"), Precision::bf16, stack).value == 34 - 2 * 2 * 4);
  Layer layer, head;
  layer.name = "block 0";
  layer.parameters = {{.name = "fc", .elements = 2000.0 * 3000, .in = 2000, .out = 3000},
                      {.name = "norm", .elements = 7}};
  head.name = "head";
  head.parameters = {{.name = "output", .elements = 50, .in = 5, .out = 10}};
  const std::vector<const Layer*> layers{&layer, &head};
  HeldElements elements = held_elements(layers, {1, 1, 2}, {});
  Work work = optimizer_work(elements.optimizer, Precision::bf16, optimizer("muon"));
  const Bytes before = work.bytes;
  add_matrix_updates(work, elements, layers, {1, 1, 2}, {}, optimizer("muon"), Precision::bf16);
  // One of the two replicas has the whole matrix.
  CHECK(work.flops.value == 5 * (4 * 2000.0 * 2000 * 3000 + 2 * 2000.0 * 2000 * 2000));
  CHECK(elements.optimizer == 2000 * 3000);
  CHECK(elements.by_adam == 57.0 / 2);
  CHECK((work.bytes - before).value == 2 * 4 * elements.by_adam);
  CHECK(static_memory(elements, Precision::bf16, optimizer("muon"), plain_stack()).optimizer.value ==
        8 * elements.optimizer + 4 * elements.by_adam);
}

TEST_CASE("tensor ranks gather the momenta of matrices, or sum products of their parts") {
  // Two tensor ranks have halves of a matrix of 200 x 300 by its rows of outputs, and a matrix that is not split.
  const auto layer = [](double in, double out) {
    Layer all;
    all.name = "block 0";
    all.parameters = {{.name = "fc", .elements = in * out, .in = in, .out = out},
                      {.name = "router", .elements = 50.0 * 40, .in = 50, .out = 40},
                      {.name = "norm", .elements = 7}};
    return all;
  };
  const Layer half = layer(300, 100), one = layer(300, 200);
  const std::vector<const Layer*> layers{&half}, one_rank{&one};
  struct Update {
    UpdateExchanges exchanges;
    double flops;
  };
  const auto update = [&](MatrixSplit split, double replicas) {
    Optimizer muon = optimizer("muon");
    muon.matrix_split = split;
    HeldElements elements = held_elements(layers, {1, 1, replicas}, {});
    Work work = optimizer_work(elements.optimizer, Precision::bf16, muon);
    const UpdateExchanges all =
        add_matrix_updates(work, elements, layers, {1, 1, replicas}, {}, muon, Precision::bf16, one_rank);
    return Update{all, work.flops.value};
  };
  const auto iterations = [](double side, double other) {
    return 5 * (4 * side * side * other + 2 * side * side * side);
  };
  const double router = iterations(40, 50);
  const Update alone = update(MatrixSplit::blockwise, 1), gathers = update(MatrixSplit::duplicated, 1),
               sums = update(MatrixSplit::distributed, 1);
  CHECK(alone.flops == iterations(100, 300) + router);
  CHECK(alone.exchanges.gathers + alone.exchanges.sums == 0);
  CHECK(gathers.flops == iterations(200, 300) + router);
  CHECK(gathers.exchanges.gathers == 1);
  CHECK(gathers.exchanges.gathered.value == 4 * 200.0 * 300);
  CHECK(sums.flops == iterations(300, 100) + router);  // along the side that is not split, though it is the longer one
  CHECK(sums.exchanges.sums == 5);
  CHECK(sums.exchanges.summed.value == 2 * 300.0 * 300);
  // One of four replicas has the whole matrix.
  CHECK(update(MatrixSplit::duplicated, 4).exchanges.gathered.value == 4 * 200.0 * 300);
  CHECK(update(MatrixSplit::distributed, 4).exchanges.sums == 5);
}

TEST_CASE("Shampoo and SOAP multiply each side of a matrix with factors that they keep") {
  Layer layer, head;
  layer.name = "block 0";
  layer.parameters = {{.name = "fc", .elements = 3 * 200.0 * 300, .in = 200, .out = 300},  // three experts
                      {.name = "wide", .elements = 100.0 * 20000, .in = 100, .out = 20000},
                      {.name = "norm", .elements = 7}};
  head.name = "head";
  head.parameters = {{.name = "output", .elements = 50, .in = 5, .out = 10}};
  const std::vector<const Layer*> layers{&layer, &head};
  // The side of 20,000 has no factors. FLOPs of an update: products with the sides, and a tenth of the renewal.
  const double squares = 3 * (200.0 * 200 + 300.0 * 300) + 100.0 * 100,
               cubes = 3 * (200.0 * 200 * 200 + 300.0 * 300 * 300) + 100.0 * 100 * 100,
               side_products = 3 * (200.0 + 300) * 200 * 300 + 100.0 * 100 * 20000, wide_products = 100.0 * 100 * 20000,
               wide_cubes = 100.0 * 100 * 100;
  for (const auto& [name, products, renewal] : {std::tuple{"shampoo", 2, 9.0 + 2}, {"soap", 4, 2 + 8.0 / 3}})
    for (const double replicas : {1.0, 2.0}) {
      CAPTURE(name, replicas);
      HeldElements elements = held_elements(layers, {1, 1, replicas}, {1, 1, replicas});
      Work work = optimizer_work(elements.optimizer, Precision::bf16, optimizer(name));
      const Bytes before = work.bytes;
      CHECK(before == optimizer_work(elements.optimizer, Precision::bf16, optimizer("adam")).bytes);
      add_matrix_updates(work, elements, layers, {1, 1, replicas}, {1, 1, replicas}, optimizer(name), Precision::bf16);
      // The wide matrix takes more than half of all FLOPs, so that it sets the time of the busier one of two replicas.
      const double all = 2 * products * side_products + renewal * cubes / 10,
                   wide = 2 * products * wide_products + renewal * wide_cubes / 10;
      CHECK(wide > all / 2);
      CHECK(work.flops.value == Approx(std::max(all / replicas, wide)).epsilon(1e-12));
      CHECK((work.bytes - before).value == Approx(4 * (products + 1) * squares / replicas).epsilon(1e-12));
      CHECK(work.precision == static_cast<std::uint8_t>(Precision::fp32));
      CHECK(elements.side_factors == Approx(2 * squares / replicas).epsilon(1e-12));
      CHECK(elements.by_adam == 0);
      // Master weights and two states for each parameter, and two factors for each side.
      CHECK(static_memory(elements, Precision::bf16, optimizer(name), plain_stack()).optimizer.value ==
            Approx(12 * elements.optimizer + 4 * elements.side_factors).epsilon(1e-12));
    }
}

TEST_CASE("unknown optimizers and precisions are refused") {
  CHECK_THROWS_WITH(find_optimizer("adamm", Place{}), Catch::Contains("adamm") && Catch::Contains("adam"));
  CHECK_THROWS_WITH(find_optimizer("kfac", Place{}),
                    Catch::Contains("unknown optimizer \"kfac\"; not modelled yet; nearest: \"soap\""));
  CHECK_THROWS_WITH(find_optimizer("gradient", Place{}), Catch::Contains("known: ") && Catch::Contains("momentum"));
  CHECK_THROWS_AS(static_memory(1, Precision::fp8, optimizer("adam"), plain_stack()), UserError);
  CHECK(std::string(name_of(MemoryClass::activations)) == "activations");
}

}  // namespace models_test_training_memory
