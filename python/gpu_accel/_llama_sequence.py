"""One sequence of a Llama, token by token: eval, sample, generate and states, under llama-cpp-python's names."""
from array import array

from . import _core
from ._engine import Token


def numbers(view):
    """A NumPy array over the view where NumPy is installed: what processors of logits expect. Else the view."""
    try:
        import numpy
    except ImportError:
        return view
    return numpy.asarray(view)


def shared_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class LogitsProcessorList(list):
    """Functions (ids, logits) -> logits, called in turn."""

    def __call__(self, input_ids, scores):
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class StoppingCriteriaList(list):
    """Functions (ids, logits) -> bool; one that says yes ends generation."""

    def __call__(self, input_ids, logits):
        return any(criterion(input_ids, logits) for criterion in self)


class LlamaState:
    """What save_state() gives: the ids, the last logits, the generator of random numbers. It holds no keys and values:
    they are computed from the ids when they are wanted."""

    def __init__(self, ids, row, rng, seed):
        self.input_ids, self.n_tokens, self.seed = array("i", ids), len(ids), seed
        self._row, self._rng = None if row is None else array("f", row), rng  # of its own, for pickle and copy


class Sequence:
    """Ids with their logits, and a Session that holds the first of them: as many as have been evaluated."""

    def __init__(self, model, n_ctx, n_batch=0, logits_all=False, last=64, seed=0):
        self.session = _core.Session(model, n_ctx, n_batch)
        self.ids, self.rows = [], []  # rows[i]: the logits after ids[:i + 1], or None
        self.logits_all, self.last, self.seed = logits_all, last, seed
        self.tokens, self.width = model.info["tokens"], model.info["vocab"]
        self.rng = _core.rng(seed)

    def eval(self, ids):
        ids = list(ids)
        if not ids:
            return
        if self.session.length < len(self.ids):  # after load_state
            self.session.eval(self.ids[self.session.length:], 0)
        n = len(ids) if self.logits_all else 1
        flat = memoryview(self.session.eval(ids, n)).cast("B").cast("f")
        if not self.logits_all and self.rows:
            self.rows[-1] = None
        self.rows += [None] * (len(ids) - n) + [flat[i * self.width:(i + 1) * self.width] for i in range(n)]
        self.ids += ids

    def keep(self, n):
        """Forgets all but the first n ids."""
        del self.ids[n:], self.rows[n:]
        if self.session.length > n:
            self.session.rewind(n)

    def save(self):
        return LlamaState(self.ids, self.rows[-1] if self.rows else None, bytes(memoryview(self.rng).cast("B")), self.seed)

    def load(self, state):
        ids = list(state.input_ids)
        self.keep(shared_prefix(self.ids, ids))
        self.rows += [None] * (len(ids) - len(self.ids))
        self.ids = ids
        if ids:
            self.rows[-1] = None if state._row is None else memoryview(state._row)
        self.seed = state.seed
        memoryview(self.rng).cast("B")[:] = state._rng

    def row(self, at=None):
        """Logits after the token at that place, else after the last one."""
        if at is not None and not 0 <= at < len(self.ids):
            raise _core.ArgumentError(f"sample: idx is {at}; allowed are 0 to {len(self.ids) - 1}")
        if not self.rows or (row := self.rows[-1 if at is None else at]) is None:
            raise _core.StateError(f"sample: there are no logits at {'the end' if at is None else at}; call eval() before, "
                                   "and for those of earlier tokens make the Llama with logits_all=True")
        return row

    def sample(self, at=None, logits_processor=None, **sampling):
        """(id, log-probability)"""
        row = self.row(at)
        if logits_processor:
            row = logits_processor(numbers(array("i", self.ids)), numbers(array("f", row)))
        if self.last:
            sampling["history"] = array("i", self.ids[-self.last:])
        return _core.sample(memoryview(row)[:self.tokens], rng=self.rng, **sampling)

    def generate(self, ids, logits_processor=None, stopping_criteria=None, restart=None, **sampling):
        """Yields (id, log-probability) without end. restart: forgets the former ids, but for a prefix that `ids` shares; it is called
        where there is none."""
        ids = list(ids)
        if restart and self.ids:
            n = shared_prefix(self.ids, ids)
            if n == len(ids) and self.rows[n - 1] is None:
                n -= 1  # its logits are wanted
            if n > 0:
                self.keep(n)
            else:
                restart()
            ids = ids[n:]
        while True:
            self.eval(ids)
            token, logprob = self.sample(logits_processor=logits_processor, **sampling)
            if stopping_criteria and stopping_criteria(numbers(array("i", self.ids)), numbers(self.row())):
                return
            more = yield token, logprob
            ids = [token, *(more or ())]


class LoneRequest:
    """Generates as an Engine's Request does, by a Sequence of its own: what is given Python functions runs here."""

    def __init__(self, model, sequence, ids, limit, processor, criteria, stop_ids=(), **sampling):
        room = sequence.session.n_ctx - len(ids)
        if room < 1:
            raise _core.ShapeError(f"create_completion: the prompt has {len(ids)} tokens; the context has room for {sequence.session.n_ctx}")
        self.model, self.left, self.finish_reason = model, min(limit, room) if limit > 0 else room, None
        self._detok, self._stop_ids = _core.Detokenizer(model), frozenset(stop_ids)
        self._ids = sequence.generate(ids, processor, criteria, **sampling)

    def __iter__(self):
        return self

    def __next__(self):
        token, logprob = next(self._ids, (None, None)) if self.left > 0 and not self.finish_reason else (None, None)
        self.left -= 1
        if token is None or token in self._stop_ids or self.model.is_eog(token):
            self.finish_reason = self.finish_reason or ("length" if self.left < 0 else "stop")
            raise StopIteration
        return Token(token, self._detok.push(token), logprob)

    def cancel(self):
        self._ids.close()
