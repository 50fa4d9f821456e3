"""Options of other packages: those that GA has only as they are by default, and those that change nothing."""
from . import _core


def _equals(value, other):
    """Whether they are equal; an array of several elements equals nothing."""
    if value is other:
        return True
    try:
        return bool(value == other)
    except (ValueError, RuntimeError, TypeError):  # NumPy, PyTorch and JAX: the truth of an array is ambiguous
        return False


def is_among(value, allowed):
    return any(_equals(value, other) for other in allowed)


def shown(value):
    """A value in an error text: an array by its type and shape."""
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} {list(shape)}" if shape is not None and len(shape) else repr(value)[:80]


def refuse_other(call, **asked):
    """UnsupportedError for the first option whose (value, allowed values) do not fit."""
    for name, (value, allowed) in asked.items():
        if not is_among(value, allowed):
            raise _core.UnsupportedError(f"{call}: {name} is {shown(value)}; allowed is {' and '.join(map(repr, allowed))}")


def check_options(call, options, fixed, hints=()):
    """What is no option of the other package is a TypeError; what GA lacks is an UnsupportedError that names it. fixed: the values
    allowed for each name, None for any; hints: names whose values change nothing."""
    for name, value in options.items():
        if name not in fixed and name not in hints:
            raise TypeError(f"{call}: unexpected keyword argument {name!r}")
        if fixed.get(name) is not None:
            refuse_other(call, **{name: (value, fixed[name])})


def whole_numbers(call, name, values):
    """A list of ints of a sequence or an array, on whatever device."""
    import operator
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise _core.DtypeError(f"{call}: {name} is {shown(values)}; allowed are whole numbers [n]") from None
