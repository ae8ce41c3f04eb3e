// Zamba2 (Zyphra 2024): layers of Mamba-2. In some layers the input of Mamba-2 also contains the output of a block of
// attention and feed-forward part, which several layers share and each adapts by matrices of low rank.
#include <fmt/format.h>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

using namespace layer_letters;

constexpr double kSides = 2;  ///< the block reads hidden state and embedding side by side

/// Adds the output of a low-rank product to a projection of the same input. Tensor ranks split the second matrix as they
/// split the projection; each has the whole first one.
void use_adapter(LayerBuilder& b, const TransformerLayout& l, const std::string& part, const std::string& name,
                 double in, double out, bool keeps_input) {
  const auto rank = static_cast<double>(l.config.shared_blocks.adapter_rank);
  LayerBuilder::Linear down = column_linear(l, part, false, Readers::others);
  down.name = name + "_adapter.down";
  down.in = in;
  down.out = rank;
  down.keeps_input = keeps_input;
  down.casts_residual = false;
  b.set_partial(l.tensor_parallel());
  b.linear(down);
  b.set_partial(false);
  b.linear({.name = name + "_adapter.up", .in = rank, .out = out});
  const Bytes tensor = b.row_bytes(out);
  Operator sum;
  sum.forward.push_back(elementwise(name + "_adapter.sum", tensor * 3, l.precision));
  sum.forward_live = tensor * 2;
  b.add(std::move(sum));
}

/// Joins hidden state and embedding. Backward the gradient of the embedding is added to that of later layers.
void join_embedding(LayerBuilder& b, const TransformerLayout& l) {
  const Bytes hidden = b.residual_bytes(l.hidden());
  b.mover("shared.concat", hidden * kSides, hidden * kSides);
  Operator sum;
  sum.backward.push_back({elementwise("shared.embedding.gradient_sum", hidden * 3, l.precision), {}});
  sum.backward_live = hidden * 3;
  b.add(std::move(sum));
}

void shared_attention(LayerBuilder& b, const TransformerLayout& l, int owner) {
  AttentionShape shape = self_attention_shape(l);
  shape.input_width = kSides * l.hidden();
  const double query = shape.heads * shape.query_width, key = shape.key_value_heads * shape.query_width;
  b.set_shared(owner);
  b.set_partial(l.sequence_parallel());
  b.norm(l.config.norm, "shared.attention_norm", shape.input_width);
  b.set_partial(false);
  b.set_shared(-1);
  begin_columns(b, l, "attention", Readers::others, kSides);
  if (l.config.shared_blocks.attention_adapters) {
    b.shared_input("shared.attention", shape.input_width, 4);
    for (const auto& [name, width] : {std::pair{"q", query}, {"k", key}, {"v", key}})
      use_adapter(b, l, "attention", name, shape.input_width, width, false);
  }
  b.set_shared(owner);
  self_attention(b, l, shape);
  b.linear({.name = "projection",
            .in = query,
            .out = l.hidden(),
            .part = LinearPart::attention_output,
            .keeps_input = !l.options.flash_attention,  // flash attention keeps it as its output
            .holds_input = l.options.flash_attention});
  b.set_shared(-1);
  end_rows(b, l, "attention", Readers::others);
}

void shared_feed_forward(LayerBuilder& b, const TransformerLayout& l, int owner) {
  b.set_shared(owner);
  b.set_partial(l.sequence_parallel());
  b.norm(l.config.norm, "shared.mlp_norm", l.hidden());
  b.set_partial(false);
  b.set_shared(-1);
  begin_columns(b, l, "mlp", Readers::others);
  b.shared_input("shared.mlp", l.hidden(), 2);
  use_adapter(b, l, "mlp", "gate_up", l.hidden(), kSides * l.ffn(), true);
  b.set_shared(owner);
  feed_forward(b, l, {.width = l.ffn(), .keeps_input = false});
  b.set_shared(-1);
  end_rows(b, l, "mlp", Readers::others);
}

/// Returns the number of the layer that lists the weights of the block which layer `index` uses, or -1 if this layer
/// lists them. Layer 0 of the network is the embedding.
int owner_of(const TransformerConfig& c, std::int64_t index) {
  std::vector<std::int64_t> uses;
  for (std::int64_t i = 0; i <= index; ++i)
    if (c.pattern[static_cast<std::size_t>(i)] == kBoth) uses.push_back(i);
  const std::size_t turn = (uses.size() - 1) % static_cast<std::size_t>(c.shared_blocks.count);
  return uses[turn] == index ? -1 : static_cast<int>(uses[turn]) + 1;
}

