"""The stand-in's files and batches speak as OpenAI's API does."""

import io
import json
import time

import openai
import pytest
from batch_helpers import Server

BODY = {
    "model": "stand-in/rules",
    "messages": [{"role": "user", "content": "<query>a</query><segment>b</segment>"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "judge_segment"}},
}


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as opened:
        yield opened


def line(custom_id: str, **changes) -> dict:
    fields = {"method": "POST", "url": "/v1/chat/completions", "body": BODY}
    return {"custom_id": custom_id} | fields | changes


def upload(client, lines, name="input.jsonl"):
    text = lines if isinstance(lines, str) else "".join(json.dumps(one) + "\n" for one in lines)
    return client.files.create(file=(name, io.BytesIO(text.encode())), purpose="batch")


def create(client, file, faults="", **changes):
    fields = {"endpoint": "/v1/chat/completions", "completion_window": "24h"} | changes
    headers = {"X-Stand-In": faults}
    return client.batches.create(input_file_id=file.id, extra_headers=headers, **fields)


def ended(client, batch):
    for _ in range(3000):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        time.sleep(0.01)
    raise AssertionError(f"still {batch.status}")


def results(client, file_id) -> dict[str, dict]:
    text = client.files.content(file_id).text
    return {one["custom_id"]: one for one in map(json.loads, text.splitlines())}


def test_a_batch_goes_from_validating_to_completed(client):
    file = upload(client, [line(f"r{n}") for n in range(3)])
    assert (file.purpose, file.filename, file.object) == ("batch", "input.jsonl", "file")
    batch = create(client, file, "batch_delay_s=0.5", metadata={"name": "mine"})
    seen = [batch.status]
    while seen[-1] == "validating":
        seen.append(client.batches.retrieve(batch.id).status)
    assert (seen[0], seen[-1]) == ("validating", "in_progress")
    batch = ended(client, batch)
    assert (batch.status, batch.error_file_id) == ("completed", None)
    assert batch.metadata == {"name": "mine"}
    assert batch.request_counts.model_dump() == {"completed": 3, "failed": 0, "total": 3}
    assert batch.created_at <= batch.in_progress_at <= batch.completed_at
    output = results(client, batch.output_file_id)
    assert set(output) == {"r0", "r1", "r2"}
    response = output["r0"]["response"]
    assert (response["status_code"], output["r0"]["error"]) == (200, None)
    assert response["body"]["object"] == "chat.completion"
    assert response["body"]["model"] == "stand-in/rules"


def test_errors_stand_in_a_file_of_their_own(client):
    bad = BODY | {"messages": []}
    file = upload(client, [line("good"), line("bad", body=bad)])
    batch = ended(client, create(client, file))
    assert batch.status == "completed"
    assert set(results(client, batch.output_file_id)) == {"good"}
    error = results(client, batch.error_file_id)["bad"]
    assert error["response"]["status_code"] == 400
    assert "at least one message" in error["response"]["body"]["error"]["message"]


def test_what_an_expired_batch_did_not_answer_says_so(client):
    file = upload(client, [line(f"r{n}") for n in range(5)])
    batch = ended(client, create(client, file, "expire_after=2"))
    assert batch.status == "expired"
    assert len(results(client, batch.output_file_id)) == 2
    errors = results(client, batch.error_file_id).values()
    assert [(e["response"], e["error"]["code"]) for e in errors] == [(None, "batch_expired")] * 3


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("no json\n", "invalid_json_line"),
        ("", "invalid_json_line"),
        ([line("a"), line("a")], "duplicate_custom_id"),
        ([line("a", url="/v1/embeddings")], "url_mismatch"),
        ([line("a" * 65)], "invalid_custom_id"),
        ([line("a"), line("b", body=BODY | {"model": "stand-in/other"})], "model_mismatch"),
    ],
)
def test_an_input_file_that_is_none_fails_the_batch(client, lines, code):
    batch = ended(client, create(client, upload(client, lines)))
    assert batch.status == "failed"
    assert code in {error.code for error in batch.errors.data}
    assert batch.output_file_id is None


def test_batches_are_listed_newest_first_in_pages(client):
    file = upload(client, [line("a")])
    made = [create(client, file).id for _ in range(5)]
    assert [batch.id for batch in client.batches.list(limit=2)] == made[::-1]
    page = client.batches.list(limit=2)
    assert (len(page.data), page.has_more) == (2, True)


def test_a_batch_is_cancelled(client):
    batch = create(client, upload(client, [line("a")]), "batch_delay_s=2")
    while client.batches.retrieve(batch.id).status == "validating":
        time.sleep(0.01)
    assert client.batches.cancel(batch.id).status == "cancelling"
    batch = ended(client, batch)
    assert batch.status == "cancelled"
    error = results(client, batch.error_file_id)["a"]
    assert error["error"]["code"] == "batch_cancelled"


def test_calls_that_make_no_sense_are_refused(client):
    with pytest.raises(openai.BadRequestError, match=r"Must be \.jsonl"):
        upload(client, [line("a")], name="input.txt")
    file = upload(client, [line("a")])
    with pytest.raises(openai.BadRequestError, match="only 24h"):
        create(client, file, completion_window="1h")
    with pytest.raises(openai.BadRequestError, match="Cannot find file file-x"):
        client.batches.create(
            input_file_id="file-x", endpoint="/v1/chat/completions", completion_window="24h"
        )
    for call in (client.batches.retrieve, client.batches.cancel, client.files.content):
        with pytest.raises(openai.NotFoundError):
            call("nothing")
    assert client.files.retrieve(file.id).bytes > 100
