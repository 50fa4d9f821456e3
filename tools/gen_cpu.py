"""What follows for the CPU from src/cpu/*.toml beside the table of kernels: declarations of all functions that the rows name, and for each
instruction set and each body of src/cpu/body a file that compiles it. tools/gen_kernels.py writes them."""
import re
from pathlib import Path

MADE = "/* Made by tools/gen_kernels.py from src/cpu; do not edit. */\n"
BODIES = "src/cpu/body/"
PROTOTYPES = {  # of the members of ga_kernel (core/kernel.h)
    "ok": "const char *{}(const ga_kernel *kernel, const void *desc, const ga_caps *caps);\n",
    "cost": "double {}(const ga_kernel *kernel, const void *desc, const ga_caps *caps);\n",
    "workspace": "uint64_t {}(const ga_kernel *kernel, const void *desc, const ga_caps *caps);\n",
    "out_bytes": "uint64_t {}(const ga_kernel *kernel, const void *desc, const ga_caps *caps);\n",
    "launch": "GA_DECLARE_CPU({});\n",
}


def declarations(rows):
    """cpu/cpu_kernels.h: each function once."""
    lines = dict.fromkeys(PROTOTYPES[role].format(row.fill(row.file.host[role], role)) for row in rows for role in PROTOTYPES if role in row.file.host)
    return MADE + "#ifndef GA_CPU_CPU_KERNELS_H\n#define GA_CPU_CPU_KERNELS_H\n\n#include \"cpu/cpu.h\"\n\n" + \
        "/* Functions that rows of src/cpu name: whether a call is legal, its cost and workspace, its launch. */\n" + "".join(lines) + "\n#endif\n"


def unit(isa, body, includes):
    """A body on the vectors of an instruction set."""
    return MADE + "#include <string.h>\n\n" + "".join(f'#include "{name}"\n' for name in includes) + \
        f'#include "cpu/simd/simd_{isa}.h"\n\n#include "cpu/simd/simd_math.h" /* on its vectors */\n\n' + \
        f"#define ISA(name) name##_{isa}\n\n#include \"{body}\"\n"


def units(rows):
    """{file's name: its text}"""
    includes = {}
    for row in rows:
        if row["source"].startswith(BODIES):
            here = includes.setdefault((row["arch"], row["source"]), {"cpu/cpu_kernels.h"})
            here.update(row.file.host.get("include", []))
    return {f"{isa}_{re.sub('_tmpl$', '', Path(source).stem)}.c": unit(isa, source[len("src/"):], sorted(names)) for (isa, source), names in includes.items()}
