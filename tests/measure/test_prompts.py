import itertools
import json
import multiprocessing
import random
import urllib.request

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import start
from neoserve.measure.prompts import WORDS, Prompts, fresh_salt, single_token_words
from neoserve.schema.workload import Workload

WORKLOAD = Workload(seed=3)


def common_words(a, b):
    """How many words two texts start with in common."""
    num = 0
    for left, right in zip(a.split(), b.split(), strict=False):
        if left != right:
            break
        num += 1
    return num


def _text(index):
    return Prompts(WORKLOAD, "salt").text(index, 40)


@given(st.permutations(range(8)))
def test_a_prompt_is_known_by_its_index_in_any_order(order):
    prompts = Prompts(WORKLOAD.replace(prefix_hit_share=0.5), "salt")
    texts = {index: prompts.text(index, 20 + index) for index in order}
    again = Prompts(WORKLOAD.replace(prefix_hit_share=0.5), "salt")
    assert texts == {index: again.text(index, 20 + index) for index in range(8)}


def test_a_prompt_is_the_same_in_another_process():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_text, range(4)) == [_text(index) for index in range(4)]


@given(st.integers(0, 500), st.integers(0, 10**6))
def test_a_prompt_has_its_words(num_words, index):
    text = Prompts(WORKLOAD, "salt").text(index, num_words)
    assert len(text.split()) == num_words
    assert set(text.split()) <= set(WORDS)


def test_prompts_of_one_trial_share_nothing_and_neither_do_trials():
    first, second = fresh_salt(), fresh_salt()
    assert first != second
    texts = [Prompts(WORKLOAD, salt).text(i, 200) for salt in (first, second) for i in range(50)]
    texts += [Prompts(WORKLOAD.replace(seed=4), first).text(i, 200) for i in range(50)]
    assert max(itertools.starmap(common_words, itertools.pairwise(sorted(texts)))) < 8


@settings(max_examples=40)
@given(st.floats(0, 1), st.integers(1, 400), st.integers(1, 400))
def test_the_shared_prefix_is_that_of_its_trial_only(share, num, other):
    workload = WORKLOAD.replace(prefix_hit_share=share)
    prompts = Prompts(workload, "a")
    shared = min(round(share * num), round(share * other))
    assert common_words(prompts.text(1, num), prompts.text(2, other)) >= shared
    elsewhere = Prompts(workload, "b").text(1, num)
    assert common_words(prompts.text(1, num), elsewhere) < 8
    assert Prompts(workload, "a").text(1, num) == prompts.text(1, num)  # sharing on demand


def test_named_blocks_are_the_same_text_wherever_they_are_named():
    """The two requests that Mooncake's own description shows: 12 blocks in common."""
    common = tuple(range(46, 58))
    prompts = Prompts(WORKLOAD.replace(prefix_hit_share=0.9), "a")
    first = prompts.text(0, 6955, (*common, 2353, 2354))
    second = prompts.text(1, 6472, (*common, 2366))
    assert (len(first.split()), len(second.split())) == (6955, 6472)
    assert 12 * 512 <= common_words(first, second) < 12 * 512 + 8
    assert common_words(first, Prompts(WORKLOAD, "b").text(0, 6955, common)) < 8
    longer = prompts.text(2, 700, (46,))  # more words than its block has
    assert 512 <= common_words(longer, first) < 512 + 8


def counter(tokens_of, *, extra=0):
    """A tokenizer that counts, with its number of calls."""
    calls = []

    def tokenize(text):
        calls.append(text)
        return extra + sum(tokens_of(word) for word in text.split())

    return tokenize, calls


@given(st.sets(st.sampled_from(WORDS), max_size=60), st.integers(0, 3))
def test_words_of_more_tokens_are_left_out(odd, extra):
    tokenize, calls = counter(lambda word: 2 if word in odd else 1, extra=extra)
    assert single_token_words(tokenize) == tuple(word for word in WORDS if word not in odd)
    assert len(calls) <= 5 + 16 * len(odd)
    assert odd or len(calls) == 5


def test_too_few_words():
    with pytest.raises(AskError, match=r"^0 of 1\d\d words are one token .* 32 are needed"):
        single_token_words(counter(len)[0], [word for word in WORDS if len(word) > 1])


def test_a_tokenizer_that_joins_words_is_refused():
    def tokenize(text):
        words = text.split()
        joined = sum(a[-1] == b[0] for a, b in itertools.pairwise(words[len(WORDS) :]))
        return len(words) - joined

    with pytest.raises(AskError, match="joins words"):
        single_token_words(tokenize)


@pytest.fixture(scope="module")
def tokenize(tmp_path_factory):
    """SmolLM2's vocabulary, by the embedded server's own count."""
    config = llamacpp.config(llamacpp.demo_model_path(), threads=1, context_tokens=256)
    with start(config, tmp_path_factory.mktemp("run") / "engine.log") as engine:
        open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

        def count(text):
            body = json.dumps({"content": text}).encode()
            with open_url(urllib.request.Request(f"{engine.url}/tokenize", body)) as answer:
                return len(json.load(answer)["tokens"])

        yield count


@pytest.mark.engine
def test_words_count_tokens_exactly_on_a_real_server(tokenize):
    words = single_token_words(tokenize, (*WORDS, "zyzzyva", "neoserve"))
    assert set(WORDS) - set(words) == set()
    assert not {"zyzzyva", "neoserve"} & set(words)
    prompts = Prompts(WORKLOAD.replace(prefix_hit_share=0.4), fresh_salt(), words)
    lengths = [1, 2, 3, 2000, *random.Random(1).sample(range(4, 2000), 30)]
    assert [tokenize(prompts.text(i, num)) for i, num in enumerate(lengths)] == lengths
    assert tokenize(prompts.text(99, 1500, (7, 8, 9))) == 1500
