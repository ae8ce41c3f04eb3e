#pragma once
#include <vector>

namespace trainyard::test {

/// A small network as Hugging Face's config, which the family in C++ reads, and the same network as operators.
struct ListedFamily {
  const char* name;
  const char* config;
  const char* operators;
  bool has_experts = false;
  bool has_scans = false;
};

inline const std::vector<ListedFamily>& listed_families() {
  static const std::vector<ListedFamily> all{
      {"gpt2", "{model_type: gpt2, vocab_size: 4099, n_layer: 4, n_embd: 1024, n_head: 16, n_positions: 2048}",
       R"(
model_type: operators
name: gpt2
tokens: 2048
sizes: {hidden: 1024, heads: 16, inner: 4 * hidden, vocabulary: 4099, table: 2048}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {name: token_embedding, entries: vocabulary, width: hidden, split: rows}
      - positions: {entries: table, width: hidden}
      - dropout: {width: hidden}
  - layer: gpt
    repeat: 4
    width: hidden
    operators:
      - residual:
          width: hidden
          operators:
            - layer_norm: {width: hidden}
            - linear: {name: qkv, in: hidden, out: 3 * hidden, parts: 3, bias: true, split: columns}
            - attention: {heads: heads, width: hidden / heads, causal: true, dropout: true}
            - linear: {name: projection, in: hidden, out: hidden, bias: true, split: rows, after_attention: true}
            - dropout: {width: hidden}
      - residual:
          width: hidden
          operators:
            - layer_norm: {width: hidden}
            - linear: {name: fc1, in: hidden, out: inner, bias: true, split: columns}
            - activation: {name: gelu, width: inner, split: columns}
            - linear: {name: fc2, in: inner, out: hidden, bias: true, split: rows}
            - dropout: {width: hidden}
  - layer: head
    operators:
      - layer_norm: {width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns, tied: token_embedding}
      - cross_entropy: {classes: vocabulary}
)"},
      {"llama",
       R"({model_type: llama, vocab_size: 4099, num_hidden_layers: 4, hidden_size: 1024, num_attention_heads: 16,
         num_key_value_heads: 8, intermediate_size: 2816, max_position_embeddings: 2048})",
       R"(
model_type: operators
name: llama
tokens: 2048
sizes: {hidden: 1024, heads: 16, key_value_heads: 8, head: hidden / heads, inner: 2816, vocabulary: 4099}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {entries: vocabulary, width: hidden, split: rows}
  - layer: llama
    repeat: 4
    width: hidden
    operators:
      - residual:
          width: hidden
          operators:
            - rms_norm: {width: hidden}
            - linear: {name: q, in: hidden, out: hidden, split: columns, readers: 3}
            - linear: {name: k, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
            - linear: {name: v, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
            - rotary: {width: (heads + key_value_heads) * head, key: key_value_heads * head, split: columns}
            - attention: {heads: heads, key_value_heads: key_value_heads, width: head, causal: true}
            - linear: {name: projection, in: hidden, out: hidden, split: rows, after_attention: true}
      - residual:
          width: hidden
          operators:
            - rms_norm: {width: hidden}
            - linear: {name: gate, in: hidden, out: inner, split: columns, readers: 2}
            - linear: {name: up, in: hidden, out: inner, split: columns, shares_input: true}
            - activation: {name: silu, width: inner, gated: true, split: columns}
            - linear: {name: down, in: inner, out: hidden, split: rows}
  - layer: head
    operators:
      - rms_norm: {width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns}
      - cross_entropy: {classes: vocabulary}
)"},
      {"mixtral",
       R"({model_type: mixtral, num_hidden_layers: 4, hidden_size: 1024, num_attention_heads: 16,
         num_key_value_heads: 8, intermediate_size: 2816, num_local_experts: 8, num_experts_per_tok: 2,
         vocab_size: 4099, max_position_embeddings: 2048})",
       R"(
model_type: operators
name: mixtral
tokens: 2048
sizes: {hidden: 1024, heads: 16, key_value_heads: 8, head: hidden / heads, inner: 2816, vocabulary: 4099}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {entries: vocabulary, width: hidden, split: rows}
  - layer: mixtral
    repeat: 4
    width: hidden
    operators:
      - residual:
          width: hidden
          operators:
            - rms_norm: {width: hidden}
            - linear: {name: q, in: hidden, out: hidden, split: columns, readers: 3}
            - linear: {name: k, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
            - linear: {name: v, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
            - rotary: {width: (heads + key_value_heads) * head, key: key_value_heads * head, split: columns}
            - attention: {heads: heads, key_value_heads: key_value_heads, width: head, causal: true}
            - linear: {name: projection, in: hidden, out: hidden, split: rows, after_attention: true}
      - residual:
          width: hidden
          operators:
            - rms_norm: {width: hidden}
            - experts: {width: hidden, experts: 8, chosen: 2, inner: inner, gated: true}
  - layer: head
    operators:
      - rms_norm: {width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns}
      - cross_entropy: {classes: vocabulary}
)",
       true},
      {"mamba2",
       R"({model_type: mamba2, num_hidden_layers: 4, hidden_size: 1024, num_heads: 32, head_dim: 64, state_size: 128,
         n_groups: 8, vocab_size: 4099})",
       R"(
model_type: operators
name: mamba2
tokens: 2048
sizes: {hidden: 1024, vocabulary: 4099}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {entries: vocabulary, width: hidden, split: rows}
  - layer: mamba
    repeat: 4
    width: hidden
    operators:
      - residual:
          width: hidden
          operators:
            - rms_norm: {width: hidden}
            - mamba2: {width: hidden, heads: 32, head: 64, groups: 8, state: 128, bias: true}
  - layer: head
    operators:
      - rms_norm: {width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns}
      - cross_entropy: {classes: vocabulary}
)",
       false, true},
      {"qwen3_next",
       R"({model_type: qwen3_next, num_hidden_layers: 4, hidden_size: 1024, num_attention_heads: 8,
         num_key_value_heads: 4, head_dim: 128, vocab_size: 4099, max_position_embeddings: 2048, num_experts: 8,
         num_experts_per_tok: 2, moe_intermediate_size: 512, shared_expert_intermediate_size: 512,
         linear_num_value_heads: 16, linear_num_key_heads: 8, linear_key_head_dim: 64, linear_value_head_dim: 64})",
       R"(
