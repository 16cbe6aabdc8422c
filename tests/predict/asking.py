"""One prediction, asked as a face would: for tests that check it from outside."""

from __future__ import annotations

from neoserve.faces.ask import answer_predict
from neoserve.schema.ask import PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.prediction import Prediction

LLAMA = "meta-llama/Llama-3.1-8B"


def predicted(
    model: str = LLAMA, on: str = "H100-SXM", deployment: dict | None = None, **given: object
) -> Prediction:
    settings = {"max_model_len": 8192, **(deployment or {})}
    return answer_predict(
        PredictAsk(model=model, on=on, deployment=Deployment(**settings), online=False, **given)
    )
