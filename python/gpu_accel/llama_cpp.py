"""llama-cpp-python's names: `import gpu_accel.llama_cpp as llama_cpp`, or `from gpu_accel.llama_cpp import Llama`."""
from . import _core
from ._llama import Llama
from ._llama_sequence import LlamaState, LogitsProcessorList, StoppingCriteriaList

__version__ = _core.version()
__all__ = ["Llama", "LlamaGrammar", "LlamaState", "LogitsProcessorList", "StoppingCriteriaList", "install"]


class LlamaGrammar:
    """A name that others import. GA has no grammars: each way to make one raises UnsupportedError."""

    @classmethod
    def from_string(cls, *_, **__):
        raise _core.UnsupportedError("LlamaGrammar: GA generates without grammars; allowed is a logits_processor")

    from_file = from_json_schema = from_string

    def __init__(self, *_, **__):
        self.from_string()


def install():
    """Puts this module where `import llama_cpp` looks, for libraries such as langchain that import it themselves. A StateError where
    llama-cpp-python has been imported before."""
    import sys
    module = sys.modules.setdefault("llama_cpp", sys.modules[__name__])
    if module is not sys.modules[__name__]:
        raise _core.StateError(f"install: llama_cpp has been imported from {getattr(module, '__file__', None)}; allowed is a process without it")
