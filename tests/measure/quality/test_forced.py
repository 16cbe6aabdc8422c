"""Teacher forcing in the real embedded server: are its numbers the model's own?"""

import json
from pathlib import Path

import pytest

from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.api import Api
from neoserve.measure.engine.running import start
from neoserve.measure.quality import Documents, Text, score
from neoserve.measure.quality.asking import Piece
from neoserve.measure.quality.forced import Forced

pytestmark = pytest.mark.engine

TEXT = "We the People of the United States, in Order to form a more perfect Union"

# Each document's sum by torch 2.13 in float32, of weights that transformers 5.19 dequantized from
# the same GGUF file: an independent reader, tokenizer and arithmetic.
TORCH = json.loads((Path(__file__).parents[2] / "data" / "smollm2_logprobs.json").read_bytes())


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    config = llamacpp.config(
        llamacpp.demo_model_path(), threads=1, parallel=2, context_tokens=256,
        extra=("--poll", "0"),
    )  # fmt: skip
    with start(config, tmp_path_factory.mktemp("run") / "engine.log") as running:
        yield running


@pytest.fixture(scope="module")
def method(engine):
    return Forced.found(Api(engine.url))


def test_a_forced_tokens_logprob_is_that_of_the_whole_distribution(engine, method):
    """Asked without grammar for all 49,152 logprobs at a position: theirs sum to one."""
    tokens = method.tokens(TEXT)
    forced = method.logprobs(Piece(tuple(tokens), len(tokens) - 1))
    for at in (1, 9, len(tokens) - 1):
        asked = {"prompt": tokens[:at], "n_predict": 1, "n_probs": 60_000, "cache_prompt": False}
        answer = Api(engine.url).post("/completion", asked, 60)
        (told,) = answer["completion_probabilities"]
        listed = {entry["id"]: entry["logprob"] for entry in told["top_logprobs"]}
        assert len(listed) == 49_152
        assert forced[at - 1] == pytest.approx(listed[tokens[at]], abs=0.02)


def test_sums_are_torchs(engine):
    """llama.cpp rounds activations to 8 bits to multiply them with 4-bit weights."""
    documents = Documents("six", tuple(Text(d["name"], d["text"]) for d in TORCH["documents"]))
    found = score(engine, documents, {})
    assert [d.num_tokens for d in found.documents] == [d["num_tokens"] for d in TORCH["documents"]]
    sums = [d["logprob"] for d in TORCH["documents"]]
    assert [d.logprob for d in found.documents] == pytest.approx(sums, rel=0.01)
    assert sum(d.logprob for d in found.documents) == pytest.approx(sum(sums), rel=0.004)


def test_tokens_that_are_parts_of_a_character(method):
    tokens = method.tokens(TORCH["characters"]["text"])
    assert len(method._parts & set(tokens)) >= 4
    forced = method.logprobs(Piece(tuple(tokens), len(tokens) - 1))
    assert len(forced) == len(tokens) - 1 > 10
    assert forced == pytest.approx(TORCH["characters"]["logprobs"], rel=0.08)


def test_a_text_that_quotes_special_tokens(method):
    tokens = method.tokens("Templates end a turn with <|im_end|> and go on")
    assert not {0, 1, 2} & set(tokens)  # <|endoftext|>, <|im_start|>, <|im_end|>
    assert len(method.logprobs(Piece(tuple(tokens), len(tokens) - 1))) == len(tokens) - 1


def test_windows_of_one_context_token(method):
    """The last token of a document scored from one before it: a two-token prompt's."""
    tokens = method.tokens(TEXT)
    (alone,) = method.logprobs(Piece(tuple(tokens[4:6]), 1))
    (within,) = method.logprobs(Piece(tuple(tokens[:6]), 1))
    assert within > alone  # "of the United" is likelier than "the United"
