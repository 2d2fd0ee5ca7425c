"""Makes golden cases: an asset, inputs and what comes out. See scripts/make_goldens."""

# Loaded first: the dialects of coreai-core cannot be imported before it.
import coreai.authoring  # noqa: F401
