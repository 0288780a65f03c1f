"""Writes a language model of random weights: a real tokenizer, a real window and a real cache, and noise for text.

usage: random_model.py OUT.gguf CHAT_TEMPLATE.jinja
"""

import sys

import gguf
import numpy

LAYERS, WIDTH, HEADS, FEED, WINDOW = 1, 32, 2, 64, 32768

out, template = sys.argv[1:]
tokens = [b"<unk>", b"<s>", b"</s>"]
types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
for byte in range(256):
    tokens.append(b"<0x%02X>" % byte)
    types.append(gguf.TokenType.BYTE)
# A few pieces, so that not every character is a token of its own.
for piece in ["\u2581"] + [chr(c) for c in range(33, 127)] + ["\u2581the", "er", "in", "on", "re", "st", "th", "he"]:
    tokens.append(piece.encode())
    types.append(gguf.TokenType.NORMAL)

writer = gguf.GGUFWriter(out, "llama")
writer.add_name("random")
writer.add_context_length(WINDOW)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(FEED)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_file_type(gguf.LlamaFileType.ALL_F32)
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([-float(at) for at in range(len(tokens))])
writer.add_token_types(types)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)
writer.add_chat_template(open(template).read())

random = numpy.random.default_rng(7)


def tensor(name, *shape):
    writer.add_tensor(name, (random.standard_normal(shape) * 0.1).astype(numpy.float32))


tensor("token_embd.weight", len(tokens), WIDTH)
tensor("output.weight", len(tokens), WIDTH)
writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
for layer in range(LAYERS):
    for norm in ["attn_norm", "ffn_norm"]:
        writer.add_tensor(f"blk.{layer}.{norm}.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    for name in ["attn_q", "attn_k", "attn_v", "attn_output"]:
        tensor(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
    for name in ["ffn_gate", "ffn_up"]:
        tensor(f"blk.{layer}.{name}.weight", FEED, WIDTH)
    tensor(f"blk.{layer}.ffn_down.weight", WIDTH, FEED)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
