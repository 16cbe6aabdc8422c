"""Candidates on the real embedded engine: what was asked is what runs."""

import pytest

from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import start
from neoserve.schema.space import Candidate
from neoserve.tune.candidates import candidates
from neoserve.tune.host import host_facts
from neoserve.tune.rules import broken_rule
from neoserve.tune.space import engine_config, engine_threads, space_for

CONTEXT = 256


@pytest.fixture(scope="module")
def found():
    return host_facts("llama.cpp")


@pytest.fixture(scope="module")
def space(found):
    model = str(llamacpp.demo_model_path())
    return space_for("llama.cpp", model, found, context_tokens=CONTEXT)


def started(space, candidate, folder):
    with start(engine_config(space, candidate), folder / "engine.log") as engine:
        return engine.facts(), engine.mismatches()


@pytest.mark.engine
def test_the_defaults_are_what_the_knobs_say(space, found, tmp_path):
    facts, mismatches = started(space, Candidate({}), tmp_path)
    assert mismatches == ()
    if (knob := space.knob("threads")) is not None:
        assert facts.threads == int(knob.default) == engine_threads(space, Candidate({}))
    assert facts.num_parallel == llamacpp.DEFAULT_SLOTS
    assert facts.log["kv_unified"] == "true"
    assert facts.context_tokens >= CONTEXT
    assert facts.dtype == "Q4_1"


@pytest.mark.engine
def test_listed_candidates_run_as_asked(space, found, tmp_path):
    listed = candidates(space, found, limit=8, seed=2).candidates
    assert {"known-good", "space-filling"} <= {c.origin for c in listed}
    for candidate in listed[-3:]:
        facts, mismatches = started(space, candidate, tmp_path)
        chosen = candidate.knobs
        assert mismatches == (), chosen
        assert facts.threads == engine_threads(space, candidate)
        assert facts.num_parallel == int(chosen.get("parallel", llamacpp.DEFAULT_SLOTS))
        assert facts.context_tokens >= CONTEXT


@pytest.mark.engine
@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"cache-type-v": "q8_0", "flash-attn": "off"}, "quantized V cache"),
        ({"kv-unified": "off", "threads": "1"}, "kv_unified"),
    ],
)
def test_the_rules_are_the_engines(space, found, knobs, words, tmp_path):
    """What a rule refuses the engine refuses, or does otherwise than asked."""
    assert broken_rule(space, Candidate(knobs), found)
    try:
        _, mismatches = started(space, Candidate(knobs), tmp_path)
        told = " ".join(mismatches)
    except Exception as error:  # noqa: BLE001
        told = str(error)
    assert words.replace("_", "-") in told.replace("_", "-")
