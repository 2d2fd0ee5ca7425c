"""A GGUF file whose model says what it is told to: after each token comes the one the script names.

The model has no attention to speak of: the embedding of a token is a unit vector, and the output matrix sends it to the next token of
its script. A script starts with the token the prompt ends with, so a chat template chooses by the end of its text what is said.
"""

import struct

TEXT, UINT32, FLOAT32, ARRAY, INT32 = 8, 4, 6, 9, 5
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
ALIGN = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def member(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def array(kind, values, pack):
    return struct.pack("<IQ", kind, len(values)) + b"".join(pack(v) for v in values)


def number(form):
    return lambda v: struct.pack(form, v)


def make(path, scripts, template, special=()):
    """`scripts`: last token of the prompt -> pieces. Every piece is a token of its own and must occur once in all scripts.
    `special` pieces are control tokens, as are the starts."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    follows = {}
    for start, pieces in scripts.items():
        for piece in (start, *pieces):
            assert piece not in tokens, piece
            tokens.append(piece)
            kinds.append(CONTROL if piece == start or piece in special else USER_DEFINED)
        chain = [start, *pieces, "</s>"]
        follows.update({tokens.index(a): tokens.index(b) for a, b in zip(chain, chain[1:])})
    hidden = (len(tokens) + 63) // 64 * 64
    head, inner = 64, 32

    def matrix(rows, columns, ones):
        data = bytearray(4 * rows * columns)
        for row, column in ones:
            struct.pack_into("<f", data, 4 * (row * columns + column), 1.0)
        return (columns, rows), bytes(data)

    norm = ((hidden,), struct.pack("<f", 1.0) * hidden)
    tensors = {
        "token_embd.weight": matrix(len(tokens), hidden, [(i, i) for i in range(len(tokens))]),
        "output_norm.weight": norm,
        "output.weight": matrix(len(tokens), hidden, [(b, a) for a, b in follows.items()]),
        "blk.0.attn_norm.weight": norm,
        "blk.0.ffn_norm.weight": norm,
        "blk.0.attn_q.weight": matrix(head, hidden, []),
        "blk.0.attn_k.weight": matrix(head, hidden, []),
        "blk.0.attn_v.weight": matrix(head, hidden, []),
        "blk.0.attn_output.weight": matrix(hidden, head, []),
        "blk.0.ffn_gate.weight": matrix(inner, hidden, []),
        "blk.0.ffn_up.weight": matrix(inner, hidden, []),
        "blk.0.ffn_down.weight": matrix(hidden, inner, []),
    }
    sizes = {
        "context_length": 4096,
        "embedding_length": hidden,
        "block_count": 1,
        "feed_forward_length": inner,
        "attention.head_count": 1,
        "attention.head_count_kv": 1,
        "attention.key_length": head,
        "attention.value_length": head,
        "rope.dimension_count": head,
    }
    members = [member("general.architecture", TEXT, text("llama"))]
    members += [member(f"llama.{k}", UINT32, struct.pack("<I", v)) for k, v in sizes.items()]
    members += [
        member("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5)),
        member("tokenizer.ggml.model", TEXT, text("llama")),
        member("tokenizer.ggml.tokens", ARRAY, array(TEXT, tokens, text)),
        member("tokenizer.ggml.scores", ARRAY, array(FLOAT32, [0.0] * len(tokens), number("<f"))),
        member("tokenizer.ggml.token_type", ARRAY, array(INT32, kinds, number("<i"))),
        member("tokenizer.ggml.bos_token_id", UINT32, struct.pack("<I", 1)),
        member("tokenizer.ggml.eos_token_id", UINT32, struct.pack("<I", 2)),
        member("tokenizer.ggml.unknown_token_id", UINT32, struct.pack("<I", 0)),
        member("tokenizer.chat_template", TEXT, text(template)),
    ]
    infos, offset = [], 0
    for name, (shape, data) in tensors.items():
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset))
        offset += (len(data) + ALIGN - 1) // ALIGN * ALIGN
    head_bytes = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(members)) + b"".join(members) + b"".join(infos)
    with open(path, "wb") as f:
        f.write(head_bytes + b"\0" * (-len(head_bytes) % ALIGN))
        for _, data in tensors.values():
            f.write(data + b"\0" * (-len(data) % ALIGN))
