"""cairn's tokenizers through its C interface, for the scripts that compare them with other implementations."""

import ctypes as c


class _Options(c.Structure):
    _fields_ = [("allocator", c.c_void_p), ("n_threads", c.c_int), ("log_level", c.c_int), ("log", c.c_void_p), ("log_user", c.c_void_p)]


class _Span(c.Structure):
    _fields_ = [("id", c.c_int32), ("type_id", c.c_int32), ("text", c.c_int32), ("begin", c.c_size_t), ("end", c.c_size_t)]


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8")


class Library:
    def __init__(self, path):
        self.c = c.CDLL(path)
        self.c.cairn_tokenizer_release.argtypes = self.c.cairn_detokenizer_destroy.argtypes = [c.c_void_p]
        options = _Options()
        self.c.cairn_context_options_initialize(c.byref(options))
        options.n_threads, options.log_level = 1, 0
        self.context = c.c_void_p()
        if self.c.cairn_context_create(c.byref(options), c.byref(self.context)):
            raise OSError(self.message())

    def message(self):
        buffer = c.create_string_buffer(512)
        self.c.cairn_last_error_text(buffer, 512)
        return buffer.value.decode("utf-8", "replace")

    def load(self, source):
        """A tokenizer of the text of a tokenizer.json, or a message."""
        data, handle = as_bytes(source), c.c_void_p()
        status = self.c.cairn_tokenizer_create_from_json(self.context, data, c.c_size_t(len(data)), b"oracle", c.byref(handle))
        return self.message() if status else Tokenizer(self, handle)

    def open(self, path):
        """A tokenizer of a file or folder, or a message."""
        handle = c.c_void_p()
        return self.message() if self.c.cairn_tokenizer_open(self.context, path.encode(), c.byref(handle)) else Tokenizer(self, handle)


class Tokenizer:
    def __init__(self, library, handle):
        self.library, self.c, self.handle = library, library.c, handle
        self.spans, self.room, self.text = (_Span * 16)(), (c.c_int32 * 16)(), c.create_string_buffer(256)

    def close(self):
        self.c.cairn_tokenizer_release(self.handle)

    def encode(self, texts, special):
        """Rows of id, type, number of the text, begin and end; or a message."""
        rows = [as_bytes(t) for t in texts]
        pair = rows[1] if len(rows) > 1 else None
        count = c.c_size_t()
        for _ in range(2):
            room = len(self.spans)
            if self.c.cairn_tokenizer_encode_offsets(
                self.handle,
                rows[0],
                c.c_size_t(len(rows[0])),
                pair,
                c.c_size_t(len(pair or b"")),
                special,
                self.spans,
                c.c_size_t(room),
                c.byref(count),
            ):
                return self.library.message()
            if count.value <= room:
                break
            self.spans = (_Span * count.value)()
        return [(s.id, s.type_id, s.text, s.begin, s.end) for s in self.spans[: count.value]]

    def ids(self, text, special):
        """Ids through the call without places, or a message."""
        data, count = as_bytes(text), c.c_size_t()
        for _ in range(2):
            room = len(self.room)
            if self.c.cairn_tokenizer_encode(
                self.handle, data, c.c_size_t(len(data)), special, self.room, c.c_size_t(room), c.byref(count)
            ):
                return self.library.message()
            if count.value <= room:
                break
            self.room = (c.c_int32 * count.value)()
        return self.room[: count.value]

    def decode(self, ids, skip):
        row, count = (c.c_int32 * len(ids))(*ids), c.c_size_t()
        for _ in range(2):
            room = len(self.text)
            if self.c.cairn_tokenizer_decode(self.handle, row, c.c_size_t(len(ids)), skip, self.text, c.c_size_t(room), c.byref(count)):
                return self.library.message()
            if count.value <= room:
                break
            self.text = c.create_string_buffer(count.value)
        return self.text.raw[: count.value].decode("utf-8")

    def stream(self, ids, skip):
        """The pieces of a detokenizer put together; each must be whole characters."""
        handle, text, count, out = c.c_void_p(), c.c_void_p(), c.c_size_t(), []
        if self.c.cairn_detokenizer_create(self.handle, skip, c.byref(handle)):
            return self.library.message()
        try:
            for i in range(len(ids) + 1):
                if i < len(ids):
                    status = self.c.cairn_detokenizer_push(handle, c.c_int32(ids[i]), c.byref(text), c.byref(count))
                else:
                    status = self.c.cairn_detokenizer_finish(handle, c.byref(text), c.byref(count))
                if status:
                    return self.library.message()
                out.append(c.string_at(text.value, count.value).decode("utf-8") if count.value else "")
        finally:
            self.c.cairn_detokenizer_destroy(handle)
        return "".join(out)