/// x + scan(norm(x + linear(block(x, embedding)))), without the inner sum in layers of Mamba-2 alone.
Layer zamba_block(const TransformerLayout& l, std::int64_t index) {
  const bool uses_block = l.config.pattern[static_cast<std::size_t>(index)] == kBoth;
  LayerBuilder b = l.builder(fmt::format("{} {}", uses_block ? "hybrid" : "mamba", index));
  b.fork("scan_residual", l.hidden());
  if (uses_block) {
    const int owner = owner_of(l.config, index);
    b.fork("shared_residual", l.hidden());
    join_embedding(b, l);
    shared_attention(b, l, owner);
    shared_feed_forward(b, l, owner);
    b.set_partial(l.sequence_parallel());
    b.linear({.name = "shared_linear", .in = l.hidden(), .out = l.hidden(), .shares_fork_gradient = true});
    b.set_partial(false);
    b.join("shared_residual");
  }
  residual_norm(b, l, "scan_norm");
  scan_mixer(b, l, true);
  b.join("scan_residual");
  return l.finish_block(std::move(b));
}

std::vector<Layer> zamba_layers(const TransformerLayout& l) {
  std::vector<Layer> layers = decoder_layers(l, zamba_block);
  // Blocks read the embedding until the last of them has run.
  layers.front().saved_tensors.push_back({"embedding.output", layers.front().output});
  return layers;
}

void read_zamba_pattern(Fields& f, TransformerConfig& c) {
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (const std::vector<Node>* kinds = f.list("layers_block_type")) {
    for (const Node& kind : *kinds) {
      if (kind.scalar != "mamba" && kind.scalar != "hybrid")
        fail(kind.place, f.path("layers_block_type") + ": \"" + kind.scalar + "\"; expected mamba or hybrid");
      c.pattern += kind.scalar == "hybrid" ? kBoth : kScan;
    }
    if (c.pattern.size() != layers)
      f.refuse("layers_block_type", fmt::format("{} of {} layers", c.pattern.size(), layers));
    f.has("hybrid_layer_ids");
  } else if (const std::vector<Node>* numbers = f.list("hybrid_layer_ids")) {
    c.pattern = std::string(layers, kScan);
    for (const Node& number : *numbers)
      c.pattern[static_cast<std::size_t>(
          whole_number(number, f.path("hybrid_layer_ids"), 0, c.num_hidden_layers - 1))] = kBoth;
  } else {
    fail(f.place(), f.what() + ": missing key \"layers_block_type\" or \"hybrid_layer_ids\"");
  }
}

void read_zamba2(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = 4096;  // defaults of transformers.Zamba2Config
  const std::int64_t hidden = read_size(f, "hidden_size");
  const std::int64_t heads = read_size(f, "num_attention_heads", 32);
  c.head_dim = read_size(f, "attention_head_dim", 2 * hidden / heads);
  c.intermediate_size = read_size(f, "ffn_hidden_size", 4 * hidden);
  read_llama_keys(f, c);
  c.activation = read_activation(f, "hidden_act", "gelu");
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  if (!f.boolean("use_mem_rope", false)) c.position_embedding = PositionEmbedding::none;
  read_zamba_pattern(f, c);
  c.shared_blocks.count = read_size(f, "num_mem_blocks", 1);
  c.shared_blocks.adapter_rank = read_size(f, "adapter_rank", 128);
  c.shared_blocks.attention_adapters = f.boolean("use_shared_attention_adapter", false);
  refuse_true(f, "add_bias_linear", "biases of Zamba2's linear layers are");
  c.scan.kind = ScanKind::mamba2;
  c.scan.heads = read_size(f, "n_mamba_heads", 8);
  const std::int64_t inner = read_size(f, "mamba_expand", 2) * hidden;
  c.scan.head_dim = read_size(f, "mamba_headdim", inner / c.scan.heads);
  if (c.scan.inner() != inner)
    f.refuse("n_mamba_heads", fmt::format("{} heads of {} are not mamba_expand times hidden_size, {}", c.scan.heads,
                                          c.scan.head_dim, inner));
  c.scan.groups = read_size(f, "mamba_ngroups", 1);
  check_groups(f, c.scan, "mamba_ngroups");
  c.scan.state = read_size(f, "mamba_d_state", 64);
  c.scan.taps = read_size(f, "mamba_d_conv", 4);
  c.scan.chunk = read_size(f, "chunk_size", 256);
  c.scan.convolution_bias = true;  // whatever use_conv_bias says (transformers.Zamba2MambaMixer)
}

const RegisterTransformer registered_zamba2{"zamba2", {read_zamba2, zamba_layers}};

}  // namespace
}  // namespace trainyard::transformers
