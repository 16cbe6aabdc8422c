"""`neoserve quality`: perplexity of a served model, and whether it is within a budget."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..errors import EXIT_INCONCLUSIVE, EXIT_MET, EXIT_NOT_MET, AskError
from ..measure.engine.running import Engine, attach, start
from ..measure.quality import (
    Documents,
    QualityUnmeasurable,
    Question,
    read_documents,
    read_questions,
    score,
    shipped,
)
from ..measure.quality.lm_eval import score_by_lm_eval
from ..schema.engine import EngineConfig
from ..schema.quality import QualityCheck, QualityScore
from ..tune.guard import check, unmeasurable
from .bench import slot_tokens, started_config
from .bench_ask import environment

Say = Callable[[str], None]

_EXIT = {"PASS": EXIT_MET, "FAIL": EXIT_NOT_MET, "INCONCLUSIVE": EXIT_INCONCLUSIVE}


class QualityAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve quality` was asked."""

    target: str  # a URL, a model to start, or a score that was kept
    against: str = ""  # the baseline, as above; "": the score itself is all that is asked
    documents: Documents | None  # null: lm_eval's wikitext
    task: tuple[Question, ...] = ()
    budget_share: float
    window_tokens: int
    uses_lm_eval: bool = False
    engine: str = ""  # "": llama.cpp for a GGUF file, else vLLM
    engine_args: tuple[str, ...] = ()
    engine_env: dict[str, str] = {}
    model: str = ""
    api_key: str = ""
    ready_timeout_s: float | None = None


def quality_ask(args: argparse.Namespace) -> QualityAsk:
    """Reads the files that are named. Raises AskError."""
    uses_lm_eval = args.method == "lm_eval"
    if uses_lm_eval and args.task:
        raise AskError("--task is not for --method lm_eval; leave one of them out")
    text = read_documents(Path(args.text)) if args.text else None if uses_lm_eval else shipped()
    if args.words is not None and text is not None:
        text = text.cut(args.words) if args.text else shipped(args.words)
    return QualityAsk(
        target=args.target,
        against=args.against,
        documents=text,
        task=read_questions(Path(args.task)) if args.task else (),
        budget_share=args.budget,
        window_tokens=args.window,
        uses_lm_eval=uses_lm_eval,
        engine=args.engine,
        engine_args=args.engine_args,
        engine_env=environment(args.env or []),
        model=args.model,
        api_key=args.api_key or os.environ.get("OPENAI_API_KEY", ""),
        ready_timeout_s=args.ready_timeout,
    )


def quality(ask: QualityAsk, note: Say) -> QualityScore | QualityCheck:
    """The target's score; or the check of it against a baseline. Raises Error."""
    if not ask.against:
        return _score(ask, ask.target, note)
    baseline = _score(ask, ask.against, note)
    try:
        candidate = _score(ask, ask.target, note)
    except QualityUnmeasurable as error:
        return unmeasurable(str(error), baseline=baseline.key, budget_share=ask.budget_share)
    return check(baseline, candidate, ask.budget_share)


def exit_code(found: QualityScore | QualityCheck) -> int:
    """0 within the budget or nothing to compare with, 1 beyond it, 3 not proven."""
    return _EXIT[found.verdict] if isinstance(found, QualityCheck) else EXIT_MET


def show_quality(found: QualityScore | QualityCheck) -> str:
    """A few lines for people."""
    if isinstance(found, QualityScore):
        tokens = sum(document.num_tokens for document in found.documents)
        right = sum(answer.is_right for answer in found.answers)
        told = f"\ntask: {right} of {len(found.answers)} right" if found.answers else ""
        return (
            f"word perplexity {found.word_perplexity:.2f}, token perplexity "
            f"{found.token_perplexity:.2f}\n{len(found.documents)} documents, {tokens} tokens of "
            f"{found.text_name}, window {found.window_tokens}, method {found.method}{told}"
        )
    lines = [f"{found.verdict}: {found.reason}"]
    if task := found.task:
        lines.append(
            f"task: {task.candidate_right} of {task.num} right, {task.baseline_right} before; "
            f"{task.only_baseline} lost and {task.only_candidate} won, p = {task.p_value:.3g}"
        )
    return "\n".join(lines)


def _score(ask: QualityAsk, target: str, note: Say) -> QualityScore:
    if target.endswith(".json"):
        return _kept(Path(target))
    settings = {"args": " ".join(ask.engine_args)} | ask.engine_env
    with _engine(ask, target, note) as engine:
        if ask.uses_lm_eval:
            return score_by_lm_eval(engine, ask.documents, settings, note,
                                    window_tokens=ask.window_tokens)  # fmt: skip
        documents = ask.documents or shipped()
        return score(engine, documents, settings, note, task=ask.task,
                     window_tokens=ask.window_tokens)  # fmt: skip


def _kept(path: Path) -> QualityScore:
    try:
        return QualityScore.parse_json(path.read_bytes(), str(path))
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}; expected a kept score") from None


@contextlib.contextmanager
def _engine(ask: QualityAsk, target: str, note: Say) -> Iterator[Engine]:
    if target.startswith(("http://", "https://")):
        yield attach(target, api_key=ask.api_key, model=ask.model)
        return
    config = _config(ask, target)
    with (
        tempfile.TemporaryDirectory(prefix="neoserve-") as folder,
        start(config, Path(folder) / "engine.log", ready_timeout_s=ask.ready_timeout_s,
              on_stage=note) as engine,
    ):  # fmt: skip
        yield engine


def _config(ask: QualityAsk, target: str) -> EngineConfig:
    name = ask.engine or ("llama.cpp" if target.endswith(".gguf") else "vllm")
    return started_config(
        name, target, ask.engine_args, ask.engine_env, slot_tokens(ask.window_tokens)
    )
