// Sharding of a transformer over tensor, context and expert ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "models/networks/layers/sharding.hpp"
#include "models/networks/transformers/layout.hpp"
#include "models/reading/nearest.hpp"

namespace trainyard::transformers {
namespace {

std::string text_of(std::int64_t value) { return std::to_string(value); }

/// Returns the numbers of heads, columns and the like that tensor ranks split, with their names.
std::vector<std::pair<std::int64_t, const char*>> tensor_parts(const TransformerConfig& c, const Sharding& s) {
  std::vector<std::pair<std::int64_t, const char*>> parts;
  if (c.has_layer(layer_letters::kScan)) {
    parts.emplace_back(c.scan.heads, "heads of scans");
    if (c.scan.kind != ScanKind::mamba1) parts.emplace_back(c.scan.groups, "groups of heads of scans");
  }
  if (c.has_layer(layer_letters::kAttention)) parts.emplace_back(c.num_attention_heads, "attention heads");
  if (c.has_layer(layer_letters::kAttention) && c.latent.key_value_rank == 0)
    parts.emplace_back(c.num_key_value_heads, "key-value heads");
  if (c.experts.count == 0 || c.experts.first_layer > 0 || c.has_layer(layer_letters::kDense))
    parts.emplace_back(c.intermediate_size, "columns of the feed-forward part");
  if (c.experts.count > 0 && !s.folds_experts())
    parts.emplace_back(c.experts.intermediate_size, "columns of an expert");
  if (c.experts.count > 0 && c.experts.shared_intermediate_size > 0)
    parts.emplace_back(c.experts.shared_intermediate_size, "columns of the shared experts");
  return parts;
}

/// Returns the largest number of tensor ranks that divides all those parts.
std::int64_t tensor_room(const TransformerConfig& c, const Sharding& s) {
  std::int64_t room = 0;
  for (const auto& [size, what] : tensor_parts(c, s)) room = std::gcd(room, size);
  return std::max<std::int64_t>(1, room);
}

[[noreturn]] void refuse(const TransformerConfig& config, const char* part, const std::string& why) {
  throw ShardingError(part, why, config.place);
}

/// Refuses `ranks` that do not divide `size`. `what` names the size, and `axis` the axis if it is not `part`.
void require_divisor(const TransformerConfig& config, std::int64_t ranks, std::int64_t size, const char* part,
                     const std::string& what, const char* axis = nullptr) {
  if (size % ranks == 0) return;
  throw ShardingError(part,
                      std::string(axis ? axis : part) + " parallelism over " + text_of(ranks) +
                          " ranks: they must divide the " + text_of(size) + " " + what + " of " + config.name +
                          "; nearest: " + nearest_divisors(size, ranks),
                      config.place, size);
}

/// Returns " (nearest: 96 or 104 tokens)": the lengths in so many equal blocks that the network has positions for.
std::string nearest_tokens(const TransformerConfig& c, std::int64_t blocks, std::int64_t seq) {
  if (c.fixed_seq_length) return "";
  const bool is_long = blocks < seq, has_longer = (seq / blocks + 1) * blocks <= c.max_position_embeddings;
  if (!is_long && !has_longer) return "";
  const std::int64_t below = seq / blocks * blocks;
  return " (nearest: " + (has_longer ? nearest_multiples(blocks, seq) : text_of(below)) + " tokens)";
}

/// Returns the largest number of context ranks that divides the blocks of the sequence, and the heads if they exchange
/// heads.
std::int64_t context_room(const TransformerConfig& c, std::int64_t seq, const Sharding& s) {
  const bool ring = s.ring_ranks() > 1, halves = ring && c.causal;
  std::int64_t room = !halves ? seq : seq % 2 == 0 ? seq / 2 : 1;
  if (c.has_layer(layer_letters::kScan)) room = std::gcd(room, c.scan.heads / s.tensor);
  if (!ring) room = std::gcd(room, std::gcd(c.num_attention_heads / s.tensor, c.num_key_value_heads / s.tensor));
  return std::max<std::int64_t>(1, room);
}

void check_tensor(const TransformerConfig& c, const Sharding& s) {
  if (s.sequence && s.tensor < 2)
    refuse(c, "sequence", "sequence parallelism is over the tensor axis, which has 1 rank; expected at least 2");
  for (const auto& [size, what] : tensor_parts(c, s)) {
    if (size % s.tensor == 0) continue;
    const std::int64_t room = tensor_room(c, s);
    throw ShardingError("tensor",
                        "tensor parallelism over " + text_of(s.tensor) + " ranks: they must divide the " +
                            text_of(size) + " " + what + " of " + c.name +
                            "; nearest: " + nearest_divisors(room, s.tensor),
                        c.place, room);
  }
  if (c.experts.latent_size > 0 && s.tensor > 1 && !s.folds_experts())
    refuse(c, "tensor",
           "tensor parallelism: experts that read a projection of the tokens are not split over tensor ranks; expected "
           "plan.expert_parallel.tensor, or 1 tensor rank");
  if (c.experts.count == 0) return;
  if (s.folds_experts())
    require_divisor(c, s.expert_tensor, c.experts.intermediate_size, "expert_tensor", "columns of an expert",
                    "expert-tensor");
}

void check_context(const TransformerConfig& c, std::int64_t seq, const TransformerOptions& options) {
  const Sharding& s = options.sharding;
  const std::string ranks = "context parallelism over " + text_of(s.context) + " ranks: ";
  if (s.ulysses > 0 && s.context % s.ulysses != 0)
    refuse(c, "context",
           ranks + text_of(s.ulysses) + " of them exchange heads, which must divide the ranks; nearest: " +
               nearest_divisors(s.context, s.ulysses));
  const bool ring = s.ring_ranks() > 1;
  const auto refuse_ranks = [&](const std::string& why) {
    const std::int64_t room = context_room(c, seq, s);
    throw ShardingError("context", why + "; nearest: " + nearest_ranks(room, s.context), c.place, room);
  };
  if (s.context > 1) {
    const std::int64_t blocks = ring && c.causal ? 2 * static_cast<std::int64_t>(s.context) : s.context;
    if (seq % blocks != 0)
      refuse_ranks(ranks + "the sequence of " + text_of(seq) + " tokens is to be cut into " + text_of(blocks) +
                   " equal blocks" + nearest_tokens(c, blocks, seq));
    if (c.indexer.keys > 0)
      refuse(c, "context", ranks + "with keys that an indexer chooses it is not modelled; expected 1");
    if (c.has_layer(layer_letters::kScan) && c.scan.heads / s.tensor % s.context != 0)
      refuse_ranks(ranks + "scans give each rank a part of the " + text_of(c.scan.heads / s.tensor) +
                   " heads that a rank of the tensor axis has: they must be a multiple of the ranks");
    if (c.has_layer(layer_letters::kScan) && s.splits_context())
      refuse(
          c, "context",
          ranks + "with scans, exchanges of two kinds are not modelled; expected ring or all-to-all, without ulysses");
    for (const auto& [heads, what] :
         {std::pair{c.num_attention_heads, "attention head"}, std::pair{c.num_key_value_heads, "key-value head"}})
      if (heads / s.tensor % s.head_ranks() != 0) {
        const std::string why = ranks + "all-to-all" + (ring ? " among " + text_of(s.head_ranks()) : std::string()) +
                                " gives each rank a part of the " + counted_noun(heads / s.tensor, what) +
                                " that a rank of the tensor axis has: their number must be a multiple of the ranks";
        if (!ring) refuse_ranks(why);
        refuse(c, "context", why + "; nearest: " + nearest_ranks(heads / s.tensor, s.head_ranks()));
      }
    if (ring && !options.flash_attention)
      refuse(c, "context", ranks + "ring attention is flash attention; expected flash_attention, or all-to-all");
    if (ring && c.sliding_window > 0)
      refuse(c, "context", ranks + "ring attention with a sliding window is not modelled; expected all-to-all");
    if (ring && s.recompute == Recompute::operators)
      refuse(c, "context",
             ranks + "recomputation by operator of ring attention is not modelled; expected none, selective or full");
  }
  if (!(s.user_buffers >= 0 && s.user_buffers <= 1)) fail(c.place, "user_buffers: a part from 0 to 1 expected");
  if (s.sequence && seq / s.context % s.tensor != 0)
    refuse(c, "sequence",
           "sequence parallelism over " + text_of(s.tensor) + " ranks: they must divide a rank's " +
               text_of(seq / s.context) +
               " tokens of a sample; nearest: " + nearest_divisors(seq / s.context, s.tensor));
}

void check_recomputation(const TransformerConfig& c, const Sharding& s) {
  if (s.recompute == Recompute::operators && (c.has_layer(layer_letters::kScan) || c.indexer.keys > 0))
    refuse(
        c, "recompute",
        c.model_type +
            ": recomputation by operator of scans and of indexers is not modelled; expected none, selective or full");
}

/// Refuses sequences of different lengths that are not modelled.
void check_unpadded(const TransformerConfig& c, std::int64_t seq, const TransformerOptions& options) {
  const UnpaddedLengths& lengths = options.unpadded;
  if (lengths.mean == 0) return;
  const double most = static_cast<double>(seq);
  if (!(lengths.mean >= 1 && lengths.mean <= lengths.attended && lengths.attended <= most))
    fail(c.place, "unpadded: a mean length from 1 to the attended one, and that to the " + text_of(seq) +
                      " tokens of a full sequence, expected");
  if (!options.flash_attention)
    fail(c.place, "unpadded: attention that writes its scores pads its sequences; expected flash_attention");
  if (options.sharding.context > 1 || c.sliding_window > 0 || c.indexer.keys > 0 || c.num_decoder_layers > 0 ||
      c.fixed_seq_length)
    fail(c.place,
         "unpadded: with context parallelism, sliding windows, indexers, a decoder beside an encoder or images it is "
         "not modelled");
}

/// Checks the ranks that split each expert.
void check_expert_tensor(const TransformerConfig& c, const Sharding& s) {
  if (!s.folds_experts()) return;
  if (c.experts.count == 0)
    refuse(c, "expert", "expert-tensor ranks: " + c.name + " has no experts to split; leave them out");
  if (s.tensor > 1 && !s.sequence)
    refuse(c, "expert",
           "expert-tensor ranks: a rank routes and sends its own tokens, and without sequence parallelism " +
               text_of(s.tensor) + " tensor ranks have the same ones; expected sequence parallelism");
  if (s.expert_tensor > 1 && s.one_row_a_rank)
    refuse(c, "expert",
           "expert-tensor ranks: a dispatcher that sends a token once to each rank is modelled with 1 of them; "
           "expected all-to-all, or 1");
}

/// Checks the loads of experts, or of ranks of the expert axis.
void check_expert_loads(const TransformerConfig& c, const Sharding& s) {
  if (s.expert_loads.empty()) return;
  const auto count = static_cast<std::int64_t>(s.expert_loads.size());
  if (count != c.experts.count && count != s.expert)
    refuse(c, "expert_loads",
           fmt::format("{} loads; expected {}, one for each expert{}", count, c.experts.count,
                       s.expert > 1 ? fmt::format(", or {}, one for each expert rank", s.expert) : ""));
  const double mean = std::accumulate(s.expert_loads.begin(), s.expert_loads.end(), 0.0) / static_cast<double>(count);
  const double most = *std::ranges::max_element(s.expert_loads) / mean;
  constexpr double kRounding = 1e-12;
  if (most * static_cast<double>(c.experts.per_token) > static_cast<double>(c.experts.count) * (1 + kRounding))
    refuse(c, "expert_loads",
           fmt::format("the largest load is {:.4g} times the mean; a token goes to {} of {} experts, so at most {:.4g} "
                       "times is possible",
                       most, c.experts.per_token, c.experts.count,
                       static_cast<double>(c.experts.count) / static_cast<double>(c.experts.per_token)));
  if (const std::vector<double> rows = unequal_expert_loads(s); !rows.empty() && *std::ranges::min_element(rows) <= 0)
    refuse(c, "expert_loads",
           "an expert rank without tokens is not modelled; expected a load above 0 for one of its experts");
}

void check_expert_axis(const TransformerConfig& c, const Sharding& s) {
  if (s.expert > 1 && !c.has_tables) {
    if (c.experts.count == 0)
      refuse(c, "expert",
             "expert parallelism over " + text_of(s.expert) + " ranks: " + c.name +
                 " has no experts and no tables of embeddings; expected 1");
    require_divisor(c, s.expert, c.experts.count, "expert", "experts");
  }
  check_expert_tensor(c, s);
  check_expert_loads(c, s);
  if (!std::isfinite(s.expert_imbalance) || s.expert_imbalance < 1)
    fail(c.place, "expert_imbalance: the fullest expert's load over the mean is at least 1");
  if (c.experts.count > 0 &&
      s.expert_imbalance * static_cast<double>(c.experts.per_token) > static_cast<double>(c.experts.count))
    refuse(c, "expert",
           "expert parallelism: a token goes to " + text_of(c.experts.per_token) + " of " + text_of(c.experts.count) +
               " experts, so that the fullest has at most " + text_of(c.experts.count / c.experts.per_token) +
               " times the mean load; expert_imbalance is more");
  if (s.expert > 1 && s.expert_imbalance > s.expert)
    refuse(c, "expert",
           "expert_imbalance: of " + text_of(s.expert) + " ranks the fullest has at most " + text_of(s.expert) +
               " times the mean load");
  if (!std::isfinite(s.expert_capacity) || s.expert_capacity < 0)
    fail(c.place, "expert_capacity: expected a multiple of the mean load, or 0 for no limit");
}

void check_family(const TransformerConfig& c, const Sharding& s) {
  if (c.scan.kind == ScanKind::mamba1 && s.context > 1)
    refuse(c, "context", c.model_type + ": scans of Mamba-1 over context ranks are not modelled; expected 1");
  if (c.num_decoder_layers > 0 && (s.tensor > 1 || s.context > 1))
    refuse(c, s.context > 1 ? "context" : "tensor",
           c.model_type + ": an encoder-decoder cannot be split over tensor or context ranks here; expected 1");
  constexpr std::array<std::string_view, 5> encoders{"bert", "vit", "roberta", "xlm-roberta", "camembert"};
  if (std::ranges::find(encoders, c.model_type) == encoders.end()) return;
  if (s.sequence || s.context > 1)
    refuse(c, s.context > 1 ? "context" : "sequence",
           c.model_type +
               ": sequence and context parallelism are not modelled, since its head reads the first token of a sample; "
               "expected only the tensor axis");
}

/// Is a tensor cast before it is gathered? The scaling and all readers must allow it.
bool casts_first(const TransformerLayout& l, Readers readers) {
  return readers != Readers::others && l.products().gathers_narrow();
}

/// Returns the bytes of the hidden state of all tokens when they are gathered.
Bytes gathered_bytes(const TransformerLayout& l, Readers readers) {
  return casts_first(l, readers) ? l.hidden_bytes() * (l.products().element() / l.size()) : l.hidden_bytes();
}

bool norm_casts(const TransformerLayout& l, Readers readers) { return readers == Readers::products && l.norms_cast(); }

bool trains_products(const TransformerLayout& l) { return !l.options.adapters.has_rank(); }

}  // namespace

void check_sharding(const TransformerConfig& config, std::int64_t seq_length, const TransformerOptions& options) {
  const Sharding& s = options.sharding;
  for (const auto& [ranks, axis] : {std::pair{s.tensor, "tensor"}, {s.context, "context"}, {s.expert, "expert"}})
    if (ranks < 1) fail(config.place, std::string(axis) + " axis: " + text_of(ranks) + " ranks; expected at least 1");
  if (options.vocabulary_multiple < 1)
    fail(config.place, "vocabulary_multiple is " + text_of(options.vocabulary_multiple) + "; expected at least 1");
  if (options.autocast && (options.fp8 || s.tensor > 1 || s.context > 1))
    refuse(config,
           options.fp8    ? "precision"
           : s.tensor > 1 ? "tensor"
                          : "context",
           "a stack with autocast is modelled in fp32, bf16 and fp16, on 1 tensor and context rank; nearest: a stack "
           "without it, such as pytorch-fsdp");
  check_family(config, s);
  if (config.shared_blocks.count > 0 && options.fp8 && s.tensor > 1)
    refuse(config, "tensor",
           config.model_type +
               ": adapters of blocks that layers share are modelled over tensor ranks in 16 and 32 bits; expected 1, "
               "or another precision");
  if (config.shared_blocks.count > 0 && options.adapters.has_rank())
    fail(config.place, config.name + ": adapters (plan.lora) of blocks that layers share are not modelled");
  check_tensor(config, s);
  check_context(config, seq_length, options);
  check_recomputation(config, s);
  check_unpadded(config, seq_length, options);
  check_expert_axis(config, s);
}

double TransformerLayout::vocab() const {
  const double multiple = options.vocabulary_multiple * tensor();
  return std::ceil(static_cast<double>(config.vocab_size) / multiple) * multiple / tensor();
}

Bytes TransformerLayout::rotary_table() const {
  const std::int64_t width = config.latent.key_value_rank > 0 ? config.latent.rotary_head_dim : config.head_dim;
  return element_size(Precision::fp32) * (tokens() * static_cast<double>(width));
}

LayerBuilder TransformerLayout::builder(std::string name) const {
  LayerBuilder b(std::move(name), residual_rows(), precision);
  b.set_overlap(sharding().overlap);
  b.set_accumulated(options.fused_gradient_accumulation ? options.accumulated_element : Bytes{});
  b.set_fused_norms(options.fused_norm_gradients);
  b.set_early_stop(options.early_stop);
  b.set_fp8(products());
  b.set_adapters(options.adapters);
  b.set_fused_operations(options.fused_operations);
  b.set_experts_in_turn(options.experts_in_turn);
  b.set_linear_launches(options.fp8_linear_launches);
  b.set_autocast(options.autocast);
  return b;
}

Layer TransformerLayout::finish_block(LayerBuilder&& b) const {
  const Bytes stream = b.residual_bytes(hidden());
  b.set_recomputed_parts(sharding().remade);
  return std::move(b).build(stream, sharding().recompute, stream);
}

Readers readers_of(const TransformerLayout& l, LinearPart part) {
  const Adapters& a = l.options.adapters;
  return a.has_rank() && a.has_adapter[static_cast<std::size_t>(part)] ? Readers::others : Readers::products;
}

void begin_columns(LayerBuilder& b, const TransformerLayout& l, const std::string& prefix, Readers readers,
                   double sides) {
  if (casts_first(l, readers) && !norm_casts(l, readers)) {
    if (readers == Readers::products && l.norms_input())
      b.set_module(RecomputedPart::layernorm);  // the cast is recomputed with the norm
    b.cast(prefix + ".cast", l.hidden(), trains_products(l) && !l.sequence_parallel(),
           l.sequence_parallel() ? prefix + ".maximum" : "", false);
    b.set_module(RecomputedPart::none);
  }
  if (!l.tensor_parallel()) return;
  const Bytes all_tokens = l.hidden_bytes() * sides;
  LayerBuilder::Crossing c;
  c.in = all_tokens / l.sequence_shares();
  c.out = all_tokens;
  c.beside_weights = true;
  if (l.sequence_parallel()) {
    c.forward = {prefix + ".gather", Axis::tensor, ExchangeKind::all_gather, gathered_bytes(l, readers) * sides};
    c.backward = {prefix + ".gather.backward", Axis::tensor, ExchangeKind::reduce_scatter, all_tokens};
    c.forward.hidden_share = c.backward.hidden_share = l.sharding().user_buffers;
  } else {
    c.backward = {prefix + ".reduce.backward", Axis::tensor, ExchangeKind::all_reduce, all_tokens};
  }
  b.cross(std::move(c));
  b.set_rows(l.rows());
}

void end_rows(LayerBuilder& b, const TransformerLayout& l, const std::string& prefix, Readers readers) {
  if (!l.tensor_parallel()) return;
  const Bytes all_tokens = l.hidden_bytes();
  LayerBuilder::Crossing c;
  c.in = all_tokens;
  c.out = all_tokens / l.sequence_shares();
  if (l.sequence_parallel()) {
    c.forward = {prefix + ".scatter", Axis::tensor, ExchangeKind::reduce_scatter, all_tokens};
    c.backward = {prefix + ".scatter.backward", Axis::tensor, ExchangeKind::all_gather, gathered_bytes(l, readers)};
    c.forward.hidden_share = c.backward.hidden_share = l.sharding().user_buffers;
  } else {
    c.forward = {prefix + ".reduce", Axis::tensor, ExchangeKind::all_reduce, all_tokens};
  }
  b.cross(std::move(c));
  b.set_rows(l.residual_rows());
  if (gathers_cast_gradient(l, readers))
    b.cast(prefix + ".gradient_cast", l.hidden(), false, prefix + ".gradient_maximum", true);
}

bool gathers_cast_gradient(const TransformerLayout& l, Readers readers) {
  return l.sequence_parallel() && casts_first(l, readers);
}

LayerBuilder::Linear column_linear(const TransformerLayout& l, const std::string& prefix, bool gathers,
                                   Readers readers) {
  using Cast = LayerBuilder::Linear::Cast;
  LayerBuilder::Linear linear;
  linear.in = l.hidden();
  linear.casts_residual = true;
  linear.input_shares = l.sequence_shares();
  if (l.sequence_parallel() && gathers) linear.regather = prefix + ".regather";
  if (!casts_first(l, readers)) return linear;
  const bool transposed_later = l.sequence_parallel() || norm_casts(l, readers);
  linear.cast = gathers && transposed_later ? Cast::before : Cast::done;
  return linear;
}

void row_bias(LayerBuilder& b, const TransformerLayout& l, const std::string& name) {
  if (!l.tensor_parallel()) return;
  b.set_partial(l.sequence_parallel());
  b.bias(name, l.hidden(), l.options.fused_bias_dropout_add);
  b.set_partial(false);
}

}  // namespace trainyard::transformers

namespace trainyard {

std::int64_t tensor_room(const TransformerConfig& config) { return transformers::tensor_room(config, Sharding{}); }

}  // namespace trainyard
