"""The form of an instruction by what a disassembler writes of it: no encoding is used."""

from __future__ import annotations

import re

import capstone

_PLAIN = ("smmla", "ummla", "usmmla", "bfmmla", "sdot", "udot", "usdot", "sudot", "bfdot")
_REGISTER = re.compile(r"\b(za|[vz])\d+\.(?:\d*)([a-z])")

_decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)


def form_of(mnemonic: str, operands: str) -> str:
    """As neoserve.measure.isa names it; "" for every other instruction."""
    registers = _REGISTER.findall(operands)
    kinds = "".join(kind for kind, _ in registers)
    widths = "".join(width for _, width in registers)
    by_element = "e" if "v" in kinds else "i"
    suffix = by_element if "[" in operands else ""
    if mnemonic in _PLAIN:
        if kinds == "vvv":
            return f"{mnemonic}.{suffix or 'v'}"
        if (
            kinds == "zzz"
            and widths in ("sbb", "dhh", "shh")
            and (widths != "shh" or mnemonic.startswith("bf"))
        ):  # SVE2.1 sums 16-bit products in 32 bits, in another encoding
            return f"{mnemonic}.z{suffix}"
    if mnemonic in ("bfmlalb", "bfmlalt"):
        return f"bfmlal.{suffix or 'v'}" if kinds == "vvv" else f"{mnemonic}.z{suffix}"
    if mnemonic == "fmmla":
        return f"fmmla.z.{widths[0]}"
    if mnemonic in ("smopa", "umopa", "usmopa", "sumopa") and widths == "sbb":
        return f"{mnemonic}.za"
    if mnemonic == "bfmopa" and widths == "shh":
        return "bfmopa.za"
    if mnemonic == "fmopa":
        return f"fmopa.za.{widths[1]}"
    if mnemonic in ("bfcvtn", "bfcvtn2") and kinds == "vv":
        return "bfcvtn"
    if mnemonic == "bfcvt" and not registers:
        return "bfcvt"
    if mnemonic in ("smstart", "smstop"):
        return f"{mnemonic}.za" if operands.strip() == "za" else mnemonic
    return ""


def form_by_capstone(word: int) -> str:
    """ "" too for a word that is no instruction."""
    for _, _, mnemonic, operands in _decoder.disasm_lite(word.to_bytes(4, "little"), 0):
        return form_of(mnemonic, operands)
    return ""