model_type: operators
name: qwen3_next
tokens: 2048
sizes: {hidden: 1024, heads: 8, key_value_heads: 4, head: 128, vocabulary: 4099}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {entries: vocabulary, width: hidden, split: rows}
  - pattern: [linear, linear, linear, full]
    layers:
      - layer: linear
        width: hidden
        operators:
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - gated_delta: {width: hidden, heads: 16, head: 64, groups: 8, state: 64}
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - experts:
                    {width: hidden, experts: 8, chosen: 2, inner: 512, shared: 512, gated: true, shared_gate: true}
      - layer: full
        width: hidden
        operators:
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - linear: {name: q, in: hidden, out: 2 * heads * head, split: columns, readers: 3}
                - linear: {name: k, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
                - linear: {name: v, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
                - rms_norm: {name: q_norm, heads: heads, width: head, split: columns}
                - rms_norm: {name: k_norm, heads: key_value_heads, width: head, split: columns}
                - rotary: {width: (heads + key_value_heads) * head, key: key_value_heads * head, split: columns}
                - attention:
                    {heads: heads, key_value_heads: key_value_heads, width: head, causal: true, gate: true}
                - linear: {name: projection, in: heads * head, out: hidden, split: rows}
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - experts:
                    {width: hidden, experts: 8, chosen: 2, inner: 512, shared: 512, gated: true, shared_gate: true}
  - layer: head
    operators:
      - rms_norm: {width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns}
      - cross_entropy: {classes: vocabulary}
)",
       true, true},
      {"nemotron_h",
       R"({model_type: nemotron_h, hybrid_override_pattern: "MEM*EM*-", hidden_size: 1024, vocab_size: 4099,
         max_position_embeddings: 2048, num_attention_heads: 8, num_key_value_heads: 4, head_dim: 128,
         intermediate_size: 4096, mamba_num_heads: 32, n_routed_experts: 8, num_experts_per_tok: 2,
         moe_intermediate_size: 512, moe_shared_expert_intermediate_size: 1024})",
       R"(
model_type: operators
name: nemotron_h
tokens: 2048
sizes: {hidden: 1024, heads: 8, key_value_heads: 4, head: 128, inner: 4096, vocabulary: 4099}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {entries: vocabulary, width: hidden, split: rows}
  - pattern: MEM*EM*-
    layers:
      - layer: M
        width: hidden
        operators:
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - mamba2: {width: hidden, heads: 32, head: 64, groups: 8, state: 128, chunk: 128, bias: true}
      - layer: E
        width: hidden
        operators:
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - experts:
                    {width: hidden, experts: 8, chosen: 2, inner: 512, shared: 1024, correction_bias: true}
      - layer: "*"
        width: hidden
        operators:
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - linear: {name: q, in: hidden, out: heads * head, split: columns, readers: 3}
                - linear: {name: k, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
                - linear: {name: v, in: hidden, out: key_value_heads * head, split: columns, shares_input: true}
                - attention: {heads: heads, key_value_heads: key_value_heads, width: head, causal: true}
                - linear: {name: projection, in: heads * head, out: hidden, split: rows, after_attention: true}
      - layer: "-"
        width: hidden
        operators:
          - residual:
              width: hidden
              operators:
                - rms_norm: {width: hidden}
                - linear: {name: fc1, in: hidden, out: inner, split: columns}
                - activation: {name: relu2, width: inner, split: columns}
                - linear: {name: fc2, in: inner, out: hidden, split: rows}
  - layer: head
    operators:
      - rms_norm: {width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns}
      - cross_entropy: {classes: vocabulary}
)",
       true, true}};
  return all;
}

}  // namespace trainyard::test
