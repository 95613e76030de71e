"""What to try if a step drops most items, by the reason."""

_MODEL = "a larger language model for this task, or an edited prompt (docs/generation.md)"
_JUDGE = "another judge, or lower bounds in `grade` (docs/verification.md)"
_MARGIN = "rerankers for the documents' language, or a lower `verify.threshold`"
_TRANSLATOR = "another translator, or `translate.clean` (docs/multilingual.md)"

_REMEDIES = {
    "malformed": "a `reply_format` that the server enforces, or a larger language model",
    "truncated": "a larger `sampling.max_output_tokens`, or a model that does not repeat itself",
    "prompt_too_long": "a larger context of the server, or shorter documents in `sample`",
    "refused": "another language model",
    "filtered": "another language model",
    "grade_low": _JUDGE,
    "no_grade": _JUDGE,
    "grade_not_above_others": _JUDGE,
    "target_not_first": _MARGIN,
    "margin_below_threshold": _MARGIN,
    "span_not_needed": _MARGIN,
    "not_sampled": "more documents, or no balancing (`verify.balance`)",
    "false_negative": "other judges or fewer similar documents (`false_negatives`)",
    **dict.fromkeys(
        (
            *("no_question", "blank_question", "blank_answer", "blank_query", "blank_persona"),
            *("blank_summary", "copies_persona", "copies_document", "other_language"),
            *("same_for_thirds", "repeated_query", "repeated_question", "mentions_document"),
            *("quote_not_found", "quote_ambiguous", "empty_quote", "copies_prompt"),
        ),
        _MODEL,
    ),
    **dict.fromkeys(
        (
            *("untranslated", "no_letters", "absurd_length", "in_source_language", "refusal"),
            *("refusal_unjudged", "too_long", "too_short", "empty_translation"),
        ),
        _TRANSLATOR,
    ),
}


def remedy_for(reason: str) -> str | None:
    """Return what to try if many items have a reason; None if nothing general helps."""
    return _REMEDIES.get(reason)
