"""XLA's call frame, as far as the handlers of gpu_accel.jax read it (python/ext/jax.h): they are called without JAX."""
import ctypes

from gpu_accel import _core

SIZE, POINTER, INT, LONG = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64


def struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("size", SIZE), ("extensions", POINTER), *fields]})


Version = struct("Version", ("major", INT), ("minor", INT))
Buffer = struct("Buffer", ("dtype", INT), ("data", POINTER), ("rank", LONG), ("dims", ctypes.POINTER(LONG)))
Values = struct("Values", ("n", LONG), ("kinds", ctypes.POINTER(INT)), ("values", ctypes.POINTER(POINTER)))
Attributes = struct("Attributes", ("n", LONG), ("kinds", ctypes.POINTER(INT)), ("names", ctypes.POINTER(POINTER)), ("values", ctypes.POINTER(POINTER)))
Stream = struct("Stream", ("context", POINTER), ("stream", POINTER))
Device = struct("Device", ("context", POINTER), ("ordinal", ctypes.c_int32))
Error = struct("Error", ("message", ctypes.c_char_p), ("code", INT))
Api = struct("Api", ("version", Version), ("internal", POINTER), ("error_create", POINTER), ("error_text", POINTER), ("error_destroy", POINTER),
             ("handler_register", POINTER), ("stream_get", POINTER), ("unused", POINTER * 4), ("allocate", POINTER), ("free", POINTER),
             ("unused_too", POINTER * 6), ("device_get", POINTER))
Frame = struct("Frame", ("api", ctypes.POINTER(Api)), ("context", POINTER), ("stage", INT), ("arguments", Values), ("results", Values),
               ("attributes", Attributes))


class Span(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("bytes", SIZE)]


class Scalar(ctypes.Structure):
    _fields_ = [("dtype", INT), ("value", POINTER)]


class Xla:
    """An XLA whose calls come with a stream. What ctypes points to is kept."""

    def __init__(self):
        self.said, self.asked, self.kept = [], [], []

        def error_create(error):
            self.said.append(error[0].message.decode())
            return 1

        def stream_get(ask):
            self.asked.append(ask[0].context)
            ask[0].stream = self.stream
            return 0

        def device_get(ask):
            ask[0].ordinal = 0
            return 0
        functions = {name: self.function(f, kind) for name, f, kind in (("error_create", error_create, Error), ("stream_get", stream_get, Stream),
                                                                        ("device_get", device_get, Device))}
        self.api = Api(size=ctypes.sizeof(Api), version=Version(24, None, 0, 1), **functions)

    def function(self, f, kind):
        made = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(kind))(f)
        self.kept.append(made)
        return ctypes.cast(made, POINTER).value

    def values(self, buffers):
        n = len(buffers)
        self.kept.append(buffers)
        return Values(ctypes.sizeof(Values), None, n, (INT * n)(*[1] * n), (POINTER * n)(*[ctypes.addressof(b) for b in buffers]))

    def attribute(self, value):
        """(kind, address) of a text, a float or an integer."""
        if isinstance(value, str):
            made, kind = Span(value.encode(), len(value)), 4
        else:
            number = ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int32(value)
            made, kind = Scalar(11 if isinstance(value, float) else 4, ctypes.addressof(number)), 3
            self.kept.append(number)
        self.kept.append(made)
        return kind, ctypes.addressof(made)

    def call(self, handler, arguments, results, context=7, stream=None, **options):
        """The handler's answer: None, or an error, whose text is the last of `said`."""
        self.stream, n = stream, len(options)
        names = [Span(name.encode(), len(name)) for name in options]
        kinds, values = zip(*map(self.attribute, options.values())) if options else ((), ())
        attributes = Attributes(ctypes.sizeof(Attributes), None, n, (INT * n)(*kinds), (POINTER * n)(*map(ctypes.addressof, names)), (POINTER * n)(*values))
        frame = Frame(ctypes.sizeof(Frame), None, ctypes.pointer(self.api), context, 3, self.values(arguments), self.values(results), attributes)
        return handler(ctypes.byref(frame))


def handler(name, platform):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]
    capsule, = (c for n, p, c in _core.jax_targets() if n == name and p == platform)
    return ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(Frame))(pointer(capsule, b"xla._CUSTOM_CALL_TARGET"))


def buffer(dtype, address, *shape):
    return Buffer(ctypes.sizeof(Buffer), None, dtype, address, len(shape), (LONG * len(shape))(*shape))
