"""perf's metric expressions, evaluated apart from our formulas: by Python's own grammar.

The language is that of tools/perf/util/expr.y: arithmetic, ``a if b else c``, ``|`` and ``^`` of
truth values, min, max, d_ratio, ``#slots`` and ``strcmp_cpuid_str(X)``; a name is an event or
another metric.
"""

from __future__ import annotations

import ast
import functools
import operator
import re

OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitOr: lambda a, b: float(bool(a) or bool(b)),
    ast.BitXor: lambda a, b: float(bool(a) != bool(b)),
}  # fmt: skip


# A name, but none of the language; a hyphen belongs to it where letters stand on both sides.
NAME = re.compile(
    r"(?<![\w.])(?!if\b|else\b|max\b|min\b|d_ratio\b|strcmp_cpuid_str\b|SLOTS_)"
    r"[A-Za-z_][\w.]*(?:-[A-Za-z][\w.]*)*"
)


@functools.cache
def parsed(text):
    """A syntax tree in which names are n0, n1 ..., and what they stand for."""
    names = {}

    def place(match):
        names[f"n{len(names)}"] = match[0]
        return f"n{len(names) - 1}"

    plain = NAME.sub(place, text.replace("\\", "").replace("#slots", "SLOTS_"))
    return ast.parse(plain.strip(), mode="eval").body, names


class Metrics:
    """The metrics of one core, with counts of its events."""

    def __init__(self, entry, counts, slots=None):
        self.exprs = {name: m["expr"] for name, m in entry["metrics"].items()}
        self.units = {name: m["unit"] for name, m in entry["metrics"].items()}
        self.cpuid = entry["cpuid"]
        self.counts = {key.lower(): value for key, value in counts.items()}
        self.slots = slots

    def value(self, name):
        """Of a metric, in the unit of its ScaleUnit taken away."""
        return self._eval(self.exprs[name])

    def _eval(self, text):
        return self._node(*parsed(text))

    def _node(self, node, names):
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id="SLOTS_"):
                return self.slots
            case ast.Name(id=key):
                return self._name(names[key])
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](self._node(left, names), self._node(right, names))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._node(body if self._node(test, names) else orelse, names)
            case ast.Call(func=ast.Name(id="strcmp_cpuid_str"), args=[ast.Constant(value=cpuid)]):
                return float(self._is_cpu(cpuid))
            case ast.Call(func=ast.Name(id=name), args=args):
                values = [self._node(arg, names) for arg in args]
                if name == "d_ratio":
                    return values[0] / values[1]
                return {"max": max, "min": min}[name](*values)
            case _:
                raise AssertionError(ast.dump(node))

    def _name(self, name):
        if name.lower() in self.counts:
            return self.counts[name.lower()]
        return self.value(name)

    def _is_cpu(self, wanted):
        """As arm64's header.c: the same core, and this variant and revision or a later one."""
        here = int(self.cpuid, 16)
        core = 0xFF00FFF0
        if here & core != wanted & core:
            return False
        return (here >> 20 & 0xF, here & 0xF) >= (wanted >> 20 & 0xF, wanted & 0xF)
