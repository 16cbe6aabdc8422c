"""What a served model makes of a text: perplexity and answers, asked through its own endpoint."""

from .documents import Documents, Text, read_documents, shipped
from .scoring import WINDOW_TOKENS, QualityUnmeasurable, score
from .task import Question, read_questions
from .weights import score_key

__all__ = [
    "WINDOW_TOKENS",
    "Documents",
    "QualityUnmeasurable",
    "Question",
    "Text",
    "read_documents",
    "read_questions",
    "score",
    "score_key",
    "shipped",
]
